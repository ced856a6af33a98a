//! Creates and updates.

use serde_json::json;

use crate::support::{CONFIG_MAPS, HOSTS, Lab, config_map, host};

#[tokio::test]
async fn a_create_fills_in_what_the_server_owns() {
    let lab = Lab::new().await;
    let mut body = host("h1");
    body["metadata"]["uid"] = "mine".into();
    body["metadata"]["generation"] = 7.into();
    body["status"] = json!({"poweredOn": true});
    let answer = lab.post(&format!("{HOSTS}?fieldManager=me"), &body).await;
    assert_eq!(answer.code, 201);
    assert_ne!(answer.text("/metadata/uid"), "mine");
    assert_eq!(answer.body["metadata"]["generation"], 1);
    assert_eq!(answer.body.get("status"), None);
    assert_eq!(answer.text("/metadata/managedFields/0/manager"), "me");
    let again = lab.post(HOSTS, &host("h1")).await;
    assert_eq!((again.code, again.text("/reason")), (409, "AlreadyExists"));
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let lab = Lab::new().await;
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    let (first, second) = (lab.post(CONFIG_MAPS, &generated).await, lab.post(CONFIG_MAPS, &generated).await);
    assert!(first.text("/metadata/name").starts_with("a-"));
    assert_ne!(first.text("/metadata/name"), second.text("/metadata/name"));
    let bad = lab.post(CONFIG_MAPS, &config_map("Not_A_Name")).await;
    assert_eq!((bad.code, bad.text("/details/causes/0/field")), (422, "metadata.name"));
    let none = lab.post(CONFIG_MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    assert_eq!(none.code, 422);
    let mut versioned = config_map("v");
    versioned["metadata"]["resourceVersion"] = "1".into();
    assert!(lab.post(CONFIG_MAPS, &versioned).await.code >= 400);
}

#[tokio::test]
async fn bodies_must_agree_with_the_path() {
    let lab = Lab::new().await;
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = "default".into();
    let mut other_kind = config_map("a");
    other_kind["kind"] = "Secret".into();
    for body in [elsewhere, other_kind, json!([]), json!("x")] {
        assert_eq!(lab.post(CONFIG_MAPS, &body).await.code, 400, "{body}");
    }
    for (content_type, body, code) in [
        ("text/plain", "{}", 415),
        ("application/json", "{", 400),
        ("application/json", "", 400),
        ("application/vnd.kubernetes.protobuf", "xyz", 400),
        ("application/yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\n", 201),
    ] {
        assert_eq!(lab.send("POST", CONFIG_MAPS, content_type, body).await.code, code, "{content_type} {body}");
    }
    let large = vec![b' '; 3 * 1024 * 1024 + 1];
    assert_eq!(lab.send("POST", CONFIG_MAPS, "application/json", large).await.code, 413);
    let missing = lab.post("/api/v1/namespaces/nowhere/configmaps", &config_map("a")).await;
    assert_eq!((missing.code, missing.text("/message")), (404, "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_about_or_ignored() {
    let lab = Lab::new().await;
    let mut body = host("h1");
    body["spec"]["onlien"] = true.into();
    let strict = lab.post(&format!("{HOSTS}?fieldValidation=Strict"), &body).await;
    assert_eq!((strict.code, strict.text("/message")), (400, "strict decoding error: unknown field \"spec.onlien\""));
    let warned = lab.post(&format!("{HOSTS}?fieldValidation=Warn"), &body).await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"spec.onlien\\\"\""]);
    assert_eq!(warned.body["spec"].get("onlien"), None);
    body["metadata"]["name"] = "h2".into();
    assert_eq!(lab.post(&format!("{HOSTS}?fieldValidation=Ignore"), &body).await.warnings(), Vec::<&str>::new());
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"},"data":{"a":"1","a":"2"}}"#;
    let answer = lab.send("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), "application/json", twice).await;
    assert_eq!((answer.code, answer.text("/message")), (400, "strict decoding error: duplicate field \"data.a\""));
}

#[tokio::test]
async fn wrong_types_and_values_name_the_field() {
    let lab = Lab::new().await;
    let mut body = host("h1");
    body["spec"]["online"] = "yes".into();
    let wrong = lab.post(HOSTS, &body).await;
    assert_eq!((wrong.code, wrong.text("/reason")), (422, "Invalid"));
    assert_eq!(wrong.text("/details/causes/0/field"), "spec.online");
    let mut map = config_map("a");
    map["data"]["n"] = 1.into();
    let wrong = lab.post(CONFIG_MAPS, &map).await;
    assert_eq!(wrong.code, 400, "{}", wrong.body);
    assert!(wrong.text("/message").contains("data.n"), "{}", wrong.body);
    let mut labelled = config_map("a");
    labelled["metadata"]["labels"] = json!({"a b": "c"});
    let wrong = lab.post(CONFIG_MAPS, &labelled).await;
    assert_eq!((wrong.code, wrong.text("/details/causes/0/field")), (422, "metadata.labels"));
}

#[tokio::test]
async fn generation_counts_wishes_only_and_status_is_apart() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    let generation = |answer: &crate::support::Answer| answer.body["metadata"]["generation"].as_i64();
    let labelled = lab.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(generation(&labelled), Some(1));
    let changed = lab.merge(&path, &json!({"spec": {"online": false}, "status": {"poweredOn": true}})).await;
    assert_eq!((generation(&changed), changed.body.get("status")), (Some(2), None));
    let status = lab
        .merge(
            &format!("{path}/status"),
            &json!({"spec": {"online": true}, "metadata": {"labels": {"a": "c"}}, "status": {"poweredOn": true}}),
        )
        .await;
    assert_eq!(generation(&status), Some(2));
    assert_eq!(status.body["spec"]["online"], false);
    assert_eq!(status.body["metadata"]["labels"]["a"], "b");
    assert_eq!(status.body["status"]["poweredOn"], true);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let lab = Lab::new().await;
    let created = lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    let revision = lab.server.store().revision();
    let same = lab.put(&path, &created.body).await;
    assert_eq!((same.code, same.version()), (200, created.version()));
    assert_eq!(lab.merge(&path, &json!({"spec": {"online": true}})).await.version(), created.version());
    assert_eq!(lab.merge(&path, &json!({})).await.version(), created.version());
    assert_eq!(lab.server.store().revision(), revision);
}

#[tokio::test]
async fn stale_and_foreign_updates_are_conflicts() {
    let lab = Lab::new().await;
    let created = lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    lab.merge(&path, &json!({"spec": {"online": false}})).await;
    let stale = lab.put(&path, &created.body).await;
    assert_eq!((stale.code, stale.text("/reason")), (409, "Conflict"));
    let pinned = json!({"metadata": {"resourceVersion": created.version()}, "spec": {"online": true}});
    assert_eq!(lab.merge(&path, &pinned).await.code, 409);
    assert_eq!(lab.merge(&path, &json!({"metadata": {"uid": "other"}})).await.code, 409);
    let blind = lab.put(&path, &host("h1")).await;
    assert_eq!(blind.code, 422);
    assert!(
        blind
            .text("/message")
            .contains("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
    );
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(lab.put(&format!("{CONFIG_MAPS}/a"), &config_map("a")).await.code, 200);
    assert_eq!(lab.put(&format!("{CONFIG_MAPS}/b"), &config_map("b")).await.code, 404);
}

#[tokio::test]
async fn a_lease_is_created_by_an_update() {
    let lab = Lab::new().await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/lab/leases/l";
    assert_eq!(lab.put(path, &lease).await.code, 201);
    assert_eq!(lab.put(path, &lease).await.code, 422);
}

#[tokio::test]
async fn a_dry_run_shows_and_stores_nothing() {
    let lab = Lab::new().await;
    let shown = lab.post(&format!("{HOSTS}?dryRun=All"), &host("h1")).await;
    assert_eq!((shown.code, shown.version()), (201, ""));
    assert!(!shown.text("/metadata/uid").is_empty());
    assert_eq!(lab.get(&format!("{HOSTS}/h1")).await.code, 404);
    let created = lab.create_host("h1").await;
    let patched = lab.merge(&format!("{HOSTS}/h1?dryRun=All"), &json!({"spec": {"online": false}})).await;
    assert_eq!((patched.version(), &patched.body["spec"]["online"]), (created.version(), &json!(false)));
    assert_eq!(lab.delete(&format!("{HOSTS}/h1?dryRun=All")).await.code, 200);
    assert_eq!(lab.get(&format!("{HOSTS}/h1")).await.body["spec"]["online"], true);
    assert_eq!(lab.post(&format!("{HOSTS}?dryRun=Some"), &host("h2")).await.code, 422);
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let lab = Lab::new().await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    let writes = (0..50).map(|number| {
        let lab = lab.clone();
        tokio::spawn(async move {
            lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {format!("k{number}"): "v"}})).await.code
        })
    });
    for code in futures::future::join_all(writes).await {
        assert_eq!(code.expect("no panic"), 200);
    }
    assert_eq!(lab.get(&format!("{CONFIG_MAPS}/a")).await.body["data"].as_object().map(serde_json::Map::len), Some(51));
}
