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
