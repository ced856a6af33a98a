//! Documents of volumes and pools.

use super::{Element, XmlError};

/// A volume to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec<'a> {
    /// Name.
    pub name: &'a str,
    /// Bytes the guest sees.
    pub capacity: u64,
    /// `raw` or `qcow2`.
    pub format: &'a str,
    /// Path and format of the image under it.
    pub backing: Option<(&'a str, &'a str)>,
    /// Permissions of the file, octal.
    pub mode: &'a str,
}

/// What we read of an existing volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Format as libvirt sees it.
    pub format: String,
    /// Path on the hypervisor.
    pub path: String,
    /// Path of the image under it.
    pub backing: Option<String>,
    /// Bytes the guest sees.
    pub capacity: u64,
}

/// Writes a volume's document.
#[must_use]
pub fn volume_xml(spec: &VolumeSpec<'_>) -> String {
    let permissions = Element::new("permissions").child(Element::with_text("mode", spec.mode));
    let target = Element::new("target").child(Element::new("format").attribute("type", spec.format)).child(permissions);
    let backing = spec.backing.map(|(path, format)| {
        Element::new("backingStore")
            .child(Element::with_text("path", path))
            .child(Element::new("format").attribute("type", format))
    });
    let volume = Element::new("volume")
        .child(Element::with_text("name", spec.name))
        .child(Element::with_text("capacity", spec.capacity).attribute("unit", "bytes"))
        .child(Element::with_text("allocation", 0).attribute("unit", "bytes"))
        .child(target)
        .children(backing);
    volume.to_text()
}

/// Reads a volume's document.
///
/// # Errors
/// [`XmlError`].
pub fn parse_volume(text: &str) -> Result<VolumeFacts, XmlError> {
    let root = Element::parse(text)?;
    let format = root.path(&["target", "format"]).and_then(|format| format.get("type"));
    Ok(VolumeFacts {
        format: format.unwrap_or("raw").to_owned(),
        path: root.text_at(&["target", "path"]).unwrap_or_default().to_owned(),
        backing: root.text_at(&["backingStore", "path"]).filter(|path| !path.is_empty()).map(str::to_owned),
        capacity: root.text_at(&["capacity"]).and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

/// Kind of a pool: `dir`, `logical`, …
///
/// # Errors
/// [`XmlError`].
pub fn parse_pool_kind(text: &str) -> Result<String, XmlError> {
    Ok(Element::parse(text)?.get("type").unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_volumes_with_and_without_an_image_under_them() {
        let plain = VolumeSpec { name: "a.iso", capacity: 2048, format: "raw", backing: None, mode: "0600" };
        insta::assert_snapshot!("plain_volume", volume_xml(&plain));
        let root = VolumeSpec {
            name: "r.qcow2",
            capacity: 1 << 30,
            format: "qcow2",
            backing: Some(("/pool/base & co", "raw")),
            mode: "0600",
        };
        insta::assert_snapshot!("backed_volume", volume_xml(&root));
    }

    #[test]
    fn reads_what_libvirt_answers() {
        let text = "<volume type='file'><name>r</name><key>/p/r</key><capacity unit='bytes'>1073741824</capacity>\
            <target><path>/p/r</path><format type='qcow2'/></target><backingStore><path>/p/b</path></backingStore></volume>";
        let facts = parse_volume(text).expect("well-formed");
        assert_eq!(facts.capacity, 1 << 30);
        assert_eq!(
            (facts.format.as_str(), facts.path.as_str(), facts.backing.as_deref()),
            ("qcow2", "/p/r", Some("/p/b"))
        );
        assert_eq!(parse_pool_kind("<pool type='dir'/>").expect("well-formed"), "dir");
    }
}
