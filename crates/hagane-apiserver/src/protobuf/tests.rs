use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ProtobufError, decode};

/// A field of bytes.
fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
    let mut length = value.len();
    let mut out = vec![number << 3 | 2];
    if number >= 16 {
        out = vec![(number << 3 | 2) | 0x80, number >> 4];
    }
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).expect("seven bits"));
    out.extend_from_slice(value);
    out
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, message: &[Vec<u8>]) -> Vec<u8> {
    let r#type = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes(1, &r#type), bytes(2, &message.concat()), bytes(3, b""), bytes(4, b"")].concat()
}

fn metadata(more: &[Vec<u8>]) -> Vec<u8> {
    let empty: Vec<u8> = [2, 3, 4, 5, 6].into_iter().flat_map(|number| bytes(number, b"")).collect();
    bytes(1, &[bytes(1, b"n"), empty, number(7, 0), bytes(8, b""), more.concat()].concat())
}

#[test]
fn reads_a_secret() {
    let pair = |value: &[u8]| [bytes(1, b"key"), bytes(2, value)].concat();
    let long = "x".repeat(300);
    let labels = bytes(11, &pair(long.as_bytes()));
    let message =
        [metadata(&[labels]), bytes(2, &pair(b"value")), bytes(3, b"Opaque"), bytes(4, &pair(b"text")), number(5, 0)];
    assert_eq!(
        decode(&body("v1", "Secret", &message)),
        Ok(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n", "labels": {"key": long}},
            "data": {"key": "dmFsdWU="}, "type": "Opaque", "stringData": {"key": "text"}, "immutable": false,
        }))
    );
}

#[test]
fn reads_times_lists_and_managed_fields() {
    // 2026-11-30T10:00:00.25Z
    let time = [vec![8, 0xa0, 0x92, 0xb5, 0xd8, 0x06], vec![0x10, 0x80, 0xe5, 0x9a, 0x77]].concat();
    let managed = [bytes(1, b"m"), bytes(4, &time), bytes(7, &bytes(1, br#"{"f:spec":{}}"#))].concat();
    let owner = [bytes(1, b"K"), bytes(5, b"g/v1"), bytes(3, b"o"), bytes(4, b"u"), number(6, 1)].concat();
    let more = [bytes(8, &time), bytes(13, &owner), bytes(14, b"f1"), bytes(14, b"f2"), bytes(17, &managed)];
    let spec = [bytes(1, b"me"), number(2, 15), bytes(4, &time), number(5, 0)].concat();
    assert_eq!(
        decode(&body("coordination.k8s.io/v1", "Lease", &[metadata(&more), bytes(2, &spec)])),
        Ok(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "n", "creationTimestamp": "2026-11-30T10:00:00Z", "finalizers": ["f1", "f2"],
                "ownerReferences": [{"kind": "K", "apiVersion": "g/v1", "name": "o", "uid": "u", "controller": true}],
                "managedFields": [{"manager": "m", "time": "2026-11-30T10:00:00Z", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-30T10:00:00.250000Z",
                "leaseTransitions": 0,
            },
        }))
    );
}

#[test]
fn reads_delete_options_of_any_group() {
    let message = [number(1, 0), bytes(2, &bytes(1, b"u")), bytes(4, b"Foreground"), bytes(5, b"All")];
    let options: Value = decode(&body("example.com/v1", "DeleteOptions", &message)).expect("is read");
    assert_eq!(options["gracePeriodSeconds"], json!(0));
    assert_eq!(options["preconditions"], json!({"uid": "u"}));
    assert_eq!(options["propagationPolicy"], json!("Foreground"));
    assert_eq!(options["dryRun"], json!(["All"]));
}

#[test]
fn refuses_what_it_cannot_read() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::Mark));
    let kind = ProtobufError::Kind { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
    assert_eq!(decode(&body("v1", "Pod", &[])), Err(kind));
    let cut = body("v1", "Secret", &[metadata(&[])]);
    assert_eq!(decode(&cut[..cut.len() - 6]), Err(ProtobufError::Malformed));
    assert_eq!(decode(&body("v1", "Secret", &[bytes(3, b"\xff")])), Err(ProtobufError::Field("type")));
    assert_eq!(decode(&body("v1", "Secret", &[number(3, 1)])), Err(ProtobufError::Field("type")));
}

proptest! {
    #[test]
    fn never_panics(kind in prop::sample::select(vec!["Secret", "Namespace", "Event", "DeleteOptions"]), message: Vec<u8>) {
        let _ = decode(&body("v1", kind, std::slice::from_ref(&message)));
        let _ = decode(&[b"k8s\0".to_vec(), message].concat());
    }
}
