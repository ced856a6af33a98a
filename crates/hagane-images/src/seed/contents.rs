//! What is in a seed. cloud-init says nothing where it overlooks a file, so that what would be overlooked is refused.
//!
//! Only ISO 9660 is looked into. No reason repeats what is in the files: user-data may hold secrets.

use std::fs::File;
use std::io;

use hadris_fs::MountOptions;
use hadris_fs::sync::Volume;
use hadris_iso::sync::IsoFs;
use hadris_iso::{Namespace, sync};
use hadris_storage::BlockSize;
use hadris_storage::host::FileDevice;
use serde_json::Value;

use super::user_data;

/// Largest user-data and meta-data that are taken, in bytes: as large as in the seeds that hagane makes.
const FILE_MAX: u64 = 1 << 20;
const BLOCK_SIZE: u32 = 2048;

/// Says why a cloud-init that reads this ISO 9660 file system would overlook what is in it.
pub(crate) fn check(file: &File) -> io::Result<Result<(), String>> {
    let block = BlockSize::new(BLOCK_SIZE).ok_or(io::ErrorKind::InvalidInput)?;
    let device = FileDevice::with_block_size(file.try_clone()?, block)?;
    let file_system = match IsoFs::mount(device, MountOptions::new()) {
        Ok(file_system) => file_system,
        Err(error) => return Ok(Err(format!("is no cloud-init seed: its ISO 9660 file system is damaged: {error}"))),
    };
    // Names of the plain tree are read as Linux shows them.
    let upper = file_system.namespace() == Namespace::Primary;
    let volume = Volume::new(file_system);
    Ok(check_files(&volume, upper))
}

