//! Checks of a host's spec.

use super::address::{BmcAddress, BmcAddressProblem, shown_bmc_address};
use super::disks::{HardwareRaidVolume, Raid, RootDeviceHints, SoftwareRaidVolume};
use super::spec::{BareMetalHostSpec, Bmc, Image, NetworkInterface, SecretReference};
use crate::field::FieldError;
use crate::mac::MacAddress;
use crate::names::dns_subdomain_problem;

/// Checks a parsed spec.
#[must_use]
pub fn validate_host_spec(spec: &BareMetalHostSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_mac(&mut errors, "spec.bootMACAddress", spec.boot_mac_address.as_deref());
    if let Some(bmc) = &spec.bmc {
        check_bmc(&mut errors, bmc);
    }
    check_driver(&mut errors, spec);
    if let Some(image) = &spec.image {
        check_image(&mut errors, image);
    }
    if let Some(hints) = &spec.root_device_hints {
        check_device_name(&mut errors, "spec.rootDeviceHints", hints);
    }
    if let Some(raid) = &spec.raid {
        check_raid(&mut errors, raid);
    }
    if spec.firmware.is_some() {
        let detail = "no driver has these settings any more: use a HostFirmwareSettings object of the same name";
        errors.push(FieldError::forbidden("spec.firmware", detail));
    }
    if spec.disable_power_off == Some(true) && !spec.online {
        let detail = "must be true while spec.disablePowerOff is true: such a host is never switched off";
        errors.push(FieldError::invalid("spec.online", false, detail));
    }
    let network = spec.preprovisioning_network_data_name.as_deref();
    check_secret_name(&mut errors, "spec.preprovisioningNetworkDataName", network);
    for (index, interface) in spec.network_interfaces.iter().flatten().enumerate() {
        check_interface(&mut errors, &format!("spec.networkInterfaces[{index}]"), interface);
    }
    errors
}

/// References of a host lead nowhere but to its own namespace.
pub(super) fn check_references(errors: &mut Vec<FieldError>, spec: &BareMetalHostSpec, namespace: &str) {
    let references =
        [("userData", &spec.user_data), ("networkData", &spec.network_data), ("metaData", &spec.meta_data)];
    for (name, reference) in references {
        let Some(SecretReference { name: secret, namespace: other }) = reference else { continue };
        check_secret_name(errors, &format!("spec.{name}.name"), secret.as_deref());
        if let Some(other) = other.as_ref().filter(|other| !other.is_empty() && *other != namespace) {
            let detail = format!("must be the host's own namespace, {namespace:?}, or not be given");
            errors.push(FieldError::invalid(format!("spec.{name}.namespace"), other, detail));
        }
    }
}

fn check_mac(errors: &mut Vec<FieldError>, field: &str, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty())
        && let Err(problem) = text.parse::<MacAddress>()
    {
        errors.push(FieldError::invalid(field, text, problem.to_string()));
    }
}

fn check_secret_name(errors: &mut Vec<FieldError>, field: &str, name: Option<&str>) {
    let name = name.filter(|name| !name.is_empty());
    if let Some((name, problem)) = name.and_then(|name| Some((name, dns_subdomain_problem(name)?))) {
        errors.push(FieldError::invalid(field, name, format!("is no name of a Secret: {problem}")));
    }
}

fn check_bmc(errors: &mut Vec<FieldError>, bmc: &Bmc) {
    // An empty address is a host without a controller.
    if !bmc.address.is_empty()
        && let Err(problem) = bmc.address.parse::<BmcAddress>()
    {
        let shown = match problem {
            // An address that cannot be taken apart may still hold a password.
            BmcAddressProblem::Credentials | BmcAddressProblem::Syntax => shown_bmc_address(&bmc.address),
            _ => bmc.address.clone(),
        };
        errors.push(FieldError::invalid("spec.bmc.address", shown, problem.to_string()));
    }
    check_secret_name(errors, "spec.bmc.credentialsName", Some(&bmc.credentials_name));
}

/// What only some drivers can do, and what they must be told.
fn check_driver(errors: &mut Vec<FieldError>, spec: &BareMetalHostSpec) {
    let Some(address) = spec.bmc.as_ref().and_then(|bmc| bmc.address.parse::<BmcAddress>().ok()) else { return };
    let BmcAddress { driver, scheme, .. } = address;
    if spec.boot_mac_address.as_deref().unwrap_or_default().is_empty() {
        let needed = if driver.needs_boot_mac() {
            Some(format!("controllers of scheme {scheme} do not tell it"))
        } else {
            let disabled = spec.inspection_mode.as_deref() == Some("disabled");
            disabled.then(|| "nothing else finds it while spec.inspectionMode is disabled".to_owned())
        };
        errors.extend(needed.map(|detail| FieldError::required("spec.bootMACAddress", detail)));
    }
    if spec.boot_mode.as_deref() == Some("UEFISecureBoot") && !driver.can_secure_boot() {
        let detail = format!("controllers of scheme {scheme} cannot switch secure boot on: UEFI or legacy");
        errors.push(FieldError::invalid("spec.bootMode", "UEFISecureBoot", detail));
    }
    if spec.raid.is_some() && !driver.can_raid() {
        let detail = format!("controllers of scheme {scheme} cannot make RAID volumes");
        errors.push(FieldError::forbidden("spec.raid", detail));
    }
}

