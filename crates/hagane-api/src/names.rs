//! Names that Kubernetes and DNS accept.

/// Most characters of an RFC 1123 label.
pub const LABEL_LENGTH_MAX: usize = 63;
/// Most characters of an RFC 1123 subdomain.
pub const SUBDOMAIN_LENGTH_MAX: usize = 253;

/// Says why `name` is no RFC 1123 label (lower-case letters, digits and `-`, not at the ends, at most 63), or nothing.
#[must_use]
pub fn dns_label_problem(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > LABEL_LENGTH_MAX {
        return Some(format!("must have 1 to {LABEL_LENGTH_MAX} characters"));
    }
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(inside) || name.starts_with('-') || name.ends_with('-') {
        return Some(
            "must consist of lower-case letters, digits and '-', and start and end with a letter or digit".to_owned(),
        );
    }
    None
}

/// Says why `name` is no RFC 1123 subdomain (labels joined by dots, at most 253 characters), or nothing.
#[must_use]
pub fn dns_subdomain_problem(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > SUBDOMAIN_LENGTH_MAX {
        return Some(format!("must have 1 to {SUBDOMAIN_LENGTH_MAX} characters"));
    }
    let label_ok = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.split('.').all(label_ok) {
        return None;
    }
    Some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character"
            .to_owned(),
    )
}

/// Says why `name` is no `[prefix/]name` as label keys and finalizers are, or nothing.
#[must_use]
pub fn qualified_name_problem(name: &str) -> Option<String> {
    let (prefix, short) = match name.split_once('/') {
        Some((prefix, short)) => (Some(prefix), short),
        None => (None, name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if let Some(problem) = dns_subdomain_problem(prefix) {
            return Some(format!("prefix part {problem}"));
        }
    }
    if short.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if short.len() > LABEL_LENGTH_MAX {
        return Some(format!("name part must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !word_like(short) {
        return Some(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc')"
                .to_owned(),
        );
    }
    None
}

/// Says why `value` is no label value, or nothing.
#[must_use]
pub fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > LABEL_LENGTH_MAX {
        return Some(format!("must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !value.is_empty() && !word_like(value) {
        return Some(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345')"
                .to_owned(),
        );
    }
    None
}

fn word_like(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Most characters of a Linux login name.
const LOGIN_LENGTH_MAX: usize = 32;
/// Most characters of a playbook variable's name.
const VARIABLE_LENGTH_MAX: usize = 128;
/// Names that mean something to Ansible itself: a variable of that name would change how a run works.
const ANSIBLE_VARIABLES: [&str; 18] = [
    "become",
    "connection",
    "environment",
    "gather_facts",
    "group_names",
    "groups",
    "hosts",
    "hostvars",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "omit",
    "play_hosts",
    "playbook_dir",
    "role_name",
    "vars",
    "environ",
];

/// Says why `name` is no login name that is safe on a command line, or nothing.
#[must_use]
pub fn login_name_problem(name: &str) -> Option<String> {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let inside = |byte: u8| first(byte) || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let fits = name.len() <= LOGIN_LENGTH_MAX && name.bytes().all(inside) && name.bytes().next().is_some_and(first);
    (!fits).then(|| {
        format!("must be a login name of lower-case letters, digits, '_', '-' and '.', at most {LOGIN_LENGTH_MAX} characters")
    })
}

/// Says why a playbook variable of a user's cannot be called `name`, or nothing.
#[must_use]
pub fn variable_name_problem(name: &str) -> Option<String> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !starts_well || name.len() > VARIABLE_LENGTH_MAX || !name.bytes().all(inside) {
        let length = VARIABLE_LENGTH_MAX;
        return Some(format!(
            "must have letters, digits and '_', not start with a digit, and at most {length} characters"
        ));
    }
    if name.starts_with("ansible_") || name.starts_with("hagane_") || ANSIBLE_VARIABLES.contains(&name) {
        return Some("must be no name that Ansible or the installer uses itself (ansible_…, hagane_…)".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_labels_and_subdomains() {
        for name in ["a", "edge-1", "0", "a1"] {
            assert_eq!(dns_label_problem(name), None, "{name}");
        }
        assert_eq!(dns_subdomain_problem("provisionings.bpa.akraino.org"), None);
    }

    #[test]
    fn refuses_what_dns_refuses() {
        for name in ["", "-a", "a-", "A", "a_b", "a.b", "ä", &"a".repeat(64)] {
            assert!(dns_label_problem(name).is_some(), "{name}");
        }
        for name in ["", ".", "a..b", "a.-b", "A.b"] {
            assert!(dns_subdomain_problem(name).is_some(), "{name}");
        }
    }
}
