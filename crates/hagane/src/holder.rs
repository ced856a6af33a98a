//! Who this process is: a name that outlives a restart, for whatever it records as its holder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// The name of the holder of `data_dir`; made at the first start.
pub fn name(data_dir: &Path) -> Result<String> {
    let path = data_dir.join("holder");
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("host");
    let name = format!("{host}-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
    let fresh = data_dir.join("holder.new");
    let write = || {
        let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o644).open(&fresh)?;
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    };
    write().with_context(|| format!("failed to write {}", path.display()))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stays_the_same_for_a_data_directory() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = super::name(folder.path()).expect("writable");
        assert_eq!(super::name(folder.path()).expect("readable"), first);
        let other = tempfile::tempdir().expect("a temporary folder");
        assert_ne!(super::name(other.path()).expect("writable"), first);
    }
}