fn check_image(errors: &mut Vec<FieldError>, image: &Image) {
    let scheme = image.url.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let strange = |text: &str| text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
    let known = |scheme: &str| ["http", "https", "oci", "file"].contains(&scheme);
    let Some((scheme, _)) = scheme.filter(|(scheme, rest)| known(scheme) && !rest.is_empty() && !strange(rest)) else {
        let detail = "must be an http://, https://, oci:// or file:// URL";
        errors.push(FieldError::invalid("spec.image.url", &image.url, detail));
        return;
    };
    let live = image.format.as_deref() == Some("live-iso");
    if image.checksum.as_deref().unwrap_or_default().is_empty() && !live && scheme != "oci" {
        let detail = "a digest, or the URL of a file with it; only oci:// images and format live-iso go without";
        errors.push(FieldError::required("spec.image.checksum", detail));
    }
    let login = image.oci_auth_secret_name.as_deref();
    if login.is_some_and(|login| !login.is_empty()) && scheme != "oci" {
        let detail = "only images of oci:// URLs are fetched with the login of a registry";
        errors.push(FieldError::forbidden("spec.image.ociAuthSecretName", detail));
    }
    check_secret_name(errors, "spec.image.ociAuthSecretName", login);
}

fn check_device_name(errors: &mut Vec<FieldError>, field: &str, hints: &RootDeviceHints) {
    let Some(name) = hints.device_name.as_deref().filter(|name| !name.is_empty()) else { return };
    let device = |rest: &str| !rest.is_empty() && !rest.contains('/');
    let rest = name.strip_prefix("/dev/");
    let sound = rest.is_some_and(|rest| device(rest.strip_prefix("disk/by-path/").unwrap_or(rest)));
    if !sound {
        let detail = "must be a device such as /dev/vda or a link below /dev/disk/by-path/";
        errors.push(FieldError::invalid(format!("{field}.deviceName"), name, detail));
    }
}

fn check_raid(errors: &mut Vec<FieldError>, raid: &Raid) {
    let hardware = raid.hardware_raid_volumes.iter().flatten();
    let software: Vec<&SoftwareRaidVolume> = raid.software_raid_volumes.iter().flatten().collect();
    if !software.is_empty() && hardware.clone().next().is_some() {
        let detail = "must not be given together with spec.raid.hardwareRAIDVolumes";
        errors.push(FieldError::forbidden("spec.raid.softwareRAIDVolumes", detail));
    }
    for (index, volume) in hardware.enumerate() {
        check_hardware_volume(errors, &format!("spec.raid.hardwareRAIDVolumes[{index}]"), volume);
    }
    for (index, volume) in software.iter().enumerate() {
        let field = format!("spec.raid.softwareRAIDVolumes[{index}]");
        if index == 0 && volume.level != "1" {
            let detail = "the first volume holds the system and must be of level 1";
            errors.push(FieldError::invalid(format!("{field}.level"), &volume.level, detail));
        }
        for (number, disk) in volume.physical_disks.iter().flatten().enumerate() {
            check_device_name(errors, &format!("{field}.physicalDisks[{number}]"), disk);
        }
    }
}

fn check_hardware_volume(errors: &mut Vec<FieldError>, field: &str, volume: &HardwareRaidVolume) {
    let Some(disks) = volume.physical_disks.as_ref().filter(|disks| !disks.is_empty()) else { return };
    if volume.controller.as_deref().unwrap_or_default().is_empty() {
        let detail = "must be given with physicalDisks: disks are named by their controller";
        errors.push(FieldError::required(format!("{field}.controller"), detail));
    }
    let wanted = volume.number_of_physical_disks;
    if let Some(wanted) = wanted.filter(|wanted| usize::try_from(*wanted) != Ok(disks.len())) {
        let detail = format!("must be the number of physicalDisks, {}, or not be given", disks.len());
        errors.push(FieldError::invalid(format!("{field}.numberOfPhysicalDisks"), wanted, detail));
    }
}

fn check_interface(errors: &mut Vec<FieldError>, field: &str, interface: &NetworkInterface) {
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if given(&interface.name) == given(&interface.mac_address) {
        let detail = "must have a name or a macAddress, and not both";
        errors.push(FieldError::invalid(field, interface, detail));
    }
    check_mac(errors, &format!("{field}.macAddress"), interface.mac_address.as_deref());
    let network = interface.host_network_attachment.as_ref().map(|reference| reference.name.as_str());
    if let Some((name, problem)) = network.and_then(|name| Some((name, dns_subdomain_problem(name)?))) {
        errors.push(FieldError::invalid(format!("{field}.hostNetworkAttachment.name"), name, problem));
    }
}
