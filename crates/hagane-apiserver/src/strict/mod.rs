//! Reading JSON and YAML into trees while noticing fields that are given more than once.
//!
//! Of a repeated field the last value counts, as Kubernetes clients expect. Fields that a schema does not know are found
//! by [`Schema::prune`](crate::schema::Schema::prune).

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The problem text for a field that is given more than once.
fn duplicate(path: &str) -> String {
    format!("duplicate field \"{path}\"")
}

/// The problem text for a field that the schema does not know.
pub(crate) fn unknown(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// Reads JSON; answers also a problem text for each repeated field.
pub(crate) fn json(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Found::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Tree { found: &mut found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found.problems))
}

/// Reads one YAML document; answers also a problem text for each repeated field.
pub(crate) fn yaml(text: &str) -> Result<(Value, Vec<String>), serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
    };
    let Document { value, problems } = serde_saphyr::from_str_with_options(text, options)?;
    Ok((value, problems))
}

/// A document for readers that take a type rather than a seed.
struct Document {
    value: Value,
    problems: Vec<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = Found::default();
        let value = Tree { found: &mut found }.deserialize(deserializer)?;
        Ok(Self { value, problems: found.problems })
    }
}

#[derive(Default)]
struct Found {
    path: String,
    problems: Vec<String>,
}

/// Reads one value of the tree.
struct Tree<'a> {
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("numbers must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let length = self.found.path.len();
        let mut elements = Vec::new();
        loop {
            self.found.path.push_str(&format!("[{}]", elements.len()));
            let element = access.next_element_seed(Tree { found: self.found })?;
            self.found.path.truncate(length);
            match element {
                Some(element) => elements.push(element),
                None => return Ok(Value::Array(elements)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let length = self.found.path.len();
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if length > 0 {
                self.found.path.push('.');
            }
            self.found.path.push_str(&name);
            if fields.contains_key(&name) {
                let problem = duplicate(&self.found.path);
                if !self.found.problems.contains(&problem) {
                    self.found.problems.push(problem);
                }
            }
            let value = access.next_value_seed(Tree { found: self.found })?;
            self.found.path.truncate(length);
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_json_as_the_plain_reader_does() {
        let text = r#"{"a": [1, -2, 1.5, "x", null, true, {}], "b": {"c": 18446744073709551615}}"#;
        let (value, problems) = json(text.as_bytes()).expect("is JSON");
        assert_eq!(value, serde_json::from_str::<Value>(text).expect("is JSON"));
        assert!(problems.is_empty());
        assert!(json(b"{} {}").is_err());
        assert!(json(b"{").is_err());
    }

    #[test]
    fn names_fields_given_twice_and_keeps_the_last() {
        let text = br#"{"spec": {"bar": 1, "ports": [{}, {"x": 1, "x": 2, "x": 3}], "bar": 2}}"#;
        let (value, problems) = json(text).expect("is JSON");
        assert_eq!(value, json!({"spec": {"bar": 2, "ports": [{}, {"x": 3}]}}));
        assert_eq!(problems, [r#"duplicate field "spec.ports[1].x""#, r#"duplicate field "spec.bar""#]);
    }

    #[test]
    fn reads_yaml_the_same_way() {
        let text =
            "spec:\n  bar: 1\n  list: [a, {x: 1}]\n  text: |\n    line\n  bar: two\n  none: null\n  yes: \"1\"\n";
        let (value, problems) = yaml(text).expect("is YAML");
        assert_eq!(
            value,
            json!({"spec": {"bar": "two", "list": ["a", {"x": 1}], "text": "line\n", "none": null, "yes": "1"}})
        );
        assert_eq!(problems, [r#"duplicate field "spec.bar""#]);
        assert!(yaml("a: [").is_err());
        assert_eq!(unknown("spec.foo"), r#"unknown field "spec.foo""#);
    }
}
