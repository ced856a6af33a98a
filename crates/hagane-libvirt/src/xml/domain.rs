//! The domain document: written from [`DomainSpec`], read back into [`DomainFacts`].

use hagane_api::quantity::MemoryMib;
use uuid::Uuid;

use super::host::HostProfile;
use super::{Element, XmlError};

/// Namespace of our metadata element. It is the proof that a domain is ours.
pub const METADATA_NAMESPACE: &str = "https://hagane.dev/libvirt/1";

/// Whose domain it is and where its side resources are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `metadata.uid` of the Machine.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pool that holds the volumes.
    pub pool: String,
    /// Network that may hold a reservation.
    pub network: String,
}

/// Everything the document depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpec {
    /// Whose it is.
    pub owner: Owner,
    /// Name of the domain.
    pub name: String,
    /// UUID of the domain.
    pub uuid: Uuid,
    /// What the host can do.
    pub host: HostProfile,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory.
    pub memory: MemoryMib,
    /// MAC address of the NIC.
    pub mac: String,
    /// Path of the root disk (qcow2).
    pub root_path: String,
    /// Path of the seed (raw).
    pub seed_path: String,
    /// File on the hypervisor that records the serial console.
    pub console_log: Option<String>,
}

/// What we read of a domain's document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainFacts {
    /// Whose it is; `None` where it is not ours.
    pub owner: Option<Owner>,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory.
    pub memory: MemoryMib,
    /// MAC address of the first NIC.
    pub mac: Option<String>,
}

/// Writes the document.
#[must_use]
pub fn domain_xml(spec: &DomainSpec) -> String {
    let memory = || spec.memory.0;
    let domain = Element::new("domain")
        .attribute("type", &spec.host.kind)
        .child(Element::with_text("name", &spec.name))
        .child(Element::with_text("uuid", spec.uuid))
        .child(Element::with_text("title", format!("{}/{}", spec.owner.namespace, spec.owner.name)))
        .child(Element::new("metadata").child(owner_element(&spec.owner)))
        .child(Element::with_text("memory", memory()).attribute("unit", "MiB"))
        .child(Element::with_text("currentMemory", memory()).attribute("unit", "MiB"))
        .child(Element::with_text("vcpu", spec.vcpus).attribute("placement", "static"))
        .child(os(&spec.host))
        .children(features(&spec.host))
        .children(spec.host.cpu_mode.as_ref().map(|mode| Element::new("cpu").attribute("mode", mode)))
        .child(Element::new("clock").attribute("offset", "utc"))
        .child(Element::with_text("on_poweroff", "destroy"))
        .child(Element::with_text("on_reboot", "restart"))
        .child(Element::with_text("on_crash", "destroy"))
        .child(devices(spec));
    domain.to_text()
}

fn owner_element(owner: &Owner) -> Element {
    Element::new("hagane:machine")
        .attribute("xmlns:hagane", METADATA_NAMESPACE)
        .attribute("uid", &owner.uid)
        .attribute("namespace", &owner.namespace)
        .attribute("name", &owner.name)
        .attribute("pool", &owner.pool)
        .attribute("network", &owner.network)
}

fn os(host: &HostProfile) -> Element {
    let mut kind = Element::with_text("type", "hvm").attribute("arch", &host.arch);
    if let Some(machine) = &host.machine {
        kind = kind.attribute("machine", machine);
    }
    let os = Element::new("os").child(kind).child(Element::new("boot").attribute("dev", "hd"));
    // 64-bit ARM guests have no BIOS to fall back on.
    if host.arch == "aarch64" { os.attribute("firmware", "efi") } else { os }
}

fn features(host: &HostProfile) -> Option<Element> {
    let is_pc = matches!(host.arch.as_str(), "x86_64" | "i686");
    is_pc.then(|| Element::new("features").child(Element::new("acpi")).child(Element::new("apic")))
}

