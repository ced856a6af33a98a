//! The `NoCloud` files of a machine that brings no seed of its own. Pure: the same input gives the same bytes.
//!
//! Texts stand as JSON strings, which YAML reads as text whatever they look like: a machine called `1234` has a host
//! name, not a number.

use hagane_api::machine::MachineVersions;
use hagane_api::names::dns_label_problem;
use hagane_ports::{CloudInitFiles, SshKeyPair};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Longest part of a machine's name that stays when it is cut to a host name.
const NAME_KEPT: usize = 52;

/// What the files are made from.
pub(super) struct CloudInit<'a> {
    /// Name of the Machine.
    pub(super) name: &'a str,
    /// Uid of the Machine: a machine of the same name made later has another one, and so another instance id.
    pub(super) uid: &'a str,
    /// Public keys that may log in as the image's default user.
    pub(super) authorized_keys: &'a [String],
    /// The machine's own SSH key.
    pub(super) host_key: &'a SshKeyPair,
    /// Versions that user-data templates may read as `ds.meta_data`.
    pub(super) versions: Option<&'a MachineVersions>,
}

impl CloudInit<'_> {
    /// Renders the files. The network-config is the actuator's: it knows the NIC.
    pub(super) fn render(&self) -> CloudInitFiles {
        CloudInitFiles {
            user_data: self.user_data().into_bytes(),
            meta_data: self.meta_data().into_bytes(),
            network_config: None,
        }
    }

    fn user_data(&self) -> String {
        let mut text = format!("#cloud-config\nhostname: {}\n", quoted(&host_name(self.name)));
        if !self.authorized_keys.is_empty() {
            text.push_str("ssh_authorized_keys:\n");
            for key in self.authorized_keys {
                text.push_str(&format!("  - {}\n", quoted(key)));
            }
        }
        text.push_str("ssh_deletekeys: true\nssh_keys:\n");
        text.push_str(&format!("  ed25519_private: {}\n", quoted(&self.host_key.private_openssh)));
        text.push_str(&format!("  ed25519_public: {}\n", quoted(&self.host_key.public_line)));
        text
    }

    fn meta_data(&self) -> String {
        let mut text = format!("instance-id: i-{}\nlocal-hostname: {}\n", self.uid, quoted(&host_name(self.name)));
        let versions = self.versions.map(|versions| [&versions.kubelet, &versions.control_plane]);
        let names = ["kubelet_version", "control_plane_version"];
        for (name, version) in names.into_iter().zip(versions.into_iter().flatten()) {
            if let Some(version) = version {
                text.push_str(&format!("{name}: {}\n", quoted(version)));
            }
        }
        text
    }
}

/// A host name for a machine: its name where that is one, else a readable part of it and a digest, so that two names
/// never end as one.
pub(super) fn host_name(name: &str) -> String {
    if dns_label_problem(name).is_none() {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = name
        .chars()
        .take(NAME_KEPT)
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '-' => letter,
            _ => '-',
        })
        .collect();
    format!("{}-{hex}", kept.trim_matches('-')).trim_start_matches('-').to_owned()
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> SshKeyPair {
        SshKeyPair {
            private_openssh: "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
                .to_owned(),
            public_line: "ssh-ed25519 AAAAC3Nza".to_owned(),
        }
    }

    #[test]
    fn renders_all_that_is_asked_for() {
        let versions = MachineVersions { kubelet: Some("1.15.0".to_owned()), control_plane: None };
        let files = CloudInit {
            name: "kube-worker-1",
            uid: "5f0c8a52-9d7e-4a8e-8b63-111111111111",
            authorized_keys: &["ssh-ed25519 BBBB \"me\" #1".to_owned()],
            host_key: &pair(),
            versions: Some(&versions),
        }
        .render();
        insta::assert_snapshot!(String::from_utf8(files.user_data).expect("text"), @r##"
        #cloud-config
        hostname: "kube-worker-1"
        ssh_authorized_keys:
          - "ssh-ed25519 BBBB \"me\" #1"
        ssh_deletekeys: true
        ssh_keys:
          ed25519_private: "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
          ed25519_public: "ssh-ed25519 AAAAC3Nza"
        "##);
        insta::assert_snapshot!(String::from_utf8(files.meta_data).expect("text"), @r#"
        instance-id: i-5f0c8a52-9d7e-4a8e-8b63-111111111111
        local-hostname: "kube-worker-1"
        kubelet_version: "1.15.0"
        "#);
        assert_eq!(files.network_config, None);
    }

    #[test]
    fn a_number_stays_a_text() {
        let files =
            CloudInit { name: "1234", uid: "u", authorized_keys: &[], host_key: &pair(), versions: None }.render();
        let meta: Value = serde_saphyr::from_slice(&files.meta_data).expect("YAML");
        let user: Value = serde_saphyr::from_slice(&files.user_data).expect("YAML");
        assert_eq!((meta["local-hostname"].as_str(), user["hostname"].as_str()), (Some("1234"), Some("1234")));
        assert_eq!(user["ssh_keys"]["ed25519_private"].as_str(), Some(pair().private_openssh.as_str()));
    }

    #[test]
    fn host_names_are_labels_and_differ() {
        let long = "a".repeat(253);
        let names = ["m1", "a.b", "a-b", &long, &long[..252], "1234"];
        let hosts: std::collections::BTreeSet<_> = names.iter().map(|name| host_name(name)).collect();
        assert_eq!(hosts.len(), names.len());
        for host in &hosts {
            assert_eq!(dns_label_problem(host), None, "{host}");
        }
    }
}
