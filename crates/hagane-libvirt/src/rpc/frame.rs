//! The frames in which libvirt's RPC travels: a length word, six header words, the payload.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Length word and header together.
const PREFIX: usize = 28;
/// Largest frame either side may send.
const FRAME_MAX: usize = (32 << 20) + 4;
/// How much room is made before bytes have come, so that a wrong length costs nothing.
const FIRST_READ_MAX: usize = 1 << 20;
/// Largest piece of a stream that every libvirtd takes.
pub(super) const STREAM_CHUNK: usize = 256 << 10;

/// The program whose procedures this crate calls.
pub(super) const PROGRAM_REMOTE: u32 = 0x2000_8086;
/// The program of keepalive messages.
pub(super) const PROGRAM_KEEPALIVE: u32 = 0x6b65_6570;
/// The one version of both programs.
pub(super) const VERSION: u32 = 1;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Reply,
    /// An event or a keepalive: nobody waits for it.
    Message,
    Stream,
    StreamHole,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Self::Call => 0,
            Self::Reply => 1,
            Self::Message => 2,
            Self::Stream => 3,
            Self::StreamHole => 6,
        }
    }

    /// Kinds that pass file descriptors (4, 5) are never asked for, so they are as wrong as unknown ones.
    fn parse(number: u32) -> Result<Self, FrameError> {
        let known = [Self::Call, Self::Reply, Self::Message, Self::Stream, Self::StreamHole];
        known.into_iter().find(|kind| kind.number() == number).ok_or(FrameError::Field { field: "type", value: number })
    }
}

/// How a call or stream went or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Error,
    Continue,
}

impl Status {
    fn number(self) -> u32 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Continue => 2,
        }
    }

    fn parse(number: u32) -> Result<Self, FrameError> {
        let known = [Self::Ok, Self::Error, Self::Continue];
        known
            .into_iter()
            .find(|status| status.number() == number)
            .ok_or(FrameError::Field { field: "status", value: number })
    }
}

/// One frame, without its length word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) program: u32,
    pub(super) procedure: i32,
    pub(super) kind: Kind,
    pub(super) serial: u32,
    pub(super) status: Status,
    pub(super) payload: Bytes,
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("the connection ended")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(std::io::Error),
    #[error("a frame of {0} bytes is outside the limits")]
    Length(usize),
    #[error("a frame has an unknown {field} {value}")]
    Field { field: &'static str, value: u32 },
}

impl Frame {
    pub(super) fn encode(&self) -> Bytes {
        let length = PREFIX + self.payload.len();
        let mut bytes = BytesMut::with_capacity(length);
        bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        bytes.put_u32(self.program);
        bytes.put_u32(VERSION);
        bytes.put_i32(self.procedure);
        bytes.put_u32(self.kind.number());
        bytes.put_u32(self.serial);
        bytes.put_u32(self.status.number());
        bytes.put_slice(&self.payload);
        bytes.freeze()
    }

    pub(super) fn fits(&self) -> bool {
        PREFIX + self.payload.len() <= FRAME_MAX
    }
}

/// Reads one frame.
pub(super) async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> Result<Frame, FrameError> {
    let mut prefix = [0; PREFIX];
    match reader.read_exact(&mut prefix).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(FrameError::Closed),
        other => other.map_err(FrameError::Io)?,
    };
    let mut header = &prefix[..];
    let length = usize::try_from(header.get_u32()).unwrap_or(usize::MAX);
    if !(PREFIX..=FRAME_MAX).contains(&length) {
        return Err(FrameError::Length(length));
    }
    let program = header.get_u32();
    if program != PROGRAM_REMOTE && program != PROGRAM_KEEPALIVE {
        return Err(FrameError::Field { field: "program", value: program });
    }
    let version = header.get_u32();
    if version != VERSION {
        return Err(FrameError::Field { field: "version", value: version });
    }
    let procedure = header.get_i32();
    let kind = Kind::parse(header.get_u32())?;
    let serial = header.get_u32();
    let status = Status::parse(header.get_u32())?;
    let payload = read_payload(reader, length - PREFIX).await?;
    Ok(Frame { program, procedure, kind, serial, status, payload })
}

async fn read_payload(reader: &mut (impl AsyncRead + Unpin), length: usize) -> Result<Bytes, FrameError> {
    let mut payload = BytesMut::with_capacity(length.min(FIRST_READ_MAX));
    let mut limited = reader.take(length as u64);
    while payload.len() < length {
        if limited.read_buf(&mut payload).await.map_err(FrameError::Io)? == 0 {
            return Err(FrameError::Closed);
        }
    }
    Ok(payload.freeze())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(payload: Vec<u8>) -> Frame {
        Frame {
            program: PROGRAM_REMOTE,
            procedure: 66,
            kind: Kind::Reply,
            serial: 9,
            status: Status::Ok,
            payload: payload.into(),
        }
    }

    async fn read(bytes: &[u8]) -> Result<Frame, FrameError> {
        read_frame(&mut &bytes[..]).await
    }

    #[tokio::test]
    async fn reads_back_what_it_wrote() {
        let frame = frame(vec![7; 70_000]);
        assert_eq!(read(&frame.encode()).await.expect("a good frame"), frame);
    }

    #[tokio::test]
    async fn refuses_frames_outside_the_protocol() {
        let good = frame(vec![0; 4]).encode().to_vec();
        let with = |at: usize, word: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            bytes
        };
        assert!(matches!(read(&with(0, 27)).await, Err(FrameError::Length(27))));
        assert!(matches!(read(&with(0, u32::MAX)).await, Err(FrameError::Length(_))));
        for (at, field) in [(4, "program"), (8, "version"), (16, "type"), (24, "status")] {
            let error = read(&with(at, 99)).await.expect_err("a bad header");
            assert!(matches!(error, FrameError::Field { field: found, .. } if found == field), "{error}");
        }
        assert!(matches!(read(&good[..30]).await, Err(FrameError::Closed)));
        assert!(matches!(read(&with(0, 33 << 20 | 3)).await, Err(FrameError::Length(_))));
    }

    proptest! {
        #[test]
        fn never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let _ = runtime.block_on(read(&bytes));
        }
    }
}
