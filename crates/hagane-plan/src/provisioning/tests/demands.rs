//! From specs as people write them to demands.

use hagane_api::bpa::provisioning::{Assignment, RolePlan};
use hagane_api::quantity::MemoryMib;
use serde_json::{Value, json};

use super::super::{Wanted, wanted};
use super::world::spec;
use crate::roles::{HostFacts, NodeRole, plan_roles};

fn ask(json: Value) -> Wanted {
    wanted(&spec(json), "edge", None).expect("the spec is good")
}

fn refuse(json: Value) -> Vec<String> {
    wanted(&spec(json), "edge", None).expect_err("the spec is bad").iter().map(ToString::to_string).collect()
}

fn nodes(wanted: &Wanted) -> Vec<String> {
    let line = |demand: &crate::roles::Demand| {
        let roles: Vec<&str> = demand.roles.iter().map(|role| role.as_str()).collect();
        format!("{} {}: {}", demand.node, roles.join("+"), demand.needs)
    };
    wanted.demands.iter().map(line).collect()
}

#[test]
fn reads_the_form_by_size() {
    let wanted =
        ask(json!({"master": {"cpu": 10, "memory": "4Gi"}, "worker": {"cpu": 20, "memory": "8Gi"}, "replicas": 2}));
    assert_eq!(
        nodes(&wanted),
        [
            "edge-master-1 master: 10 CPUs, 4 GiB of memory",
            "edge-worker-1 worker: 20 CPUs, 8 GiB of memory",
            "edge-worker-2 worker: 20 CPUs, 8 GiB of memory",
        ]
    );
    assert_eq!((wanted.next_master_index, wanted.next_worker_index), (2, 3));
}

#[test]
fn reads_the_form_by_mac_and_the_mixed_one() {
    let wanted = ask(json!({
        "masters": [{"master-1": {"mac-address": "52-54-00-6B-01-0A", "cpu": 4, "memory": "8Gi"}}, {"master-2": {}}],
        "workers": [{"worker-1": {"cpu": 2, "sriov": true}}, {"worker-2": {"qat": false}}],
        "worker": {"cpu": 1}, "master": {"memory": "1Gi", "replicas": 3},
    }));
    assert_eq!(
        nodes(&wanted),
        [
            "master-1 master: MAC address 52:54:00:6b:01:0a, 4 CPUs, 8 GiB of memory",
            "master-2 master: ",
            "edge-master-1 master: 1 GiB of memory",
            "edge-master-2 master: 1 GiB of memory",
            "edge-master-3 master: 1 GiB of memory",
            "worker-1 worker: 2 CPUs, sriov",
            "worker-2 worker: ",
            "edge-worker-1 worker: 1 CPUs",
        ]
    );
}

#[test]
fn without_workers_the_masters_are_workers() {
    for workers in [json!({}), json!({"workers": []}), json!({"worker": {"cpu": 1}, "replicas": 0})] {
        let mut spec = json!({"masters": [{"a": {}}]});
        spec.as_object_mut().expect("an object").extend(workers.as_object().cloned().unwrap_or_default());
        let wanted = ask(spec);
        assert_eq!(nodes(&wanted), ["a master+worker: "], "{workers}");
    }
}

#[test]
fn a_master_given_as_a_worker_too_is_one_node_in_both_roles() {
    let wanted = ask(json!({
        "masters": [{"a": {"mac-address": "52:54:00:00:10:01", "cpu": 2}}, {"b": {}}, {"c": {}}],
        "workers": [{"a": {"mac-address": "52-54-00-00-10-01", "memory": "1Gi"}}],
    }));
    assert_eq!(
        nodes(&wanted),
        ["a master+worker: MAC address 52:54:00:00:10:01, 2 CPUs, 1 GiB of memory", "b master: ", "c master: "]
    );
}

#[test]
fn reads_every_need() {
    let every = json!({
        "cpu": 4, "memory": "8Gi", "disk": "100Gi", "nics": 2, "sriov": true, "qat": true, "gpu": true, "arch": "x86_64",
        "labels": {"row": "7", "ssd": ""}, "failureDomain": "rack-1", "hostName": "h1",
    });
    let text = "host h1, 4 CPUs, 8 GiB of memory, 100 GiB of disk, 2 NICs, sriov, qat, gpu, architecture amd64, \
                failure domain rack-1, label row=7, label ssd=";
    assert_eq!(nodes(&ask(json!({"master": every})))[0], format!("edge-master-1 master+worker: {text}"));
    assert_eq!(nodes(&ask(json!({"master": {}, "workers": [{"w": every}]})))[1], format!("w worker: {text}"));
}

#[test]
fn replicas_of_a_name_are_numbered_nodes() {
    let wanted = ask(json!({
        "masters": [{"m": {"replicas": 3, "failureDomain": "a"}}],
        "workers": [{"gpu": {"gpu": true, "replicas": 2}}, {"none": {"replicas": 0}}, {"m": {"replicas": 3, "arch": "arm64"}}],
    }));
    let master = "architecture arm64, failure domain a";
    assert_eq!(
        nodes(&wanted),
        [
            format!("m-1 master+worker: {master}"),
            format!("m-2 master+worker: {master}"),
            format!("m-3 master+worker: {master}"),
            "gpu-1 worker: gpu".to_owned(),
            "gpu-2 worker: gpu".to_owned(),
        ]
    );
}

#[test]
fn a_number_that_a_name_has_is_left_out() {
    let wanted = ask(json!({"master": {}, "worker": {}, "replicas": 2, "workers": [{"edge-worker": {"replicas": 2}}]}));
    let names: Vec<&str> = wanted.demands.iter().map(|demand| demand.node.as_str()).collect();
    assert_eq!(names, ["edge-master-1", "edge-worker-1", "edge-worker-2", "edge-worker-3", "edge-worker-4"]);
}

