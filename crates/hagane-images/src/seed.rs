//! Whether a file is a NoCloud seed that cloud-init will not overlook: ISO 9660 or FAT, labelled `cidata`, and in an
//! ISO 9660 the files that must be there.

pub(crate) mod contents;
mod user_data;

/// Bytes that [`check`] needs from the beginning of the file.
pub(crate) const HEAD_LENGTH: usize = 34 * 1024;

/// Start of the primary volume descriptor (ECMA-119, 8.4).
const ISO_DESCRIPTOR: usize = 32 * 1024;
const ISO_BLOCK: u64 = 2048;

/// Whether it says of itself to be ISO 9660.
pub(crate) fn is_iso(head: &[u8]) -> bool {
    head.get(ISO_DESCRIPTOR + 1..ISO_DESCRIPTOR + 6) == Some(b"CD001")
}

/// Says why the file is no usable seed.
pub(crate) fn check(head: &[u8], file_size: u64) -> Result<(), String> {
    let (kind, label, expected_size) = if is_iso(head) {
        ("ISO 9660", text(head, ISO_DESCRIPTOR + 40, 32), u64::from(u32_at(head, ISO_DESCRIPTOR + 80)) * ISO_BLOCK)
    } else if let Some((label_offset, size)) = fat(head) {
        ("FAT", text(head, label_offset, 11), size)
    } else {
        return Err("is no cloud-init seed: neither an ISO 9660 nor a FAT file system".to_owned());
    };
    // cloud-init looks for these two spellings and silently ignores every other.
    if !matches!(label.as_str(), "cidata" | "CIDATA") {
        return Err(format!("is no cloud-init seed: its {kind} label is {label:?}, not \"cidata\""));
    }
    if expected_size > file_size {
        return Err(format!("was cut short: its {kind} file system has {expected_size} bytes, the file {file_size}"));
    }
    Ok(())
}

/// Position of the label and size in bytes of a FAT file system.
fn fat(head: &[u8]) -> Option<(usize, u64)> {
    let boot_signature = head.get(510..512) == Some(&[0x55, 0xaa]);
    let jump = matches!(head.first(), Some(0xeb | 0xe9));
    let sector = u64::from(u16_at(head, 11));
    if !boot_signature || !jump || !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return None;
    }
    let sectors = match u16_at(head, 19) {
        0 => u64::from(u32_at(head, 32)),
        small => u64::from(small),
    };
    match (head.get(54..57), head.get(82..87)) {
        (Some(b"FAT"), _) => Some((43, sectors * sector)),
        (_, Some(b"FAT32")) => Some((71, sectors * sector)),
        _ => None,
    }
}

fn text(head: &[u8], offset: usize, length: usize) -> String {
    let bytes = head.get(offset..offset + length).unwrap_or_default();
    String::from_utf8_lossy(bytes).trim_end_matches([' ', '\0']).to_owned()
}

fn u16_at(head: &[u8], offset: usize) -> u16 {
    head.get(offset..offset + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(head: &[u8], offset: usize) -> u32 {
    head.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The beginning of an ISO file system with this label, 20 blocks long.
    pub(crate) fn iso(label: &str) -> Vec<u8> {
        let mut head = vec![0; 20 * 2048];
        head[ISO_DESCRIPTOR..ISO_DESCRIPTOR + 7].copy_from_slice(b"\x01CD001\x01");
        head[ISO_DESCRIPTOR + 40..ISO_DESCRIPTOR + 72].fill(b' ');
        head[ISO_DESCRIPTOR + 40..ISO_DESCRIPTOR + 40 + label.len()].copy_from_slice(label.as_bytes());
        head[ISO_DESCRIPTOR + 80..ISO_DESCRIPTOR + 84].copy_from_slice(&20_u32.to_le_bytes());
        head
    }

    fn fat_image(name: &[u8], name_offset: usize, label: &[u8; 11]) -> Vec<u8> {
        let mut head = vec![0; 64 * 512];
        head[0] = 0xeb;
        head[11..13].copy_from_slice(&512_u16.to_le_bytes());
        head[19..21].copy_from_slice(&64_u16.to_le_bytes());
        head[name_offset..name_offset + name.len()].copy_from_slice(name);
        head[name_offset - 11..name_offset].copy_from_slice(label);
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        head
    }

    #[test]
    fn takes_iso_and_fat_with_the_label_that_cloud_init_seeks() {
        for image in [
            iso("cidata"),
            iso("CIDATA"),
            fat_image(b"FAT12   ", 54, b"CIDATA     "),
            fat_image(b"FAT16   ", 54, b"cidata     "),
            fat_image(b"FAT32   ", 82, b"CIDATA     "),
        ] {
            assert_eq!(check(&image, image.len() as u64), Ok(()));
        }
    }

    #[test]
    fn refuses_seeds_that_cloud_init_would_overlook() {
        for (image, word) in [
            (iso("config-2"), "label"),
            (iso("CiData"), "label"),
            (iso(""), "label"),
            (fat_image(b"FAT16   ", 54, b"NO NAME    "), "label"),
            (vec![0; 40_000], "neither"),
            (Vec::new(), "neither"),
            (b"#cloud-config\n".to_vec(), "neither"),
        ] {
            let reason = check(&image, image.len() as u64).expect_err(word);
            assert!(reason.contains(word), "{reason}");
        }
        assert!(check(&iso("cidata"), 38_000).expect_err("short").contains("cut short"));
    }

    proptest! {
        #[test]
        fn never_panics(head in prop::collection::vec(any::<u8>(), 0..600), file_size: u64) {
            let _ = check(&head, file_size);
        }
    }
}
