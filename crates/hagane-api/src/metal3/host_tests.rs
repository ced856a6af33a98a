use serde_json::{Value, json};

use super::*;

fn host(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.get("online").is_none() {
        spec["online"] = json!(true);
    }
    json!({"metadata": {"name": "h", "namespace": "lab"}, "spec": spec})
}

fn errors(object: &Value) -> Vec<String> {
    validate(object, None).iter().map(ToString::to_string).collect()
}

/// Exactly one error, which starts so.
fn refused(spec: &Value, start: &str) {
    let found = errors(&host(spec));
    assert!(found.len() == 1 && found[0].starts_with(start), "{spec}: {found:?}");
}

fn taken(spec: &Value) {
    assert_eq!(errors(&host(spec)), Vec::<String>::new(), "{spec}");
}

fn bmc(address: &str, further: &Value) -> Value {
    let mut spec =
        json!({"bmc": {"address": address, "credentialsName": "bmc-1"}, "bootMACAddress": "52:54:00:aa:bb:01"});
    for (name, value) in further.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec
}

#[test]
fn checks_the_boot_mac() {
    for good in ["52:54:00:AA:BB:01", "52-54-00-aa-bb-02", "5254.00aa.bb03", ""] {
        taken(&json!({"bootMACAddress": good}));
    }
    for bad in
        ["52:54:00:aa:bb", "53:54:00:aa:bb:04", "52:54:00:ff:fe:aa:bb:05", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"]
    {
        refused(&json!({"bootMACAddress": bad}), &format!("spec.bootMACAddress: Invalid value: \"{bad}\""));
    }
}

#[test]
fn writes_a_boot_mac_with_colons() {
    for (given, kept) in [
        ("52-54-00-AA-BB-02", "52:54:00:aa:bb:02"),
        ("5254.00aa.bb03", "52:54:00:aa:bb:03"),
        ("52:54:00:AA:BB:01", "52:54:00:AA:BB:01"),
        ("", ""),
        ("zz", "zz"),
    ] {
        let mut object = host(&json!({"bootMACAddress": given}));
        default(&mut object);
        default(&mut object);
        assert_eq!(object["spec"]["bootMACAddress"], kept);
    }
    let mut without = json!({"metadata": {"name": "h"}});
    default(&mut without);
    assert_eq!(without, json!({"metadata": {"name": "h"}}));
}

#[test]
fn keeps_a_boot_mac_that_is_set_but_not_its_spelling() {
    let old = host(&json!({"bootMACAddress": "52:54:00:aa:bb:01"}));
    assert_eq!(validate(&host(&json!({"bootMACAddress": "52-54-00-AA-BB-01"})), Some(&old)), []);
    for other in [json!({"bootMACAddress": "52:54:00:aa:bb:02"}), json!({"bootMACAddress": ""}), json!({})] {
        let errors = validate(&host(&other), Some(&old));
        assert!(errors.len() == 1 && errors[0].detail.contains("it is 52:54:00:aa:bb:01"), "{errors:?}");
    }
}

#[test]
fn checks_where_the_management_controller_is() {
    for good in ["192.0.2.7", "ipmi://bmc.test", "redfish-virtualmedia+https://[2001:db8::7]:8443/redfish/v1/Systems/1"]
    {
        taken(&bmc(good, &json!({})));
    }
    taken(&json!({"bmc": {"address": "", "credentialsName": ""}}));
    for (bad, told) in [
        ("redfish://[2001:db8::zz]:8000/x", "neither a host name nor an IP address"),
        ("notascheme://192.0.2.9", "\"notascheme\" is no scheme of a driver"),
        ("redfish://host name/", "without spaces"),
        ("redfish+http://::1/redfish/v1/Systems/abc", "must stand in brackets"),
        ("ilo5://192.0.2.9", "has no driver any more"),
    ] {
        refused(&bmc(bad, &json!({})), &format!("spec.bmc.address: Invalid value: \"{bad}\": "));
        assert!(errors(&host(&bmc(bad, &json!({}))))[0].contains(told), "{bad}");
    }
    let secret = errors(&host(&bmc("redfish+http://admin:s3cret@127.0.0.1:8000/x", &json!({}))));
    assert!(
        secret.len() == 1 && secret[0].contains("no user and no password") && !secret[0].contains("s3cret"),
        "{secret:?}"
    );
    refused(&json!({"bmc": {"address": "192.0.2.7", "credentialsName": "../x"}}), "spec.bmc.credentialsName: Invalid");
}

#[test]
fn asks_of_a_driver_only_what_it_can() {
    let libvirt = "libvirt://192.168.122.1:6233";
    refused(
        &bmc(libvirt, &json!({"bootMACAddress": ""})),
        "spec.bootMACAddress: Required value: controllers of scheme libvirt",
    );
    refused(
        &bmc("redfish://b.test", &json!({"bootMACAddress": "", "inspectionMode": "disabled"})),
        "spec.bootMACAddress: Required",
    );
    taken(&bmc("redfish://b.test", &json!({"bootMACAddress": ""})));
    taken(&json!({"inspectionMode": "disabled"}));
    let raid = json!({"hardwareRAIDVolumes": [{"level": "1"}]});
    for poor in [libvirt, "192.0.2.7"] {
        refused(&bmc(poor, &json!({"bootMode": "UEFISecureBoot"})), "spec.bootMode: Invalid value: \"UEFISecureBoot\"");
        refused(&bmc(poor, &json!({"raid": raid})), "spec.raid: Forbidden");
        taken(&bmc(poor, &json!({"bootMode": "legacy"})));
    }
    taken(&bmc("idrac-virtualmedia://b.test/x", &json!({"bootMode": "UEFISecureBoot", "raid": raid})));
}

#[test]
fn checks_images() {
    for good in [
        json!({"url": "http://a.test/i.qcow2", "checksum": "http://a.test/SUMS", "checksumType": "sha256", "format": "qcow2"}),
        json!({"url": "http://a.test/i.iso", "format": "live-iso"}),
        json!({"url": "oci://r.test/i:1", "ociAuthSecretName": "login"}),
    ] {
        taken(&json!({"image": good}));
    }
    for (bad, start) in [
        (json!({"url": "http://a.test/i.qcow2"}), "spec.image.checksum: Required value: a digest"),
        (json!({"url": "http://a.test/i", "checksum": ""}), "spec.image.checksum: Required value"),
        (json!({"url": "i.qcow2", "checksum": "x"}), "spec.image.url: Invalid value: \"i.qcow2\""),
        (json!({"url": "", "checksum": "x"}), "spec.image.url: Invalid value"),
        (json!({"url": "http://a b/", "checksum": "x"}), "spec.image.url: Invalid value"),
        (
            json!({"url": "http://a.test/i", "checksum": "x", "ociAuthSecretName": "l"}),
            "spec.image.ociAuthSecretName: Forbidden",
        ),
        (json!({"url": "oci://r.test/i", "ociAuthSecretName": "_"}), "spec.image.ociAuthSecretName: Invalid"),
    ] {
        refused(&json!({"image": bad}), start);
    }
}

#[test]
fn checks_disks() {
    for good in ["/dev/vda", "/dev/disk/by-path/pci-0000:01:00.0-scsi-0:2:0:0", ""] {
        taken(&json!({"rootDeviceHints": {"deviceName": good}}));
    }
    for bad in ["vda", "/dev/", "/dev/disk/by-id/x", "/dev/disk/by-path/", "/dev/disk/by-path/a/b", "/sys/vda"] {
        refused(&json!({"rootDeviceHints": {"deviceName": bad}}), "spec.rootDeviceHints.deviceName: Invalid value");
    }
    for good in [
        json!({"hardwareRAIDVolumes": [{"level": "5", "controller": "c", "physicalDisks": ["a", "b", "c"], "numberOfPhysicalDisks": 3}]}),
        json!({"hardwareRAIDVolumes": [], "softwareRAIDVolumes": [{"level": "1"}, {"level": "0"}]}),
        json!({"softwareRAIDVolumes": null}),
    ] {
        taken(&json!({"raid": good}));
    }
    for (bad, start) in [
        (
            json!({"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}),
            "spec.raid.softwareRAIDVolumes: Forbidden",
        ),
        (
            json!({"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a"]}]}),
            "spec.raid.hardwareRAIDVolumes[0].controller: Required value",
        ),
        (
            json!({"hardwareRAIDVolumes": [{"level": "1", "controller": "c", "physicalDisks": ["a"], "numberOfPhysicalDisks": 2}]}),
            "spec.raid.hardwareRAIDVolumes[0].numberOfPhysicalDisks: Invalid value: 2",
        ),
        (
            json!({"softwareRAIDVolumes": [{"level": "0"}]}),
            "spec.raid.softwareRAIDVolumes[0].level: Invalid value: \"0\"",
        ),
        (
            json!({"softwareRAIDVolumes": [{"level": "1", "physicalDisks": [{"deviceName": "sda"}, {}]}]}),
            "spec.raid.softwareRAIDVolumes[0].physicalDisks[0].deviceName: Invalid value: \"sda\"",
        ),
    ] {
        refused(&json!({"raid": bad}), start);
    }
}

