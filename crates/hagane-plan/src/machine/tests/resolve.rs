//! Provider specs as people write them.

use hagane_api::machine::ProviderSpec;
use hagane_api::quantity::{ByteSize, GIB, MemoryMib};
use serde_json::{Value, json};

use super::super::{Defaults, ResolvedSpec, resolve};

fn read(json: Value) -> ProviderSpec {
    serde_json::from_value(json).expect("the spec reads")
}

fn defaults() -> Defaults {
    Defaults {
        image_uri: Some("file:///images/d".to_owned()),
        image_checksum: Some(format!("sha256:{}", "a".repeat(64))),
    }
}

#[test]
fn fills_in_what_the_slides_leave_open() {
    let found = resolve(&read(json!({"vcpu": 4})), None, &defaults()).expect("the spec is good");
    assert_eq!((found.vcpus, found.memory, found.disk), (4, MemoryMib(2048), None));
    assert_eq!((found.pool.as_str(), found.network.as_str()), ("default", "default"));
    assert_eq!(found.image_uri.as_deref(), Some("file:///images/d"));
    assert!(found.image_checksum.is_some());
    let without = resolve(&read(json!({})), None, &Defaults::default()).expect("the spec is good");
    assert_eq!(without.image_uri, None);
}

#[test]
fn value_wins_over_flat_fields_and_both_over_the_class() {
    let spec = read(json!({"vcpu": 4, "memoryInGB": 4, "value": {"vcpu": 8}}));
    let class = read(json!({"value": {"vcpu": 1, "memoryInGB": 1, "diskInGB": 9, "imageURI": "http://c/d"}}));
    let found = resolve(&spec, Some(&class), &defaults()).expect("the spec is good");
    assert_eq!((found.vcpus, found.memory, found.disk), (8, MemoryMib(4096), Some(ByteSize(9 * GIB))));
    assert_eq!(found.image_uri.as_deref(), Some("http://c/d"));
    assert_eq!(found.image_checksum, None, "the default image's digest is not another image's");
}

#[test]
fn names_what_is_wrong_in_spec_and_class() {
    let class = read(json!({"memoryInGB": 0}));
    let errors = resolve(&read(json!({"vcpu": 0})), Some(&class), &defaults()).expect_err("both are bad");
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["spec.providerSpec.vcpu", "providerSpec of the MachineClass.memoryInGB"]);
}

#[test]
fn status_gives_back_what_was_resolved() {
    let spec = read(json!({
        "vcpu": 3, "memoryInGB": 5, "diskInGB": 7, "userDataURI": "http://a/u", "poolName": "p", "networkName": "n",
        "networkAddress": "192.0.2.7", "sshAuthorizedKeys": ["ssh-ed25519 AAAA x"],
    }));
    for spec in [spec, read(json!({}))] {
        let found = resolve(&spec, None, &defaults()).expect("the spec is good");
        assert_eq!(ResolvedSpec::from_status(&found.to_status()), found);
    }
}
