//! Field selectors: `metadata.name=a,status.phase!=Active`.

use crate::error::{ApiError, ApiResult};

/// All terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTerm>);

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    /// Dotted path.
    pub path: String,
    /// Compared value; a missing field counts as empty.
    pub value: String,
    /// Whether the field must not have it.
    pub negated: bool,
}

impl FieldSelector {
    /// Reads a selector; every path must be one of `known`.
    pub(crate) fn parse(text: &str, known: impl Fn(&str) -> bool) -> ApiResult<Self> {
        let mut terms = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let (path, value, negated) = if let Some((path, value)) = term.split_once("!=") {
                (path, value, true)
            } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (path, value, false)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector: {term:?}; can't understand {term:?}"
                )));
            };
            if !known(path) {
                return Err(ApiError::bad_request(format!("field label not supported: {path}")));
            }
            terms.push(FieldTerm { path: path.to_owned(), value: unescape(value), negated });
        }
        Ok(Self(terms))
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name that `metadata.name=x` pins, if it does.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.path == "metadata.name" && !term.negated).map(|term| term.value.as_str())
    }

    /// Whether a term looks below the metadata that the store knows.
    pub(crate) fn needs_body(&self) -> bool {
        self.0.iter().any(|term| term.path != "metadata.name" && term.path != "metadata.namespace")
    }

    /// Whether fields, looked up by path, meet all terms.
    pub(crate) fn matches(&self, field: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|term| (field(&term.path) == term.value) != term.negated)
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, letter) in text.char_indices() {
        match letter {
            '\\' => escaped = !escaped,
            ',' if !escaped => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => escaped = false,
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_and_unescapes() {
        let selector = FieldSelector::parse("metadata.name=a\\,b,status.phase!=Active", |_| true).expect("valid");
        let lookup = |phase: &str| {
            let phase = phase.to_owned();
            move |path: &str| if path == "metadata.name" { "a,b".to_owned() } else { phase.clone() }
        };
        assert!(selector.matches(lookup("")));
        assert!(!selector.matches(lookup("Active")));
        assert_eq!(selector.exact_name(), Some("a,b"));
    }

    #[test]
    fn names_the_field_it_does_not_know() {
        let error = FieldSelector::parse("status.powerState=on", |path| path == "metadata.name").expect_err("unknown");
        assert_eq!(
            (error.code.as_u16(), error.message.as_str()),
            (400, "field label not supported: status.powerState")
        );
    }
}
