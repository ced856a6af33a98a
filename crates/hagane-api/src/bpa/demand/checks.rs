//! Checks of what is asked for; every message names the field, the value and what is allowed.

use std::collections::BTreeMap;

use super::super::provisioning::ProvisioningSpec;
use super::{ARCHITECTURES, HostNeeds, NICS_MAX, NODES_MAX, NodeDemand, architecture};
use crate::field::FieldError;
use crate::mac::MacAddress;
use crate::names::{
    LABEL_LENGTH_MAX, dns_label_problem, dns_subdomain_problem, label_value_problem, qualified_name_problem,
};

/// Most masters of a cluster: etcd gets slower with every member, and placing many masters of different sizes takes long.
const MASTERS_MAX: i64 = 9;
/// Node names that Ansible gives a meaning of its own: as groups, or as the machine it runs on.
const RESERVED_NODES: [&str; 4] = ["all", "ungrouped", "localhost", "etcd"];

/// Checks the nodes that a spec asks for.
pub(in super::super) fn check(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    for (name, sized) in [("master", &spec.master), ("worker", &spec.worker)] {
        if let Some(sized) = sized {
            check_needs(errors, &format!("spec.{name}"), &sized.needs);
        }
    }
    check_sized(errors, spec);
    check_masters(errors, spec);
    check_named(errors, spec);
}

fn check_needs(errors: &mut Vec<FieldError>, path: &str, needs: &HostNeeds) {
    if let Some((cpu, Err(problem))) = needs.cpu.as_ref().map(|cpu| (cpu, cpu.cpus())) {
        errors.push(FieldError::invalid(format!("{path}.cpu"), cpu, problem.to_string()));
    }
    for (name, amount) in [("memory", &needs.memory), ("disk", &needs.disk)] {
        if let Some((amount, Err(problem))) = amount.as_ref().map(|amount| (amount, amount.bytes())) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), amount, problem.to_string()));
        }
    }
    if let Some(nics) = needs.nics.filter(|nics| !(0..=NICS_MAX).contains(nics)) {
        errors.push(FieldError::invalid(format!("{path}.nics"), nics, format!("must be from 0 to {NICS_MAX}")));
    }
    if let Some(arch) = needs.arch.as_ref().filter(|arch| architecture(arch).is_none()) {
        let names = ARCHITECTURES.map(|(spelling, _)| spelling).join(", ");
        errors.push(FieldError::invalid(format!("{path}.arch"), arch, format!("must be one of {names}")));
    }
    for (key, value) in &needs.labels {
        if let Some(problem) = qualified_name_problem(key) {
            errors.push(FieldError::invalid(format!("{path}.labels"), key, format!("is no label: {problem}")));
        }
        if let Some(problem) = label_value_problem(value) {
            errors.push(FieldError::invalid(format!("{path}.labels[{key}]"), value, problem));
        }
    }
    if let Some(domain) = &needs.failure_domain {
        let problem = if domain.is_empty() { Some(EMPTY.to_owned()) } else { label_value_problem(domain) };
        errors.extend(problem.map(|problem| FieldError::invalid(format!("{path}.failureDomain"), domain, problem)));
    }
    if let Some((name, problem)) = needs.host_name.as_ref().and_then(|name| Some((name, dns_subdomain_problem(name)?)))
    {
        let detail = format!("is no name of a BareMetalHost: {problem}");
        errors.push(FieldError::invalid(format!("{path}.hostName"), name, detail));
    }
}

const EMPTY: &str = "must not be empty: leave it out to ask nothing";
const ONE_HOST: &str = "is one host, and more than one node is asked for";

fn check_sized(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    if let Some(count) = spec.master.as_ref().and_then(|master| master.replicas)
        && ![1, 3, 5].contains(&count)
    {
        errors.push(FieldError::invalid("spec.master.replicas", count, "must be 1, 3 or 5 (etcd needs an odd number)"));
    }
    if let Some(count) = spec.worker.as_ref().and_then(|worker| worker.replicas) {
        errors.push(FieldError::invalid("spec.worker.replicas", count, "is not a field of workers: use spec.replicas"));
    }
    if let Some(count) = spec.replicas {
        if !(0..=NODES_MAX).contains(&count) {
            errors.push(FieldError::invalid("spec.replicas", count, format!("must be from 0 to {NODES_MAX}")));
        } else if spec.worker.is_none() && count > 0 {
            let detail = "counts workers by size: spec.worker is needed with it";
            errors.push(FieldError::invalid("spec.replicas", count, detail));
        }
    }
    let masters = spec.master.as_ref().and_then(|master| master.replicas);
    for (path, sized, count) in [("spec.master", &spec.master, masters), ("spec.worker", &spec.worker, spec.replicas)] {
        let host = sized.as_ref().and_then(|sized| sized.needs.host_name.as_ref());
        if let (Some(host), Some(2..)) = (host, count) {
            errors.push(FieldError::invalid(format!("{path}.hostName"), host, ONE_HOST));
        }
    }
}

