//! Calls about storage pools and volumes, uploads and downloads.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::connection::{CHUNK, Connection, Exchange, SLOW_CALL_LIMIT};
use super::error::RpcError;
use super::procedure;
use super::types::{PoolRef, VolumeInfo, VolumeRef};
use super::xdr::{Decoder, Encoder};

/// Longest lists of pools and volumes the protocol allows.
const LIST_MAX: usize = 16384;
/// Runs of zero bytes are looked for in pieces of this size.
const HOLE_STEP: usize = 64 << 10;

impl Connection {
    /// Looks a pool up by name.
    ///
    /// # Errors
    /// Code [`super::code::NO_STORAGE_POOL`] where there is none; any [`RpcError`].
    pub async fn pool_by_name(&self, name: &str) -> Result<PoolRef, RpcError> {
        let reply = self.call(procedure::STORAGE_POOL_LOOKUP_BY_NAME, Encoder::new().string(name).finish()).await?;
        self.decode(&reply, PoolRef::decode)
    }

    /// All active pools.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn active_pools(&self) -> Result<Vec<PoolRef>, RpcError> {
        let arguments = Encoder::new().i32(1).u32(procedure::LIST_POOLS_ACTIVE).finish();
        let reply = self.call(procedure::CONNECT_LIST_ALL_STORAGE_POOLS, arguments).await?;
        self.decode(&reply, |decoder| {
            let pools = decoder.list(LIST_MAX, PoolRef::decode)?;
            let _count = decoder.u32()?;
            Ok(pools)
        })
    }

    /// Whether the pool is active.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn pool_is_active(&self, pool: &PoolRef) -> Result<bool, RpcError> {
        let reply = self.call(procedure::STORAGE_POOL_IS_ACTIVE, pool.encode(Encoder::new()).finish()).await?;
        Ok(self.decode(&reply, Decoder::i32)? != 0)
    }

    /// The pool's definition as XML.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn pool_xml(&self, pool: &PoolRef) -> Result<String, RpcError> {
        let reply =
            self.call(procedure::STORAGE_POOL_GET_XML_DESC, pool.encode(Encoder::new()).u32(0).finish()).await?;
        self.decode(&reply, Decoder::string)
    }

    /// Makes libvirtd look again at what is in the pool.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn refresh_pool(&self, pool: &PoolRef) -> Result<(), RpcError> {
        let arguments = pool.encode(Encoder::new()).u32(0).finish();
        self.call_within(SLOW_CALL_LIMIT, procedure::STORAGE_POOL_REFRESH, arguments).await.map(drop)
    }

    /// All volumes of an active pool, as libvirtd last saw them.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn volumes(&self, pool: &PoolRef) -> Result<Vec<VolumeRef>, RpcError> {
        let arguments = pool.encode(Encoder::new()).i32(1).u32(0).finish();
        let reply = self.call(procedure::STORAGE_POOL_LIST_ALL_VOLUMES, arguments).await?;
        self.decode(&reply, |decoder| {
            let volumes = decoder.list(LIST_MAX, VolumeRef::decode)?;
            let _count = decoder.u32()?;
            Ok(volumes)
        })
    }

    /// Looks a volume up by name.
    ///
    /// # Errors
    /// Code [`super::code::NO_STORAGE_VOL`] where there is none; any [`RpcError`].
    pub async fn volume_by_name(&self, pool: &PoolRef, name: &str) -> Result<VolumeRef, RpcError> {
        let arguments = pool.encode(Encoder::new()).string(name).finish();
        let reply = self.call(procedure::STORAGE_VOL_LOOKUP_BY_NAME, arguments).await?;
        self.decode(&reply, VolumeRef::decode)
    }

    /// Makes a volume from XML.
    ///
    /// # Errors
    /// Code [`super::code::STORAGE_VOL_EXIST`] where the name is taken; any [`RpcError`].
    pub async fn create_volume(&self, pool: &PoolRef, xml: &str) -> Result<VolumeRef, RpcError> {
        let arguments = pool.encode(Encoder::new()).string(xml).u32(0).finish();
        let reply = self.call_within(SLOW_CALL_LIMIT, procedure::STORAGE_VOL_CREATE_XML, arguments).await?;
        self.decode(&reply, VolumeRef::decode)
    }

    /// Removes a volume.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn delete_volume(&self, volume: &VolumeRef) -> Result<(), RpcError> {
        let arguments = volume.encode(Encoder::new()).u32(0).finish();
        self.call_within(SLOW_CALL_LIMIT, procedure::STORAGE_VOL_DELETE, arguments).await.map(drop)
    }

    /// Makes a volume larger.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn resize_volume(&self, volume: &VolumeRef, capacity: u64) -> Result<(), RpcError> {
        let arguments = volume.encode(Encoder::new()).u64(capacity).u32(0).finish();
        self.call_within(SLOW_CALL_LIMIT, procedure::STORAGE_VOL_RESIZE, arguments).await.map(drop)
    }

    /// Size of a volume.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn volume_info(&self, volume: &VolumeRef) -> Result<VolumeInfo, RpcError> {
        let reply = self.call(procedure::STORAGE_VOL_GET_INFO, volume.encode(Encoder::new()).finish()).await?;
        self.decode(&reply, |decoder| {
            let _kind = decoder.i32()?;
            Ok(VolumeInfo { capacity: decoder.u64()?, allocation: decoder.u64()? })
        })
    }

    /// The volume's description as XML.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn volume_xml(&self, volume: &VolumeRef) -> Result<String, RpcError> {
        let reply =
            self.call(procedure::STORAGE_VOL_GET_XML_DESC, volume.encode(Encoder::new()).u32(0).finish()).await?;
        self.decode(&reply, Decoder::string)
    }

    /// Path of the volume on the hypervisor.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn volume_path(&self, volume: &VolumeRef) -> Result<String, RpcError> {
        let reply = self.call(procedure::STORAGE_VOL_GET_PATH, volume.encode(Encoder::new()).finish()).await?;
        self.decode(&reply, Decoder::string)
    }

    /// Writes a few bytes into a volume at `offset`.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn write_volume(&self, volume: &VolumeRef, offset: u64, data: Bytes) -> Result<(), RpcError> {
        let arguments = volume.encode(Encoder::new()).u64(offset).u64(data.len() as u64).u32(0).finish();
        let mut stream = self.open_stream(procedure::STORAGE_VOL_UPLOAD, arguments).await?;
        let mut rest = data;
        while !rest.is_empty() {
            stream.send_data(rest.split_to(rest.len().min(CHUNK))).await?;
        }
        stream.finish().await
    }

    /// Writes `length` bytes from `source` at the beginning of a volume and leaves what is behind them as it is.
    ///
    /// # Errors
    /// [`RpcError::LocalData`] where `source` fails or ends early; any [`RpcError`].
    pub async fn write_volume_from(
        &self,
        volume: &VolumeRef,
        mut source: impl AsyncRead + Unpin,
        length: u64,
    ) -> Result<(), RpcError> {
        let arguments = volume.encode(Encoder::new()).u64(0).u64(length).u32(0).finish();
        let mut stream = self.open_stream(procedure::STORAGE_VOL_UPLOAD, arguments).await?;
        let mut sent = 0;
        while sent < length {
            let chunk = next_chunk(&mut source, sent, length).await?;
            sent += chunk.len() as u64;
            stream.send_data(chunk).await?;
        }
        stream.finish().await
    }

    /// Reads a few bytes of a volume from `offset`; fewer where it ends before.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn read_volume(&self, volume: &VolumeRef, offset: u64, length: u32) -> Result<Vec<u8>, RpcError> {
        let arguments = volume.encode(Encoder::new()).u64(offset).u64(u64::from(length)).u32(0).finish();
        let mut stream = self.open_stream(procedure::STORAGE_VOL_DOWNLOAD, arguments).await?;
        let mut data = Vec::new();
        loop {
            let piece = stream.receive_data().await?;
            if piece.is_empty() {
                break;
            }
            data.extend_from_slice(&piece);
        }
        stream.finish().await?;
        data.truncate(length as usize);
        Ok(data)
    }

    /// Fills a volume with `length` bytes from `source`. Runs of zeros take no room. libvirtd cuts the volume off at each
    /// such run, so what was behind the bytes may be lost. `progress` hears how many bytes have gone out.
    ///
    /// # Errors
    /// [`RpcError::LocalData`] where `source` fails or ends early; any [`RpcError`].
    pub async fn upload(
        &self,
        volume: &VolumeRef,
        mut source: impl AsyncRead + Unpin,
        length: u64,
        progress: impl Fn(u64),
    ) -> Result<(), RpcError> {
        let arguments = volume.encode(Encoder::new()).u64(0).u64(length).u32(procedure::UPLOAD_SPARSE).finish();
        let mut stream = self.open_stream(procedure::STORAGE_VOL_UPLOAD, arguments).await?;
        let mut hole = 0;
        let mut sent = 0;
        while sent < length {
            let chunk = next_chunk(&mut source, sent, length).await?;
            sent += chunk.len() as u64;
            send_sparse(&mut stream, chunk, &mut hole).await?;
            progress(sent);
        }
        if hole > 0 {
            stream.send_hole(hole).await?;
        }
        stream.finish().await
    }
}