#[test]
fn checks_the_rest_of_the_spec() {
    for good in [
        json!({"disablePowerOff": true}),
        json!({"disablePowerOff": false, "online": false}),
        json!({"userData": {"name": "u", "namespace": "lab"}, "metaData": {"name": "m"}}),
        json!({"networkInterfaces": [{"name": "eno1"}, {"macAddress": "52:54:00:aa:bb:09"}]}),
        json!({"preprovisioningNetworkDataName": "n"}),
        json!({"hardwareProfile": "dell", "taints": [{"key": "a", "effect": "NoSchedule"}]}),
    ] {
        taken(&good);
    }
    for (bad, start) in [
        (json!({"disablePowerOff": true, "online": false}), "spec.online: Invalid value: false: must be true"),
        (json!({"firmware": {"sriovEnabled": true}}), "spec.firmware: Forbidden"),
        (json!({"userData": {"name": "u", "namespace": "other"}}), "spec.userData.namespace: Invalid value: \"other\""),
        (json!({"metaData": {"name": "a/b"}}), "spec.metaData.name: Invalid value: \"a/b\""),
        (json!({"networkInterfaces": [{}]}), "spec.networkInterfaces[0]: Invalid value"),
        (
            json!({"networkInterfaces": [{"name": "a", "macAddress": "52:54:00:aa:bb:09"}]}),
            "spec.networkInterfaces[0]: Invalid value",
        ),
        (
            json!({"networkInterfaces": [{"macAddress": "x"}]}),
            "spec.networkInterfaces[0].macAddress: Invalid value: \"x\"",
        ),
        (
            json!({"networkInterfaces": [{"name": "a", "hostNetworkAttachment": {"name": ""}}]}),
            "spec.networkInterfaces[0].hostNetworkAttachment.name: Invalid value",
        ),
        (json!({"preprovisioningNetworkDataName": "A"}), "spec.preprovisioningNetworkDataName: Invalid value"),
    ] {
        refused(&bad, start);
    }
}

