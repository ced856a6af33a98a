//! The compiled form of a schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::metadata;

/// JSON types as schemas name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// Fields beyond `properties`.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// Not known: pruned.
    #[default]
    None,
    /// Anything.
    Any,
    /// Each as this schema says.
    Schema(Box<Node>),
}

/// How a list is identified with itself.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    /// No two equal elements.
    Set,
    /// No two elements with the same values of these fields.
    Map(Vec<String>),
}

/// A bound of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) exclusive: bool,
}

/// Everything that is checked of one value.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Option<Type>,
    pub(super) int_or_string: bool,
    pub(super) nullable: bool,
    pub(super) preserve: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) list_type: ListType,
    pub(super) required: Vec<String>,
    pub(super) words: Vec<Value>,
    pub(super) format: Option<String>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

impl Node {
    /// Compiles the schema of a whole object.
    pub(super) fn root(raw: &Value) -> Self {
        let mut root = Self::compile(raw);
        if raw.as_object().is_none_or(Map::is_empty) {
            root.preserve = true;
        }
        root.make_resource();
        root
    }

    /// Compiles the schema of any value.
    pub(super) fn compile(raw: &Value) -> Self {
        let Some(raw) = raw.as_object() else { return Self::default() };
        let flag = |key: &str| raw.get(key).and_then(Value::as_bool).unwrap_or(false);
        let count = |key: &str| raw.get(key).and_then(Value::as_u64);
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        let list = |key: &str| raw.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let nodes = |key: &str| list(key).iter().map(Self::compile).collect();
        let bound = |key: &str, exclusive: &str| {
            let limit = raw.get(key).and_then(Value::as_f64)?;
            Some(Bound { limit, exclusive: flag(exclusive) })
        };
        let int_or_string = flag("x-kubernetes-int-or-string");
        let mut node = Self {
            kind: text("type").and_then(Type::parse),
            int_or_string,
            nullable: flag("nullable"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            default: raw.get("default").cloned(),
            properties: children(raw, "properties"),
            additional: additional(raw.get("additionalProperties")),
            items: raw.get("items").map(|items| Box::new(Self::compile(items))),
            list_type: list_type(raw),
            required: list("required").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            words: list("enum").to_vec(),
            format: text("format").map(str::to_owned),
            pattern: text("pattern").and_then(|pattern| Regex::new(pattern).ok()),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: raw.get("multipleOf").and_then(Value::as_f64).filter(|factor| *factor > 0.0),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            unique_items: flag("uniqueItems"),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: raw.get("not").map(|inner| Box::new(Self::compile(inner))),
        };
        if flag("x-kubernetes-embedded-resource") {
            node.make_resource();
        }
        node
    }

    /// Adds what every object has. A schema may only say more about the name.
    fn make_resource(&mut self) {
        self.kind = Some(Type::Object);
        for key in ["apiVersion", "kind"] {
            self.properties.entry(key.to_owned()).or_default().kind = Some(Type::String);
        }
        let given = self.properties.remove("metadata").unwrap_or_default();
        let mut complete = Self::compile(metadata::object_meta());
        for (name, node) in given.properties {
            if name == "name" || name == "generateName" {
                complete.properties.insert(name, node);
            }
        }
        complete.required = given.required;
        self.properties.insert("metadata".to_owned(), complete);
    }
}

fn children(raw: &Map<String, Value>, key: &str) -> BTreeMap<String, Node> {
    let fields = raw.get(key).and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, raw)| (name.clone(), Node::compile(raw))).collect()
}

fn additional(raw: Option<&Value>) -> Additional {
    match raw {
        None | Some(Value::Bool(false)) => Additional::None,
        Some(Value::Bool(true)) => Additional::Any,
        Some(schema) => Additional::Schema(Box::new(Node::compile(schema))),
    }
}

fn list_type(raw: &Map<String, Value>) -> ListType {
    match raw.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = raw.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListType::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}
