//! Faults of user-data for which cloud-init does nothing, or not what was meant. Other forms than its own (an archive of
//! MIME parts, compressed data, another system's configuration) are nobody's business here.

use serde_json::Value;

const HEADER: &str = "#cloud-config";
/// Keys that show a text without a header to be a cloud-config all the same.
const KEYS: [&str; 16] = [
    "apt",
    "bootcmd",
    "chpasswd",
    "disk_setup",
    "groups",
    "growpart",
    "hostname",
    "ntp",
    "package_update",
    "packages",
    "power_state",
    "runcmd",
    "ssh_authorized_keys",
    "ssh_keys",
    "users",
    "write_files",
];

/// What is wrong with user-data, in words that go on after its name.
pub(super) fn fault(user_data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(user_data).ok()?;
    if text.starts_with('\u{feff}') {
        return Some("begins with a byte order mark, so that its first line is not known".to_owned());
    }
    let begin = text.trim_start();
    if begin.len() < text.len() && begin.starts_with('#') {
        return Some("begins with an empty line or a blank; its first line must be at the very beginning".to_owned());
    }
    let first = text.lines().next().unwrap_or_default().trim_end();
    if first == HEADER {
        return match yaml(user_data) {
            Ok(Value::Object(_) | Value::Null) => None,
            Ok(_) => Some(format!("is no mapping of YAML below {HEADER}")),
            Err(place) => Some(format!("is no YAML below {HEADER}{place}")),
        };
    }
    let meant = |value: Value| value.as_object().is_some_and(|map| KEYS.iter().any(|key| map.contains_key(*key)));
    (!text.starts_with('#') && yaml(user_data).is_ok_and(meant))
        .then(|| format!("has no first line {HEADER}, without which it is ignored"))
}

/// The text as YAML; else the place where it is none, without a word of it.
pub(super) fn yaml(text: &[u8]) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::from_slice_with_options(text, options).map_err(|error| {
        error
            .location()
            .map_or_else(String::new, |place| format!(" (line {}, column {})", place.line(), place.column()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_cloud_init_takes() {
        let long = format!("#cloud-config\nwrite_files:\n{}", "  - {path: /x, content: 'ä 漢 😀'}\n".repeat(5000));
        let taken: [&[u8]; 14] = [
            b"",
            b"#cloud-config\n",
            b"#cloud-config\nusers: []\n",
            b"#cloud-config\r\nusers: []\r\nruncmd:\r\n  - [ls]\r\n",
            b"#cloud-config \nusers: []\n",
            b"#cloud-config\nusers: []\nusers: [default]\n",
            b"#cloud-config\na: !!binary aGVsbG8=\nb: &x {c: 1}\nd: *x\ne: {<<: *x}\n1: one\nyes: 0644\n",
            b"#cloud-config\nwrite_files:\n- content: |\n    {{ x }}: [\n  path: /x\n",
            b"#!/bin/sh\r\necho x\r\n",
            b"## template: jinja\n#cloud-config\n{% for x in y %}\n",
            b"#include\nhttp://192.0.2.1/x\n",
            b"Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x\n",
            b"\x1f\x8b\x08\x00abc",
            long.as_bytes(),
        ];
        for user_data in taken {
            assert_eq!(fault(user_data), None, "{:?}", String::from_utf8_lossy(&user_data[..user_data.len().min(60)]));
        }
        // Systems that read a configuration of their own from a seed of this form.
        assert_eq!(fault(b"version: v1alpha1\nmachine: {type: worker}\n"), None);
        assert_eq!(fault(b"{\"ignition\": {\"version\": \"3.4.0\"}}"), None);
    }

    #[test]
    fn names_what_cloud_init_would_pass_over() {
        for (user_data, word) in [
            ("\n#cloud-config\nusers: []\n", "empty line"),
            (" #!/bin/sh\n", "blank"),
            ("\u{feff}#cloud-config\nusers: []\n", "byte order mark"),
            ("users: []\n", "no first line #cloud-config"),
            ("runcmd:\n  - [ls]\nhostname: x\n", "no first line #cloud-config"),
            ("#cloud-config\nusers: [\n", "no YAML"),
            ("#cloud-config\nusers:\n\t- x\n", "no YAML"),
            ("#cloud-config\n- users\n", "no mapping"),
        ] {
            let fault = fault(user_data.as_bytes()).expect(user_data);
            assert!(fault.contains(word), "{user_data:?}: {fault}");
        }
    }
}