fn annotated(key: &str, text: &str) -> Value {
    let mut object = host(&json!({}));
    object["metadata"]["annotations"] = json!({key: text});
    object
}

#[test]
fn checks_annotations() {
    for (key, good) in [
        ("reboot.metal3.io", ""),
        ("reboot.metal3.io", r#"{"mode": "hard", "force": true}"#),
        ("reboot.metal3.io/fence", r#"{"mode": "soft"}"#),
        ("reboot.metal3.ioke", "anything"),
        ("baremetalhost.metal3.io/detached", ""),
        ("baremetalhost.metal3.io/detached", "true"),
        ("baremetalhost.metal3.io/detached", r#"{"deleteAction": "delay", "force": false}"#),
        ("baremetalhost.metal3.io/status", r#"{"provisioning": {"state": "provisioned"}, "operationalStatus": "OK"}"#),
        ("inspect.metal3.io", ""),
        ("inspect.metal3.io", "disabled"),
        ("baremetalhost.metal3.io/paused", "metal3.io/capm3"),
        (HARDWARE_DETAILS_ANNOTATION, r#"{"cpu": {"count": 4, "clockMegahertz": 2400}}"#),
    ] {
        assert_eq!(errors(&annotated(key, good)), Vec::<String>::new(), "{key}: {good}");
    }
    for (key, bad, told) in [
        ("reboot.metal3.io", "now", "must be empty or JSON such as {\"mode\": \"soft\"}"),
        ("reboot.metal3.io/fence", r#"{"mode": "quick"}"#, "mode is \"quick\": must be \"soft\" or \"hard\""),
        ("reboot.metal3.io", r#"{"how": "hard"}"#, "unknown field"),
        ("baremetalhost.metal3.io/detached", r#"{"deleteAction": "wait"}"#, "must be \"delay\" or \"delete\""),
        ("baremetalhost.metal3.io/detached", "[]", "must be empty or JSON"),
        ("baremetalhost.metal3.io/status", "{", "must be the JSON of a BareMetalHost's status"),
        ("inspect.metal3.io", "agent", "must be empty or \"disabled\""),
        (HARDWARE_DETAILS_ANNOTATION, "[]", "must be the JSON of hardware details"),
        (HARDWARE_DETAILS_ANNOTATION, r#"{"cpu": 4}"#, "must be the JSON of hardware details"),
        (HARDWARE_DETAILS_ANNOTATION, r#"{"cpu": {"count": -4}}"#, "must not be negative"),
    ] {
        let found = errors(&annotated(key, bad));
        assert!(found.len() == 1 && found[0].starts_with(&format!("metadata.annotations[{key}]")), "{found:?}");
        assert!(found[0].contains(told), "{found:?}");
    }
}

#[test]
fn what_was_wrong_before_stands_against_no_other_change() {
    let wrong = annotated(HARDWARE_DETAILS_ANNOTATION, r#"{"cpu": {"count": -4}}"#);
    let mut after = wrong.clone();
    after["spec"]["online"] = json!(false);
    assert_eq!(validate(&after, Some(&wrong)), []);
    let stored = host(&bmc("notascheme://192.0.2.9", &json!({"firmware": {}})));
    let mut after = stored.clone();
    after["metadata"]["finalizers"] = json!([]);
    assert_eq!(validate(&after, Some(&stored)), []);
    after["spec"]["bmc"]["address"] = json!("otherscheme://192.0.2.9");
    assert_eq!(validate(&after, Some(&stored)).len(), 1);
}

#[test]
fn a_name_is_no_uuid() {
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"online": true}});
    assert_eq!(errors(&named("rack-1.host_a")), Vec::<String>::new());
    let found = errors(&named("7a0b9c1e-6f57-4cf0-9d5c-0f1f5b9f2f11"));
    assert!(found.len() == 1 && found[0].contains("must not be a UUID"), "{found:?}");
}

fn in_state(mut object: Value, operational: &str, state: &str) -> Value {
    object["status"] = json!({"operationalStatus": operational, "provisioning": {"state": state}});
    object
}

#[test]
fn the_management_controllers_address_stays_once_the_host_is_registered() {
    let before = host(&bmc("redfish://a.test", &json!({})));
    let after = host(&bmc("redfish://b.test", &json!({})));
    for (operational, state) in
        [("", ""), ("discovered", "unmanaged"), ("error", "registering"), ("detached", "provisioned")]
    {
        assert_eq!(validate(&after, Some(&in_state(before.clone(), operational, state))), [], "{state}");
    }
    for state in ["available", "externally provisioned", "provisioned", "inspecting", "deleting"] {
        let errors = validate(&after, Some(&in_state(before.clone(), "OK", state)));
        assert!(errors.len() == 1 && errors[0].field == "spec.bmc.address", "{state}: {errors:?}");
        assert!(errors[0].detail.contains(state) && errors[0].detail.contains("detach"), "{errors:?}");
    }
    let none = host(&json!({"bootMACAddress": "52:54:00:aa:bb:01"}));
    assert_eq!(validate(&after, Some(&in_state(none, "OK", "externally provisioned"))), [], "set for the first time");
}

#[test]
fn a_host_is_taken_as_it_is_only_while_nothing_works_on_it() {
    let after = host(&json!({"externallyProvisioned": true}));
    let before = |state: &str| in_state(host(&json!({})), "OK", state);
    for state in ["", "unmanaged", "available", "ready"] {
        assert_eq!(validate(&after, Some(&before(state))), [], "{state}");
    }
    for state in ["provisioning", "provisioned", "inspecting", "deprovisioning"] {
        let errors = validate(&after, Some(&before(state)));
        assert!(errors.len() == 1 && errors[0].field == "spec.externallyProvisioned", "{state}: {errors:?}");
    }
    let back = host(&json!({"externallyProvisioned": false}));
    assert_eq!(validate(&back, Some(&in_state(after, "OK", "externally provisioned"))), []);
}

#[test]
fn checks_hardware_data() {
    let data = |hardware: Value| json!({"metadata": {"name": "h"}, "spec": {"hardware": hardware}});
    assert_eq!(validate_data(&data(json!({"ramMebibytes": 0, "nics": [{"mac": "", "ip": ""}]})), None), []);
    assert_eq!(validate_data(&json!({"metadata": {"name": "h"}}), None), []);
    let wrong = data(json!({"nics": [{"mac": "zz"}]}));
    let errors = validate_data(&wrong, None);
    assert!(errors.len() == 1 && errors[0].field == "spec.hardware.nics[0].mac", "{errors:?}");
    assert_eq!(validate_data(&wrong, Some(&wrong)), []);
}

/// Names, types and limits that other programs know these kinds by.
#[test]
fn the_schema_says_what_metal3s_says() {
    let kind = |plural: &str| crate::kind::kind_of(crate::metal3::GROUP, plural).expect("a kind of ours");
    let schema = (kind("baremetalhosts").schema)();
    let at = |path: &str| {
        let path: String = path
            .split('.')
            .map(|part| {
                part.strip_suffix("[]")
                    .map_or_else(|| format!("/properties/{part}"), |list| format!("/properties/{list}/items"))
            })
            .collect();
        schema.pointer(&path).cloned().unwrap_or_else(|| unreachable!("{path}"))
    };
    assert_eq!(at("spec")["required"], json!(["online"]));
    assert_eq!(at("spec.bmc")["required"], json!(["address", "credentialsName"]));
    assert_eq!(at("spec.automatedCleaningMode")["default"], "metadata");
    assert_eq!(at("spec.bootMode")["enum"], json!(["UEFI", "UEFISecureBoot", "legacy"]));
    assert_eq!(at("spec.image.checksumType")["enum"], json!(["md5", "sha256", "sha512", "auto"]));
    assert_eq!(at("spec.image.format")["enum"], json!(["raw", "qcow2", "vdi", "vmdk", "live-iso"]));
    assert_eq!(at("spec.rootDeviceHints.minSizeGigabytes")["minimum"].as_f64(), Some(0.0));
    assert_eq!(at("spec.raid.hardwareRAIDVolumes")["nullable"], true);
    assert_eq!(at("spec.raid.hardwareRAIDVolumes[].name")["maxLength"], 64);
    assert_eq!(
        (&at("spec.raid.softwareRAIDVolumes")["maxItems"], &at("spec.raid.softwareRAIDVolumes")["nullable"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(at("spec.raid.softwareRAIDVolumes[].physicalDisks")["minItems"], 2);
    assert_eq!(at("spec.raid.softwareRAIDVolumes[].physicalDisks[].wwn")["type"], "string");
    assert_eq!(at("spec.taints[]")["required"], json!(["effect", "key"]));
    assert_eq!(at("spec.networkInterfaces[].switchPort.switchID")["type"], "string");
    assert_eq!(at("spec.consumerRef")["x-kubernetes-map-type"], "atomic");
    assert_eq!(at("spec.metaData.namespace")["type"], "string");
    assert_eq!(at("status.errorType")["enum"].as_array().map(Vec::len), Some(7));
    assert_eq!(at("status.errorCount")["default"], 0);
    assert_eq!(at("status.provisioning.image")["required"], json!(["url"]));
    assert_eq!(at("status.operationHistory.provision.end")["nullable"], true);
    assert_eq!(at("status.goodCredentials.credentialsVersion")["type"], "string");
    assert_eq!(at("status.hardware.nics[].vlans[].id")["maximum"].as_f64(), Some(4094.0));
    assert_eq!(at("status.hardware.storage[].type")["enum"], json!(["HDD", "SSD", "NVME"]));
    assert_eq!(at("status.conditions")["x-kubernetes-list-map-keys"], json!(["type"]));
    let data = (kind("hardwaredata").schema)();
    assert_eq!(
        data["properties"]["spec"]["properties"]["hardware"],
        at("status.hardware")
            .as_object()
            .map(|hardware| {
                let mut hardware = hardware.clone();
                hardware.insert("description".into(), "What the host is made of.".into());
                Value::Object(hardware)
            })
            .expect("an object")
    );
    assert!(data["properties"].get("status").is_none());
}
