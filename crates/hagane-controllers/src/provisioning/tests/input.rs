//! What people write: refused with the field, the value and what is allowed, or done.

use hagane_api::bpa::GROUP;
use hagane_ports::NodeRole;
use serde_json::{Value, json};

use super::site::{Site, mac, provisioning, provisionings};
use crate::runtime::Resource;
use crate::testing::text;

async fn refused(site: &Site, resource: Resource, object: Value) -> String {
    match site.world.try_create(resource, object).await {
        Err(kube::Error::Api(status)) if status.code == 422 => status.message,
        other => unreachable!("it should be refused with 422: {other:?}"),
    }
}

#[tokio::test]
async fn an_inventory_has_every_node_once_in_the_right_groups() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8), (3, 4, 8), (10, 4, 8), (11, 4, 8), (12, 4, 8)]).await;
    let node = |name: &str, number: u8| json!({name: {"mac-address": mac(number)}});
    let mut wish = provisioning(
        "p1",
        json!({
            "masters": [node("master-1", 1), node("master-2", 2), node("master-3", 12)],
            "workers": [node("worker-10", 10), node("worker-1", 3), node("worker-11", 11), node("master-2", 2)],
            "PodSubnet": "",
        }),
    );
    wish["metadata"]["labels"] = json!({"cluster": "alpha", "owner": "t"});
    site.world.create(provisionings(), wish).await;
    let ready = site.install("p1").await;
    let request = site.installer.request(&text(&ready["status"]["run"]["id"])).expect("a request");
    let of = |role: NodeRole| {
        let nodes = request.inventory.nodes.iter().filter(move |node| node.roles.contains(&role));
        nodes.map(|node| format!("{} {}", node.name, node.address)).collect::<Vec<_>>()
    };
    assert_eq!(of(NodeRole::Master), ["master-1 192.0.2.1", "master-2 192.0.2.2", "master-3 192.0.2.12"]);
    assert_eq!(
        of(NodeRole::Worker),
        ["master-2 192.0.2.2", "worker-10 192.0.2.10", "worker-1 192.0.2.3", "worker-11 192.0.2.11"]
    );
    assert_eq!((request.inventory.nodes.len(), request.variables.len()), (6, 0));
}

#[tokio::test]
async fn nodes_that_make_no_sense_are_refused() {
    let site = Site::running(&[]).await;
    let at = |number: u8| json!({"mac-address": mac(number)});
    for (spec, told) in [
        (json!({"masters": []}), "spec.masters: Required value: at least one master is needed"),
        (json!({"masters": [{"m-1": at(1)}, {"m-2": at(2)}]}), "spec.masters: Invalid value: 2: must be an odd number"),
        (
            json!({"masters": [{"m-1": at(1), "m-2": at(2)}]}),
            "spec.masters[0]: Invalid value: [\"m-1\",\"m-2\"]: must hold exactly one",
        ),
        (json!({"master": {"replicas": 4}}), "spec.master.replicas: Invalid value: 4: must be 1, 3 or 5"),
        (
            json!({"masters": [{"master-1": at(3)}], "workers": [{"worker-9": {"mac-address": mac(3).to_uppercase()}}]}),
            "spec.workers[0].worker-9.mac-address: Duplicate value: \"52:54:00:6b:01:03\"",
        ),
        (
            json!({"masters": [{"m": {}}], "workers": [{"node-1": at(4)}, {"node-1": at(5)}]}),
            "spec.workers[1].node-1: Duplicate value: \"node-1\"",
        ),
        (
            json!({"masters": [{"m": {"mac-address": "ff:ff:ff:ff:ff:ff"}}]}),
            "spec.masters[0].m.mac-address: Invalid value: \"ff:ff:ff:ff:ff:ff\"",
        ),
        (json!({"master": {}, "ssh": {"secretName": "../x"}}), "spec.ssh.secretName: Invalid value: \"../x\""),
        (json!({"master": {}, "ssh": {"port": 0}}), "spec.ssh.port"),
        (json!({"master": {}, "timeLimitMinutes": 0}), "spec.timeLimitMinutes"),
        (json!({"master": {}, "installer": "bash"}), "spec.installer: Unsupported value: \"bash\""),
        (json!({"master": "big"}), "spec.master: Invalid value"),
        (json!({"masters": "m"}), "spec.masters: Invalid value"),
        (json!({"master": {}, "replicas": "2"}), "spec.replicas: Invalid value"),
        (json!({"master": {}, "worker": {}, "replicas": 99_999}), "spec.replicas"),
        (json!({"master": {}, "PodSubnet": "{{ lookup('pipe','touch X') }}"}), "spec.PodSubnet: Invalid value"),
        (
            json!({"master": {}, "variables": {"ansible_connection": "local"}}),
            "spec.variables: Invalid value: \"ansible_connection\"",
        ),
        (json!({"master": {}, "KUDPlugins": ["{{ x }}"]}), "spec.KUDPlugins[0]: Invalid value: \"{{ x }}\""),
    ] {
        let message = refused(&site, provisionings(), provisioning("p", spec.clone())).await;
        assert!(message.contains(told), "{spec}: {message}");
    }
}