/// How many nodes a list asks for.
fn count(list: Option<&Vec<BTreeMap<String, NodeDemand>>>) -> i64 {
    // An entry without a name, or with several, is told at its own field; it counts as one.
    let one = |item: &BTreeMap<String, NodeDemand>| match item.values().next() {
        Some(demand) if item.len() == 1 => demand.count(),
        _ => 1,
    };
    list.into_iter().flatten().map(one).fold(0, i64::saturating_add)
}

/// Each master is an etcd member, and two members are worse than one.
fn check_masters(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    let named = count(spec.masters.as_ref());
    let sized = spec.master.as_ref().map_or(0, |master| master.replicas.unwrap_or(1).max(0));
    let masters = named.saturating_add(sized);
    if masters > MASTERS_MAX {
        let detail =
            format!("must be at most {MASTERS_MAX} masters together with spec.master (each is an etcd member)");
        errors.push(FieldError::invalid("spec.masters", masters, detail));
    } else if masters == 0 {
        errors.push(FieldError::required("spec.masters", "at least one master is needed: spec.master or spec.masters"));
    } else if named > 0 && masters % 2 == 0 {
        // An even `spec.master.replicas` alone is told at its own field.
        let detail = "must be an odd number of masters together with spec.master (each is an etcd member)";
        errors.push(FieldError::invalid("spec.masters", masters, detail));
    }
}

/// The nodes by name. The same name and host in both lists is one node in both roles.
fn check_named(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    let mut seen = Seen::default();
    for (list, sized) in [("master", &spec.master), ("worker", &spec.worker)] {
        let host = sized.as_ref().and_then(|sized| sized.needs.host_name.as_deref());
        if let Some(host) = host {
            seen.host_once(errors, "", host, &format!("spec.{list}"));
        }
    }
    for (list, entries) in [("masters", &spec.masters), ("workers", &spec.workers)] {
        if count(entries.as_ref()) > NODES_MAX {
            let detail = format!("must be at most {NODES_MAX} nodes");
            errors.push(FieldError::invalid(format!("spec.{list}"), count(entries.as_ref()), detail));
            continue;
        }
        for (index, item) in entries.iter().flatten().enumerate() {
            let path = format!("spec.{list}[{index}]");
            match item.iter().next() {
                Some((name, demand)) if item.len() == 1 => {
                    check_entry(errors, &mut seen, &Entry { list, path, name, demand });
                }
                _ => {
                    let names: Vec<_> = item.keys().collect();
                    errors.push(FieldError::invalid(path, names, "must hold exactly one node name"));
                }
            }
        }
    }
}

/// One entry of `spec.masters` or `spec.workers`.
struct Entry<'a> {
    list: &'static str,
    path: String,
    name: &'a str,
    demand: &'a NodeDemand,
}

impl Entry<'_> {
    fn field(&self) -> String {
        format!("{}.{}", self.path, self.name)
    }
}

fn check_entry<'a>(errors: &mut Vec<FieldError>, seen: &mut Seen<'a>, entry: &Entry<'a>) {
    let (path, name, demand, field) = (&entry.path, entry.name, entry.demand, entry.field());
    if RESERVED_NODES.contains(&name) {
        let detail = format!("is no node name: none of {RESERVED_NODES:?}, which mean something to Ansible");
        errors.push(FieldError::invalid(path, name, detail));
    }
    if let Some(problem) = dns_label_problem(name) {
        errors.push(FieldError::invalid(path, name, format!("is no node name: {problem}")));
    }
    check_needs(errors, &field, &demand.needs);
    let mac = check_mac(errors, &field, demand.mac_address.as_deref());
    if let Some(count) = demand.replicas {
        if !(0..=NODES_MAX).contains(&count) {
            let detail = format!("must be from 0 to {NODES_MAX}");
            errors.push(FieldError::invalid(format!("{field}.replicas"), count, detail));
            return;
        }
        let longest = format!("{name}-{count}");
        if longest.len() > LABEL_LENGTH_MAX && name.len() <= LABEL_LENGTH_MAX {
            let detail = format!("is too long: it makes the node name {longest:?}");
            errors.push(FieldError::invalid(path, name, detail));
        }
        if let (Some(mac), 2..) = (mac, count) {
            errors.push(FieldError::invalid(format!("{field}.mac-address"), mac, ONE_HOST));
        }
        if let (Some(host), 2..) = (&demand.needs.host_name, count) {
            errors.push(FieldError::invalid(format!("{field}.hostName"), host, ONE_HOST));
        }
    }
    seen.name_once(errors, entry, mac);
    if let Some(mac) = mac {
        seen.mac_once(errors, name, mac, &field);
    }
    if let Some(host) = demand.needs.host_name.as_deref() {
        seen.host_once(errors, name, host, &field);
    }
}

