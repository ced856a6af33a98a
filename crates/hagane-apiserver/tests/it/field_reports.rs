//! What went wrong in other servers, tried here.

use serde_json::json;

use crate::support::{HOSTS, Lab};

const JSON_PATCH: &str = "application/json-patch+json";

#[tokio::test]
async fn patches_that_do_not_fit_change_nothing_and_are_told_apart() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    let before = lab.get(&path).await;
    let cases: [(&str, &[u16]); 7] = [
        (r#"[{"op":"add","path":"spec","value":1}]"#, &[400, 422]),
        (r#"[{"op":"remove","path":"/spec/notThere"}]"#, &[422]),
        (r#"[{"op":"add","path":"/metadata/finalizers/7","value":"lab.example/f"}]"#, &[422]),
        (
            r#"[{"op":"test","path":"/spec/online","value":false},{"op":"replace","path":"/spec/online","value":false}]"#,
            &[422],
        ),
        (r#"{"op":"add","path":"/spec/x","value":1}"#, &[400]),
        (r#"[{"op":"replace","path":"/metadata/name","value":"h2"}]"#, &[400, 422]),
        ("not json", &[400]),
    ];
    for (patch, codes) in cases {
        let answer = lab.send("PATCH", &path, JSON_PATCH, patch).await;
        assert!(codes.contains(&answer.code), "{patch}: {} {}", answer.code, answer.body);
        assert_eq!(lab.get(&path).await.body, before.body, "{patch}");
    }
    lab.merge(&path, &json!({"metadata": {"annotations": {"k": "v"}}})).await;
    let escaped = r#"[{"op":"add","path":"/metadata/annotations/a~1b","value":"x"}]"#;
    let answer = lab.send("PATCH", &path, JSON_PATCH, escaped).await;
    assert_eq!((answer.code, &answer.body["metadata"]["annotations"]["a/b"]), (200, &json!("x")));
    assert_eq!(lab.get("/readyz").await.code, 200);
}

#[tokio::test]
async fn a_watch_from_lost_history_says_so_once() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let start = lab.get(HOSTS).await.version().to_owned();
    for number in 0..20 {
        lab.merge(&format!("{HOSTS}/h1"), &json!({"metadata": {"annotations": {"n": number.to_string()}}})).await;
    }
    let keep = hagane_store::Keep { revisions: 1, age: std::time::Duration::ZERO };
    lab.server.store().compact(keep).await.expect("compacted");
    let mut lost = lab.watch(&format!("{HOSTS}?watch=1&resourceVersion={start}")).await;
    let event = lost.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(lost.next().await, None);
    for path in [format!("{HOSTS}?watch=1"), format!("{HOSTS}?watch=1&resourceVersion=0")] {
        assert_eq!(lab.watch(&path).await.take(1).await, [("ADDED".to_owned(), "h1".to_owned())]);
    }
    assert_eq!(lab.get(&format!("{HOSTS}?watch=1&resourceVersion=abc")).await.code, 400);
    let mut short = lab.watch(&format!("{HOSTS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true")).await;
    assert_eq!(short.take(1).await, [("ADDED".to_owned(), "h1".to_owned())]);
    let bookmark = short.next().await.expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "BareMetalHost");
    while let Some(event) = short.next().await {
        assert_eq!(event["type"], "BOOKMARK");
    }
}

#[tokio::test]
async fn pages_lose_and_double_nothing() {
    let lab = Lab::new().await;
    for number in 1..=25 {
        lab.create_host(&format!("h{number:02}")).await;
    }
    let mut names: Vec<String> = Vec::new();
    let mut versions: Vec<String> = Vec::new();
    let mut path = format!("{HOSTS}?limit=10");
    let mut pages = 0;
    loop {
        let page = lab.get(&path).await;
        pages += 1;
        names.extend(page.names().into_iter().map(str::to_owned));
        versions.push(page.version().to_owned());
        if pages == 1 {
            assert_eq!(page.body["metadata"]["remainingItemCount"], 15);
            lab.delete(&format!("{HOSTS}/h15")).await;
            lab.create_host("h05a").await;
        }
        match page.text("/metadata/continue") {
            "" => break,
            token => path = format!("{HOSTS}?limit=10&continue={token}"),
        }
    }
    let expected: Vec<String> = (1..=25).map(|number| format!("h{number:02}")).collect();
    assert_eq!((pages, names), (3, expected));
    versions.dedup();
    assert_eq!(versions.len(), 1);
}

#[tokio::test]
async fn lists_select_by_fields_with_a_limit() {
    let lab = Lab::new().await;
    for number in 1..=3 {
        lab.create_host(&format!("h{number}")).await;
    }
    assert_eq!(lab.get(&format!("{HOSTS}?limit=500&fieldSelector=metadata.name%3Dh2")).await.names(), ["h2"]);
    assert_eq!(lab.get(&format!("{HOSTS}?fieldSelector=metadata.namespace%3Dlab")).await.names().len(), 3);
    let unknown = lab.get(&format!("{HOSTS}?fieldSelector=status.powerState%3Don")).await;
    assert_eq!((unknown.code, unknown.text("/message")), (400, "field label not supported: status.powerState"));
}

#[tokio::test]
async fn a_lost_page_hands_back_a_token_that_works() {
    let lab = Lab::new().await;
    for number in 1..=5 {
        lab.create_host(&format!("h{number}")).await;
    }
    assert_eq!(lab.get(&format!("{HOSTS}?limit=2&continue=garbage")).await.code, 400);
    let first = lab.get(&format!("{HOSTS}?limit=2")).await;
    let token = first.text("/metadata/continue").to_owned();
    lab.delete(&format!("{HOSTS}/h4")).await;
    lab.create_host("h6").await;
    let keep = hagane_store::Keep { revisions: 1, age: std::time::Duration::ZERO };
    lab.server.store().compact(keep).await.expect("compacted");
    let lost = lab.get(&format!("{HOSTS}?limit=2&continue={token}")).await;
    assert_eq!((lost.code, lost.text("/reason")), (410, "Expired"));
    let token = lost.text("/metadata/continue");
    let rest = lab.get(&format!("{HOSTS}?limit=2&continue={token}")).await;
    assert_eq!((rest.code, rest.names()), (200, vec!["h3", "h5"]));
    let token = rest.text("/metadata/continue");
    let last = lab.get(&format!("{HOSTS}?limit=2&continue={token}")).await;
    assert_eq!((last.names(), last.body["metadata"].get("continue")), (vec!["h6"], None));
}
