//! The `NoCloud` seed: an ISO 9660 image with label `cidata`, and the trailer that says whose it is.
//!
//! The trailer is one sector after the end of the file system. Readers of ISO 9660 and FAT never look there, and it
//! makes also a ready-made seed image provably ours once it is in a volume.

use hadris_fs::{Content, Node, Tree};
use hadris_iso::{IsoId, IsoOptions};
use hagane_ports::CloudInitFiles;

/// Size of a sector; a seed volume is a whole number of them.
pub const SECTOR: u64 = 2048;
/// Largest user-data a seed may carry. cloud-init itself sets no limit; a seed is no place for payloads.
pub const USER_DATA_MAX: usize = 1 << 20;
/// How a trailer begins.
const TRAILER_START: &str = "hagane seed of machine ";

/// Why no seed could be made of the files.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// cloud-init ignores user-data without meta-data, without a word.
    #[error("meta-data is empty; cloud-init would ignore the user-data")]
    NoMetaData,
    /// Larger than a seed may be.
    #[error("user-data has {size} bytes; at most {USER_DATA_MAX} are possible")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
    /// The image could not be laid out or written.
    #[error("the seed image could not be written: {0}")]
    Write(String),
}

/// Makes the image: `user-data`, `meta-data` and, where given, `network-config` at the root. The same files always give
/// the same bytes.
///
/// # Errors
/// [`SeedError`].
pub fn seed_image(files: &CloudInitFiles) -> Result<Vec<u8>, SeedError> {
    if files.meta_data.is_empty() {
        return Err(SeedError::NoMetaData);
    }
    if files.user_data.len() > USER_DATA_MAX {
        return Err(SeedError::TooLarge { size: files.user_data.len() });
    }
    let write_error = |error: &dyn std::fmt::Display| SeedError::Write(error.to_string());
    let mut tree = Tree::new();
    let named = [
        ("user-data", Some(&files.user_data)),
        ("meta-data", Some(&files.meta_data)),
        ("network-config", files.network_config.as_ref()),
    ];
    for (name, content) in named {
        if let Some(content) = content {
            let node = Node::file(Content::bytes(content.clone()));
            tree.insert(name, node).map_err(|error| write_error(&error))?;
        }
    }
    let options = IsoOptions::default().with_id(IsoId::Volume, "cidata").with_joliet().with_rock_ridge();
    let size = hadris_iso::plan(&tree, &options).map_err(|error| write_error(&error))?.size();
    let mut image = vec![0; usize::try_from(size.next_multiple_of(SECTOR)).map_err(|error| write_error(&error))?];
    let device = hadris_storage::MemDevice::new(
        &mut image[..],
        hadris_storage::BlockSize::new(2048).ok_or(SeedError::NoMetaData)?,
    );
    hadris_iso::sync::write(device, &tree, &options).map_err(|error| write_error(&error))?;
    Ok(image)
}

/// The files with a `network-config`: where none is given, DHCP on the NIC with this MAC address, whatever the image would do by
/// itself. A fixed address comes by DHCP too, from the network's reservation. Source of the form: cloud-init's network
/// configuration, version 2.
#[must_use]
pub fn with_network_config(files: &CloudInitFiles, mac: &str) -> CloudInitFiles {
    let by_dhcp = || {
        let nic = format!("{{match: {{macaddress: \"{mac}\"}}, set-name: eth0, dhcp4: true}}");
        format!("version: 2\nethernets:\n  eth0: {nic}\n").into_bytes()
    };
    let network_config = files.network_config.clone().unwrap_or_else(by_dhcp);
    CloudInitFiles { network_config: Some(network_config), ..files.clone() }
}

/// The sector that says whose seed it is.
#[must_use]
pub fn trailer(uid: &str) -> Vec<u8> {
    let mut sector = format!("{TRAILER_START}{uid}\n").into_bytes();
    sector.resize(SECTOR as usize, 0);
    sector
}

