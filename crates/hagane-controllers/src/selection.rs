//! Which control loops run here.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Names of the control loops of this build, in the order in which they are listed to people.
pub const CONTROLLERS: &[&str] = &["cluster", "machine", "host", "provisioning", "software"];

/// Which control loops run: `all`, `none`, or names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Every one.
    #[default]
    All,
    /// None.
    None,
    /// These.
    Names(BTreeSet<String>),
}

/// Why a text names no selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no controller is called {name:?}: use all, none, or some of {known}")]
pub struct UnknownController {
    name: String,
    known: String,
}

impl Selection {
    /// Whether the control loop of this name runs.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Names(names) => names.contains(name),
        }
    }
}

impl FromStr for Selection {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => return Ok(Self::All),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let names = text.split(',').map(|name| {
            let name = name.trim();
            if CONTROLLERS.contains(&name) {
                return Ok(name.to_owned());
            }
            Err(UnknownController { name: name.to_owned(), known: CONTROLLERS.join(", ") })
        });
        names.collect::<Result<_, _>>().map(Self::Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_words_and_names() {
        assert_eq!("all".parse(), Ok(Selection::All));
        assert_eq!("none".parse(), Ok(Selection::None));
        let some: Selection = "machine, cluster".parse().expect("known names");
        assert!(some.has("machine") && some.has("cluster") && !some.has("provisioning"));
    }

    #[test]
    fn names_what_is_unknown_and_what_is_known() {
        let error = "machine,pod".parse::<Selection>().expect_err("no such controller");
        assert_eq!(
            error.to_string(),
            "no controller is called \"pod\": use all, none, or some of cluster, machine, host, provisioning, software"
        );
    }
}
