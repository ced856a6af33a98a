//! Guest images, built from Debian packages by the recipes in lab/images and kept by the content of their recipe.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::paths::{cache_directory, recipes_directory};
use super::{command, packages, progress::Progress};

/// The images there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Image {
    /// Root file system of container hosts.
    Host,
    /// Kernel and busybox on a bootable disk: boots in seconds.
    Tiny,
    /// Full Debian disk with cloud-init and sshd.
    Debian,
}

impl Image {
    /// All of them, quickest to build first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Host, Self::Debian];

    /// Name of the recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Tiny => "tiny",
            Self::Debian => "debian",
        }
    }

    /// The file or directory that is the image, in the directory of the built image.
    pub fn product(self) -> &'static str {
        match self {
            Self::Host => "root",
            Self::Tiny => "tiny.qcow2",
            Self::Debian => "debian.qcow2",
        }
    }

    /// Where the image lies, or will lie when it is built.
    ///
    /// # Errors
    /// When the recipe can not be read.
    pub fn directory(self) -> Result<PathBuf> {
        let digest = recipe_digest(&recipes_directory(), self.name())?;
        Ok(cache_directory()?.join("images").join(format!("{}-{}", self.name(), &digest[..16])))
    }

    /// The image itself, if it has been built.
    ///
    /// # Errors
    /// When the recipe can not be read.
    pub fn built(self) -> Result<Option<PathBuf>> {
        let product = self.directory()?.join(self.product());
        Ok(product.exists().then_some(product))
    }

    /// Builds the image unless it is there; gives its path. Two builders at once wait for each other.
    ///
    /// # Errors
    /// When the recipe fails; the message names the log.
    pub fn build(self, progress: Progress) -> Result<PathBuf> {
        if let Some(built) = self.built()? {
            return Ok(built);
        }
        let directory = self.directory()?;
        let images = directory.parent().context("the cache has a directory of images")?.to_owned();
        fs::create_dir_all(&images).with_context(|| format!("make {}", images.display()))?;
        let lock = File::create(images.join(format!("{}.lock", self.name()))).context("make the lock of the image")?;
        lock.lock().context("wait for another build of the image")?;
        if let Some(built) = self.built()? {
            return Ok(built);
        }
        progress.phase(&format!("building image {} (once)", self.name()), || {
            packages::update_lists()?;
            self.run_recipe(&directory, &images)
        })?;
        Ok(directory.join(self.product()))
    }

    fn run_recipe(self, directory: &Path, images: &Path) -> Result<()> {
        let unfinished = images.join(format!("{}.unfinished", self.name()));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).with_context(|| format!("remove {}", unfinished.display()))?;
        }
        fs::create_dir_all(&unfinished).with_context(|| format!("make {}", unfinished.display()))?;
        let log_path = images.join(format!("{}.log", self.name()));
        let log = File::create(&log_path).with_context(|| format!("make {}", log_path.display()))?;
        let errors = log.try_clone().context("share the log's file")?;
        let script = recipes_directory().join(self.name()).join("build.sh");
        // The recipe's temporary files go where the cache is: /tmp may be small, and what a killed build leaves is removed with it.
        let temporary = format!("TMPDIR={}", unfinished.display());
        let words = [
            "env".into(),
            temporary.into(),
            "sh".into(),
            script.clone().into_os_string(),
            unfinished.clone().into_os_string(),
        ];
        let mut recipe = command::program::<std::ffi::OsString>(words);
        let status = recipe.stdout(log).stderr(errors).stdin(Stdio::null()).status();
        let status = status.with_context(|| format!("run {}", script.display()))?;
        if !status.success() || !unfinished.join(self.product()).exists() {
            let text = fs::read_to_string(&log_path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
            bail!(
                "the recipe of image {} ended with {status}; {} ends with:\n  {last}",
                self.name(),
                log_path.display()
            );
        }
        fs::rename(&unfinished, directory).with_context(|| format!("move the image to {}", directory.display()))
    }
}

/// Digest over everything the image is made by: its recipe, what recipes share, the machine's release and processor kind.
fn recipe_digest(recipes: &Path, name: &str) -> Result<String> {
    let mut files = vec![recipes.join("common.sh")];
    let recipe = recipes.join(name);
    for entry in fs::read_dir(&recipe).with_context(|| format!("read the recipe {}", recipe.display()))? {
        files.push(entry.with_context(|| format!("read the recipe {}", recipe.display()))?.path());
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in &files {
        let content = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        digest.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        digest.update([0]);
        digest.update(u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes());
        digest.update(&content);
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    digest.update(release.lines().find(|line| line.starts_with("VERSION_CODENAME=")).unwrap_or_default());
    digest.update(std::env::consts::ARCH);
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_recipe_or_shared_part_is_a_new_image_and_another_recipe_is_not() {
        let recipes = tempfile::tempdir().expect("temporary directory");
        let write = |name: &str, text: &str| {
            let path = recipes.path().join(name);
            fs::create_dir_all(path.parent().expect("in a directory")).expect("made");
            fs::write(path, text).expect("written");
        };
        let digest = || recipe_digest(recipes.path(), "a").expect("read");
        write("common.sh", "1");
        write("a/build.sh", "1");
        let first = digest();
        write("b/build.sh", "1");
        assert_eq!(digest(), first);
        write("a/build.sh", "2");
        let second = digest();
        write("common.sh", "2");
        assert!(second != first && digest() != second);
    }

    #[test]
    fn every_image_has_a_recipe() {
        for image in Image::ALL {
            assert!(recipes_directory().join(image.name()).join("build.sh").is_file(), "{image:?}");
        }
    }
}