/// Whether the last sector of a volume is the trailer of this owner.
#[must_use]
pub fn is_trailer(sector: &[u8], uid: &str) -> bool {
    sector == trailer(uid)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn files() -> CloudInitFiles {
        CloudInitFiles {
            user_data: "#cloud-config\n# ä 漢 😀\nusers: []\n".as_bytes().to_vec(),
            meta_data: b"instance-id: i-1\nlocal-hostname: \"1234\"\n".to_vec(),
            network_config: Some(b"version: 2\n".to_vec()),
        }
    }

    /// What a program prints about a file; nothing where the program is not installed.
    #[allow(clippy::disallowed_methods, reason = "a test asks another reader of the format")]
    fn ask(program: &str, arguments: &[&str], image: &[u8]) -> Option<(String, String)> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("seed.iso");
        std::fs::write(&path, image).expect("a file");
        match Command::new(program).args(arguments).arg(&path).output() {
            Ok(output) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Some((text(&output.stdout), text(&output.stderr)))
            }
            Err(error) => {
                eprintln!("left out: {program}: {error}");
                None
            }
        }
    }

    #[test]
    fn configures_the_one_nic_where_nobody_else_does() {
        let bare = CloudInitFiles { network_config: None, ..files() };
        let text = with_network_config(&bare, "52:00:00:00:00:01").network_config.expect("there");
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "version: 2\nethernets:\n  eth0: {match: {macaddress: \"52:00:00:00:00:01\"}, set-name: eth0, dhcp4: true}\n"
        );
        assert_eq!(with_network_config(&files(), "52:00:00:00:00:01"), files());
    }

    #[test]
    fn other_readers_find_label_and_files() {
        let mut image = seed_image(&files()).expect("a seed");
        assert_eq!(image.len() as u64 % SECTOR, 0);
        // As in the volume: with the trailer behind it.
        image.extend(trailer("uid"));
        if let Some((text, complaints)) = ask("isoinfo", &["-d", "-i"], &image) {
            assert!(text.contains("Volume id: cidata\n"), "{text}");
            assert_eq!(complaints, "");
        }
        for tree in ["-J", "-R"] {
            let Some((text, complaints)) = ask("isoinfo", &[tree, "-f", "-i"], &image) else { continue };
            let mut names: Vec<_> = text.lines().collect();
            names.sort_unstable();
            assert_eq!(names, ["/meta-data", "/network-config", "/user-data"], "{tree}");
            assert_eq!(complaints, "");
        }
        if let Some((text, _)) = ask("isoinfo", &["-J", "-x", "/user-data", "-i"], &image) {
            assert_eq!(text.as_bytes(), files().user_data, "byte for byte");
        }
        if let Some((text, _)) = ask("blkid", &["-p", "-o", "export"], &image) {
            assert!(text.contains("LABEL=cidata\n") && text.contains("TYPE=iso9660\n"), "{text}");
        }
    }

    #[test]
    fn without_network_config_there_is_no_such_file() {
        let image = seed_image(&CloudInitFiles { network_config: None, ..files() }).expect("a seed");
        if let Some((text, _)) = ask("isoinfo", &["-J", "-f", "-i"], &image) {
            assert!(!text.contains("network-config"), "{text}");
        }
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert!(seed_image(&files()).expect("a seed") == seed_image(&files()).expect("a seed"));
    }

    #[test]
    fn empty_user_data_is_fine_and_empty_meta_data_is_not() {
        seed_image(&CloudInitFiles { user_data: Vec::new(), ..files() }).expect("a seed");
        let error = seed_image(&CloudInitFiles { meta_data: Vec::new(), ..files() }).expect_err("no meta-data");
        assert!(matches!(error, SeedError::NoMetaData));
        let large = vec![b'a'; 3 << 20];
        let error = seed_image(&CloudInitFiles { user_data: large, ..files() }).expect_err("3 MiB");
        assert!(error.to_string().contains("at most 1048576"), "{error}");
    }

    #[test]
    fn a_trailer_names_one_owner() {
        assert!(is_trailer(&trailer("a"), "a"));
        assert!(!is_trailer(&trailer("ab"), "a") && !is_trailer(&trailer("a"), "ab") && !is_trailer(&[], "a"));
    }
}
