//! Generated files: committed, so that a change of the API shows in review, and compared by `make check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory};
use hagane_api::KindDescriptor;
use serde_json::Value;

use crate::command::root;

/// Arguments of `generate`.
#[derive(Args)]
pub struct GenerateArgs {
    /// Write nothing; fail where a file is not current.
    #[arg(long)]
    pub check: bool,
}

/// Writes or compares every generated file.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in files()? {
        let full = root().join(&path);
        if fs::read_to_string(&full).is_ok_and(|old| old == text) {
            continue;
        }
        if args.check {
            stale.push(path.display().to_string());
            continue;
        }
        let folder = full.parent().context("a generated file lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        fs::write(&full, text).with_context(|| format!("failed to write {}", full.display()))?;
        println!("wrote {}", path.display());
    }
    if stale.is_empty() { Ok(()) } else { bail!("not current: {}: run `make generate`", stale.join(", ")) }
}

fn files() -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for kind in hagane_api::kinds() {
        let path = format!("manifests/crds/{}.yaml", kind.full_name());
        files.insert(path.into(), serde_saphyr::to_string(&hagane_api::crd(kind))?);
    }
    files.insert("docs/reference/kinds.md".into(), kinds_page()?);
    files.insert("docs/reference/commands.md".into(), commands_page()?);
    files.insert("docs/reference/crate-graph.txt".into(), crate::crate_graph::text()?);
    Ok(files)
}

fn kinds_page() -> Result<String> {
    let mut text = String::from(
        "# Kinds\n\nEvery kind that Hagane serves, with its fields. Written by `make generate`; `kubectl explain` shows the same.\n",
    );
    for kind in hagane_api::kinds() {
        let KindDescriptor { kind: name, plural, short_names, description, .. } = kind;
        write!(text, "\n## {name} ({}/{plural})\n\n{description}\n", kind.api_version())?;
        if !short_names.is_empty() {
            write!(text, "\nShort names: {}.\n", short_names.join(", "))?;
        }
        text.push_str("\n| Field | Type | Meaning |\n|---|---|---|\n");
        let schema = (kind.schema)();
        for part in ["spec", "providerSpec", "status"] {
            if let Some(child) = schema.pointer(&format!("/properties/{part}")) {
                field_rows(&mut text, part, child)?;
            }
        }
    }
    Ok(text)
}

fn field_rows(text: &mut String, path: &str, schema: &Value) -> Result<()> {
    let description = schema["description"].as_str().unwrap_or("").replace('\n', " ").replace('|', "\\|");
    writeln!(text, "| `{path}` | {} | {description} |", type_of(schema))?;
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        field_rows(text, &format!("{path}.{name}"), child)?;
    }
    for (name, child) in schema["items"]["properties"].as_object().into_iter().flatten() {
        field_rows(text, &format!("{path}[].{name}"), child)?;
    }
    for part in ["additionalProperties", "items"] {
        let inner = if part == "items" { &schema["items"]["additionalProperties"] } else { &schema[part] };
        for (name, child) in inner["properties"].as_object().into_iter().flatten() {
            field_rows(text, &format!("{path}.<name>.{name}"), child)?;
        }
    }
    Ok(())
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

fn commands_page() -> Result<String> {
    let mut text = String::from("# Commands\n\nWritten by `make generate` from the program's own help.\n");
    let mut cli = hagane_cli::args::Cli::command().term_width(100);
    cli.build();
    command_section(&mut text, &mut cli, "")?;
    Ok(text)
}

fn command_section(text: &mut String, command: &mut clap::Command, parent: &str) -> Result<()> {
    let name = format!("{parent}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: String = help.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    write!(text, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end())?;
    let children: Vec<_> =
        command.get_subcommands().map(|child| (child.get_name().to_owned(), child.is_hide_set())).collect();
    for (child, hidden) in children {
        if let Some(child) = command.find_subcommand_mut(&child).filter(|_| !hidden && child != "help") {
            command_section(text, child, &format!("{name} "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_field_of_a_kind_has_a_row_and_a_meaning() {
        let page = super::kinds_page().expect("text");
        let row =
            page.lines().find(|line| line.starts_with("| `spec.providerSpec.memoryInGB`")).expect("the seed's field");
        assert!(row.contains("integer") && row.contains("GiB"), "{row}");
    }
}
