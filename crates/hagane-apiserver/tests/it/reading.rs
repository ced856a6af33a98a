//! Lists, watches, tables, discovery.

use http::Request;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, Lab, config_map};

#[tokio::test]
async fn a_typed_client_works_in_process() {
    let lab = Lab::new().await;
    let client = kube::Client::new(lab.server.client(hagane_apiserver::Identity::internal("test")), "lab");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let map: ConfigMap = serde_json::from_value(config_map("a")).expect("valid");
    let created = api.create(&PostParams::default(), &map).await.expect("created");
    assert!(created.metadata.uid.is_some() && created.metadata.resource_version.is_some());
    assert_eq!(api.list(&ListParams::default()).await.expect("listed").items, [created]);
    let error = api.get("missing").await.expect_err("not there");
    assert!(matches!(error, kube::Error::Api(status) if status.is_not_found()));
}

#[tokio::test]
async fn both_ways_to_start_a_watcher_see_what_is_there() {
    use futures::StreamExt;
    let lab = Lab::new().await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    let client = kube::Client::new(lab.server.client(hagane_apiserver::Identity::internal("test")), "lab");
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let mut events = std::pin::pin!(watcher(api, config));
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            match event.expect("no error") {
                watcher::Event::InitApply(map) => seen.push(map.metadata.name.unwrap_or_default()),
                watcher::Event::InitDone => break,
                watcher::Event::Init => {}
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(seen, ["a"]);
    }
}

