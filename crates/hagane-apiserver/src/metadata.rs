//! Metadata as clients send it: types checked, unknown fields found, nulls dropped.

use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};

#[derive(Clone, Copy)]
enum Form {
    Text,
    Integer,
    Flag,
    TextMap,
    TextList,
    Objects(&'static [(&'static str, Form)]),
    Anything,
}

const OWNER: &[(&str, Form)] = &[
    ("apiVersion", Form::Text),
    ("kind", Form::Text),
    ("name", Form::Text),
    ("uid", Form::Text),
    ("controller", Form::Flag),
    ("blockOwnerDeletion", Form::Flag),
];

const MANAGED: &[(&str, Form)] = &[
    ("manager", Form::Text),
    ("operation", Form::Text),
    ("apiVersion", Form::Text),
    ("time", Form::Text),
    ("fieldsType", Form::Text),
    ("fieldsV1", Form::Anything),
    ("subresource", Form::Text),
];

const FIELDS: &[(&str, Form)] = &[
    ("name", Form::Text),
    ("generateName", Form::Text),
    ("namespace", Form::Text),
    ("selfLink", Form::Text),
    ("uid", Form::Text),
    ("resourceVersion", Form::Text),
    ("generation", Form::Integer),
    ("creationTimestamp", Form::Text),
    ("deletionTimestamp", Form::Text),
    ("deletionGracePeriodSeconds", Form::Integer),
    ("labels", Form::TextMap),
    ("annotations", Form::TextMap),
    ("ownerReferences", Form::Objects(OWNER)),
    ("finalizers", Form::TextList),
    ("managedFields", Form::Objects(MANAGED)),
];

/// Checks `metadata` of an object and removes what does not belong there; answers the paths of removed fields.
pub(crate) fn sanitize(object: &mut Value) -> ApiResult<Vec<String>> {
    let mut unknown = Vec::new();
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the object must be a JSON object"));
    };
    match fields.get_mut("metadata") {
        None | Some(Value::Null) => {
            fields.insert("metadata".to_owned(), Value::Object(Map::new()));
        }
        Some(Value::Object(metadata)) => {
            check_fields(metadata, FIELDS, "metadata", &mut unknown)?;
            for empty in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
                let nothing = |value: &Value| {
                    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
                };
                // An explicitly empty managedFields asks for a reset and is told apart later.
                if empty != "managedFields" && metadata.get(empty).is_some_and(nothing) {
                    metadata.remove(empty);
                }
            }
        }
        Some(other) => return Err(wrong_type("metadata", "object", other)),
    }
    Ok(unknown)
}

fn check_fields(
    fields: &mut Map<String, Value>,
    known: &[(&str, Form)],
    path: &str,
    unknown: &mut Vec<String>,
) -> ApiResult<()> {
    let mut remove = Vec::new();
    for (key, value) in fields.iter_mut() {
        let path = format!("{path}.{key}");
        match known.iter().find(|(name, _)| name == key) {
            None => {
                unknown.push(path);
                remove.push(key.clone());
            }
            Some(_) if value.is_null() => remove.push(key.clone()),
            Some((_, form)) => check(value, *form, &path, unknown)?,
        }
    }
    fields.retain(|key, _| !remove.contains(key));
    Ok(())
}

fn check(value: &mut Value, form: Form, path: &str, unknown: &mut Vec<String>) -> ApiResult<()> {
    match form {
        Form::Anything => Ok(()),
        Form::Text => expect(value.is_string(), path, "string", value),
        Form::Integer => expect(value.is_i64(), path, "int64", value),
        Form::Flag => expect(value.is_boolean(), path, "bool", value),
        Form::TextMap => {
            let Some(map) = value.as_object_mut() else { return Err(wrong_type(path, "map[string]string", value)) };
            for (key, value) in map.iter_mut() {
                if value.is_null() {
                    *value = "".into();
                }
                expect(value.is_string(), &format!("{path}.{key}"), "string", value)?;
            }
            Ok(())
        }
        Form::TextList => {
            let Some(list) = value.as_array() else { return Err(wrong_type(path, "[]string", value)) };
            let mut items = list.iter().enumerate();
            items.try_for_each(|(index, item)| expect(item.is_string(), &format!("{path}[{index}]"), "string", item))
        }
        Form::Objects(known) => {
            let Some(list) = value.as_array_mut() else { return Err(wrong_type(path, "list of objects", value)) };
            for (index, item) in list.iter_mut().enumerate() {
                let path = format!("{path}[{index}]");
                match item {
                    Value::Object(fields) => check_fields(fields, known, &path, unknown)?,
                    other => return Err(wrong_type(&path, "object", other)),
                }
            }
            Ok(())
        }
    }
}

fn expect(holds: bool, path: &str, wanted: &str, value: &Value) -> ApiResult<()> {
    if holds { Ok(()) } else { Err(wrong_type(path, wanted, value)) }
}

fn wrong_type(path: &str, wanted: &str, value: &Value) -> ApiError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    ApiError::bad_request(format!("json: cannot unmarshal {found} into field {path} of type {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn drops_nulls_and_finds_unknown_fields() {
        let mut object = json!({"metadata": {
            "name": "a", "creationTimestamp": null, "labels": {"x": null}, "annotations": {}, "nmae": "b",
            "ownerReferences": [{"uid": "1", "extra": true}],
        }});
        let unknown = sanitize(&mut object).expect("valid types");
        assert_eq!(unknown, ["metadata.nmae", "metadata.ownerReferences[0].extra"]);
        assert_eq!(object["metadata"], json!({"name": "a", "labels": {"x": ""}, "ownerReferences": [{"uid": "1"}]}));
    }

    #[test]
    fn wrong_types_are_named() {
        for (metadata, path) in [
            (json!({"name": 1}), "metadata.name"),
            (json!({"labels": {"a": 1}}), "metadata.labels.a"),
            (json!({"finalizers": ["a", 2]}), "metadata.finalizers[1]"),
            (json!([]), "metadata"),
        ] {
            let error = sanitize(&mut json!({"metadata": metadata})).expect_err(path);
            assert!(error.message.contains(&format!("field {path} of")), "{}", error.message);
            assert_eq!(error.code.as_u16(), 400);
        }
    }
}
