//! What package managers on hosts printed, for `hagane logs software`, and the hosts of a Software on a page.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use crate::args::{LogsArgs, Subject};
use crate::resource::find;
use crate::{CliError, connect, output, wait};

/// Prints what each host's package manager printed last, each line with its node; followed until the work ends, where asked.
pub(crate) async fn logs(args: &LogsArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let mut printed = BTreeMap::new();
    let mut told = String::new();
    loop {
        let (_, object) = find(&client, Subject::Software, &args.api.namespace, &args.name).await?;
        let text = news(&mut printed, &object.data);
        output::write(&text)?;
        if !args.follow {
            if printed.is_empty() {
                let line = wait::summary(&object.data);
                return Err(CliError::NotYet(format!(
                    "no package manager has run for software {:?}: {line}",
                    args.name
                )));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if ended(&object) {
            return Ok(ExitCode::SUCCESS);
        }
        let line = wait::summary(&object.data);
        if line != told && text.is_empty() {
            eprintln!("{line}");
            told = line;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Whether the spec as it is now was carried out, or failed.
fn ended(object: &DynamicObject) -> bool {
    let status = |pointer: &str| object.data.pointer(pointer);
    let phase = status("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let observed = status("/status/observedGeneration").and_then(Value::as_i64);
    ["Ready", "Failed"].contains(&phase) && observed == object.metadata.generation
}

/// Lines that were not printed before, by host.
fn news(printed: &mut BTreeMap<String, String>, object: &Value) -> String {
    let mut text = String::new();
    for host in object.pointer("/status/hosts").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| host.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(output) = host.get("output").and_then(Value::as_str) else { continue };
        let old = printed.entry(field("hostUid").to_owned()).or_default();
        for line in fresh(old, output) {
            text.push_str(&format!("{}: {line}\n", field("node")));
        }
        output.clone_into(old);
    }
    text
}

/// The lines of `new` after those that `old` ended with: both are the last lines of one growing text.
fn fresh<'a>(old: &str, new: &'a str) -> Vec<&'a str> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let most = old.len().min(new.len());
    let shared = (0..=most).rev().find(|count| old[old.len() - count..] == new[..*count]).unwrap_or(0);
    new[shared..].to_vec()
}

/// A row a host: node, host, state, packages, and what it waits for.
pub(crate) fn rows(status: &Value) -> Vec<Vec<String>> {
    let hosts = status.get("hosts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let row = |host: &Value| {
        let field = |name: &str| host.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let step = host.pointer("/job/step").and_then(Value::as_str).map(str::to_owned);
        let packages = host.get("packages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let packages: Vec<String> = packages.iter().map(package).collect();
        let mut message = field("message");
        if let Some(reason) = host.get("reason").and_then(Value::as_str) {
            message = format!("{reason}: {message}");
        }
        vec![field("node"), field("host"), step.unwrap_or_else(|| field("state")), packages.join(", "), message]
    };
    hosts.iter().map(row).collect()
}

fn package(package: &Value) -> String {
    let field = |name: &str| package.get(name).and_then(Value::as_str);
    let name = field("name").unwrap_or_default();
    let there = field("installed").map_or_else(|| "not there".to_owned(), str::to_owned);
    let state = field("state").unwrap_or_default();
    let wanted = field("wanted").map(|wanted| format!(" {wanted}")).unwrap_or_default();
    match state {
        "Installed" => format!("{name} {there}"),
        "Leaving" => format!("{name} {there} (leaves)"),
        _ => format!("{name} {there} (wanted{wanted})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_each_line_once_although_only_the_last_ones_are_kept() {
        let mut printed = BTreeMap::new();
        let object = |output: &str| json!({"status": {"hosts": [{"hostUid": "u", "node": "w-1", "output": output}]}});
        assert_eq!(news(&mut printed, &object("a\nb\n")), "w-1: a\nw-1: b\n");
        assert_eq!(news(&mut printed, &object("a\nb\nc\n")), "w-1: c\n");
        assert_eq!(news(&mut printed, &object("b\nc\nd\n")), "w-1: d\n");
        assert_eq!(news(&mut printed, &object("b\nc\nd\n")), "");
        assert_eq!(news(&mut printed, &object("x\n")), "w-1: x\n");
    }

    #[test]
    fn a_row_tells_what_a_host_has_and_waits_for() {
        let status = json!({"hosts": [{
            "node": "w-1", "host": "h", "state": "Working", "job": {"step": "Installing"}, "message": "Unpacking",
            "packages": [
                {"name": "jq", "installed": "1.7", "state": "OtherVersion", "wanted": "1.6"},
                {"name": "htop", "state": "Missing"}, {"name": "curl", "installed": "7", "state": "Installed"},
                {"name": "old", "installed": "1", "state": "Leaving"},
            ],
        }]});
        let packages = "jq 1.7 (wanted 1.6), htop not there (wanted), curl 7, old 1 (leaves)";
        assert_eq!(rows(&status), [["w-1", "h", "Installing", packages, "Unpacking"].map(str::to_owned).to_vec()]);
    }
}
