//! The playbooks of the kubeadm installer, embedded: a run gets its own copy, so that a newer binary never changes a
//! run that is under way.

macro_rules! tree {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../playbooks/kubeadm/", $path)))),+]
    };
}

/// The tree: path below the playbook directory, and text.
const KUBEADM: &[(&str, &str)] = tree![
    "reconfigure.yml",
    "recover.yml",
    "remove.yml",
    "renew.yml",
    "reset.yml",
    "site.yml",
    "upgrade.yml",
    "group_vars/all.yml",
    "library/hagane_files.py",
    "library/hagane_packet_filter.py",
    "tasks/attempt.yml",
    "tasks/checks.yml",
    "tasks/drain.yml",
    "tasks/etcd_anew.yml",
    "tasks/etcd_remove.yml",
    "tasks/finish.yml",
    "tasks/host.yml",
    "tasks/init.yml",
    "tasks/join.yml",
    "tasks/kubeconfig.yml",
    "tasks/look.yml",
    "tasks/network.yml",
    "tasks/payload.yml",
    "tasks/preflight.yml",
    "tasks/put_back.yml",
    "tasks/reset_host.yml",
    "tasks/restart_control_plane.yml",
    "tasks/standing.yml",
    "tasks/upgrade_node.yml",
    "tasks/vip.yml",
    "tasks/wanted.yml",
    "templates/cni.conflist.j2",
    "templates/container-view.service.j2",
    "templates/containerd.toml.j2",
    "templates/hagane-vip.service.j2",
    "templates/hosts.toml.j2",
    "templates/kubeadm.yaml.j2",
    "templates/kubelet-sysctl.conf.j2",
    "templates/kubelet.service.j2",
    "templates/pod-network.nft.j2",
    "templates/pod-network.service.j2",
    "templates/resolv.conf.j2",
];

/// What other playbooks of ours have too.
const SHARED: [(&str, &str); 1] =
    [("library/hagane_reach.py", include_str!("../playbooks/kubespray/library/hagane_reach.py"))];

/// The playbook tree of the kubeadm installer.
pub fn kubeadm() -> impl Iterator<Item = (&'static str, &'static str)> {
    KUBEADM.iter().chain(&SHARED).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn files_below(directory: &Path) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() { found.extend(files_below(&path)) } else { found.extend([path]) }
        }
        found
    }

    #[test]
    fn every_file_of_the_tree_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks/kubeadm");
        let embedded: BTreeSet<PathBuf> = KUBEADM.iter().map(|(path, _)| root.join(path)).collect();
        assert_eq!(files_below(&root), embedded);
    }

    #[test]
    fn only_modules_of_ansible_core_are_used() {
        for (path, text) in kubeadm().filter(|(path, _)| path.ends_with(".yml") && !path.starts_with("group_vars/")) {
            let modules = text.lines().map(str::trim).filter(|line| line.ends_with(':') && line.contains('.'));
            let modules = modules.filter(|line| !line.contains(' '));
            for module in modules {
                assert!(module.starts_with("ansible.builtin."), "{path}: {module}");
            }
            assert!(!text.contains("ansible.builtin.shell"), "{path} uses a shell");
        }
    }
}
