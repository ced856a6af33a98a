//! Definitions of kinds: users' own, and of ours.

use serde_json::{Value, json};

use crate::support::Lab;

const V1: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BETA: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/lab/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            }],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {}})
}

fn ours_in_the_old_form() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "provisionings.bpa.akraino.org"},
        "spec": {
            "group": "bpa.akraino.org", "version": "v1alpha1", "scope": "Namespaced", "subresources": {"status": {}},
            "names": {"kind": "Provisioning", "listKind": "ProvisioningList", "plural": "provisionings", "singular": "provisioning"},
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"type": "object"}, "kind": {"description": null, "type": "string"}}}},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true}],
        },
    })
}

#[tokio::test]
async fn a_defined_kind_is_served_at_once() {
    let lab = Lab::new().await;
    assert_eq!(lab.get(WIDGETS).await.code, 404);
    let created = lab.post(V1, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.text("/status/conditions/1/type"), "Established");
    assert_eq!(created.text("/status/conditions/1/status"), "True");
    let made = lab.post(WIDGETS, &widget("w")).await;
    assert_eq!((made.code, &made.body["spec"]["size"]), (201, &json!(3)));
    let mut bad = widget("x");
    bad["spec"]["size"] = 0.into();
    assert_eq!(lab.post(WIDGETS, &bad).await.text("/details/causes/0/field"), "spec.size");
    let openapi = lab.get("/openapi/v3/apis/example.com/v1").await;
    assert!(
        openapi.body["components"]["schemas"]
            .as_object()
            .is_some_and(|schemas| schemas.keys().any(|name| name.ends_with(".Widget")))
    );
    assert_eq!(lab.get("/apis/example.com/v1").await.body["resources"][0]["shortNames"][0], "wd");
}