#[tokio::test]
async fn amounts_that_are_none_are_refused() {
    let site = Site::running(&[]).await;
    for memory in ["4GB", "4gi", "4000000K", "-1Gi", "four", "1Gi2", "4 Gi", "1e", "", "99999999999999999999Ei"] {
        let wish = provisioning("p", json!({"master": {"cpu": 4, "memory": memory}}));
        let message = refused(&site, provisionings(), wish).await;
        assert!(message.contains(&format!("spec.master.memory: Invalid value: \"{memory}\"")), "{message}");
    }
    for (cpu, told) in [(json!(-2), "-2"), (json!("x"), "\"x\""), (json!(4.5), "integer,string"), (json!(true), "")] {
        let message = refused(&site, provisionings(), provisioning("p", json!({"master": {"cpu": cpu}}))).await;
        assert!(message.contains("spec.master.cpu") && message.contains(told), "{message}");
    }
    for (number, size) in
        [json!({"cpu": 0}), json!({"cpu": "4"}), json!({"cpu": "4.5"}), json!({}), json!({"memory": 0})]
            .into_iter()
            .enumerate()
    {
        site.world.create(provisionings(), provisioning(&format!("p{number}"), json!({"master": size}))).await;
    }
}

#[tokio::test]
async fn packages_are_names_with_or_without_a_version() {
    let site = Site::running(&[]).await;
    let softwares = Resource::of(GROUP, "softwares").expect("a kind of ours");
    let software = |spec: Value| json!({"metadata": {"name": "s", "labels": {"cluster": "edge-2"}}, "spec": spec});
    for (spec, told) in [
        (json!({"masterSoftware": ["curl; rm"]}), "spec.masterSoftware[0]: Invalid value: \"curl; rm\""),
        (json!({"masterSoftware": ["-y"]}), "spec.masterSoftware[0]: Invalid value: \"-y\""),
        (
            json!({"workerSoftware": [{"jq": {"version": "1 2"}}]}),
            "spec.workerSoftware[0].jq.version: Invalid value: \"1 2\"",
        ),
        (json!({"workerSoftware": ["jq", "jq"]}), "spec.workerSoftware[1]: Duplicate value: \"jq\""),
        (json!({"workerSoftware": "jq"}), "spec.workerSoftware: Invalid value"),
        (json!({"workerSoftware": [7]}), "spec.workerSoftware[0]: Invalid value: 7"),
    ] {
        let message = refused(&site, softwares, software(spec.clone())).await;
        assert!(message.contains(told), "{spec}: {message}");
    }
    let good = json!({"masterSoftware": ["curl", {"jq": {"version": "1.6-2.1"}}], "workerSoftware": ["htop"]});
    site.world.create(softwares, software(good)).await;
}
