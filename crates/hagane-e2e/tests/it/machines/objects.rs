//! Machines as a user would write them, and what they say back.

use serde_json::{Value, json};

/// Group of the released old API.
pub const RELEASED: &str = "cluster.k8s.io";
/// Group as the founding slides spell it.
pub const SLIDES: &str = "cluster-api.k8s.io";

/// A Machine of one CPU and 1 GiB with further fields of its provider spec.
pub fn machine(name: &str, image: &str, fields: Value) -> Value {
    let mut value = json!({
        "apiVersion": "libvirt.cluster.k8s.io/v1alpha1", "kind": "LibvirtMachineProviderSpec",
        "vcpu": 1, "memoryInGB": 1, "imageURI": image,
    });
    if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
        value.extend(fields);
    }
    bare_machine(name, json!({"providerSpec": {"value": value}}))
}

/// A Machine with just this spec.
pub fn bare_machine(name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{RELEASED}/v1alpha1"), "kind": "Machine", "metadata": {"name": name}, "spec": spec})
}

/// The same object in the slides' group.
pub fn in_slides_group(mut object: Value) -> Value {
    object["apiVersion"] = json!(format!("{SLIDES}/v1alpha1"));
    object
}

/// Several objects as one document.
pub fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// A Machine as it stands.
#[derive(Debug, Clone)]
pub struct Machine(pub Value);

impl Machine {
    /// Text at a JSON pointer; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    pub fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    /// UUID of its domain.
    pub fn instance(&self) -> &str {
        self.text("/status/providerStatus/instanceID")
    }

    pub fn address(&self) -> &str {
        self.text("/status/addresses/0/address")
    }

    /// Reason of a condition.
    pub fn reason(&self, condition: &str) -> &str {
        self.of_condition(condition, "reason")
    }

    /// Message of a condition.
    pub fn message(&self, condition: &str) -> &str {
        self.of_condition(condition, "message")
    }

    fn of_condition(&self, condition: &str, field: &str) -> &str {
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        let found = conditions.into_iter().flatten().find(|found| found["type"] == condition);
        found.and_then(|found| found[field].as_str()).unwrap_or_default()
    }

    /// One line for a person who looks for what went wrong.
    pub fn line(&self) -> String {
        format!("{} {} {}: {}", self.name(), self.phase(), self.reason("Ready"), self.message("Ready"))
    }
}
