//! The files of a service: the systemd unit, the user that runs Ansible, the configuration to begin with.

use std::path::{Path, PathBuf};

use crate::args::ServiceMode;

/// Login name of the unprivileged user that runs ansible-playbook.
pub(super) const USER: &str = "hagane-run";
/// What its entry in passwd says: how an uninstallation knows it.
pub(super) const USER_COMMENT: &str = "Runs Ansible for Hagane";
/// First line of the files that an uninstallation may remove.
pub(super) const MARK: &str = "# Written by `hagane service install`; `hagane service uninstall` removes it.";

/// Where a service's files are, below a root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    pub(super) unit: PathBuf,
    pub(super) sysusers: PathBuf,
    pub(super) config: PathBuf,
    pub(super) data: PathBuf,
    pub(super) cache: PathBuf,
}

impl Paths {
    /// The places of all files below `root`.
    pub(super) fn below(root: &Path) -> Self {
        Self {
            unit: root.join("etc/systemd/system/hagane.service"),
            sysusers: root.join("etc/sysusers.d/hagane.conf"),
            config: root.join("etc/hagane/hagane.yaml"),
            data: root.join("var/lib/hagane"),
            cache: root.join("var/cache/hagane"),
        }
    }
}

/// The unit. Installer runs are started in scopes of their own, so that they outlive it; they inherit its sandbox, so it
/// leaves to them what Ansible and ssh need: a writable data directory, name resolution, any address. `RestrictSUIDSGID` is left
/// out: it takes openat2 away, by which files of less trusted users are opened.
pub(super) fn unit(program: &Path, mode: ServiceMode) -> String {
    let (program, command) = (program.display(), mode.command());
    // A real API's kubeconfig may lie in a home directory; the embedded API needs nothing from there.
    let home = match mode {
        ServiceMode::Up => "yes",
        ServiceMode::Controllers => "read-only",
    };
    format!(
        r"{MARK}
[Unit]
Description=Hagane: Kubernetes clusters from bare metal and hypervisors ({command})
Documentation=man:systemd.service(5)
Wants=network-online.target
After=network-online.target libvirtd.socket

[Service]
Type=notify
ExecStart={program} {command} --config /etc/hagane/hagane.yaml
Restart=on-failure
RestartSec=5
TimeoutStartSec=120
TimeoutStopSec=45
KillMode=mixed
LimitNOFILE=65536
Environment=HAGANE_CACHE=/var/cache/hagane
StateDirectory=hagane
StateDirectoryMode=0711
CacheDirectory=hagane
CacheDirectoryMode=0755
ConfigurationDirectory=hagane
UMask=0022

# What it never needs. Root stays root: runs are handed to the user {USER}, and libvirt's socket is root's.
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_NET_BIND_SERVICE CAP_SETGID CAP_SETUID
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    )
}

/// The user that runs ansible-playbook: no password, no shell, nothing of its own but its run directories.
pub(super) fn sysusers() -> String {
    format!("{MARK}\nu {USER} - \"{USER_COMMENT}\" /nonexistent /usr/sbin/nologin\n")
}

/// A configuration to begin with. An operator's own is never replaced.
pub(super) fn config(mode: ServiceMode) -> String {
    let own = match mode {
        ServiceMode::Up => "# listen: 127.0.0.1:6440\n# tls-name: [hagane.example.org]\n",
        ServiceMode::Controllers => "kubeconfig: /etc/hagane/kubeconfig\n",
    };
    format!(
        "# Flags of `hagane {}` by name, without the dashes; `hagane {0} --help` explains each.
data-dir: /var/lib/hagane
run-as: {USER}
{own}# The Ansible that `HAGANE_CACHE=/var/cache/hagane hagane payload ansible` makes and prints:
# ansible-playbook: /var/cache/hagane/ansible-VERSION/bin/ansible-playbook
# payload-dir: /var/cache/hagane/payload
# kubespray-dir: /opt/kubespray
# libvirt-uri: qemu:///system
# log-format: json
",
        mode.command()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_the_program_with_the_configuration() {
        let text = unit(Path::new("/usr/local/bin/hagane"), ServiceMode::Controllers);
        assert!(text.contains("\nExecStart=/usr/local/bin/hagane controllers --config /etc/hagane/hagane.yaml\n"));
        assert!(text.contains("\nProtectHome=read-only\n"), "{text}");
    }

    #[test]
    fn the_configuration_to_begin_with_is_yaml_of_flag_names() {
        for mode in [ServiceMode::Up, ServiceMode::Controllers] {
            let parsed: serde_json::Value = serde_saphyr::from_str(&config(mode)).expect("YAML");
            assert_eq!((&parsed["data-dir"], &parsed["run-as"]), (&"/var/lib/hagane".into(), &USER.into()));
        }
    }
}
