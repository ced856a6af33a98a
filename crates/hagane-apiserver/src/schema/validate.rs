//! Checking values, with the wording Kubernetes clients know.

use hagane_api::field::{FieldError, FieldProblem};
use serde_json::{Map, Number, Value};

use super::format;
use super::node::{Additional, Bound, ListType, Node, Type};
use super::path::Path;

pub(super) fn validate(root: &Node, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut check = Check { path: Path::default(), errors: Vec::new() };
    check.value(root, object, old);
    check.errors
}

struct Check {
    path: Path,
    errors: Vec<FieldError>,
}

impl Check {
    fn value(&mut self, node: &Node, value: &Value, old: Option<&Value>) {
        // What stood there before may stay, also where the schema has become stricter since.
        if old == Some(value) || (value.is_null() && node.nullable) {
            return;
        }
        if !self.has_type(node, value) {
            return;
        }
        if !node.words.is_empty() && !node.words.contains(value) {
            let words: Vec<String> = node.words.iter().map(Value::to_string).collect();
            let detail = format!("supported values: {}", words.join(", "));
            self.push(FieldError::with_value(self.path.text(), FieldProblem::NotSupported, value, detail));
        }
        match value {
            Value::Object(fields) => self.object(node, fields, value, old),
            Value::Array(elements) => self.array(node, elements, value, old),
            Value::String(text) => self.text(node, text),
            Value::Number(number) => self.number(node, number),
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(node, value);
    }

    fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    fn invalid(&mut self, value: impl serde::Serialize, detail: String) {
        self.push(FieldError::invalid(self.path.text(), value, detail));
    }

    fn body(&mut self, value: impl serde::Serialize, detail: &str) {
        let detail = format!("{} in body {detail}", self.path.text());
        self.invalid(value, detail);
    }

    fn type_invalid(&mut self, wanted: &str, found: &str) {
        let detail = format!("{} in body must be of type {wanted}: \"{found}\"", self.path.text());
        self.push(FieldError::with_value(self.path.text(), FieldProblem::TypeInvalid, found, detail));
    }

    fn too_many(&mut self, found: usize, most: u64) {
        let detail = format!("must have at most {most} items");
        self.push(FieldError::with_value(self.path.text(), FieldProblem::TooMany, found, detail));
    }

    fn has_type(&mut self, node: &Node, value: &Value) -> bool {
        let found = type_name(value);
        if node.int_or_string {
            let fits = found == "string" || is_whole(value);
            if !fits {
                self.type_invalid("integer,string", found);
            }
            return fits;
        }
        let Some(wanted) = node.kind else { return true };
        let fits = match wanted {
            Type::Integer => is_whole(value),
            Type::Number => value.is_number(),
            other => other.name() == found,
        };
        if !fits {
            self.type_invalid(wanted.name(), found);
        }
        fits
    }

    fn object(&mut self, node: &Node, fields: &Map<String, Value>, value: &Value, old: Option<&Value>) {
        let count = fields.len() as u64;
        if let Some(least) = node.min_properties.filter(|least| count < *least) {
            self.body(value, &format!("should have at least {least} properties"));
        }
        if let Some(most) = node.max_properties.filter(|most| count > *most) {
            self.too_many(fields.len(), most);
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.errors.push(FieldError::required(self.path.child(name), ""));
        }
        for (name, value) in fields {
            let inner = match (node.properties.get(name), &node.additional) {
                (Some(inner), _) => inner,
                (None, Additional::Schema(inner)) => inner,
                _ => continue,
            };
            let old = old.and_then(|old| old.get(name));
            self.at_field(name, |check| check.value(inner, value, old));
        }
    }

    fn array(&mut self, node: &Node, elements: &[Value], value: &Value, old: Option<&Value>) {
        let count = elements.len() as u64;
        if let Some(least) = node.min_items.filter(|least| count < *least) {
            self.body(value, &format!("should have at least {least} items"));
        }
        if let Some(most) = node.max_items.filter(|most| count > *most) {
            self.too_many(elements.len(), most);
        }
        if node.unique_items && (1..elements.len()).any(|at| elements[..at].contains(&elements[at])) {
            self.body(value, "shouldn't contain duplicates");
        }
        self.same_elements(node, elements);
        let Some(inner) = &node.items else { return };
        for (index, element) in elements.iter().enumerate() {
            let old = counterpart(&node.list_type, element, old);
            self.at_index(index, |check| check.value(inner, element, old));
        }
    }

    /// Elements that the type of the list does not let stand twice.
    fn same_elements(&mut self, node: &Node, elements: &[Value]) {
        let identity = |element: &Value| match &node.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(element.clone()),
            ListType::Map(keys) => {
                let fields = keys.iter().filter_map(|key| Some((key.clone(), element.get(key)?.clone())));
                let fields: Map<String, Value> = fields.collect();
                (!fields.is_empty()).then_some(Value::Object(fields))
            }
        };
        let mut seen = std::collections::HashSet::new();
        for (index, element) in elements.iter().enumerate() {
            let Some(identity) = identity(element) else { continue };
            if !seen.insert(identity.to_string()) {
                self.at_index(index, |check| check.push(FieldError::duplicate(check.path.text(), &identity, "")));
            }
        }
    }

