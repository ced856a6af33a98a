//! Running external programs by argument vector.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// A program with its arguments, not started yet. Standard input is empty.
pub(crate) fn program<S: AsRef<OsStr>>(argv: impl IntoIterator<Item = S>) -> Command {
    let mut words = argv.into_iter();
    let mut command = match words.next() {
        Some(name) => Command::new(name),
        None => Command::new("true"),
    };
    command.args(words).stdin(Stdio::null());
    command
}

/// Runs to the end and gives standard output; an exit status other than 0 is an error that carries standard error.
pub(crate) fn run<S: AsRef<OsStr>>(argv: impl IntoIterator<Item = S>) -> Result<String> {
    let mut command = program(argv);
    let output = command.output().with_context(|| format!("run {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} ended with {}: {}", shown(&command), output.status, last_words(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the program ran and ended with status 0; its output is dropped.
pub(crate) fn succeeds<S: AsRef<OsStr>>(argv: impl IntoIterator<Item = S>) -> bool {
    program(argv).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Program and arguments on one line, for messages.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_program_its_status_and_its_last_words() {
        let error =
            run(["sh", "-c", "echo said; printf '%s%s' rea son >&2; exit 3"]).expect_err("status 3 is a failure");
        let text = error.to_string();
        assert!(text.ends_with("exit status: 3: reason"), "{text}");
    }

    #[test]
    fn arguments_are_not_read_by_a_shell() {
        assert_eq!(run(["printf", "%s", "$(id); `id`"]).expect("printf runs"), "$(id); `id`");
    }
}
