//! Objects as rows of a table, which `kubectl get` asks for.

mod age;
mod builtin;
mod json_path;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use json_path::JsonPath;

/// A column as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    /// Further hint, may be empty.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

/// How a cell comes from an object.
#[derive(Clone, Debug)]
enum Cell {
    Path(JsonPath),
    Computed(fn(&Value, Timestamp) -> Value),
    /// The number of keys in maps at these pointers.
    KeysOf([&'static str; 2]),
}

/// The columns of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    columns: Vec<(Definition, Cell)>,
}

impl Columns {
    /// The columns of a kind of Kubernetes; none for kinds whose columns are all paths.
    pub(crate) fn builtin(group: &str, kind: &str) -> Option<Self> {
        builtin::columns(group, kind)
    }

    /// The name, then columns with the JSON paths of their cells; the age if there are none.
    pub(crate) fn defined(columns: impl IntoIterator<Item = (Definition, impl AsRef<str>)>) -> Self {
        let mut all = vec![builtin::name()];
        all.extend(columns.into_iter().map(|(definition, path)| {
            let cell = Cell::Path(JsonPath::parse(path.as_ref()));
            (definition, cell)
        }));
        if all.len() == 1 {
            all.push(builtin::age());
        }
        Self { columns: all }
    }

    /// The `columnDefinitions` of a table.
    pub(crate) fn definitions(&self) -> Value {
        let definition = |(column, _): &(Definition, Cell)| {
            let Definition { name, r#type, format, description, priority } = column;
            json!({"name": name, "type": r#type, "format": format, "description": description, "priority": priority})
        };
        self.columns.iter().map(definition).collect()
    }

    /// The cells of an object.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Value {
        let cell = |(column, cell): &(Definition, Cell)| match cell {
            Cell::Computed(compute) => compute(object, now),
            Cell::KeysOf(maps) => {
                let maps = maps.iter().filter_map(|pointer| object.pointer(pointer)?.as_object());
                let mut keys: Vec<&String> = maps.flat_map(Map::keys).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.len().into()
            }
            Cell::Path(path) => path.first(object).map_or(Value::Null, |value| shown(&column.r#type, value, now)),
        };
        self.columns.iter().map(cell).collect()
    }
}

/// A value in the type of its column; null when it does not fit.
fn shown(r#type: &str, value: &Value, now: Timestamp) -> Value {
    match (r#type, value) {
        (_, Value::Null) => Value::Null,
        ("integer", Value::Number(number)) if number.is_f64() => match number.as_f64() {
            // Cut, as clients expect; beyond the range of integers the nearest one.
            #[expect(clippy::cast_possible_truncation, reason = "the fraction is to be cut")]
            Some(real) => (real as i64).into(),
            None => Value::Null,
        },
        ("integer" | "number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => {
            value.clone()
        }
        ("string", other) => other.to_string().into(),
        ("date", time) => age::since(Some(time), now),
        _ => Value::Null,
    }
}

/// What a row says of its object beside the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// All.
    Object,
}

impl Include {
    /// Reads the query parameter `includeObject`; none if it is not one of the three words.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "Metadata" => Self::Metadata,
            "None" => Self::None,
            "Object" => Self::Object,
            _ => return None,
        })
    }
}

/// How a table is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// What rows carry.
    pub include: Include,
    /// `meta.k8s.io/v1beta1` instead of `v1`.
    pub beta: bool,
    /// Whether the columns are named; later events of a watch leave that out.
    pub definitions: bool,
    /// For ages.
    pub now: Timestamp,
}

/// The table of some objects; `metadata` is that of the list.
pub(crate) fn table(columns: &Columns, objects: &[Value], metadata: Map<String, Value>, style: Style) -> Value {
    let row = |object: &Value| {
        let mut row = json!({"cells": columns.cells(object, style.now)});
        match style.include {
            Include::None => {}
            Include::Metadata => row["object"] = partial_metadata(object, style.beta),
            Include::Object => row["object"] = object.clone(),
        }
        row
    };
    let definitions = if style.definitions { columns.definitions() } else { json!([]) };
    json!({
        "kind": "Table",
        "apiVersion": version(style.beta),
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

fn version(beta: bool) -> &'static str {
    if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
}

/// The metadata of an object as an object of its own.
pub(crate) fn partial_metadata(object: &Value, beta: bool) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version(beta), "metadata": metadata})
}
