//! Fields that a kind does not have, found before a plan is made of the others: the API refuses such an object, and a misspelt
//! demand must not pass for one that was not made.

use serde_json::{Map, Value};

/// The first field of `value` that the structural schema does not know, as one line for people.
pub(crate) fn unknown_field(value: &Value, schema: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => in_object(fields, schema, path),
        Value::Array(items) => {
            let inner = schema.get("items")?;
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| unknown_field(item, inner, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

fn in_object(fields: &Map<String, Value>, schema: &Value, path: &str) -> Option<String> {
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let open = schema.get("additionalProperties").filter(|inner| inner.is_object());
    let known = schema.get("properties").and_then(Value::as_object);
    if open.is_none() && known.is_none() {
        return None;
    }
    fields.iter().find_map(|(name, value)| {
        let path = format!("{path}.{name}");
        match known.and_then(|known| known.get(name)).or(open) {
            Some(inner) => unknown_field(value, inner, &path),
            None => {
                let names: Vec<_> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                Some(format!("{path}: unknown field: the fields are {}", names.join(", ")))
            }
        }
    })
}
