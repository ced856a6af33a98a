//! Checks of the facts of a host, as the hardware annotation gives them. Zero and empty are "not known", and no mistake.

use std::net::IpAddr;

use super::HardwareDetails;
use crate::field::FieldError;
use crate::mac::{MacAddress, MacProblem};

/// Checks facts; fields are named within the facts (`nics[0].mac`).
#[must_use]
pub fn validate_hardware(hardware: &HardwareDetails) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut amount = |field: String, given: Option<i64>| {
        if let Some(given) = given.filter(|given| *given < 0) {
            errors.push(FieldError::invalid(field, given, "must not be negative"));
        }
    };
    amount("ramMebibytes".to_owned(), hardware.ram_mebibytes);
    amount("cpu.count".to_owned(), hardware.cpu.as_ref().and_then(|cpu| cpu.count));
    for (index, disk) in hardware.storage.iter().flatten().enumerate() {
        amount(format!("storage[{index}].sizeBytes"), disk.size_bytes);
    }
    for (index, nic) in hardware.nics.iter().flatten().enumerate() {
        let mac = nic.mac.as_deref().filter(|mac| !mac.is_empty());
        if let Some((mac, Err(problem @ MacProblem::Syntax))) = mac.map(|mac| (mac, mac.parse::<MacAddress>())) {
            errors.push(FieldError::invalid(format!("nics[{index}].mac"), mac, problem.to_string()));
        }
        if let Some(ip) = nic.ip.as_deref().filter(|ip| !ip.is_empty() && !is_address(ip)) {
            let detail = "must be an IP address such as 192.0.2.12";
            errors.push(FieldError::invalid(format!("nics[{index}].ip"), ip, detail));
        }
    }
    errors
}

/// An address, also with the prefix length or the zone that inspection may add.
fn is_address(text: &str) -> bool {
    text.split(['/', '%']).next().is_some_and(|address| address.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn errors(hardware: Value) -> Vec<String> {
        let hardware: HardwareDetails = serde_json::from_value(hardware).expect("facts");
        validate_hardware(&hardware).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_field_and_value_of_facts_that_cannot_be() {
        let nic = |nic: Value| json!({"nics": [{"mac": "52:54:00:aa:bb:01"}, nic]});
        for (hardware, start) in [
            (json!({"ramMebibytes": -1}), "ramMebibytes: Invalid value: -1: must not be negative"),
            (json!({"cpu": {"count": -4}}), "cpu.count: Invalid value: -4"),
            (json!({"storage": [{"sizeBytes": -7}]}), "storage[0].sizeBytes: Invalid value: -7"),
            (nic(json!({"mac": "zz"})), "nics[1].mac: Invalid value: \"zz\": must be six octets"),
            (nic(json!({"ip": "192.0.2.300"})), "nics[1].ip: Invalid value: \"192.0.2.300\": must be an IP address"),
        ] {
            let found = errors(hardware.clone());
            assert!(found.len() == 1 && found[0].starts_with(start), "{hardware}: {found:?}");
        }
    }

    #[test]
    fn takes_what_inspection_writes() {
        let nics = json!([
            {"mac": "", "ip": ""}, {"mac": "ff:ff:ff:ff:ff:ff"}, {"ip": "fe80::1%eno1"}, {"ip": "192.0.2.21/24"}, {},
        ]);
        assert_eq!(errors(json!({"cpu": {"count": 0}, "ramMebibytes": 0, "nics": nics})), Vec::<String>::new());
    }
}