fn check_files(volume: &Volume<sync::IsoFs<FileDevice>>, upper: bool) -> Result<(), String> {
    let read = |name: &str| -> Result<Vec<u8>, String> {
        let path = format!("/{}", if upper { name.to_ascii_uppercase() } else { name.to_owned() });
        if !volume.exists(&path).unwrap_or(false) {
            return Err(format!(
                "is no cloud-init seed: there is no {name} at its root, and without it the other files are ignored"
            ));
        }
        let unreadable =
            |error: &dyn std::fmt::Display| format!("is no usable seed: its {name} cannot be read: {error}");
        let size = volume.metadata(&path).map_err(|error| unreadable(&error))?.len();
        if size > FILE_MAX {
            return Err(format!("is no usable seed: its {name} has {size} bytes; at most {FILE_MAX} are taken"));
        }
        volume.read(&path).map_err(|error| unreadable(&error))
    };
    let (user, meta) = (read("user-data")?, read("meta-data")?);
    match user_data::yaml(&meta) {
        Ok(Value::Object(_) | Value::Null) => {}
        Ok(_) => return Err("is no usable seed: its meta-data is no mapping of YAML".to_owned()),
        Err(place) => return Err(format!("is no usable seed: its meta-data is no YAML{place}")),
    }
    match user_data::fault(&user) {
        Some(fault) => Err(format!("is no usable seed: its user-data {fault}")),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hadris_fs::{Content, Node, Tree};
    use hadris_iso::{IsoId, IsoOptions};

    use super::*;

    const META: &str = "instance-id: i-1\nlocal-hostname: \"1234\"\n";

    /// A seed with these files.
    pub(crate) fn seed(files: &[(&str, &[u8])]) -> Vec<u8> {
        image(files, IsoOptions::default().with_joliet().with_rock_ridge())
    }

    fn image(files: &[(&str, &[u8])], options: IsoOptions) -> Vec<u8> {
        let mut tree = Tree::new();
        for (name, content) in files {
            tree.insert(*name, Node::file(Content::bytes(content.to_vec()))).expect("a new name");
        }
        let options = options.with_id(IsoId::Volume, "cidata");
        let size = hadris_iso::plan(&tree, &options).expect("a plan").size();
        let mut image = vec![0; size as usize];
        let block = BlockSize::new(BLOCK_SIZE).expect("a size");
        sync::write(hadris_storage::MemDevice::new(&mut image[..], block), &tree, &options).expect("an image");
        image
    }

    fn judged(image: &[u8]) -> Result<(), String> {
        let mut file = tempfile::tempfile().expect("a file");
        io::Write::write_all(&mut file, image).expect("written");
        check(&file).expect("readable")
    }

    #[test]
    fn takes_seeds_of_every_tree() {
        let files: [(&str, &[u8]); 3] = [
            ("user-data", b"#cloud-config\n{}\n"),
            ("meta-data", META.as_bytes()),
            ("network-config", b"version: 2\n"),
        ];
        assert_eq!(judged(&seed(&files)), Ok(()));
        assert_eq!(judged(&image(&files, IsoOptions::default().with_joliet())), Ok(()));
        assert_eq!(judged(&image(&files, IsoOptions::default().with_rock_ridge())), Ok(()));
        assert_eq!(judged(&seed(&[("user-data", b""), ("meta-data", b"")])), Ok(()));
    }

    #[test]
    fn refuses_a_seed_without_one_of_the_files_that_cloud_init_needs() {
        for (files, missing) in [
            (vec![("user-data", "#cloud-config\n")], "meta-data"),
            (vec![("meta-data", META)], "user-data"),
            (vec![("meta-data", META), ("user_data", "")], "user-data"),
            (vec![("meta-data", META), ("openstack/user-data", "")], "user-data"),
            (vec![("meta-data", META), ("user-data.txt", "")], "user-data"),
        ] {
            let files: Vec<_> = files.into_iter().map(|(name, text)| (name, text.as_bytes())).collect();
            let reason = judged(&seed(&files)).expect_err(missing);
            assert!(reason.contains(&format!("no {missing} at its root")), "{reason}");
        }
    }

    #[test]
    fn names_what_is_wrong_in_a_file_and_repeats_none_of_it() {
        let secret = "#cloud-config\nusers: [{passwd: hunter2\n";
        let reason = judged(&seed(&[("user-data", secret.as_bytes()), ("meta-data", META.as_bytes())]));
        let reason = reason.expect_err("no YAML");
        assert!(reason.contains("user-data") && reason.contains("line"), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        for meta in ["instance-id: [\n", "just words"] {
            let reason = judged(&seed(&[("user-data", b""), ("meta-data", meta.as_bytes())])).expect_err(meta);
            assert!(reason.contains("meta-data"), "{reason}");
        }
        let large = vec![b'#'; 3 << 20];
        let reason = judged(&seed(&[("user-data", &large), ("meta-data", META.as_bytes())])).expect_err("3 MiB");
        assert!(reason.contains("3145728") && reason.contains("1048576"), "{reason}");
    }

    #[test]
    fn a_damaged_file_system_is_told_of() {
        let mut image = seed(&[("user-data", b""), ("meta-data", b"")]);
        let length = image.len();
        image[17 * BLOCK_SIZE as usize..length].fill(0);
        judged(&image).expect_err("damaged");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test asks another writer of the format")]
    fn reads_what_other_programs_write() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("user-data"), "#cloud-config\nusers: []\n").expect("a file");
        std::fs::write(path("meta-data"), META).expect("a file");
        for (tree, good) in [(&["-J", "-r"][..], true), (&["-J"], true), (&["-r"], true), (&[], false)] {
            let mut program = std::process::Command::new("genisoimage");
            program.args(["-quiet", "-V", "cidata", "-o"]).arg(path("seed.iso")).args(tree);
            let Ok(output) = program.args([path("user-data"), path("meta-data")]).output() else {
                eprintln!("left out: genisoimage is not installed");
                return;
            };
            assert!(output.status.success(), "{output:?}");
            let judged = judged(&std::fs::read(path("seed.iso")).expect("an image"));
            // Without a tree of long names the files are called USER_DAT and META_DAT.
            assert_eq!(judged.is_ok(), good, "{tree:?}: {judged:?}");
        }
    }
}
