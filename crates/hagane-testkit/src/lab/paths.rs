//! Where labs and images lie on the machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Directory of all labs: `HAGANE_LAB_DIR`, else /var/tmp/hagane-lab.
///
/// # Errors
/// When the directory is below one that a lab covers with its own (/etc, /run, /var/lib, /var/log, /var/cache).
pub fn labs_directory() -> Result<PathBuf> {
    let directory =
        std::env::var_os("HAGANE_LAB_DIR").map_or_else(|| PathBuf::from("/var/tmp/hagane-lab"), PathBuf::from);
    if !directory.is_absolute() {
        bail!("HAGANE_LAB_DIR is {}: an absolute path is needed", directory.display());
    }
    for covered in super::namespace::COVERED.iter().chain(&["/run"]) {
        if directory.starts_with(covered) {
            bail!(
                "HAGANE_LAB_DIR is {}: it may not lie below {covered}, which a lab covers with its own",
                directory.display()
            );
        }
    }
    Ok(directory)
}

/// Directory of what is kept between labs: `HAGANE_CACHE`, else ~/.cache/hagane.
///
/// # Errors
/// When neither HAGANE_CACHE nor HOME is set.
pub fn cache_directory() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("HAGANE_CACHE") {
        return Ok(directory.into());
    }
    let home = std::env::var_os("HOME").context("neither HAGANE_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/hagane"))
}

/// Recipes of the guest images, in the source tree this program was built from.
pub(crate) fn recipes_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/images")
}

/// The places of one lab.
#[derive(Debug, Clone)]
pub struct LabPaths {
    /// Id of the lab.
    pub id: String,
    /// Directory that holds everything of the lab.
    pub directory: PathBuf,
    /// Its ledger, beside the directory.
    pub ledger: PathBuf,
}

impl LabPaths {
    /// The places of the lab with this id, whether it exists or not.
    ///
    /// # Errors
    /// When the id is not 1 to 12 lower-case letters and digits.
    pub fn of(id: &str) -> Result<Self> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if id.is_empty() || id.len() > 12 || !id.bytes().all(legal) {
            bail!("lab id {id:?}: 1 to 12 lower-case letters and digits are allowed");
        }
        let labs = labs_directory()?;
        Ok(Self { id: id.to_owned(), directory: labs.join(id), ledger: labs.join(format!("{id}.ledger")) })
    }

    /// The description of the lab, written when it is ready.
    pub fn description(&self) -> PathBuf {
        self.directory.join("lab.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_ids_that_could_leave_the_directory_of_labs() {
        for id in ["", "..", "a/b", "A", "abcdefghijklm", "a b"] {
            assert!(LabPaths::of(id).is_err(), "{id:?}");
        }
        assert!(LabPaths::of("demo1").is_ok());
    }
}