#[tokio::test]
async fn a_changed_schema_reaches_stored_objects_and_ends_watches() {
    let lab = Lab::new().await;
    lab.post(V1, &definition()).await;
    lab.post(WIDGETS, &widget("w")).await;
    let mut watch = lab.watch(&format!("{WIDGETS}?watch=1")).await;
    watch.take(1).await;
    let path = format!("{V1}/widgets.example.com");
    let patch = r#"[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color","value":{"type":"string","default":"red"}}]"#;
    assert_eq!(lab.send("PATCH", &path, "application/json-patch+json", patch).await.code, 200);
    assert_eq!(watch.next().await, None);
    assert_eq!(lab.get(&format!("{WIDGETS}/w")).await.text("/spec/color"), "red");
    let scope = lab.merge(&path, &json!({"spec": {"scope": "Cluster"}})).await;
    assert_eq!((scope.code, scope.text("/details/causes/0/field")), (422, "spec.scope"));
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_along() {
    let lab = Lab::new().await;
    lab.post(V1, &definition()).await;
    let mut held = widget("w");
    held["metadata"]["finalizers"] = json!(["a.example/f"]);
    lab.post(WIDGETS, &held).await;
    lab.post(WIDGETS, &widget("x")).await;
    let path = format!("{V1}/widgets.example.com");
    assert_eq!(lab.delete(&path).await.code, 200);
    lab.until(&format!("{WIDGETS}/x"), 404).await;
    let refused = lab.post(WIDGETS, &widget("y")).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert_eq!(lab.get(&path).await.code, 200);
    lab.merge(&format!("{WIDGETS}/w"), &json!({"metadata": {"finalizers": null}})).await;
    lab.until(&path, 404).await;
    // What is served follows the definitions, a moment later.
    lab.until(WIDGETS, 404).await;
    assert_eq!(lab.post(V1, &definition()).await.code, 201);
    assert_eq!(lab.get(WIDGETS).await.names(), Vec::<&str>::new());
}

#[tokio::test]
async fn definitions_of_ours_are_kept_but_change_nothing() {
    let lab = Lab::new().await;
    let provisionings = "/apis/bpa.akraino.org/v1alpha1/namespaces/lab/provisionings";
    let object = json!({
        "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Provisioning", "metadata": {"name": "p"},
        "spec": {"master": {"cpu": 1, "memory": "1Gi"}},
    });
    assert_eq!(lab.post(provisionings, &object).await.code, 201);
    let created = lab.post(BETA, &ours_in_the_old_form()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert!(created.warnings().iter().any(|warning| warning.contains("changes nothing")));
    assert_eq!(lab.post(BETA, &ours_in_the_old_form()).await.code, 409);
    let unknown =
        lab.merge(&format!("{provisionings}/p?fieldValidation=Strict"), &json!({"spec": {"nonsense": 1}})).await;
    assert_eq!(unknown.code, 400, "our schema still holds");
    let path = format!("{BETA}/provisionings.bpa.akraino.org");
    assert_eq!(lab.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.code, 200);
    assert_eq!(lab.delete(&path).await.code, 200);
    assert_eq!(lab.get(&path).await.code, 404);
    assert_eq!(lab.get(&format!("{provisionings}/p")).await.code, 200);
    let mut clustered = ours_in_the_old_form();
    clustered["spec"]["scope"] = "Cluster".into();
    assert_eq!(lab.post(BETA, &clustered).await.code, 422);
}

#[tokio::test]
async fn versions_show_the_same_object_and_warn_of_what_is_not_served() {
    let lab = Lab::new().await;
    let mut two = definition();
    let mut newer = two["spec"]["versions"][0].clone();
    newer["name"] = "v2".into();
    newer["storage"] = false.into();
    newer["subresources"]["scale"] = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    two["spec"]["versions"][0]["deprecated"] = true.into();
    two["spec"]["versions"].as_array_mut().expect("a list").push(newer);
    two["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}});
    let created = lab.post(V1, &two).await;
    assert_eq!((created.code, created.warnings().len()), (201, 2), "{:?}", created.warnings());
    let old = lab.post(WIDGETS, &widget("w")).await;
    assert_eq!(old.warnings(), ["299 - \"example.com/v1 Widget is deprecated; use example.com/v2 Widget\""]);
    let path = "/apis/example.com/v2/namespaces/lab/widgets/w";
    let new = lab.get(path).await;
    assert_eq!((new.text("/apiVersion"), new.version()), ("example.com/v2", old.version()));
    let changed = lab.merge(path, &json!({"spec": {"size": 9}})).await;
    assert_eq!((changed.text("/apiVersion"), changed.code), ("example.com/v2", 200));
    assert_eq!(lab.get(&format!("{WIDGETS}/w")).await.body["spec"]["size"], 9);
    assert_eq!(lab.get("/apis/example.com").await.text("/preferredVersion/version"), "v2");
}

#[tokio::test]
async fn definitions_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || hagane_apiserver::ApiServer::open(directory.path(), hagane_apiserver::Options::default());
    let lab = Lab { server: open().await.expect("opened") };
    lab.create_namespace("lab").await;
    lab.post(V1, &definition()).await;
    let made = lab.post(WIDGETS, &widget("w")).await;
    lab.server.stop().await;
    drop(lab);
    let lab = Lab { server: open().await.expect("opened again") };
    assert_eq!(lab.get(&format!("{WIDGETS}/w")).await.body, made.body);
}

#[tokio::test]
async fn names_in_use_are_not_served_twice() {
    let lab = Lab::new().await;
    lab.post(V1, &definition()).await;
    let mut other = definition();
    other["metadata"]["name"] = "gadgets.example.com".into();
    other["spec"]["names"]["plural"] = "gadgets".into();
    let created = lab.post(V1, &other).await;
    assert_eq!(created.code, 201);
    assert_eq!(created.text("/status/conditions/0/status"), "False");
    assert_eq!(lab.get("/apis/example.com/v1/namespaces/lab/gadgets").await.code, 404);
    let mut broken = definition();
    broken["metadata"]["name"] = "wrong.example.com".into();
    assert_eq!(lab.post(V1, &broken).await.text("/details/causes/0/field"), "metadata.name");
}
