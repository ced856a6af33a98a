//! Plans of files, and of files over what an API has.

use super::*;

const SITE: &str = "\
apiVersion: bpa.akraino.org/v1alpha1
kind: Provisioning
metadata: {name: edge-1}
spec: {master: {cpu: 2, memory: 4Gi}, worker: {cpu: 1, memory: 2Gi}, replicas: 1}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: big
  annotations: {inspect.metal3.io/hardwaredetails: '{\"cpu\": {\"count\": 4}, \"ramMebibytes\": 8192, \"nics\": [{\"mac\": \"52:54:00:00:00:01\", \"ip\": \"192.0.2.1\"}]}'}
spec: {online: true}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: small}
spec: {online: true}
status: {hardware: {cpu: {count: 1}, ramMebibytes: 2048, nics: [{mac: \"52:54:00:00:00:02\", ip: 192.0.2.2}]}}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: other}
";

fn read(text: &str) -> Result<Input, CliError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("site.yaml");
    std::fs::write(&path, text).expect("writable");
    let mut input = Input::default();
    input.read_file(&path)?;
    Ok(input)
}

fn plan(input: &Input) -> Result<Plan, CliError> {
    plan_with_runs(input).map(|(plan, _)| plan)
}

fn planned(text: &str) -> Result<Plan, CliError> {
    plan(&read(text)?)
}

#[test]
fn plans_from_the_yaml_that_the_api_takes() {
    let plan = planned(SITE).expect("a good site");
    let pairs: Vec<_> = plan.assignments.iter().map(|entry| (entry.node.as_str(), entry.host.as_str())).collect();
    assert!(plan.is_complete(), "{plan:?}");
    assert_eq!(pairs.iter().map(|(_, host)| *host).collect::<Vec<_>>(), ["big", "small"]);
    assert!(pairs[0].0.starts_with("edge-1-master-") && pairs[1].0.starts_with("edge-1-worker-"), "{pairs:?}");
}

#[test]
fn refuses_a_misspelt_field_as_the_api_does() {
    let error = planned(&SITE.replace("{cpu: 2,", "{cpus: 2,")).expect_err("misspelt").to_string();
    assert!(error.contains("Provisioning \"edge-1\": spec.master.cpus: unknown field: the fields are "), "{error}");
    let named = SITE.replace("{master: {cpu: 2, memory: 4Gi}, worker", "{masters: [{m1: {macs: x}}], worker");
    let error = planned(&named).expect_err("misspelt").to_string();
    assert!(error.contains("spec.masters[0].m1.macs: unknown field"), "{error}");
}

#[test]
fn uses_no_host_that_the_controller_would_not_use() {
    for (from, to, told) in [
        (r#", "ip": "192.0.2.1""#, "", "no address is known"),
        ("spec: {online: true}\n---", "spec: {online: \"yes\"}\n---", "it is not valid: "),
        ("  name: big\n", "  name: big\n  namespace: other\n", ""),
    ] {
        let site = SITE.replacen(from, to, 1);
        assert_ne!(site, SITE, "{from}");
        let plan = planned(&site).expect("it can be planned");
        assert!(!plan.is_complete() && plan.assignments.iter().all(|entry| entry.host != "big"), "{told}: {plan:?}");
        let reasons = plan.rejected.iter().filter(|host| host.host == "big").flat_map(|host| &host.reasons);
        let reasons: Vec<_> = reasons.map(String::as_str).collect();
        assert!(
            told.is_empty() == reasons.is_empty() && reasons.iter().all(|reason| reason.contains(told)),
            "{told}: {reasons:?}"
        );
    }
}

#[test]
fn hosts_of_one_name_in_two_namespaces_are_two() {
    let other = "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: small, namespace: a}\nspec: {online: true}\n";
    assert!(planned(&format!("{other}---\n{SITE}")).expect("a good site").is_complete());
}

#[test]
fn says_what_is_short() {
    let plan = planned(&SITE.replace("replicas: 1", "replicas: 2")).expect("a good site");
    assert_eq!(plan.unsatisfied.len(), 1);
    let page = table(&plan).expect("plain data");
    assert!(page.contains("DEMAND") && page.contains("edge-1-worker-"), "{page}");
}

#[test]
fn names_the_file_the_object_and_the_field() {
    let error = planned(&SITE.replace("memory: 4Gi", "memory: 4GB")).expect_err("no quantity").to_string();
    assert!(
        error.contains("site.yaml: Provisioning \"edge-1\": spec.master.memory: Invalid value: \"4GB\""),
        "{error}"
    );
    let broken = planned("a: [").expect_err("no YAML").to_string();
    assert!(broken.contains("site.yaml: line 1"), "{broken}");
    assert!(
        planned("kind: ConfigMap\napiVersion: v1\nmetadata: {}\n")
            .expect_err("none")
            .to_string()
            .contains("no Provisioning")
    );
}

fn over_api(file: &str, api: &[Value]) -> Plan {
    let mut input = read(file).expect("a good file");
    let objects = |kind: &str| -> Vec<DynamicObject> {
        let of_kind = api.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| serde_json::from_value(object.clone()).expect("an object")).collect()
    };
    input.join_hosts(objects("BareMetalHost"));
    input.join_provisionings(&objects("Provisioning"));
    plan(&input).expect("it can be planned")
}

/// What the API has once `SITE` was installed.
fn installed() -> Vec<Value> {
    let consumer = json!({"kind": "Provisioning", "namespace": "default", "name": "edge-1", "uid": "p"});
    let host = |name: &str, uid: &str, cpus: u32, gib: u32, octet: u32| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "creationTimestamp": format!("2026-01-0{octet}T00:00:00Z")},
            "spec": {"online": true, "consumerRef": if uid == "f" { Value::Null } else { consumer.clone() }},
            "status": {"hardware": {
                "cpu": {"count": cpus}, "ramMebibytes": gib * 1024,
                "nics": [{"mac": format!("52:54:00:00:00:0{octet}"), "ip": format!("192.0.2.{octet}")}],
            }},
        })
    };
    let entry = |node: &str, role: &str, host: &str, uid: &str| json!({"node": node, "roles": [role], "host": host, "hostUid": uid});
    vec![
        host("big", "b", 4, 8, 1),
        host("small", "s", 1, 2, 2),
        host("free", "f", 2, 4, 3),
        json!({
            "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "edge-1", "namespace": "default", "uid": "p"}, "spec": {"master": {}},
            "status": {"plan": {
                "generation": 1, "nextMasterIndex": 2, "nextWorkerIndex": 2,
                "assignments": [
                    entry("edge-1-master-1", "master", "big", "b"), entry("edge-1-worker-1", "worker", "small", "s"),
                ],
            }},
        }),
    ]
}

