//! Runs of the real `ansible-playbook` under the real supervisor, with playbooks that stay on this machine.

mod bed;
mod contract;
mod faults;
mod kept;
mod kubeadm;
mod life;
mod odd;
mod resume;
mod told;
mod trees;
mod verbs;

use std::path::PathBuf;
use std::sync::OnceLock;

/// `ansible-playbook` of the virtual environment, made once.
fn ansible_playbook() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let cache = hagane_installers::python::default_cache();
        hagane_installers::python::ensure_ansible(&cache, &mut |step| eprintln!("{step}")).expect("Ansible is there")
    };
    MADE.get_or_init(make).clone()
}
