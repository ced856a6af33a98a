//! What a file is, from its content.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use hagane_api::quantity::ByteSize;
use hagane_ports::{DiskFormat, ImagePurpose};

use crate::{qcow2, seed};

/// A file that is fit for its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) format: DiskFormat,
    pub(crate) virtual_size: ByteSize,
}

/// Enough for every signature below.
const HEAD_LENGTH: usize = 68 * 1024;
const SECTOR: u64 = 512;

/// Signatures of formats that are no disk image, or none that is taken: name, offset, bytes.
const FOREIGN: [(&str, usize, &[u8]); 18] = [
    ("an xz-compressed file", 0, b"\xfd7zXZ\0"),
    ("a gzip-compressed file", 0, b"\x1f\x8b"),
    ("a zstd-compressed file", 0, b"\x28\xb5\x2f\xfd"),
    ("a bzip2-compressed file", 0, b"BZh"),
    ("an lz4-compressed file", 0, b"\x04\x22\x4d\x18"),
    ("an lzma-compressed file", 0, b"\x5d\0\0\x80\0"),
    ("a zip archive", 0, b"PK\x03\x04"),
    ("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c"),
    ("a tar archive", 257, b"ustar"),
    ("a VMDK image", 0, b"KDMV"),
    ("a VMDK image", 0, b"# Disk DescriptorFile"),
    ("a VHDX image", 0, b"vhdxfile"),
    ("a VHD image", 0, b"conectix"),
    ("a VDI image", 64, b"\x7f\x10\xda\xbe"),
    ("a QED image", 0, b"QED\0"),
    ("a LUKS-encrypted image", 0, b"LUKS\xba\xbe"),
    ("a program (ELF)", 0, b"\x7fELF"),
    ("a PDF document", 0, b"%PDF-"),
];

/// Signatures one of which every plain disk of use has.
const DISKS: [(usize, &[u8]); 9] = [
    (510, b"\x55\xaa"),
    (512, b"EFI PART"),
    (4096, b"EFI PART"),
    (1080, b"\x53\xef"),
    (0, b"XFSB"),
    (65_600, b"_BHRfS_M"),
    (0, b"hsqs"),
    (32_769, b"CD001"),
    (1024, b"\xe2\xe1\xf5\xe0"),
];

/// Looks at a file.
///
/// # Errors
/// Outer: the file cannot be read. Inner: it is not fit, with the reason ("is an HTML page").
pub(crate) fn inspect(file: &File, purpose: ImagePurpose) -> io::Result<Result<Content, String>> {
    let size = file.metadata()?.len();
    let mut head = vec![0; HEAD_LENGTH];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    let content = match judge(&head, size, purpose) {
        Ok(content) => content,
        Err(reason) => return Ok(Err(reason)),
    };
    if purpose == ImagePurpose::Seed && seed::is_iso(&head) {
        return Ok(seed::contents::check(file)?.map(|()| content));
    }
    Ok(Ok(content))
}

fn judge(head: &[u8], size: u64, purpose: ImagePurpose) -> Result<Content, String> {
    let raw = Content { format: DiskFormat::Raw, virtual_size: ByteSize(size.next_multiple_of(SECTOR)) };
    if size == 0 {
        return Err("is empty".to_owned());
    }
    if let Some((name, ..)) = FOREIGN.iter().find(|(_, offset, bytes)| has(head, *offset, bytes)) {
        return Err(format!("is {name}, not a raw or qcow2 image"));
    }
    if let Some(name) = text_kind(head) {
        return Err(format!("is {name}, not an image"));
    }
    if purpose == ImagePurpose::Seed {
        return seed::check(&head[..head.len().min(seed::HEAD_LENGTH)], size).map(|()| raw);
    }
    if has(head, 0, &qcow2::MAGIC) {
        let header = &head[..head.len().min(qcow2::HEADER_LENGTH)];
        let virtual_size = qcow2::virtual_size(header, size)?;
        return Ok(Content { format: DiskFormat::Qcow2, virtual_size });
    }
    if DISKS.iter().any(|(offset, bytes)| has(head, *offset, bytes)) {
        return Ok(raw);
    }
    Err("is no disk image: it has no boot sector, partition table or file system".to_owned())
}

