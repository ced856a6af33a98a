//! One rule each.

use serde_json::{Value, json};

use crate::bpa::provisioning::validate;

fn errors(spec: &Value) -> Vec<String> {
    validate(&json!({"spec": spec}), None).iter().map(ToString::to_string).collect()
}

fn every_need() -> Value {
    json!({
        "cpu": 4, "memory": "8Gi", "disk": "100G", "nics": 2, "sriov": true, "qat": true, "gpu": true, "arch": "arm64",
        "labels": {"example.org/row": "7", "ssd": ""}, "failureDomain": "rack-1", "hostName": "h1.example",
    })
}

#[test]
fn takes_every_need_for_sizes_and_names() {
    for spec in [
        json!({"master": every_need()}),
        json!({"master": {}, "worker": every_need(), "replicas": 1}),
        json!({"masters": [{"m": every_need()}]}),
        json!({"master": {}, "workers": [{"w": every_need()}]}),
        json!({"master": {"arch": "x86_64"}, "worker": {"arch": "aarch64", "nics": 0, "gpu": false}}),
    ] {
        assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn names_field_value_and_what_is_allowed() {
    for (need, start) in [
        (json!({"nics": -1}), "nics: Invalid value: -1: must be from 0 to 64"),
        (json!({"nics": 65}), "nics: Invalid value: 65: must be from 0 to 64"),
        (json!({"arch": "i386"}), "arch: Invalid value: \"i386\": must be one of amd64, arm64, x86_64, aarch64"),
        (json!({"arch": ""}), "arch: Invalid value: \"\": must be one of"),
        (json!({"labels": {"a b": "x"}}), "labels: Invalid value: \"a b\": is no label: name part must consist"),
        (json!({"labels": {"a": "x y"}}), "labels[a]: Invalid value: \"x y\": a valid label must be"),
        (json!({"failureDomain": ""}), "failureDomain: Invalid value: \"\": must not be empty"),
        (json!({"failureDomain": "rack 1"}), "failureDomain: Invalid value: \"rack 1\": a valid label must be"),
        (json!({"hostName": "Host_1"}), "hostName: Invalid value: \"Host_1\": is no name of a BareMetalHost"),
        (json!({"hostName": ""}), "hostName: Invalid value: \"\": is no name of a BareMetalHost"),
        (json!({"disk": "-1"}), "disk: Invalid value: \"-1\": must not be negative"),
    ] {
        for (spec, path) in [
            (json!({"master": need}), "spec.master"),
            (json!({"master": {}, "worker": need}), "spec.worker"),
            (json!({"masters": [{"m": need}]}), "spec.masters[0].m"),
            (json!({"master": {}, "workers": [{"v": {}}, {"w": need}]}), "spec.workers[1].w"),
        ] {
            let found = errors(&spec);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{path}.{start}")), "{spec}: {found:?}");
        }
    }
}

#[test]
fn counts_the_nodes_that_replicas_make() {
    for (spec, start) in [
        (json!({"masters": [{"m": {"replicas": 3}}]}), ""),
        (json!({"masters": [{"m": {"replicas": 2}}, {"n": {}}]}), ""),
        (json!({"master": {}, "workers": [{"w": {"replicas": 0}}, {"v": {"replicas": 40}}]}), ""),
        (json!({"masters": [{"m": {"replicas": 2}}]}), "spec.masters: Invalid value: 2: must be an odd number"),
        (json!({"masters": [{"m": {"replicas": 11}}]}), "spec.masters: Invalid value: 11: must be at most 9"),
        (json!({"masters": [{"m": {"replicas": 0}}]}), "spec.masters: Required value: at least one master"),
        (
            json!({"master": {}, "workers": [{"w": {"replicas": -1}}]}),
            "spec.workers[0].w.replicas: Invalid value: -1: must be from 0 to 5000",
        ),
        (
            json!({"master": {}, "workers": [{"v": {"replicas": 5000}}, {"w": {"replicas": i64::MAX}}]}),
            "spec.workers: Invalid value: 9223372036854775807: must be at most 5000 nodes",
        ),
        (
            json!({"master": {}, "workers": [{"w": {"replicas": 2, "mac-address": "52:54:00:00:10:01"}}]}),
            "spec.workers[0].w.mac-address: Invalid value: \"52:54:00:00:10:01\": is one host, and more than one node",
        ),
        (
            json!({"master": {}, "workers": [{"w": {"replicas": 2, "hostName": "h1"}}]}),
            "spec.workers[0].w.hostName: Invalid value: \"h1\": is one host, and more than one node",
        ),
        (
            json!({"master": {"replicas": 3, "hostName": "h1"}}),
            "spec.master.hostName: Invalid value: \"h1\": is one host",
        ),
        (
            json!({"master": {}, "worker": {"hostName": "h1"}, "replicas": 2}),
            "spec.worker.hostName: Invalid value: \"h1\": is one host",
        ),
        (
            json!({"master": {}, "workers": [{"w": {"replicas": 2}}, {"w-2": {}}]}),
            "spec.workers[1].w-2: Duplicate value: \"w-2\": the name stands at spec.workers[0].w too",
        ),
        (
            json!({"master": {}, "workers": [{&"w".repeat(62): {"replicas": 2}}]}),
            "spec.workers[0]: Invalid value: \"wwww",
        ),
    ] {
        let found = errors(&spec);
        let right = if start.is_empty() { found.is_empty() } else { found.len() == 1 && found[0].starts_with(start) };
        assert!(right, "{spec}: {found:?}");
    }
}

#[test]
fn a_host_stands_once() {
    let at = |host: &str| json!({"hostName": host});
    for (spec, start) in [
        (json!({"masters": [{"a": at("h1")}], "workers": [{"a": at("h1")}, {"b": at("h2")}]}), ""),
        (
            json!({"masters": [{"a": at("h1")}], "workers": [{"b": at("h1")}]}),
            "spec.workers[0].b.hostName: Duplicate value: \"h1\": the host stands at spec.masters[0].a too",
        ),
        (
            json!({"master": at("h1"), "workers": [{"b": at("h1")}]}),
            "spec.workers[0].b.hostName: Duplicate value: \"h1\": the host stands at spec.master too",
        ),
        (
            json!({"master": at("h1"), "worker": at("h1")}),
            "spec.worker.hostName: Duplicate value: \"h1\": the host stands at spec.master too",
        ),
        (
            json!({"masters": [{"a": at("h1")}], "workers": [{"a": at("h2")}]}),
            "spec.workers[0].a: Duplicate value: \"a\": the name stands at spec.masters[0].a too, for another host",
        ),
    ] {
        let found = errors(&spec);
        let right = if start.is_empty() { found.is_empty() } else { found.len() == 1 && found[0].starts_with(start) };
        assert!(right, "{spec}: {found:?}");
    }
}

#[test]
fn one_node_in_both_roles_asks_for_nothing_that_contradicts_itself() {
    let both = |master: Value, worker: Value| json!({"masters": [{"a": master}], "workers": [{"a": worker}]});
    for (spec, start) in [
        (both(json!({"arch": "amd64", "cpu": 2}), json!({"arch": "x86_64", "memory": "1Gi"})), ""),
        (both(json!({"labels": {"x": "1"}}), json!({"labels": {"y": "2"}, "failureDomain": "z"})), ""),
        (
            both(json!({"arch": "amd64"}), json!({"arch": "arm64"})),
            "spec.workers[0].a.arch: Invalid value: \"arm64\": must be the same as at spec.masters[0].a",
        ),
        (
            both(json!({"failureDomain": "y"}), json!({"failureDomain": "z"})),
            "spec.workers[0].a.failureDomain: Invalid value: \"z\": must be the same",
        ),
        (
            both(json!({"labels": {"x": "1"}}), json!({"labels": {"x": "2"}})),
            "spec.workers[0].a.labels[x]: Invalid value: \"2\": must be the same",
        ),
        (
            json!({"masters": [{"a": {"replicas": 1}}], "workers": [{"a": {"replicas": 2}}]}),
            "spec.workers[0].a: Duplicate value: \"a-1\": the name stands at spec.masters[0].a too, with other replicas",
        ),
    ] {
        let found = errors(&spec);
        let right = if start.is_empty() { found.is_empty() } else { found.len() == 1 && found[0].starts_with(start) };
        assert!(right, "{spec}: {found:?}");
    }
}
