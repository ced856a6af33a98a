//! Who a request comes from.

/// The caller of a request, put into its extensions by the listener or by an in-process client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups. `system:masters` may do everything.
    pub groups: Vec<String>,
}

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

impl Identity {
    /// A user with groups.
    pub fn new(user: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { user: user.into(), groups: groups.into_iter().map(Into::into).collect() }
    }

    /// A part of this program, `component` being one word such as `controllers`.
    #[must_use]
    pub fn internal(component: &str) -> Self {
        Self::new(format!("system:hagane:{component}"), [MASTERS])
    }

    /// Whether everything is allowed.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
