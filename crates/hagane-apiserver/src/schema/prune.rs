//! Removing what a schema does not know.

use serde_json::Value;

use super::node::{Additional, Node};
use super::path::Path;

pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    walk(root, object, &mut Path::default(), &mut removed);
    removed.sort_unstable();
    removed
}

fn walk(node: &Node, value: &mut Value, path: &mut Path, removed: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let inner = match (node.properties.get(name), &node.additional) {
                    (Some(inner), _) => inner,
                    (None, Additional::Schema(inner)) => inner,
                    (None, Additional::Any) => return true,
                    (None, Additional::None) => {
                        if !node.preserve {
                            removed.push(path.child(name));
                        }
                        return node.preserve;
                    }
                };
                let length = path.enter_field(name);
                walk(inner, value, path, removed);
                path.back(length);
                true
            });
        }
        Value::Array(elements) => {
            let Some(inner) = &node.items else { return };
            for (index, element) in elements.iter_mut().enumerate() {
                let length = path.enter_index(index);
                walk(inner, element, path, removed);
                path.back(length);
            }
        }
        _ => {}
    }
}
