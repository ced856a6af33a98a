//! Writing a container image archive: one layer, the same bytes for the same files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::hexadecimal;

/// One file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A file copied from here, executable.
    File {
        /// Path inside.
        path: String,
        /// File here.
        source: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// Path inside.
        path: String,
        /// What it points to.
        target: PathBuf,
    },
}

impl Entry {
    fn path(&self) -> &str {
        match self {
            Self::File { path, .. } | Self::Link { path, .. } => path,
        }
    }
}

/// Writes an archive in the OCI image layout, named `tag`, to `file`. The layer is written beside it first.
pub(super) fn write(
    file: &Path,
    tag: &str,
    architecture: &str,
    entrypoint: &[String],
    entries: &[Entry],
) -> io::Result<()> {
    let layer_path = file.with_extension("layer");
    let (layer, unpacked) = write_layer(&layer_path, entries)?;
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": entrypoint,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{unpacked}")]},
    });
    let config = serde_json::to_vec(&config)?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": format!("sha256:{layer}"),
            "size": fs::metadata(&layer_path)?.len(),
        }],
    }))?;
    let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    let version = tag.rsplit(':').next().unwrap_or_default();
    listed["annotations"] = json!({"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": version});
    let index = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": [listed]}))?;

    let mut archive = Builder::new(BufWriter::new(File::create(file)?));
    append(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut archive, "index.json", &index)?;
    append(&mut archive, &blob_name(&config), &config)?;
    append(&mut archive, &blob_name(&manifest), &manifest)?;
    let mut content = File::open(&layer_path)?;
    let mut header = plain_header(EntryType::Regular, 0o644, content.metadata()?.len());
    archive.append_data(&mut header, format!("blobs/sha256/{layer}"), &mut content)?;
    archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::remove_file(&layer_path)
}

/// Writes the compressed layer; gives the digests of the compressed and of the plain bytes.
fn write_layer(path: &Path, entries: &[Entry]) -> io::Result<(String, String)> {
    let file = Hashing::new(BufWriter::new(File::create(path)?));
    let plain = Hashing::new(GzEncoder::new(file, Compression::fast()));
    let mut archive = Builder::new(plain);
    let mut directories: BTreeSet<String> = entries.iter().flat_map(|entry| parents(entry.path())).collect();
    directories.insert("tmp".to_owned());
    for directory in &directories {
        let mode = if directory == "tmp" { 0o1777 } else { 0o755 };
        let mut header = plain_header(EntryType::Directory, mode, 0);
        archive.append_data(&mut header, format!("{directory}/"), io::empty())?;
    }
    for entry in entries {
        let inside = entry.path().trim_start_matches('/');
        match entry {
            Entry::File { source, .. } => {
                let mut content = File::open(source)?;
                let mut header = plain_header(EntryType::Regular, 0o755, content.metadata()?.len());
                archive.append_data(&mut header, inside, &mut content)?;
            }
            Entry::Link { target, .. } => {
                let mut header = plain_header(EntryType::Symlink, 0o777, 0);
                archive.append_link(&mut header, inside, target)?;
            }
        }
    }
    let plain = archive.into_inner()?;
    let (encoder, unpacked) = plain.finish();
    let (mut writer, packed) = encoder.finish()?.finish();
    writer.flush()?;
    Ok((packed, unpacked))
}

fn parents(path: &str) -> Vec<String> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    (1..parts.len()).filter_map(|count| parts.get(..count).map(|parts| parts.join("/"))).collect()
}

fn plain_header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

fn append<W: Write>(archive: &mut Builder<W>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = plain_header(EntryType::Regular, 0o644, content.len() as u64);
    archive.append_data(&mut header, name, content)
}

fn blob_name(content: &[u8]) -> String {
    format!("blobs/sha256/{}", hexadecimal(&Sha256::digest(content)))
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    let digest = format!("sha256:{}", hexadecimal(&Sha256::digest(content)));
    json!({"mediaType": media_type, "digest": digest, "size": content.len()})
}

/// Hashes what passes through.
struct Hashing<W> {
    inner: W,
    digest: Sha256,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, digest: Sha256::new() }
    }

    fn finish(self) -> (W, String) {
        (self.inner, hexadecimal(&self.digest.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.digest.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads the image names of an archive, for tests and checks.
#[cfg(test)]
pub(super) fn names(file: &Path) -> io::Result<Vec<String>> {
    let mut archive = tar::Archive::new(File::open(file)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.as_os_str() == "index.json" {
            use std::io::Read as _;
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            let index: Value = serde_json::from_str(&text)?;
            let manifests = index["manifests"].as_array().cloned().unwrap_or_default();
            let name =
                |manifest: &Value| manifest["annotations"]["io.containerd.image.name"].as_str().map(str::to_owned);
            return Ok(manifests.iter().filter_map(name).collect());
        }
    }
    Ok(Vec::new())
}