    fn text(&mut self, node: &Node, text: &str) {
        let length = text.chars().count() as u64;
        if let Some(most) = node.max_length.filter(|most| length > *most) {
            self.push(FieldError {
                field: self.path.text().to_owned(),
                problem: FieldProblem::TooLong,
                value: String::new(),
                detail: format!("may not be more than {most} bytes"),
            });
        }
        if let Some(least) = node.min_length.filter(|least| length < *least) {
            self.body(text, &format!("should be at least {least} chars long"));
        }
        if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.body(text, &format!("should match '{pattern}'"));
        }
        if let Some(format) = node.format.as_ref().filter(|format| !format::matches(format, text)) {
            self.type_invalid(format, text);
        }
    }

    fn number(&mut self, node: &Node, number: &Number) {
        let value = number.as_f64().unwrap_or(f64::NAN);
        if let Some(Bound { limit, exclusive }) = node.minimum
            && (value < limit || (exclusive && value <= limit))
        {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            self.body(number, &format!("should be {words} {limit}"));
        }
        if let Some(Bound { limit, exclusive }) = node.maximum
            && (value > limit || (exclusive && value >= limit))
        {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            self.body(number, &format!("should be {words} {limit}"));
        }
        if let Some(factor) = node.multiple_of {
            let times = value / factor;
            if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
                self.body(number, &format!("should be a multiple of {factor}"));
            }
        }
        if let Some(format) = node.format.as_ref().filter(|format| !format::fits(format, number)) {
            self.body(number, &format!("must be of type {}, format {format}", node.kind.map_or("number", Type::name)));
        }
    }

    fn combinations(&mut self, node: &Node, value: &Value) {
        let path = self.path.text().to_owned();
        let before = self.errors.len();
        for inner in &node.all_of {
            self.value(inner, value, None);
        }
        if self.errors.len() > before {
            self.invalid("", format!("\"{path}\" must validate all the schemas (allOf)"));
        }
        if !node.any_of.is_empty() {
            let (valid, nearest) = self.alternatives(&node.any_of, value);
            if valid == 0 {
                self.invalid("", format!("\"{path}\" must validate at least one schema (anyOf)"));
                self.errors.extend(nearest);
            }
        }
        if !node.one_of.is_empty() {
            let (valid, nearest) = self.alternatives(&node.one_of, value);
            if valid != 1 {
                let found = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
                self.invalid("", format!("\"{path}\" must validate one and only one schema (oneOf). Found {found}"));
                self.errors.extend(nearest);
            }
        }
        if let Some(inner) = &node.not
            && self.errors_of(inner, value).is_empty()
        {
            self.invalid("", format!("\"{path}\" must not validate the schema (not)"));
        }
    }

    /// How many alternatives hold; if none, the errors of the one that is nearest.
    fn alternatives(&mut self, nodes: &[Node], value: &Value) -> (usize, Vec<FieldError>) {
        let failures: Vec<_> = nodes.iter().map(|node| self.errors_of(node, value)).collect();
        let valid = failures.iter().filter(|errors| errors.is_empty()).count();
        let nearest = failures.into_iter().min_by_key(Vec::len).unwrap_or_default();
        (valid, nearest)
    }

    fn errors_of(&mut self, node: &Node, value: &Value) -> Vec<FieldError> {
        let outer = std::mem::take(&mut self.errors);
        self.value(node, value, None);
        std::mem::replace(&mut self.errors, outer)
    }

    fn at_field(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.enter_field(name);
        visit(self);
        self.path.back(length);
    }

    fn at_index(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.enter_index(index);
        visit(self);
        self.path.back(length);
    }
}

/// The element of the old list that is the same one as this: only lists with keys can tell.
fn counterpart<'a>(list_type: &ListType, element: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else { return None };
    let old = old?.as_array()?;
    old.iter().find(|candidate| !keys.is_empty() && keys.iter().all(|key| candidate.get(key) == element.get(key)))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// JSON does not tell 1.0 from 1.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|real| real.fract() == 0.0),
        _ => false,
    }
}