fn has(head: &[u8], offset: usize, bytes: &[u8]) -> bool {
    head.get(offset..offset + bytes.len()) == Some(bytes)
}

/// The kind of text, where the beginning of the file is text.
fn text_kind(head: &[u8]) -> Option<&'static str> {
    let start = &head[..head.len().min(512)];
    // A character may be cut at the end of the piece looked at.
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    if text.is_empty() || text.chars().any(|character| character.is_control() && !character.is_whitespace()) {
        return None;
    }
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).to_ascii_lowercase();
    match start.as_str() {
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head") => {
            Some("an HTML page")
        }
        _ if start.starts_with("<?xml") => Some("an XML document"),
        _ => Some("a text file"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::qcow2::tests::header as qcow2_header;
    use crate::seed::tests::iso;

    fn root_disk(bytes: &[u8]) -> Result<Content, String> {
        judge(bytes, bytes.len() as u64, ImagePurpose::RootDisk)
    }

    fn with(length: usize, offset: usize, bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; length];
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        file
    }

    #[test]
    fn knows_disks_by_boot_sector_partition_table_or_file_system() {
        for (offset, bytes) in DISKS {
            let content = root_disk(&with(70_000, offset, bytes)).expect("it is a disk");
            assert_eq!(content, Content { format: DiskFormat::Raw, virtual_size: ByteSize(70_144) });
        }
    }

    #[test]
    fn a_raw_size_is_rounded_up_to_sectors() {
        for (length, rounded) in [(1024, 1024), (1025, 1536), (1535, 1536)] {
            let content = root_disk(&with(length, 510, b"\x55\xaa")).expect("it is a disk");
            assert_eq!(content.virtual_size, ByteSize(rounded));
        }
    }

    #[test]
    fn refuses_foreign_formats_by_name() {
        for (name, offset, bytes) in FOREIGN {
            for purpose in [ImagePurpose::RootDisk, ImagePurpose::Seed] {
                // The boot signature shows that the foreign one wins.
                let mut file = with(2048, 510, b"\x55\xaa");
                file[offset..offset + bytes.len()].copy_from_slice(bytes);
                let reason = judge(&file, 2048, purpose).expect_err(name);
                assert!(reason.contains(name), "{reason}");
            }
        }
    }

    #[test]
    fn refuses_pages_and_texts() {
        for (text, word) in [
            ("<!DOCTYPE html><title>404</title>", "HTML page"),
            ("\u{feff}\r\n  <HTML lang=de>", "HTML page"),
            ("<?xml version='1.0'?><Error/>", "XML document"),
            ("just a text named x.qcow2\n", "text file"),
            ("漢字", "text file"),
        ] {
            let reason = root_disk(text.as_bytes()).expect_err(text);
            assert!(reason.contains(word), "{reason}");
        }
        let long = "ä".repeat(1000);
        assert!(root_disk(&[b"x", long.as_bytes()].concat()).expect_err("text").contains("text file"));
        assert!(root_disk(&[]).expect_err("nothing").contains("empty"));
        assert!(root_disk(&[0; 100_000]).expect_err("zeros").contains("no boot sector"));
        assert!(root_disk(&[0xff; 100]).expect_err("noise").contains("no boot sector"));
    }

    #[test]
    fn a_seed_is_no_qcow2_and_a_root_disk_no_seed() {
        let mut image = qcow2_header();
        image.resize(262_144, 0);
        assert_eq!(root_disk(&image).expect("a qcow2").format, DiskFormat::Qcow2);
        assert!(judge(&image, image.len() as u64, ImagePurpose::Seed).is_err());
        let seed = iso("cidata");
        assert!(judge(&seed, seed.len() as u64, ImagePurpose::Seed).is_ok());
        let disk = with(70_000, 510, b"\x55\xaa");
        assert!(judge(&disk, disk.len() as u64, ImagePurpose::Seed).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(head in prop::collection::vec(any::<u8>(), 0..600), size in 0..=i64::MAX.unsigned_abs(), seed: bool) {
            let _ = judge(&head, size, if seed { ImagePurpose::Seed } else { ImagePurpose::RootDisk });
        }
    }
}