fn pairs(plan: &Plan) -> Vec<(&str, &str)> {
    plan.assignments.iter().map(|entry| (entry.node.as_str(), entry.host.as_str())).collect()
}

#[test]
fn nodes_that_the_api_has_stay_on_their_hosts() {
    // With more workers the planner would choose otherwise, were it free.
    let plan = over_api(&SITE.replace("replicas: 1", "replicas: 2"), &installed());
    let stays = ("recorded before, and stays".to_owned(), 2);
    assert_eq!(
        pairs(&plan),
        [("edge-1-master-1", "big"), ("edge-1-worker-1", "small"), ("edge-1-worker-2", "free")],
        "{plan:?}"
    );
    let recorded = plan.assignments.iter().filter(|entry| entry.reasons.contains(&stays.0)).count();
    assert_eq!((recorded, plan.rejected.len(), plan.is_complete()), (stays.1, 0, true));
}

#[test]
fn a_file_over_the_api_changes_what_it_names_and_nothing_else() {
    let labelled = "\
apiVersion: bpa.akraino.org/v1alpha1
kind: Provisioning
metadata: {name: edge-2}
spec: {master: {labels: {rack: r1}}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: free, labels: {rack: r1}}
spec: {online: true}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: big, labels: {rack: r1}}
spec: {online: true}
";
    let plan = over_api(labelled, &installed());
    assert_eq!(pairs(&plan), [("edge-2-master-1", "free")], "{plan:?}");
    let big = plan.rejected.iter().find(|entry| entry.host == "big").expect("big is told of");
    assert_eq!(big.reasons, ["is claimed by Provisioning default/edge-1"]);
}

#[test]
fn provisionings_of_one_input_do_not_share_hosts() {
    let second = SITE.split("---\n").next().expect("the Provisioning").replace("edge-1", "edge-2");
    let plan = planned(&format!("{SITE}---\n{second}")).expect("a good site");
    assert_eq!(plan.assignments.len(), 2);
    let unmet: Vec<_> = plan.unsatisfied.iter().map(|entry| entry.demand.as_str()).collect();
    assert_eq!(unmet, ["edge-2-master-1", "edge-2-worker-1"]);
    assert!(plan.rejected.is_empty(), "hosts of the first are not told of again: {plan:?}");
}