#[tokio::test]
async fn a_watch_follows_its_selector() {
    let lab = Lab::new().await;
    let version = lab.get(CONFIG_MAPS).await.version().to_owned();
    let mut watch = lab.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}&labelSelector=x%3D1")).await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"x": "1"}}})).await;
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "w"}})).await;
    let left = lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"x": "2"}}})).await;
    let types: Vec<String> = watch.take(2).await.into_iter().map(|(r#type, _)| r#type).collect();
    assert_eq!(types, ["ADDED", "MODIFIED"]);
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["x"], "1");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], left.version());
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let lab = Lab::new().await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    let options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = lab.watch(&format!("{CONFIG_MAPS}?{options}")).await;
    assert_eq!(watch.take(1).await, [("ADDED".to_owned(), "a".to_owned())]);
    let bookmark = watch.next().await.expect("a bookmark");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let refused = lab.get(&format!("{CONFIG_MAPS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!(refused.code, 422);
}

#[tokio::test]
async fn version_and_match_are_checked() {
    let lab = Lab::new().await;
    let cases = [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ("resourceVersionMatch=Sometimes&resourceVersion=1", 422),
        ("sendInitialEvents=true", 422),
        ("resourceVersion=x", 400),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1", 200),
        ("labelSelector=a%3D%3D%3Db", 400),
    ];
    for (query, code) in cases {
        assert_eq!(lab.get(&format!("{CONFIG_MAPS}?{query}")).await.code, code, "{query}");
    }
}

#[tokio::test]
async fn a_version_of_the_future_is_waited_for_then_refused() {
    let lab = Lab::new().await;
    let future = lab.get(&format!("{CONFIG_MAPS}?resourceVersion=1000000")).await;
    assert_eq!((future.code, future.text("/reason")), (504, "Timeout"));
    assert_eq!(future.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let later = format!("{CONFIG_MAPS}?resourceVersion={}", lab.server.store().revision() + 1);
    let waiting = tokio::spawn({
        let lab = lab.clone();
        async move { lab.get(&later).await }
    });
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(waiting.await.expect("no panic").names(), ["a"]);
}

#[tokio::test]
async fn answers_come_as_table_metadata_or_yaml() {
    let lab = Lab::new().await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    let accept = |accept: &'static str| {
        Request::builder().uri(CONFIG_MAPS).header("accept", accept).body(Full::default()).expect("a valid request")
    };
    let read = |response: http::Response<hagane_apiserver::ResponseBody>| async {
        response.into_body().collect().await.expect("infallible").to_bytes()
    };
    let table = lab.raw(accept("application/json;as=Table;v=v1;g=meta.k8s.io")).await;
    let table: Value = serde_json::from_slice(&read(table).await).expect("JSON");
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    let metadata = lab.raw(accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")).await;
    let metadata: Value = serde_json::from_slice(&read(metadata).await).expect("JSON");
    assert_eq!(metadata["items"][0].get("data"), None);
    let yaml = read(lab.raw(accept("application/yaml")).await).await;
    assert!(String::from_utf8_lossy(&yaml).contains("kind: ConfigMapList"));
    let nothing = lab.raw(accept("application/vnd.kubernetes.protobuf")).await;
    assert_eq!(nothing.status().as_u16(), 406);
}

#[tokio::test]
async fn discovery_is_served_in_both_forms() {
    let lab = Lab::new().await;
    let client = kube::Client::new(lab.server.client(hagane_apiserver::Identity::internal("test")), "lab");
    let plain = kube::Discovery::new(client.clone()).run().await.expect("discovered");
    assert!(plain.has_group("bpa.akraino.org"));
    let whole = kube::Discovery::new(client).run_aggregated().await.expect("discovered");
    assert!(whole.has_group("metal3.io") && whole.has_group("cluster.k8s.io"));
    for path in ["/", "/version", "/healthz", "/livez", "/readyz", "/api/", "/apis/", "/openapi/v2", "/openapi/v3"] {
        assert_eq!(lab.get(path).await.code, 200, "{path}");
    }
    for path in [
        "/nope",
        "/apis/nope",
        "/apis/nope/v1",
        "/api/v2",
        "/api/v1/pods",
        "/api/v1/namespaces/lab/configmaps/a/status",
    ] {
        assert_eq!(lab.get(path).await.code, 404, "{path}");
    }
    assert_eq!(lab.send("POST", "/apis", "application/json", "{}").await.code, 405);
    assert_eq!(lab.send("PUT", CONFIG_MAPS, "application/json", "{}").await.code, 405);
}

#[tokio::test]
async fn callers_without_an_identity_only_learn_that_the_server_lives() {
    use tower::ServiceExt;
    let lab = Lab::new().await;
    for (path, code) in [("/readyz", 200), ("/version", 200), ("/api", 401), (CONFIG_MAPS, 401), ("/nope", 401)] {
        let request = Request::builder().uri(path).body(Full::<bytes::Bytes>::default()).expect("a valid request");
        let answer = lab.server.clone().oneshot(request).await.expect("infallible");
        assert_eq!(answer.status().as_u16(), code, "{path}");
    }
    let stranger = hagane_apiserver::Identity::new("someone", ["a-group"]);
    let request = Request::builder().uri(CONFIG_MAPS).body(Full::<bytes::Bytes>::default()).expect("a valid request");
    let answer = lab.server.client(stranger).oneshot(request).await.expect("infallible");
    assert_eq!(answer.status().as_u16(), 403);
}

#[tokio::test]
async fn both_event_groups_show_the_same_events() {
    let lab = Lab::new().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R", "note": "N", "type": "Normal",
        "action": "A", "reportingController": "c", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Machine", "name": "m", "namespace": "lab"},
    });
    assert_eq!(lab.post("/apis/events.k8s.io/v1/namespaces/lab/events", &event).await.code, 201);
    let core = lab.get("/api/v1/namespaces/lab/events?fieldSelector=involvedObject.name%3Dm,reason%3DR").await;
    assert_eq!(core.body["items"][0]["message"], "N");
    assert_eq!(core.body["items"][0]["apiVersion"], "v1");
    let new = lab.get("/apis/events.k8s.io/v1/namespaces/lab/events?fieldSelector=regarding.kind%3DMachine").await;
    assert_eq!(new.body["items"][0]["note"], "N");
}
