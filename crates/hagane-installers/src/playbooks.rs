//! The playbooks of the kubeadm installer, embedded: a run gets its own copy, so that a newer binary never changes a
//! run that is under way.

/// The tree: path below the playbook directory, and text.
const KUBEADM: [(&str, &str); 0] = [];

/// The playbook tree of the kubeadm installer.
#[must_use]
pub fn kubeadm() -> &'static [(&'static str, &'static str)] {
    &KUBEADM
}
