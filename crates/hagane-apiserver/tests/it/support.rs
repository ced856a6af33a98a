//! A server in this process, and requests to it.

use std::time::Duration;

use bytes::Bytes;
use hagane_apiserver::{ApiServer, Identity};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

pub const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/lab/baremetalhosts";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/lab/configmaps";

/// An answer, read whole.
pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect()
    }

    /// Names of the items of a list.
    pub fn names(&self) -> Vec<&str> {
        let items = self.body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.pointer("/metadata/name")?.as_str()).collect()
    }
}

#[derive(Clone)]
pub struct Lab {
    pub server: ApiServer,
}

impl Lab {
    /// A new server with the namespace `lab`.
    pub async fn new() -> Self {
        let lab = Self { server: ApiServer::in_memory().await.expect("a directory for temporary files") };
        lab.create_namespace("lab").await;
        lab
    }

    pub async fn create_namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        assert_eq!(self.post("/api/v1/namespaces", &body).await.code, 201);
    }

    pub async fn raw(&self, request: Request<Full<Bytes>>) -> http::Response<hagane_apiserver::ResponseBody> {
        let service = self.server.client(Identity::internal("test"));
        service.oneshot(request).await.expect("infallible")
    }

    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: impl Into<Bytes>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "test/1")
            .body(Full::new(body.into()))
            .expect("a valid request");
        let response = self.raw(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("infallible").to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let answer = Answer { code: parts.status.as_u16(), headers: parts.headers, body };
        if answer.code >= 400 {
            assert_eq!(answer.body["kind"], "Status", "{path}");
            assert_eq!(answer.body["code"], answer.code, "{path}");
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "application/json", Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, "application/json", body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "application/json", Bytes::new()).await
    }

    pub async fn create_host(&self, name: &str) -> Answer {
        self.post(HOSTS, &host(name)).await
    }

    /// Asks until the answer has this code; gives up after a long while.
    pub async fn until(&self, path: &str, code: u16) {
        for _ in 0..500 {
            if self.get(path).await.code == code {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.get(path).await.code, code, "{path}");
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Lines {
        let request = Request::builder().uri(path).body(Full::new(Bytes::new())).expect("a valid request");
        let response = self.raw(request).await;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Lines { body: response.into_body() }
    }
}

/// The events of a watch.
pub struct Lines {
    body: hagane_apiserver::ResponseBody,
}

impl Lines {
    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<Value> {
        let frame =
            tokio::time::timeout(Duration::from_secs(20), self.body.frame()).await.expect("an event or the end");
        let bytes = frame?.expect("infallible").into_data().expect("data");
        Some(serde_json::from_slice(&bytes).expect("JSON"))
    }

    /// Type and name of the next events.
    pub async fn take(&mut self, count: usize) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for _ in 0..count {
            let event = self.next().await.expect("an event");
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            events.push((text("/type"), text("/object/metadata/name")));
        }
        events
    }
}

pub fn host(name: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
        "spec": {"online": true, "externallyProvisioned": true},
    })
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}
