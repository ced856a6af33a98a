//! Running a program of the operator's machine to its end: arguments only, no shell, with a look at what it says meanwhile.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines of output that an error keeps.
const LINES_KEPT: usize = 6;
/// Longest line that is looked at.
const LINE_BYTES_MAX: usize = 4096;

/// Why a program did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be run.
    #[error("failed to run {program}")]
    Run {
        /// Which.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It said no.
    #[error("{program} failed: {message}")]
    Refused {
        /// Which.
        program: String,
        /// The end of what it wrote.
        message: String,
    },
}

/// Runs a program and gives what it printed. Each line of its output, and each state of a line that it draws anew, goes to
/// `heard`. Blocks for as long as it takes.
pub(crate) fn run(command: &mut Command, heard: &mut dyn FnMut(&str)) -> Result<String, ProgramError> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_else(|| OsStr::new("a program"));
    let program = name.to_string_lossy().into_owned();
    let failed = |source| ProgramError::Run { program: program.clone(), source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    let errors = writer.try_clone().map_err(failed)?;
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).spawn().map_err(failed)?;
    // The command holds the writing ends too: without them the reader would wait for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let output = listen(reader, heard);
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(output.trim().to_owned());
    }
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let kept = lines.get(lines.len().saturating_sub(LINES_KEPT)..).unwrap_or_default();
    let message = if kept.is_empty() { status.to_string() } else { kept.join("; ") };
    Err(ProgramError::Refused { program, message })
}

/// Runs a program whose output nobody waits for.
pub(crate) fn output(command: &mut Command) -> Result<String, ProgramError> {
    run(command, &mut |_| {})
}

fn listen(mut reader: impl Read, heard: &mut dyn FnMut(&str)) -> String {
    let mut output = String::new();
    let mut line: Vec<u8> = Vec::new();
    let mut buffer = [0_u8; 4096];
    loop {
        let count = match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        for byte in buffer.get(..count).unwrap_or_default() {
            match byte {
                b'\n' | b'\r' => end_line(&mut line, *byte == b'\n', &mut output, heard),
                _ if line.len() < LINE_BYTES_MAX => line.push(*byte),
                _ => {}
            }
        }
    }
    end_line(&mut line, true, &mut output, heard);
    output
}

/// A line that is drawn anew is told, and not kept.
fn end_line(line: &mut Vec<u8>, kept: bool, output: &mut String, heard: &mut dyn FnMut(&str)) {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    if !text.trim().is_empty() {
        heard(text.trim());
    }
    if kept {
        output.push_str(&text);
        output.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tells_lines_as_they_come_and_gives_all_at_the_end() {
        let mut heard = Vec::new();
        let told =
            run(&mut shell("printf '10%%\\r20%%\\rdone\\n'; echo oh >&2"), &mut |line| heard.push(line.to_owned()));
        assert_eq!(told.expect("it ends well"), "done\noh");
        assert_eq!(heard, ["10%", "20%", "done", "oh"]);
    }

    #[test]
    fn a_failure_carries_the_last_lines() {
        let error =
            output(&mut shell("for n in 1 2 3 4 5 6 7 8; do echo line $n; done; exit 3")).expect_err("it fails");
        assert_eq!(error.to_string(), "sh failed: line 3; line 4; line 5; line 6; line 7; line 8");
        let error = output(&mut shell("exit 3")).expect_err("it fails");
        assert_eq!(error.to_string(), "sh failed: exit status: 3");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = output(&mut Command::new("/nowhere/git")).expect_err("there is none");
        assert_eq!(error.to_string(), "failed to run git");
    }
}
