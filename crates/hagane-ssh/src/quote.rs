//! Argument vectors as one line that a POSIX shell takes apart into the same arguments.

use hagane_ports::ShellError;

/// Turns an argument vector into a shell command line: every argument in single quotes, a single quote itself as `'\''`.
///
/// SSH carries a command as one text that the user's login shell reads, so exact quoting is the only way to keep an
/// argument vector whole.
///
/// # Errors
/// [`ShellError::InvalidCommand`] for an empty vector or program name and for an argument with a NUL byte.
pub fn quote(argv: &[String]) -> Result<String, ShellError> {
    let invalid = |reason: &str| ShellError::InvalidCommand { reason: reason.to_owned() };
    match argv.first() {
        None => return Err(invalid("it has no program")),
        Some(program) if program.is_empty() => return Err(invalid("the program's name is empty")),
        Some(_) => {}
    }
    let mut line = String::with_capacity(argv.iter().map(|argument| argument.len() + 3).sum());
    for argument in argv {
        if argument.contains('\0') {
            return Err(invalid("an argument contains a NUL byte"));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push('\'');
        line.push_str(&argument.replace('\'', "'\\''"));
        line.push('\'');
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn split_by_real_shell(line: &str) -> Vec<u8> {
        let output = Command::new("sh").arg("-c").arg(line).output().expect("a POSIX shell is installed");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// `printf` prints each argument followed by a NUL byte, which no argument can contain.
    fn survives_the_shell(arguments: &[String]) {
        let mut argv = vec!["printf".to_owned(), "%s\\0".to_owned()];
        argv.extend_from_slice(arguments);
        let expected: Vec<u8> = arguments.iter().flat_map(|argument| [argument.as_bytes(), b"\0"].concat()).collect();
        assert_eq!(split_by_real_shell(&quote(&argv).expect("the arguments have no NUL")), expected);
    }

    #[test]
    fn hostile_arguments_stay_data() {
        let arguments = [
            "",
            " ",
            "'",
            "''",
            "\\'",
            "\"",
            "$HOME",
            "$(touch x)",
            "`id`",
            "a;b",
            "a\nb",
            "*",
            "~",
            "-n",
            "!!",
            "#",
            "\\",
            "漢😀",
            "\t",
            "a'b\"c$d`e\\f",
            "\u{7f}\u{1b}[0m",
            "&& reboot",
            "{{ lookup('pipe','touch X') }}",
        ];
        survives_the_shell(&arguments.map(str::to_owned));
    }

    #[test]
    fn refuses_what_no_shell_can_carry() {
        for argv in [vec![], vec![String::new()], vec!["echo".to_owned(), "a\0b".to_owned()]] {
            assert!(matches!(quote(&argv), Err(ShellError::InvalidCommand { .. })), "{argv:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_real_shell_gives_back_the_same_arguments(arguments in prop::collection::vec("[^\0]{0,24}", 1..6)) {
            survives_the_shell(&arguments);
        }
    }
}
