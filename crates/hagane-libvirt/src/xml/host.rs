//! What the hypervisor can do, as far as a domain's definition depends on it.

use super::{Element, XmlError};

/// Sort of domains this host runs and what they are built on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProfile {
    /// `type` of the domain: `kvm`, `qemu` or `test`.
    pub kind: String,
    /// Architecture in libvirt's spelling, `x86_64`.
    pub arch: String,
    /// Machine type, where the driver has such.
    pub machine: Option<String>,
    /// Path of the emulator, where the driver has one.
    pub emulator: Option<String>,
    /// CPU mode to ask for; `None` leaves it to the hypervisor.
    pub cpu_mode: Option<String>,
    /// Most vCPUs a domain may have, where known.
    pub vcpus_max: Option<u32>,
}

/// Reads a `domainCapabilities` document.
///
/// # Errors
/// [`XmlError`].
pub fn parse_domain_capabilities(text: &str) -> Result<HostProfile, XmlError> {
    let root = Element::parse(text)?;
    let text_of = |name: &str| root.text_at(&[name]).filter(|text| !text.is_empty()).map(str::to_owned);
    let kind = text_of("domain").unwrap_or_else(|| "qemu".to_owned());
    // With hardware help the guest gets the host's CPU; emulated, everything the emulator has.
    let wanted = if kind == "kvm" { "host-passthrough" } else { "maximum" };
    let supported = root.first("cpu").is_some_and(|cpu| {
        cpu.all("mode").any(|mode| mode.get("name") == Some(wanted) && mode.get("supported") == Some("yes"))
    });
    Ok(HostProfile {
        arch: text_of("arch").unwrap_or_else(|| "x86_64".to_owned()),
        machine: text_of("machine"),
        emulator: text_of("path"),
        cpu_mode: supported.then(|| wanted.to_owned()),
        vcpus_max: root.first("vcpu").and_then(|vcpu| vcpu.get("max")).and_then(|max| max.parse().ok()),
        kind,
    })
}

/// Reads the `capabilities` document of a driver that has no domain capabilities (the in-memory one).
///
/// # Errors
/// [`XmlError`].
pub fn parse_capabilities(text: &str) -> Result<HostProfile, XmlError> {
    let root = Element::parse(text)?;
    let guest_arch = root.path(&["guest", "arch"]);
    let kind = guest_arch.and_then(|arch| arch.first("domain")).and_then(|domain| domain.get("type"));
    Ok(HostProfile {
        kind: kind.unwrap_or("test").to_owned(),
        arch: guest_arch.and_then(|arch| arch.get("name")).unwrap_or("x86_64").to_owned(),
        machine: None,
        emulator: None,
        cpu_mode: None,
        vcpus_max: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KVM: &str = "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>kvm</domain>\
        <machine>pc-q35-7.2</machine><arch>x86_64</arch><vcpu max='288'/><cpu>\
        <mode name='host-passthrough' supported='yes'/><mode name='maximum' supported='yes'/></cpu></domainCapabilities>";

    #[test]
    fn takes_the_host_cpu_with_kvm_and_the_largest_without() {
        let kvm = parse_domain_capabilities(KVM).expect("well-formed");
        assert_eq!((kvm.kind.as_str(), kvm.cpu_mode.as_deref()), ("kvm", Some("host-passthrough")));
        assert_eq!(kvm.vcpus_max, Some(288));
        let tcg = parse_domain_capabilities(&KVM.replace("<domain>kvm", "<domain>qemu")).expect("well-formed");
        assert_eq!(tcg.cpu_mode.as_deref(), Some("maximum"));
        let old =
            KVM.replace("<domain>kvm", "<domain>qemu").replace("'maximum' supported='yes'", "'x' supported='yes'");
        assert_eq!(parse_domain_capabilities(&old).expect("well-formed").cpu_mode, None);
    }

    #[test]
    fn reads_plain_capabilities() {
        let text = "<capabilities><guest><os_type>hvm</os_type><arch name='i686'><domain type='test'/></arch></guest></capabilities>";
        let profile = parse_capabilities(text).expect("well-formed");
        assert_eq!((profile.kind.as_str(), profile.arch.as_str(), profile.machine), ("test", "i686", None));
    }
}
