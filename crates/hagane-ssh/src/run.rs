//! One command on an open connection: input in, both outputs and the exit status out.

use std::time::Duration;

use hagane_ports::{RemoteCommand, RemoteOutput};
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};

/// How long output may lag behind the exit status. A process that the command left behind can hold the output open for
/// ever; the command itself has ended by then.
const QUIET_AFTER_EXIT: Duration = Duration::from_secs(2);

/// Number of the standard-error stream in the SSH connection protocol (RFC 4254, 5.2).
const STANDARD_ERROR: u32 = 1;

/// Runs the command; an error text says why there is no exit status.
pub(crate) async fn run(
    mut reader: ChannelReadHalf,
    writer: &ChannelWriteHalf<Msg>,
    line: String,
    command: &RemoteCommand,
) -> Result<RemoteOutput, String> {
    writer.exec(true, line).await.map_err(|error| error.to_string())?;
    let mut gathered = Gathered::new(command.output_limit);
    let input = send_input(writer, &command.stdin);
    tokio::pin!(input);
    let mut sending = true;
    loop {
        tokio::select! {
            // A command may end without reading its input: a failed write is no failure of the command.
            () = &mut input, if sending => sending = false,
            message = next(&mut reader, gathered.ended) => match message {
                Some(message) => {
                    if gathered.take(message)? {
                        break;
                    }
                }
                None => break,
            },
        }
    }
    gathered.finish()
}

/// The next message; `None` at the end of the channel, or when nothing comes after the exit status.
async fn next(reader: &mut ChannelReadHalf, ended: bool) -> Option<ChannelMsg> {
    if ended {
        return tokio::time::timeout(QUIET_AFTER_EXIT, reader.wait()).await.ok().flatten();
    }
    reader.wait().await
}

async fn send_input(writer: &ChannelWriteHalf<Msg>, stdin: &[u8]) {
    if !stdin.is_empty() && writer.data(stdin).await.is_err() {
        return;
    }
    let _ = writer.eof().await;
}

/// What has arrived so far.
struct Gathered {
    limit: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
    status: Option<u32>,
    ended: bool,
    end_of_output: bool,
}

impl Gathered {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            stdout: Vec::new(),
            stderr: Vec::new(),
            truncated: false,
            status: None,
            ended: false,
            end_of_output: false,
        }
    }

    /// Takes one message and says whether the command is over.
    fn take(&mut self, message: ChannelMsg) -> Result<bool, String> {
        match message {
            ChannelMsg::Data { data } => self.truncated |= append(&mut self.stdout, &data, self.limit),
            ChannelMsg::ExtendedData { data, ext: STANDARD_ERROR } => {
                self.truncated |= append(&mut self.stderr, &data, self.limit);
            }
            ChannelMsg::Eof => self.end_of_output = true,
            ChannelMsg::Close => return Ok(true),
            ChannelMsg::Failure => return Err("the host refuses to run commands".to_owned()),
            ChannelMsg::ExitStatus { exit_status } => {
                self.status = Some(exit_status);
                self.ended = true;
            }
            ChannelMsg::ExitSignal { .. } => self.ended = true,
            _ => {}
        }
        Ok(self.ended && self.end_of_output)
    }

    fn finish(self) -> Result<RemoteOutput, String> {
        if !self.ended {
            return Err("it ended without an exit status".to_owned());
        }
        Ok(RemoteOutput { status: self.status, stdout: self.stdout, stderr: self.stderr, truncated: self.truncated })
    }
}

/// Appends up to the limit and says whether something was cut.
fn append(kept: &mut Vec<u8>, data: &[u8], limit: usize) -> bool {
    let room = limit.saturating_sub(kept.len()).min(data.len());
    kept.extend_from_slice(&data[..room]);
    room < data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(limit: usize, messages: Vec<ChannelMsg>) -> Result<RemoteOutput, String> {
        let mut gathered = Gathered::new(limit);
        for message in messages {
            if gathered.take(message)? {
                break;
            }
        }
        gathered.finish()
    }

    fn data(text: &'static str) -> ChannelMsg {
        ChannelMsg::Data { data: text.as_bytes().to_vec().into() }
    }

    #[test]
    fn output_after_the_exit_status_is_kept() {
        let messages = vec![ChannelMsg::ExitStatus { exit_status: 3 }, data("late"), ChannelMsg::Eof];
        let output = gather(100, messages).expect("there is a status");
        assert_eq!((output.status, output.stdout.as_slice()), (Some(3), b"late".as_slice()));
    }

    #[test]
    fn a_close_without_status_is_an_error() {
        gather(100, vec![data("half"), ChannelMsg::Eof, ChannelMsg::Close]).expect_err("no status");
        gather(100, vec![data("half")]).expect_err("no status");
    }

    #[test]
    fn output_is_cut_exactly_at_the_limit() {
        let exit = || ChannelMsg::ExitStatus { exit_status: 0 };
        let output = gather(4, vec![data("abc"), data("def"), exit(), ChannelMsg::Eof]).expect("there is a status");
        assert_eq!((output.stdout.as_slice(), output.truncated), (b"abcd".as_slice(), true));
        let output = gather(6, vec![data("abc"), data("def"), exit(), ChannelMsg::Eof]).expect("there is a status");
        assert_eq!((output.stdout.as_slice(), output.truncated), (b"abcdef".as_slice(), false));
    }
}
