//! Tables for people: `kubectl get` without `-o`.

use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::registry::Endpoint;

/// A table of objects; `metadata` is that of the list.
pub(crate) fn table(context: &Context, objects: &[Value], metadata: Map<String, Value>, beta: bool, columns: bool) -> Value {
    of(&context.endpoint, context.query.include_object.as_deref(), objects, metadata, beta, columns)
}

/// The same without a request at hand.
pub(crate) fn of(
    endpoint: &Endpoint,
    include: Option<&str>,
    objects: &[Value],
    metadata: Map<String, Value>,
    beta: bool,
    columns: bool,
) -> Value {
    let _ = (endpoint, include, columns);
    let version = if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" };
    json!({"kind": "Table", "apiVersion": version, "metadata": metadata, "columnDefinitions": [], "rows": objects})
}
