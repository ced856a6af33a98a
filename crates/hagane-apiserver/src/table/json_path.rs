//! The part of kubectl's JSONPath that printer columns use: fields, indexes, `[*]` and `[?(@.a=="b")]`.

use std::cmp::Ordering;

use serde_json::Value;

/// A path that is ready to be followed. What cannot be understood matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
    understood: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// From the end when negative.
    Index(i64),
    /// From, to (exclusive).
    Slice(Option<i64>, Option<i64>),
    All,
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    /// Path below the element.
    path: JsonPath,
    /// Operator and literal; none asks whether there is a value.
    condition: Option<(Operator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longest first.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl JsonPath {
    /// Reads a path with a leading dot, `.status.conditions[?(@.type=="Ready")].status`.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        match steps(text) {
            Some(steps) => Self { steps, understood: true },
            None => Self::default(),
        }
    }

    /// The first value the path leads to.
    pub(super) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        if self.understood { follow(&self.steps, object) } else { None }
    }
}

fn follow<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => follow(rest, value.get(name)?),
        Step::Index(index) => {
            let elements = value.as_array()?;
            follow(rest, elements.get(place(*index, elements.len()))?)
        }
        Step::Slice(from, to) => {
            let elements = value.as_array()?;
            let from = from.map_or(0, |from| place(from, elements.len()));
            let to = to.map_or(elements.len(), |to| place(to, elements.len())).min(elements.len());
            elements.get(from..to)?.iter().find_map(|element| follow(rest, element))
        }
        Step::All => match value {
            Value::Array(elements) => elements.iter().find_map(|element| follow(rest, element)),
            Value::Object(fields) => fields.values().find_map(|element| follow(rest, element)),
            _ => None,
        },
        Step::Filter(filter) => {
            let mut elements = value.as_array()?.iter().filter(|element| filter.takes(element));
            elements.find_map(|element| follow(rest, element))
        }
    }
}

fn place(index: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    usize::try_from(if index < 0 { length + index } else { index }).unwrap_or(usize::MAX)
}

impl Filter {
    fn takes(&self, element: &Value) -> bool {
        let Some(value) = self.path.first(element) else { return false };
        let Some((operator, literal)) = &self.condition else { return true };
        let order = match (value, literal) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) => (left == right).then_some(Ordering::Equal),
        };
        match operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let (name, tail) = field(tail)?;
            match name.as_str() {
                // A lone dot is the object itself.
                "" if tail.is_empty() && steps.is_empty() => {}
                "" if tail.starts_with('[') => {}
                "" => return None,
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix('[') {
            let end = closing(tail)?;
            steps.push(bracket(tail.get(..end)?.trim())?);
            rest = tail.get(end + 1..)?;
        } else {
            return None;
        }
    }
    Some(steps)
}

/// A field name up to the next dot or bracket; a backslash takes the next letter as it is.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return Some((name, text.get(at..)?)),
            '\\' => name.push(letters.next()?.1),
            other => name.push(other),
        }
    }
    Some((name, ""))
}

/// Where the bracket closes, quotes and inner brackets left out.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name));
    }
    if let Some(inner) = text.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return filter(inner.trim()).map(Step::Filter);
    }
    if let Some((from, to)) = text.split_once(':') {
        let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    text.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote)).then(|| inner.to_owned())
}

fn filter(text: &str) -> Option<Filter> {
    let path = |text: &str| Some(JsonPath { steps: steps(text.trim().strip_prefix('@')?)?, understood: true });
    let found = OPERATORS.iter().filter_map(|(sign, operator)| Some((text.find(sign)?, *sign, *operator)));
    // The first sign, and of two at one place the longer.
    let Some((at, sign, operator)) = found.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len()))) else {
        return Some(Filter { path: path(text)?, condition: None });
    };
    let literal = text.get(at + sign.len()..)?.trim();
    let literal = match quoted(literal) {
        Some(words) => Value::String(words),
        None => serde_json::from_str(literal).ok()?,
    };
    Some(Filter { path: path(text.get(..at)?)?, condition: Some((operator, literal)) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follows_what_columns_use() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "dotted"}},
            "status": {
                "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}],
                "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
                "empty": [],
            },
        });
        let cases = [
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (r".status.conditions[?(@.type == 'Ready')].status", json!("True")),
            (r".status.conditions[?(@.n>2)].type", json!("Ready")),
            (r".status.conditions[?(@.n)].type", json!("Ready")),
            (r#".status.conditions[?(@.type!="Other")].type"#, json!("Ready")),
            (".status.addresses[0].ip", json!("10.0.0.1")),
            (".status.addresses[-1].ip", json!("10.0.0.2")),
            (".status.addresses[1:].ip", json!("10.0.0.2")),
            (".status.addresses[*].ip", json!("10.0.0.1")),
            (r".metadata.labels['a.b/c']", json!("dotted")),
            (r".metadata.labels.a\.b/c", json!("dotted")),
            ("{.status.empty}", json!([])),
            (".status.empty[0]", Value::Null),
            (".status.addresses[7].ip", Value::Null),
            (".nothing.here", Value::Null),
            ("status.addresses", Value::Null),
            (".status.addresses[", Value::Null),
            (".status..ip", Value::Null),
        ];
        for (path, wanted) in cases {
            let found = JsonPath::parse(path).first(&object).cloned().unwrap_or_default();
            assert_eq!(found, wanted, "{path}");
        }
    }
}
