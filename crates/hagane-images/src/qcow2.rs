//! The header of a qcow2 file: enough to know its size and that it stands alone.
//!
//! Field positions: the format's published specification (QEMU, docs/interop/qcow2).

use hagane_api::quantity::ByteSize;

/// `QFI\xfb`.
pub(crate) const MAGIC: [u8; 4] = *b"QFI\xfb";

/// So many bytes are enough to judge any header.
pub(crate) const HEADER_LENGTH: usize = 104;

/// Incompatible-feature bits of version 3.
const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// Reads the virtual size of a self-contained image, or says why the image cannot be used.
pub(crate) fn virtual_size(header: &[u8], file_size: u64) -> Result<ByteSize, String> {
    let version = u32_at(header, 4)?;
    if !matches!(version, 2 | 3) {
        return Err(format!("is qcow2 of version {version}; 2 and 3 are supported"));
    }
    if u64_at(header, 8)? != 0 {
        return Err("is a qcow2 image with a backing file; make it stand alone (qemu-img convert)".to_owned());
    }
    if u32_at(header, 32)? != 0 {
        return Err("is an encrypted qcow2 image".to_owned());
    }
    let cluster_bits = u32_at(header, 20)?;
    if !(9..=21).contains(&cluster_bits) {
        return Err(format!("has a damaged qcow2 header: cluster size 2^{cluster_bits}"));
    }
    if version == 3 {
        check_features(u64_at(header, 72)?)?;
    }
    let size = u64_at(header, 24)?;
    if size == 0 {
        return Err("is a qcow2 image of an empty disk".to_owned());
    }
    if size > i64::MAX.unsigned_abs() {
        return Err("has a damaged qcow2 header: its disk size is beyond 2^63 bytes".to_owned());
    }
    let l1_bytes = u64::from(u32_at(header, 36)?) * 8;
    let tables =
        [(u64_at(header, 40)?, l1_bytes), (u64_at(header, 48)?, u64::from(u32_at(header, 56)?) << cluster_bits)];
    if tables.iter().any(|(offset, length)| offset.checked_add(*length).is_none_or(|end| end > file_size)) {
        return Err("is a qcow2 image that was cut short: its tables lie beyond the end of the file".to_owned());
    }
    Ok(ByteSize(size))
}

fn check_features(features: u64) -> Result<(), String> {
    if features & EXTERNAL_DATA != 0 {
        return Err("is a qcow2 image whose data is in another file".to_owned());
    }
    if features & CORRUPT != 0 {
        return Err("is a qcow2 image that is marked as corrupt".to_owned());
    }
    let unknown = features & !(DIRTY | COMPRESSION_TYPE | EXTENDED_L2);
    if unknown != 0 {
        return Err(format!("is a qcow2 image with unknown features ({unknown:#x})"));
    }
    Ok(())
}

fn bytes_at<const N: usize>(header: &[u8], offset: usize) -> Result<[u8; N], String> {
    let bytes = header.get(offset..offset + N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "is a qcow2 image that was cut short: its header is incomplete".to_owned())
}

fn u32_at(header: &[u8], offset: usize) -> Result<u32, String> {
    bytes_at(header, offset).map(u32::from_be_bytes)
}

fn u64_at(header: &[u8], offset: usize) -> Result<u64, String> {
    bytes_at(header, offset).map(u64::from_be_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE_SIZE: u64 = 262_144;

    /// A version-3 header of a 10 GiB disk; the file needs 262,144 bytes to hold its tables.
    pub(crate) fn header() -> Vec<u8> {
        let mut header = vec![0; HEADER_LENGTH];
        put(&mut header, 0, &MAGIC);
        put(&mut header, 4, &3_u32.to_be_bytes());
        put(&mut header, 20, &16_u32.to_be_bytes());
        put(&mut header, 24, &(10_u64 << 30).to_be_bytes());
        put(&mut header, 36, &20_u32.to_be_bytes());
        put(&mut header, 40, &0x3_0000_u64.to_be_bytes());
        put(&mut header, 48, &0x1_0000_u64.to_be_bytes());
        put(&mut header, 56, &1_u32.to_be_bytes());
        put(&mut header, 96, &4_u32.to_be_bytes());
        put(&mut header, 100, &104_u32.to_be_bytes());
        header
    }

    fn put(header: &mut [u8], offset: usize, bytes: &[u8]) {
        header[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn changed(offset: usize, bytes: &[u8]) -> Result<ByteSize, String> {
        let mut header = header();
        put(&mut header, offset, bytes);
        virtual_size(&header, FILE_SIZE)
    }

    #[test]
    fn reads_the_virtual_size_of_both_versions() {
        assert_eq!(virtual_size(&header(), FILE_SIZE), Ok(ByteSize(10 << 30)));
        assert_eq!(changed(4, &2_u32.to_be_bytes()), Ok(ByteSize(10 << 30)));
    }

    #[test]
    fn refuses_what_does_not_stand_alone_or_is_damaged() {
        for (offset, bytes, word) in [
            (8, 104_u64.to_be_bytes().to_vec(), "backing file"),
            (72, EXTERNAL_DATA.to_be_bytes().to_vec(), "another file"),
            (72, CORRUPT.to_be_bytes().to_vec(), "corrupt"),
            (72, (1_u64 << 40).to_be_bytes().to_vec(), "unknown features"),
            (32, 1_u32.to_be_bytes().to_vec(), "encrypted"),
            (4, 1_u32.to_be_bytes().to_vec(), "version 1"),
            (20, 63_u32.to_be_bytes().to_vec(), "cluster size"),
            (24, vec![0; 8], "empty disk"),
            (24, vec![0xff; 8], "2^63"),
            (40, vec![0xff; 8], "cut short"),
            (36, vec![0xff; 4], "cut short"),
        ] {
            let reason = changed(offset, &bytes).expect_err(word);
            assert!(reason.contains(word), "{reason}");
        }
        assert!(virtual_size(&header()[..60], FILE_SIZE).expect_err("short").contains("incomplete"));
        assert!(virtual_size(&header(), FILE_SIZE / 2).expect_err("short").contains("cut short"));
    }

    #[test]
    fn lazy_refcounts_left_dirty_are_no_reason_to_refuse() {
        assert!(changed(72, &(DIRTY | COMPRESSION_TYPE | EXTENDED_L2).to_be_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn never_panics(header in prop::collection::vec(any::<u8>(), 0..120), file_size: u64) {
            let _ = virtual_size(&header, file_size);
        }
    }
}
