//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use crate::error::{ApiError, ApiResult};

/// All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Reads a selector; the empty text selects everything.
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let bad =
            |why: &str| ApiError::bad_request(format!("unable to parse requirement in labelSelector {text:?}: {why}"));
        let mut requirements = Vec::new();
        for term in split_terms(text).map_err(bad)? {
            requirements.push(requirement(term.trim()).map_err(|why| bad(&why))?);
        }
        Ok(Self(requirements))
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels, looked up by key, meet all requirements.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|unwanted| unwanted != value)),
                Test::Greater(bound) => {
                    value.and_then(|value| value.parse().ok()).is_some_and(|value: i64| value > *bound)
                }
                Test::Less(bound) => {
                    value.and_then(|value| value.parse().ok()).is_some_and(|value: i64| value < *bound)
                }
            }
        })
    }
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Result<Vec<&str>, &'static str> {
    let mut terms = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return Err("unbalanced parentheses");
        }
    }
    if depth != 0 {
        return Err("unbalanced parentheses");
    }
    if !text.trim().is_empty() {
        terms.push(&text[start..]);
    }
    Ok(terms)
}

fn requirement(term: &str) -> Result<Requirement, String> {
    if let Some(key) = term.strip_prefix('!') {
        return build(key, Test::Absent);
    }
    if term.ends_with(')') {
        return set_requirement(term);
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let value = checked_value(value)?;
            return build(key, if negated { Test::NotIn(vec![value]) } else { Test::In(vec![value]) });
        }
    }
    for (operator, greater) in [('>', true), ('<', false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let bound = value.trim().parse().map_err(|_| format!("{value:?} is not an integer"))?;
            return build(key, if greater { Test::Greater(bound) } else { Test::Less(bound) });
        }
    }
    build(term, Test::Exists)
}

fn set_requirement(term: &str) -> Result<Requirement, String> {
    let (head, values) = term.trim_end_matches(')').split_once('(').ok_or("missing '('")?;
    let mut words = head.split_whitespace();
    let (Some(key), Some(operator), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("{term:?}: expected 'key in (...)' or 'key notin (...)'"));
    };
    let values: Vec<String> = values.split(',').map(checked_value).collect::<Result<_, _>>()?;
    match operator {
        "in" => build(key, Test::In(values)),
        "notin" => build(key, Test::NotIn(values)),
        other => Err(format!("unknown operator {other:?}, expected in or notin")),
    }
}

fn build(key: &str, test: Test) -> Result<Requirement, String> {
    let key = key.trim();
    match crate::names::qualified_name_problem(key) {
        Some(problem) => Err(format!("key {key:?}: {problem}")),
        None => Ok(Requirement { key: key.to_owned(), test }),
    }
}

fn checked_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    match crate::names::label_value_problem(value) {
        Some(problem) => Err(format!("value {value:?}: {problem}")),
        None => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&'static str, &'static str)]) -> bool {
        let selector = LabelSelector::parse(selector).expect("a valid selector");
        selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn knows_every_operator() {
        let labels = [("a", "1"), ("example.com/b", "x")];
        for selector in
            ["", "a", "a=1", "a==1", "a in (1,2)", "a notin (3)", "!c", "c!=1", "a>0", "a<2", "example.com/b=x,a=1"]
        {
            assert!(selects(selector, &labels), "{selector}");
        }
        for selector in ["c", "a=2", "a!=1", "a in (2)", "a notin (1,2)", "!a", "a>1", "a=1,example.com/b=y"] {
            assert!(!selects(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        for selector in ["a=b c", "a in 1,2)", "=x", "a in (", ",", "a like (b)", "-a=1"] {
            let error = LabelSelector::parse(selector).expect_err(selector);
            assert_eq!(error.code.as_u16(), 400, "{selector}");
        }
    }
}
