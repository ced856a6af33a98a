//! The configuration file: YAML with the names of flags. Flags on the command line win.
//!
//! The file's entries are put before the command line's own flags and parsed together with them, so that both obey the
//! same grammar and print the same errors.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use hagane_cli::args::Cli;
use serde_json::Value;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("failed to read configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML map.
    #[error("configuration file {} is no YAML map of flag names", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The cause, where the parser names one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A key is no flag, or its value has the wrong form.
    #[error("configuration file {}: {key}: {value} is not possible: {allowed}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The value found.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

/// The command line with the entries of its `--config` file put in, or as it is where there is none.
///
/// # Errors
/// A [`ConfigError`] that names file, key, value and what is allowed.
pub fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>, ConfigError> {
    let Some(path) = config_path(&arguments) else { return Ok(arguments) };
    let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    let (program, rest) = arguments.split_at(arguments.len().min(2));
    let command = program.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let mut expanded = program.to_vec();
    expanded.extend(flags(&path, &text, command)?);
    expanded.extend(rest.iter().cloned());
    Ok(expanded)
}

/// The value of `--config`, for the commands that have it.
fn config_path(arguments: &[OsString]) -> Option<PathBuf> {
    if !matches!(arguments.get(1)?.to_str()?, "up" | "controllers") {
        return None;
    }
    let mut rest = arguments.iter().skip(2);
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--config" {
            return rest.next().map(PathBuf::from);
        }
        if let Some(path) = text.strip_prefix("--config=") {
            return Some(PathBuf::from(path));
        }
    }
    None
}

fn flags(path: &Path, text: &str, command: &str) -> Result<Vec<OsString>, ConfigError> {
    let syntax = |source: Option<Box<dyn std::error::Error + Send + Sync>>| ConfigError::Syntax {
        path: path.to_owned(),
        source,
    };
    let parsed: Value = if text.trim().is_empty() {
        Value::Null
    } else {
        serde_saphyr::from_str(text).map_err(|source| syntax(Some(Box::new(source))))?
    };
    let entries = match parsed {
        Value::Null => return Ok(Vec::new()),
        Value::Object(entries) => entries,
        _ => return Err(syntax(None)),
    };
    let known = known_flags(command);
    let mut flags = Vec::new();
    for (key, value) in entries {
        let entry = |allowed: String| ConfigError::Entry {
            path: path.to_owned(),
            key: key.clone(),
            value: value.to_string(),
            allowed,
        };
        let Some(takes_value) = known.iter().find(|(name, _)| *name == key).map(|(_, takes_value)| *takes_value) else {
            let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
            return Err(entry(format!("the flags are {}", names.join(", "))));
        };
        let values = values_of(&value, takes_value).ok_or_else(|| {
            entry(if takes_value { "one value, or a list of them" } else { "true or false" }.to_owned())
        })?;
        flags.extend(values.into_iter().map(|value| match value {
            Some(value) => OsString::from(format!("--{key}={value}")),
            None => OsString::from(format!("--{key}")),
        }));
    }
    Ok(flags)
}

/// Names of a command's flags and whether they take a value.
fn known_flags(command: &str) -> Vec<(String, bool)> {
    let cli = Cli::command();
    let Some(command) = cli.find_subcommand(command) else { return Vec::new() };
    command
        .get_arguments()
        .filter_map(|argument| Some((argument.get_long()?.to_owned(), argument.get_action().takes_values())))
        .filter(|(name, _)| name != "config" && name != "help")
        .collect()
}

fn values_of(value: &Value, takes_value: bool) -> Option<Vec<Option<String>>> {
    match (value, takes_value) {
        (Value::Bool(on), false) => Some(if *on { vec![None] } else { Vec::new() }),
        (Value::Array(list), true) => list.iter().map(|item| scalar(item).map(Some)).collect(),
        (value, true) => scalar(value).map(|text| vec![Some(text)]),
        _ => None,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(on) => Some(on.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use hagane_cli::args::{Command, UpArgs};

    fn up(file: &str, arguments: &[&str]) -> Result<UpArgs, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("hagane.yaml");
        std::fs::write(&path, file).expect("writable");
        let mut line: Vec<OsString> = ["hagane", "up", "--config"].iter().map(OsString::from).collect();
        line.push(path.into());
        line.extend(arguments.iter().map(OsString::from));
        let expanded = expand(line).map_err(|error| error.to_string())?;
        match Cli::try_parse_from(expanded).map_err(|error| error.to_string())?.command {
            Command::Up(args) => Ok(*args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = "listen: 127.0.0.1:7000\nlog-level: debug\nallow-loopback-images: true\ntls-name: [a, b]\nimage-size-max-gib: 3\n";
        let args = up(file, &["--log-level", "warn"]).expect("a good file");
        assert_eq!(args.listen.port(), 7000);
        assert_eq!(args.operator.log_level, "warn");
        assert!(args.operator.allow_loopback_images);
        assert_eq!((args.tls_names, args.operator.image_size_max_gib), (vec!["a".to_owned(), "b".to_owned()], 3));
        assert_eq!(up("", &[]).expect("an empty file").listen.port(), 6440);
    }

    #[test]
    fn names_file_key_value_and_what_is_allowed() {
        let message = up("lisen: x\n", &[]).expect_err("no such flag");
        assert!(message.contains("lisen: \"x\"") && message.contains("listen"), "{message}");
        let message = up("allow-loopback-images: 3\n", &[]).expect_err("no boolean");
        assert!(message.contains("true or false"), "{message}");
        assert!(up("- a\n", &[]).expect_err("no map").contains("no YAML map"));
        assert!(up("listen: nowhere\n", &[]).expect_err("no address").contains("nowhere"));
    }
}
