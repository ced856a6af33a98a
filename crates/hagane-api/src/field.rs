//! Errors of single fields, with the wording Kubernetes clients know.

use std::fmt;

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// The value is not allowed.
    Invalid,
    /// The field must be given.
    Required,
    /// The value is none of the allowed ones.
    NotSupported,
    /// The field must not be given, or not be changed.
    Forbidden,
    /// The value stands elsewhere already.
    Duplicate,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The text is too long.
    TooLong,
    /// There are too many elements.
    TooMany,
}

impl FieldProblem {
    /// The `reason` of a Status cause.
    #[must_use]
    pub fn cause_reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One field that is wrong: where, the value found, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Dotted path with indexes, `spec.masters[0].cpu`.
    pub field: String,
    /// What is wrong.
    pub problem: FieldProblem,
    /// The value found, as JSON; empty for `Required`, `Forbidden` and `TooLong`.
    pub value: String,
    /// What is allowed, or why not.
    pub detail: String,
}

impl FieldError {
    /// A value that is not allowed.
    pub fn invalid(field: impl Into<String>, value: impl serde::Serialize, detail: impl Into<String>) -> Self {
        Self::with_value(field, FieldProblem::Invalid, value, detail)
    }

    /// A value that stands elsewhere already.
    pub fn duplicate(field: impl Into<String>, value: impl serde::Serialize, detail: impl Into<String>) -> Self {
        Self::with_value(field, FieldProblem::Duplicate, value, detail)
    }

    /// A field that must be given.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), problem: FieldProblem::Required, value: String::new(), detail: detail.into() }
    }

    /// A field that must not be given or changed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), problem: FieldProblem::Forbidden, value: String::new(), detail: detail.into() }
    }

    /// A value that is wrong in the way `problem` says.
    pub fn with_value(
        field: impl Into<String>,
        problem: FieldProblem,
        value: impl serde::Serialize,
        detail: impl Into<String>,
    ) -> Self {
        let value = serde_json::to_string(&value).unwrap_or_else(|_| "<unprintable>".to_owned());
        Self { field: field.into(), problem, value, detail: detail.into() }
    }

    /// The message without the field, as Status causes carry it.
    #[must_use]
    pub fn message(&self) -> String {
        let words = self.problem.words();
        match (self.value.is_empty(), self.detail.is_empty()) {
            (true, true) => words.to_owned(),
            (true, false) => format!("{words}: {}", self.detail),
            (false, true) => format!("{words}: {}", self.value),
            (false, false) => format!("{words}: {}: {}", self.value, self.detail),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message())
    }
}

impl std::error::Error for FieldError {}