fn devices(spec: &DomainSpec) -> Element {
    let console = Element::new("console")
        .attribute("type", "pty")
        .child(Element::new("target").attribute("type", "serial").attribute("port", 0));
    let interface = Element::new("interface")
        .attribute("type", "network")
        .child(Element::new("mac").attribute("address", &spec.mac))
        .child(Element::new("source").attribute("network", &spec.owner.network))
        .child(Element::new("model").attribute("type", "virtio"));
    let rng = Element::new("rng")
        .attribute("model", "virtio")
        .child(Element::with_text("backend", "/dev/urandom").attribute("model", "random"));
    Element::new("devices")
        .children(spec.host.emulator.as_ref().map(|path| Element::with_text("emulator", path)))
        .child(disk("vda", "qcow2", &spec.root_path))
        // A virtio disk, not a CD-ROM: cloud kernels come without drivers for SATA and IDE, and a seed that the guest
        // cannot see is a machine that looks healthy and was never configured.
        .child(disk("vdb", "raw", &spec.seed_path).child(Element::new("readonly")))
        .child(interface)
        .child(serial(spec.console_log.as_deref()))
        .child(console)
        .child(rng)
        .child(Element::new("memballoon").attribute("model", "virtio"))
}

fn disk(target: &str, format: &str, path: &str) -> Element {
    Element::new("disk")
        .attribute("type", "file")
        .attribute("device", "disk")
        .child(Element::new("driver").attribute("name", "qemu").attribute("type", format))
        .child(Element::new("source").attribute("file", path))
        .child(Element::new("target").attribute("dev", target).attribute("bus", "virtio"))
}

fn serial(log: Option<&str>) -> Element {
    Element::new("serial")
        .attribute("type", "pty")
        .children(log.map(|path| Element::new("log").attribute("file", path).attribute("append", "on")))
        .child(Element::new("target").attribute("port", 0))
}

/// Reads a domain's document.
///
/// # Errors
/// [`XmlError`].
pub fn parse_domain(text: &str) -> Result<DomainFacts, XmlError> {
    let root = Element::parse(text)?;
    let owner = root.first("metadata").and_then(|metadata| metadata.children.iter().find_map(parse_owner));
    let interface = root.first("devices").and_then(|devices| devices.first("interface"));
    Ok(DomainFacts {
        owner,
        vcpus: root.text_at(&["vcpu"]).and_then(|text| text.parse().ok()).unwrap_or(0),
        memory: root.first("memory").map_or(MemoryMib(0), parse_memory),
        mac: interface.and_then(|interface| interface.first("mac")?.get("address")).map(str::to_ascii_lowercase),
    })
}

/// Our own element, whatever prefix it came back with.
fn parse_owner(element: &Element) -> Option<Owner> {
    let (declaration, name) = match element.name.split_once(':') {
        Some((prefix, name)) => (format!("xmlns:{prefix}"), name),
        None => ("xmlns".to_owned(), element.name.as_str()),
    };
    if name != "machine" || element.get(&declaration) != Some(METADATA_NAMESPACE) {
        return None;
    }
    let value = |name: &str| element.get(name).unwrap_or_default().to_owned();
    let owner = Owner {
        uid: value("uid"),
        namespace: value("namespace"),
        name: value("name"),
        pool: value("pool"),
        network: value("network"),
    };
    (!owner.uid.is_empty()).then_some(owner)
}

/// libvirt answers in KiB; other units only come from documents written by people.
fn parse_memory(element: &Element) -> MemoryMib {
    let amount: u64 = element.text.parse().unwrap_or(0);
    MemoryMib(match element.get("unit").unwrap_or("KiB") {
        "b" | "bytes" => amount >> 20,
        "MiB" | "M" => amount,
        "GiB" | "G" => amount.saturating_mul(1 << 10),
        "TiB" | "T" => amount.saturating_mul(1 << 20),
        _ => amount >> 10,
    })
}

#[cfg(test)]
mod tests;
