//! Kinds of patches, beyond the field reports.

use serde_json::json;

use crate::support::{CONFIG_MAPS, HOSTS, Lab, config_map};

#[tokio::test]
async fn each_kind_of_object_takes_its_kinds_of_patches() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    let body = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    for (path, content_type, code) in [
        (format!("{CONFIG_MAPS}/a"), "application/strategic-merge-patch+json", 200),
        (format!("{HOSTS}/h1"), "application/strategic-merge-patch+json", 415),
        (format!("{HOSTS}/h1"), "application/merge-patch+json", 200),
        (format!("{HOSTS}/h1"), "application/apply-patch+yaml", 415),
        (format!("{HOSTS}/h1"), "application/json", 415),
        (format!("{HOSTS}/missing"), "application/merge-patch+json", 404),
    ] {
        assert_eq!(lab.send("PATCH", &path, content_type, body).await.code, code, "{path} {content_type}");
    }
    assert_eq!(lab.merge(&format!("{HOSTS}/h1?force=true"), &json!({})).await.code, 422);
}

#[tokio::test]
async fn a_patch_that_does_not_apply_says_why_in_a_form_that_kubectl_prints() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    for patch in [
        r#"[{"op": "test", "path": "/spec/online", "value": "other"}]"#,
        r#"[{"op": "remove", "path": "/spec/none"}]"#,
        r#"[{"op": "replace", "path": "", "value": 5}]"#,
    ] {
        let answer = lab.send("PATCH", &format!("{HOSTS}/h1"), "application/json-patch+json", patch).await;
        let message = answer.body["message"].as_str().expect("a message");
        let said = message.strip_prefix("the server rejected our request due to an error in our request: ");
        assert!(answer.code == 422 && said.is_some_and(|why| !why.is_empty()), "{patch}: {message}");
        // kubectl prints nothing but the kind and name where it finds them.
        assert_eq!(answer.body.pointer("/details/kind"), None, "{patch}");
    }
}

#[tokio::test]
async fn a_patch_is_checked_like_any_update() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    assert_eq!(lab.merge(&path, &json!({"spec": {"online": "maybe"}})).await.code, 422);
    assert_eq!(lab.merge(&format!("{path}?fieldValidation=Strict"), &json!({"spec": {"x": 1}})).await.code, 400);
    assert_eq!(lab.merge(&path, &json!({"kind": "Other"})).await.code, 400);
    assert_eq!(lab.merge(&path, &json!({"metadata": {"finalizers": ["no spaces allowed"]}})).await.code, 422);
    assert_eq!(lab.send("PATCH", &path, "application/merge-patch+json", "[]").await.code, 400);
}
