//! Rules about files that no compiler knows.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::root;

/// Most lines of a hand-written Rust file.
const LINES_MAX: usize = 1000;

/// Fails with every problem at once.
pub fn run() -> Result<()> {
    let mut problems = Vec::new();
    for path in rust_files(&root())? {
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems.push(format!("{}: {lines} lines, at most {LINES_MAX}", path.display()));
        }
        if text.contains("#[ignore]") {
            problems.push(format!("{}: an ignored test: run it, or print why it cannot run here", path.display()));
        }
    }
    problems.extend(crate::crate_graph::wrong_edges()?);
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{}", problems.join("\n"));
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
            let path = entry?.path();
            let is_tidy = path.ends_with("tidy.rs");
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tidy {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        super::run().expect("no file breaks a rule");
    }
}