fn check_mac(errors: &mut Vec<FieldError>, field: &str, text: Option<&str>) -> Option<MacAddress> {
    let text = text?;
    match text.parse::<MacAddress>() {
        Ok(mac) => Some(mac),
        Err(problem) => {
            errors.push(FieldError::invalid(format!("{field}.mac-address"), text, problem.to_string()));
            None
        }
    }
}

/// What stands earlier in the lists.
#[derive(Default)]
struct Seen<'a> {
    /// By node name.
    nodes: BTreeMap<String, SeenNode<'a>>,
    macs: BTreeMap<MacAddress, (&'a str, String)>,
    hosts: BTreeMap<&'a str, (&'a str, String)>,
}

struct SeenNode<'a> {
    list: &'static str,
    entry: &'a str,
    demand: &'a NodeDemand,
    mac: Option<MacAddress>,
    field: String,
}

impl<'a> Seen<'a> {
    /// A name stands once in a list; in both lists it is one node, for which both must ask for the same host.
    fn name_once(&mut self, errors: &mut Vec<FieldError>, entry: &Entry<'a>, mac: Option<MacAddress>) {
        let field = entry.field();
        for node in entry.demand.nodes(entry.name) {
            let Some(first) = self.nodes.get(&node) else {
                let (list, demand, field) = (entry.list, entry.demand, field.clone());
                self.nodes.insert(node, SeenNode { list, entry: entry.name, demand, mac, field });
                continue;
            };
            let (ours, theirs) = (&entry.demand.needs, &first.demand.needs);
            let same_host = first.mac == mac && theirs.host_name == ours.host_name;
            if first.list == entry.list || !same_host {
                let detail = format!("the name stands at {} too, for another host", first.field);
                errors.push(FieldError::duplicate(&field, node, detail));
                return;
            }
            if first.entry != entry.name || first.demand.replicas != entry.demand.replicas {
                let detail = format!("the name stands at {} too, with other replicas", first.field);
                errors.push(FieldError::duplicate(&field, node, detail));
                return;
            }
            if let Some(what) = contradiction(theirs, ours) {
                let detail = format!("must be the same as at {}: it is one node in both roles", first.field);
                errors.push(FieldError::invalid(format!("{field}.{}", what.0), what.1, detail));
                return;
            }
        }
    }

    fn mac_once(&mut self, errors: &mut Vec<FieldError>, name: &'a str, mac: MacAddress, field: &str) {
        match self.macs.get(&mac) {
            Some((first_name, first)) if *first_name != name => {
                let detail = format!("the host stands at {first} too, under another name");
                errors.push(FieldError::duplicate(format!("{field}.mac-address"), mac, detail));
            }
            Some(_) => {}
            None => drop(self.macs.insert(mac, (name, field.to_owned()))),
        }
    }

    fn host_once(&mut self, errors: &mut Vec<FieldError>, name: &'a str, host: &'a str, field: &str) {
        match self.hosts.get(host) {
            Some((first_name, first)) if *first_name != name || name.is_empty() => {
                let detail = format!("the host stands at {first} too, under another name");
                errors.push(FieldError::duplicate(format!("{field}.hostName"), host, detail));
            }
            Some(_) => {}
            None => drop(self.hosts.insert(host, (name, field.to_owned()))),
        }
    }
}

/// A field whose two values no host can have at once, and the second value.
fn contradiction<'a>(left: &HostNeeds, right: &'a HostNeeds) -> Option<(String, &'a str)> {
    if let (Some(left), Some(right), Some(value)) = (left.architecture(), right.architecture(), right.arch.as_deref())
        && left != right
    {
        return Some(("arch".to_owned(), value));
    }
    if let (Some(left), Some(right)) = (&left.failure_domain, &right.failure_domain)
        && left != right
    {
        return Some(("failureDomain".to_owned(), right));
    }
    let differs = |(key, value): &(&'a String, &'a String)| left.labels.get(*key).is_some_and(|left| left != *value);
    let (key, value) = right.labels.iter().find(differs)?;
    Some((format!("labels[{key}]"), value))
}

#[cfg(test)]
mod tests;
