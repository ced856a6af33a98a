//! What an operator can set about the driver.

/// Which sort of virtualization domains use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// KVM where libvirt offers it, else emulation.
    #[default]
    Auto,
    /// KVM only.
    Kvm,
    /// Emulation only, also where KVM is offered (it may be there and not work, as in some nested setups).
    Emulation,
}

/// Settings of [`crate::LibvirtActuator`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibvirtOptions {
    /// Sort of virtualization.
    pub acceleration: Acceleration,
    /// Directory on the hypervisor for logs of serial consoles, one file a domain, written by libvirt and kept after
    /// the domain is gone. `None` keeps no logs.
    pub console_log_dir: Option<String>,
    /// Names this program among several that share a storage pool, so that it can clear away its own uploads that a
    /// crash cut off. It must be the same after a restart.
    pub holder: String,
}

impl Default for LibvirtOptions {
    fn default() -> Self {
        Self { acceleration: Acceleration::default(), console_log_dir: None, holder: "hagane".to_owned() }
    }
}