#[test]
fn numbers_are_never_used_again() {
    let entry = |node: &str| Assignment { node: node.to_owned(), ..Assignment::default() };
    let plan = RolePlan {
        assignments: vec![
            entry("edge-master-1"),
            entry("edge-worker-2"),
            entry("edge-worker-007"),
            entry("edge-worker-x"),
        ],
        next_worker_index: 5,
        ..RolePlan::default()
    };
    let spec = spec(json!({"master": {}, "worker": {}, "replicas": 3, "workers": [{"edge-worker-6": {}}]}));
    let wanted = wanted(&spec, "edge", Some(&plan)).expect("the spec is good");
    let names: Vec<&str> = wanted.demands.iter().map(|demand| demand.node.as_str()).collect();
    assert_eq!(names, ["edge-master-1", "edge-worker-6", "edge-worker-2", "edge-worker-5", "edge-worker-7"]);
    assert_eq!((wanted.next_master_index, wanted.next_worker_index), (2, 8));
}

#[test]
fn names_field_and_value_of_what_is_refused() {
    for (spec, start) in [
        (json!({"masters": []}), "spec.masters: Required value"),
        (
            json!({"masters": (0..9).map(|number| json!({format!("m{number}"): {}})).collect::<Vec<_>>(), "master": {}}),
            "spec.masters: Invalid value: 10: must be at most 9 masters",
        ),
        (json!({"master": {"replicas": 2}}), "spec.master.replicas: Invalid value: 2: must be 1, 3 or 5"),
        (json!({"master": {"cpu": -2}}), "spec.master.cpu: Invalid value: -2"),
        (json!({"master": {"memory": "4GB"}}), "spec.master.memory: Invalid value: \"4GB\""),
        (json!({"master": {}, "replicas": 2}), "spec.replicas: Invalid value: 2"),
        (json!({"masters": [{"a": {}, "b": {}}]}), "spec.masters[0]: Invalid value: [\"a\",\"b\"]"),
        (json!({"masters": [{"a": {"mac-address": "x"}}]}), "spec.masters[0].a.mac-address: Invalid value: \"x\""),
        (
            json!({"masters": [{"m": {"mac-address": "52:54:00:00:00:01"}}], "workers": [{"w": {"mac-address": "52-54-00-00-00-01"}}]}),
            "spec.workers[0].w.mac-address: Duplicate value: \"52:54:00:00:00:01\"",
        ),
        (
            json!({"masters": [{"m": {"mac-address": "52:54:00:00:00:01"}}], "workers": [{"m": {"mac-address": "52:54:00:00:00:02"}}]}),
            "spec.workers[0].m: Duplicate value: \"m\"",
        ),
    ] {
        let errors = refuse(spec.clone());
        assert!(errors.len() == 1 && errors[0].starts_with(start), "{spec}: {errors:?}");
    }
}

#[test]
fn a_cluster_name_must_make_node_names() {
    let good = spec(json!({"master": {}}));
    for cluster in ["", "Edge", "a.b", &"a".repeat(60)] {
        let errors = wanted(&good, cluster, None).expect_err("the name is bad");
        assert_eq!(errors[0].field, "metadata.labels[cluster]", "{cluster}");
    }
}

#[test]
fn compares_memory_as_an_amount() {
    let sized = |name: &str, mib: u64| HostFacts {
        name: name.to_owned(),
        memory: Some(MemoryMib(mib)),
        ..HostFacts::default()
    };
    let hosts = [sized("x", 4096), sized("y", 16384)];
    let chosen = |memory: &Value| {
        let demands = ask(json!({"masters": [{"m": {"memory": memory}}]})).demands;
        let plan = plan_roles(&hosts, &demands, &[]);
        plan.assignments.first().map(|entry| entry.host.clone()).unwrap_or_default()
    };
    for text in
        ["4096Mi", "4Gi", "4194304Ki", "4294967296", "4G", "4e9", "4000000Ki", "4000000k", "4.0Gi", "+4Gi", ".5Gi", "0"]
    {
        assert_eq!(chosen(&json!(text)), "x", "{text}");
    }
    for text in ["4097Mi", "4194305Ki", "5G", "4.5Gi"] {
        assert_eq!(chosen(&json!(text)), "y", "{text}");
    }
    for text in ["17Gi", "1Ti"] {
        assert_eq!(chosen(&json!(text)), "", "{text}");
    }
    assert_eq!(chosen(&json!(4_294_967_296_i64)), "x");
    for text in ["4GB", "4gi", "4000000K", "-1Gi", "four", "1Gi2", "4 Gi", "1e", "", "99999999999999999999Ei"] {
        assert_eq!(refuse(json!({"masters": [{"m": {"memory": text}}]})).len(), 1, "{text}");
    }
}

#[test]
fn reads_cpus_as_people_write_them() {
    let cpu = |cpu: Value| ask(json!({"masters": [{"m": {"cpu": cpu}}]})).demands[0].needs.cpu.0;
    assert_eq!(
        [cpu(json!(4)), cpu(json!("4")), cpu(json!("4.5")), cpu(json!(0)), cpu(json!("500m"))],
        [4000, 4000, 4500, 0, 500]
    );
}

#[test]
fn roles_are_masters_first() {
    let wanted = ask(json!({"workers": [{"w": {}}], "masters": [{"m": {}}]}));
    assert_eq!(wanted.demands[0].roles, [NodeRole::Master]);
}
