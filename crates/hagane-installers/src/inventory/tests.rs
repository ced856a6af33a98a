use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use hagane_ports::installer::{GroupNames, InventoryFormat, InventoryNode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn node(name: &str, last: u8, roles: &[NodeRole]) -> InventoryNode {
    InventoryNode {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::new(10, 9, 0, last)),
        ssh_port: 22,
        roles: roles.to_vec(),
        second_address: None,
    }
}

fn of(nodes: Vec<InventoryNode>) -> Inventory {
    Inventory { nodes, ..Inventory::default() }
}

fn three() -> Inventory {
    of(vec![
        node("zeta", 11, &[NodeRole::Master]),
        node("alpha", 12, &[NodeRole::Worker]),
        InventoryNode { ssh_port: 2222, ..node("mid", 13, &[NodeRole::Worker]) },
    ])
}

fn refusal(inventory: &Inventory) -> String {
    render_inventory(inventory).expect_err("the inventory is refused").to_string()
}

#[test]
fn renders_groups_in_the_inventory_s_order() {
    let inventory = three();
    insta::assert_snapshot!(render_inventory(&inventory).expect("valid inventory"), @r"
    [all]
    zeta ansible_host=10.9.0.11 ansible_port=22 ip=10.9.0.11 access_ip=10.9.0.11 etcd_member_name=etcd-zeta
    alpha ansible_host=10.9.0.12 ansible_port=22 ip=10.9.0.12 access_ip=10.9.0.12
    mid ansible_host=10.9.0.13 ansible_port=2222 ip=10.9.0.13 access_ip=10.9.0.13

    [kube_control_plane]
    zeta

    [etcd]
    zeta

    [kube_node]
    alpha
    mid

    [k8s_cluster:children]
    kube_control_plane
    kube_node
    ");
}

#[test]
fn renders_the_names_of_2019() {
    let inventory = Inventory { group_names: GroupNames::Legacy, ..three() };
    insta::assert_snapshot!(render_inventory(&inventory).expect("valid inventory"), @r#"
    [all]
    zeta ansible_ssh_host=10.9.0.11 ansible_ssh_port=22 ip=10.9.0.11 access_ip=10.9.0.11 etcd_member_name=etcd-zeta
    alpha ansible_ssh_host=10.9.0.12 ansible_ssh_port=22 ip=10.9.0.12 access_ip=10.9.0.12
    mid ansible_ssh_host=10.9.0.13 ansible_ssh_port=2222 ip=10.9.0.13 access_ip=10.9.0.13

    [kube-master]
    zeta

    [kube-node]
    alpha
    mid

    [etcd]
    zeta

    [ovn-central]
    zeta

    [ovn-controller]
    alpha
    mid

    [virtlet]
    alpha
    mid

    [k8s-cluster:children]
    kube-node
    kube-master
    "#);
}

#[test]
fn renders_yaml_with_both_addresses() {
    let mut inventory = Inventory { format: InventoryFormat::Yaml, ..three() };
    inventory.nodes.truncate(2);
    inventory.nodes[0].second_address = Some("fd00::11".parse().expect("an address"));
    insta::assert_snapshot!(render_inventory(&inventory).expect("valid inventory"), @r#"
    ---
    all:
      hosts:
        "zeta":
          ansible_host: "10.9.0.11"
          ansible_port: 22
          ip: "10.9.0.11"
          access_ip: "10.9.0.11"
          ip6: "fd00::11"
          access_ip6: "fd00::11"
          etcd_member_name: "etcd-zeta"
        "alpha":
          ansible_host: "10.9.0.12"
          ansible_port: 22
          ip: "10.9.0.12"
          access_ip: "10.9.0.12"
      children:
        kube_control_plane:
          hosts:
            "zeta": {}
        etcd:
          hosts:
            "zeta": {}
        kube_node:
          hosts:
            "alpha": {}
        k8s_cluster:
          children:
            kube_control_plane: {}
            kube_node: {}
    "#);
}

#[test]
fn further_groups_come_after_the_usual_ones() {
    let mut inventory = three();
    let groups = || [Group::new("hagane_joining", ["mid".to_owned()]), Group::new("none", [])];
    let text = render_with_groups(&inventory, &groups());
    assert!(
        text.contains("[kube_node]\nalpha\nmid\n\n[hagane_joining]\nmid\n\n[none]\n\n[k8s_cluster:children]"),
        "{text}"
    );
    inventory.format = InventoryFormat::Yaml;
    let text = render_with_groups(&inventory, &groups());
    assert!(text.contains("    hagane_joining:\n      hosts:\n        \"mid\": {}\n    none: {}\n"), "{text}");
}

#[test]
fn a_second_address_is_ipv6_and_one_of_its_own() {
    let with = |first: &str, second: &str| {
        let (address, second_address) = (first.parse().expect("an address"), second.parse().ok());
        refusal(&of(vec![InventoryNode { address, second_address, ..node("m", 1, &[NodeRole::Master]) }]))
    };
    assert!(with("10.9.0.1", "10.9.0.2").contains("an IPv6 address beside an IPv4 one"));
    assert!(with("fd00::1", "fd00::2").contains("an IPv6 address beside an IPv4 one"));
    assert!(with("10.9.0.1", "::1").contains("host itself"));
}

#[test]
fn puts_a_node_with_both_roles_into_both_groups() {
    let inventory = of(vec![node("one", 1, &[NodeRole::Master, NodeRole::Worker])]);
    let text = render_inventory(&inventory).expect("valid inventory");
    assert!(text.contains("[kube_control_plane]\none\n") && text.contains("[kube_node]\none\n"), "{text}");
}

#[test]
fn refuses_names_addresses_and_ports_that_cannot_stand_in_an_inventory() {
    let master = || node("m", 1, &[NodeRole::Master]);
    let with = |extra: InventoryNode| Inventory { nodes: vec![master(), extra], ..Inventory::default() };
    let bad_name = |name: &str| refusal(&with(node(name, 2, &[NodeRole::Worker])));
    for name in ["a b", "{{ 7 }}", "x\n[all]", "A", "", "localhost", "all"] {
        assert!(bad_name(name).contains("node name"), "{name}");
    }
    assert!(bad_name("m").contains("each name once"));
    assert!(refusal(&with(node("w", 1, &[NodeRole::Worker]))).contains("each address once"));
    assert!(refusal(&with(node("w", 2, &[]))).contains("at least one"));
    assert!(refusal(&with(node("w", 2, &[NodeRole::Master]))).contains("odd number"));
    assert!(refusal(&Inventory::default()).contains("odd number"));
    let port = InventoryNode { ssh_port: 0, ..node("w", 2, &[NodeRole::Worker]) };
    assert!(refusal(&with(port)).contains("65535"));
    let loopback = InventoryNode { address: IpAddr::V4(Ipv4Addr::LOCALHOST), ..node("w", 2, &[NodeRole::Worker]) };
    assert!(refusal(&with(loopback)).contains("host itself"));
}

#[test]
fn refuses_login_names_that_could_be_options() {
    for user in ["-oProxyCommand=x", "", "a b", "root\nx", "Root", &"u".repeat(33)] {
        assert!(check_user(user).is_err(), "{user:?}");
    }
    for user in ["root", "debian", "_svc-1.x"] {
        assert!(check_user(user).is_ok(), "{user:?}");
    }
}

fn rendered(value: Value) -> String {
    render_variables(&BTreeMap::from([("v".to_owned(), value)])).expect("the variables are possible")
}

#[test]
fn tags_every_string_however_deep() {
    let value = json!({"a": ["{{ 1 }}", {"b": "x"}], "n": 1, "t": true, "z": null});
    insta::assert_snapshot!(rendered(value), @r#"
    ---
    v: {"a": [!unsafe "{{ 1 }}", {"b": !unsafe "x"}], "n": 1, "t": true, "z": null}
    "#);
}

#[test]
fn escapes_whatever_could_end_a_quoted_string_or_a_line() {
    insta::assert_snapshot!(rendered(json!("q\" b\\ n\n r\r t\t z\0 d\u{7f} l\u{2028} ä 🦀")), @r#"
    ---
    v: !unsafe "q\" b\\ n\x0a r\x0d t\x09 z\x00 d\x7f l\u2028 \xe4 \U0001f980"
    "#);
}

#[test]
fn refuses_names_that_would_steer_ansible() {
    for name in ["ansible_connection", "hagane_payload", "hostvars", "1a", "a-b", "", "a b", "é", "vars"] {
        assert!(check_variable_name(name).is_err(), "{name:?}");
    }
    for name in ["kube_version", "_x", "A1"] {
        assert!(check_variable_name(name).is_ok(), "{name:?}");
    }
}

#[test]
fn refuses_templates_in_keys_and_endless_nesting() {
    let template = BTreeMap::from([("v".to_owned(), json!({"{{ lookup('pipe', 'x') }}": 1}))]);
    assert!(render_variables(&template).expect_err("a template in a key").to_string().contains("without a template"));
    let mut deep = json!(1);
    for _ in 0..40 {
        deep = json!([deep]);
    }
    assert!(render_variables(&BTreeMap::from([("v".to_owned(), deep)])).is_err());
}

proptest! {
    #[test]
    fn a_rendered_string_is_one_tagged_scalar_on_one_line(string in "\\PC*|[\\x00-\\x1f\"\\\\{}%#:]*") {
        let text = rendered(Value::String(string));
        let line = text.strip_prefix("---\nv: !unsafe \"").and_then(|rest| rest.strip_suffix("\"\n"));
        let inner = line.expect("one quoted scalar");
        prop_assert!(inner.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let unescaped = inner.replace("\\\\", "").replace("\\\"", "");
        prop_assert!(!unescaped.contains('"'));
    }
}
