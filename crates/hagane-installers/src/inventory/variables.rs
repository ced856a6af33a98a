//! The variables file: values as data that Ansible never evaluates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hagane_api::names::variable_name_problem;
use hagane_ports::installer::InstallerError;
use serde_json::Value;

use super::invalid;

/// Deepest nesting of a value.
const DEPTH_MAX: usize = 32;

/// Renders a YAML variables file; every string in a value, however deep, is tagged `!unsafe`, so that it is never a
/// template.
///
/// # Errors
/// [`InstallerError::Invalid`] for a name that is no variable name or is Ansible's own, for a key with a template in it
/// (keys cannot be tagged in every Ansible version), and for values nested too deeply.
pub fn render_variables(variables: &BTreeMap<String, Value>) -> Result<String, InstallerError> {
    let mut text = String::from("---\n");
    if variables.is_empty() {
        text.push_str("{}\n");
    }
    for (name, value) in variables {
        check_variable_name(name)?;
        text.push_str(name);
        text.push_str(": ");
        write_value(&mut text, name, value, 0)?;
        text.push('\n');
    }
    Ok(text)
}

/// Checks that `name` can be a variable of ours or of a user's.
///
/// # Errors
/// [`InstallerError::Invalid`] saying what a name may be.
pub fn check_variable_name(name: &str) -> Result<(), InstallerError> {
    variable_name_problem(name).map_or(Ok(()), |problem| Err(invalid("variable name", name, problem)))
}

fn write_value(text: &mut String, name: &str, value: &Value, depth: usize) -> Result<(), InstallerError> {
    if depth > DEPTH_MAX {
        return Err(invalid(format!("variable {name}"), "(nested)", format!("at most {DEPTH_MAX} levels")));
    }
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => {
            text.push_str("!unsafe ");
            write_string(text, string);
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write_value(text, name, item, depth + 1)?;
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if ["{{", "{%", "{#"].iter().any(|opening| key.contains(opening)) {
                    return Err(invalid(format!("key in variable {name}"), key, "a key without a template"));
                }
                if index > 0 {
                    text.push_str(", ");
                }
                write_string(text, key);
                text.push_str(": ");
                write_value(text, name, item, depth + 1)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

/// YAML 1.1, which Ansible reads, takes `1e3` for a string: floats are written with a point and a signed exponent.
fn write_number(text: &mut String, number: &serde_json::Number) {
    let written = number.to_string();
    let Some((mantissa, exponent)) = written.split_once(['e', 'E']) else {
        text.push_str(&written);
        return;
    };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    let _ = write!(text, "{mantissa}{point}e{sign}{exponent}");
}

/// A double-quoted YAML scalar of printable ASCII only, so that no reader's idea of "printable" matters.
fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            ' '..='~' => text.push(character),
            _ => {
                let code = u32::from(character);
                let _ = match code {
                    0..=0xff => write!(text, "\\x{code:02x}"),
                    0x100..=0xffff => write!(text, "\\u{code:04x}"),
                    _ => write!(text, "\\U{code:08x}"),
                };
            }
        }
    }
    text.push('"');
}
