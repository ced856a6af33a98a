//! Whether a host meets a need, and what it lacks: one function decides and gives the reasons.

use std::fmt;
use std::ops::ControlFlow;

use hagane_api::mac::MacAddress;
use hagane_api::quantity::{ByteSize, MemoryMib, MilliCpus};

use super::demand::Needs;
use super::facts::HostFacts;

/// One thing a host lacks for a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack<'a> {
    /// Too few CPUs, or an unknown number.
    Cpu {
        /// What it has.
        has: Option<MilliCpus>,
        /// What is needed.
        needs: MilliCpus,
    },
    /// Too little memory, or an unknown amount.
    Memory {
        /// What it has.
        has: Option<MemoryMib>,
        /// What is needed.
        needs: ByteSize,
    },
    /// No disk large enough, or unknown disks.
    Disk {
        /// Size of its largest disk.
        has: Option<ByteSize>,
        /// What is needed.
        needs: ByteSize,
    },
    /// Too few NICs, or unknown ones.
    Nics {
        /// How many it has.
        has: Option<usize>,
        /// What is needed.
        needs: u32,
    },
    /// A feature that is absent or unknown.
    Feature {
        /// `sriov`, `qat` or `gpu`.
        name: &'static str,
        /// Whether it is known to be absent.
        known: bool,
    },
    /// Another or unknown architecture.
    Architecture {
        /// What it has.
        has: Option<&'a str>,
        /// What is needed.
        needs: &'a str,
    },
    /// A label with another value, or none.
    Label {
        /// Key.
        key: &'a str,
        /// Value it has.
        has: Option<&'a str>,
        /// Value needed.
        needs: &'a str,
    },
    /// Another or unknown failure domain.
    FailureDomain {
        /// What it has.
        has: Option<&'a str>,
        /// What is needed.
        needs: &'a str,
    },
    /// No NIC with the address.
    Mac(MacAddress),
    /// Another host is named.
    Name(&'a str),
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { has: Some(has), needs } => {
                write!(formatter, "{has} CPUs, {} short of {needs}", MilliCpus(needs.0.saturating_sub(has.0)))
            }
            Self::Cpu { has: None, needs } => write!(formatter, "number of CPUs is unknown, {needs} needed"),
            Self::Memory { has: Some(has), needs } => {
                let short = ByteSize(needs.0.saturating_sub(has.bytes().0));
                write!(formatter, "{} of memory, {short} short of {needs}", has.bytes())
            }
            Self::Memory { has: None, needs } => write!(formatter, "amount of memory is unknown, {needs} needed"),
            Self::Disk { has: Some(has), needs } => {
                write!(formatter, "{has} of disk, {} short of {needs}", ByteSize(needs.0.saturating_sub(has.0)))
            }
            Self::Disk { has: None, needs } => write!(formatter, "size of the disks is unknown, {needs} needed"),
            Self::Nics { has: Some(has), needs } => write!(formatter, "{has} NICs of {needs} needed"),
            Self::Nics { has: None, needs } => write!(formatter, "NICs are unknown, {needs} needed"),
            Self::Feature { name, known: true } => write!(formatter, "no {name}"),
            Self::Feature { name, known: false } => write!(formatter, "{name} is unknown"),
            Self::Architecture { has, needs } => named(formatter, "architecture", *has, needs),
            Self::Label { key, has, needs } => match has {
                Some(has) => write!(formatter, "label {key} is {has:?}, not {needs:?}"),
                None => write!(formatter, "label {key} is not set, {needs:?} needed"),
            },
            Self::FailureDomain { has, needs } => named(formatter, "failure domain", *has, needs),
            Self::Mac(mac) => write!(formatter, "no NIC has the MAC address {mac}"),
            Self::Name(name) => write!(formatter, "only host {name:?} is asked for"),
        }
    }
}

fn named(formatter: &mut fmt::Formatter<'_>, what: &str, has: Option<&str>, needs: &str) -> fmt::Result {
    match has {
        Some(has) => write!(formatter, "{what} is {has:?}, not {needs:?}"),
        None => write!(formatter, "{what} is unknown, {needs:?} needed"),
    }
}

/// Hands every lack to `report`, until it breaks.
pub(super) fn examine<'a, B>(
    host: &'a HostFacts,
    needs: &'a Needs,
    mut report: impl FnMut(Lack<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if let Some(name) = needs.host_name.as_deref().filter(|name| *name != host.name) {
        report(Lack::Name(name))?;
    }
    if let Some(mac) = needs.mac.filter(|mac| !host.has_mac(*mac)) {
        report(Lack::Mac(mac))?;
    }
    if needs.memory.0 > 0 && host.memory.is_none_or(|has| has.bytes() < needs.memory) {
        report(Lack::Memory { has: host.memory, needs: needs.memory })?;
    }
    if needs.cpu.0 > 0 && host.cpus.is_none_or(|has| has < needs.cpu) {
        report(Lack::Cpu { has: host.cpus, needs: needs.cpu })?;
    }
    if needs.disk.0 > 0 && host.disk.is_none_or(|has| has < needs.disk) {
        report(Lack::Disk { has: host.disk, needs: needs.disk })?;
    }
    let nics = host.nics.as_ref().map(Vec::len);
    if needs.nic_count > 0 && nics.is_none_or(|has| has < needs.nic_count as usize) {
        report(Lack::Nics { has: nics, needs: needs.nic_count })?;
    }
    let features = [("sriov", needs.sriov, host.sriov), ("qat", needs.qat, host.qat), ("gpu", needs.gpu, host.gpu)];
    for (name, needed, has) in features {
        if needed && has != Some(true) {
            report(Lack::Feature { name, known: has.is_some() })?;
        }
    }
    if let Some(needs) = needs.architecture.as_deref().filter(|needs| host.architecture.as_deref() != Some(needs)) {
        report(Lack::Architecture { has: host.architecture.as_deref(), needs })?;
    }
    for (key, needs) in &needs.labels {
        let has = host.labels.get(key).map(String::as_str);
        if has != Some(needs) {
            report(Lack::Label { key, has, needs })?;
        }
    }
    if let Some(needs) = needs.failure_domain.as_deref().filter(|needs| host.failure_domain.as_deref() != Some(needs)) {
        report(Lack::FailureDomain { has: host.failure_domain.as_deref(), needs })?;
    }
    ControlFlow::Continue(())
}

/// Whether the host lacks nothing.
pub(super) fn fits(host: &HostFacts, needs: &Needs) -> bool {
    examine(host, needs, |_| ControlFlow::Break(())).is_continue()
}

/// Everything the host lacks.
pub(super) fn lacks<'a>(host: &'a HostFacts, needs: &'a Needs) -> Vec<Lack<'a>> {
    let mut lacks = Vec::new();
    let _ = examine(host, needs, |lack| {
        lacks.push(lack);
        ControlFlow::<()>::Continue(())
    });
    lacks
}