/// Fenced blocks of a guide: language and text.
fn blocks(guide: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    for line in guide.lines() {
        let trimmed = line.trim_start();
        match (trimmed.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((line.len() - trimmed.len(), language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, language, text)| (language, text))),
            (None, Some((indent, _, text))) => {
                text.push_str(line.get(*indent..).unwrap_or_default());
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[tokio::test]
async fn the_guide_about_choosing_hosts_shows_what_is_printed() {
    let guide = include_str!("../../../../docs/guides/choose-hosts.md");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut printed: Option<String> = None;
    let mut commands = 0;
    for (language, text) in blocks(guide) {
        match language.as_str() {
            "yaml" => {
                let name = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a file name first");
                std::fs::write(folder.path().join(name), &text).expect("writable");
            }
            "sh" => {
                for command in text.lines() {
                    let (command, code) = command.split_once("  # exit code ").unwrap_or((command, "0"));
                    let Ok(crate::args::Cli { command: crate::args::Command::Plan(mut args) }) =
                        clap::Parser::try_parse_from(command.split_whitespace())
                    else {
                        unreachable!("no hagane plan: {command}")
                    };
                    args.filenames.iter_mut().for_each(|file| *file = folder.path().join(&*file));
                    let (page, complete) = answer(&args).await.expect("a plan");
                    assert_eq!(if complete { "0" } else { "2" }, code, "{command}\n{page}");
                    printed = Some(page);
                    commands += 1;
                }
            }
            "text" => assert_eq!(printed.take().as_deref(), Some(text.as_str()), "the output is another now"),
            other => unreachable!("a block of {other:?}"),
        }
    }
    assert!(commands >= 4 && printed.is_none(), "{commands} commands, or one without its output");
}

/// A site whose cluster stands with two workers, as the API has it, and asks for this many.
fn standing(replicas: i64) -> String {
    let node = |node: &str, role: &str, host: &str| json!({"node": node, "roles": [role], "host": host, "hostUid": format!("uid-{host}")});
    let nodes = json!([
        node("edge-1-master-1", "master", "big"),
        node("edge-1-worker-1", "worker", "small"),
        node("edge-1-worker-2", "worker", "third")
    ]);
    let plan = json!({"generation": 1, "assignments": nodes, "nextMasterIndex": 2, "nextWorkerIndex": 3});
    let settings = hagane_plan::provisioning::settings(&ProvisioningSpec::default());
    let installed = json!({"run": "u-1", "nodes": nodes, "kubernetesVersion": "1.36.1", "settings": settings});
    let status =
        json!({"plan": plan, "installed": installed, "cluster": "edge-1", "kubeconfigSecret": "edge-1-kubeconfig"});
    let third = "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: third}\nstatus: {hardware: {cpu: {count: 1}, ramMebibytes: 2048, nics: [{mac: \"52:54:00:00:00:03\", ip: 192.0.2.3}]}}\n";
    SITE.replace("replicas: 1}", &format!("replicas: {replicas}}}\nstatus: {status}")) + third
}

#[test]
fn shows_the_run_that_a_change_of_a_standing_cluster_needs() {
    let runs = |text: &str| plan_with_runs(&read(text).expect("a good site")).expect("a plan").1;
    assert_eq!((runs(SITE), runs(&standing(2))), (Vec::new(), Vec::new()), "nothing stands, and nothing changes");
    let told = |runs: &[NextRun]| serde_json::to_value(runs).expect("JSON")[0].clone();
    let leaves = told(&runs(&standing(1)));
    assert_eq!((&leaves["verb"], &leaves["nodes"]), (&json!("RemoveNodes"), &json!(["edge-1-worker-2"])), "{leaves}");
    assert_eq!(leaves["needsApproval"], false);
    let joins = runs(&standing(3));
    assert_eq!(told(&joins)["verb"], "AddWorkers");
    let page = plan_run::table(&joins);
    assert!(page.contains("edge-1        AddWorkers  edge-1-worker-3  -"), "{page}");
    let skips = told(&runs(&standing(2).replace("replicas: 2}", "replicas: 2, kubernetesVersion: 1.39.0}")));
    assert!(skips["verb"].is_null() && skips["reason"].as_str().is_some_and(|told| told.contains("1.37")), "{skips}");
}