/// The next piece of a source of `length` bytes of which `sent` are read.
async fn next_chunk(source: &mut (impl AsyncRead + Unpin), sent: u64, length: u64) -> Result<Bytes, RpcError> {
    let wanted = usize::try_from(length - sent).map_or(CHUNK, |rest| rest.min(CHUNK));
    let chunk = read_chunk(source, wanted).await?;
    if chunk.is_empty() {
        return Err(RpcError::LocalData(format!("it ends after {sent} of {length} bytes")));
    }
    Ok(chunk)
}

async fn read_chunk(source: &mut (impl AsyncRead + Unpin), wanted: usize) -> Result<Bytes, RpcError> {
    let mut chunk = BytesMut::with_capacity(wanted);
    let mut limited = source.take(wanted as u64);
    while chunk.len() < wanted {
        match limited.read_buf(&mut chunk).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(RpcError::LocalData(error.to_string())),
        }
    }
    Ok(chunk.freeze())
}

/// Sends a chunk; zeros are added to the `hole` that is sent before the next data.
async fn send_sparse(stream: &mut Exchange, mut chunk: Bytes, hole: &mut u64) -> Result<(), RpcError> {
    while !chunk.is_empty() {
        let is_zero = |piece: &[u8]| piece.iter().all(|byte| *byte == 0);
        let run_is_zero = chunk.chunks(HOLE_STEP).next().is_some_and(is_zero);
        let run: usize =
            chunk.chunks(HOLE_STEP).take_while(|piece| is_zero(piece) == run_is_zero).map(<[u8]>::len).sum();
        let run = chunk.split_to(run);
        if run_is_zero {
            *hole += run.len() as u64;
            continue;
        }
        if *hole > 0 {
            stream.send_hole(std::mem::take(hole)).await?;
        }
        stream.send_data(run).await?;
    }
    Ok(())
}
