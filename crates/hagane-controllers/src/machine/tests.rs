mod deletion;
mod faults;
mod life;

use hagane_api::machine::{GROUP, SLIDES_GROUP};
use serde_json::{Value, json};

use crate::runtime::Resource;

fn machines() -> Resource {
    Resource::of(GROUP, "machines").expect("a kind of ours")
}

fn slides(plural: &str) -> Resource {
    Resource::of(SLIDES_GROUP, plural).expect("a kind of ours")
}

fn released(plural: &str) -> Resource {
    Resource::of(GROUP, plural).expect("a kind of ours")
}

/// A Machine of this name with this provider spec.
fn machine(name: &str, provider: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"providerSpec": provider}})
}

/// The one uid of an object.
fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}
