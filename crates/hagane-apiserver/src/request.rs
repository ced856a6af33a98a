//! What a request asks for, read from its path alone.

/// A path, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/`
    Root,
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1` or `/apis/<group>/<version>`
    Resources { group: String, version: String },
    /// `/openapi/v3` (`None`) or the document of one group and version, `apis/example.com/v1`.
    OpenApi(Option<String>),
    /// `/openapi/v2`
    OldOpenApi,
    /// A collection, an object or a subresource.
    Resource(Box<ResourcePath>),
    /// Anything else.
    Unknown,
}

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// `/api/v1/watch/…`, the old spelling of `?watch=1`.
    pub legacy_watch: bool,
}

/// Reads a path.
pub(crate) fn parse_path(path: &str) -> Target {
    let Some(segments) = segments(path) else { return Target::Unknown };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Target::Root,
        ["version"] => Target::Version,
        ["healthz" | "livez" | "readyz", ..] => Target::Health,
        ["api"] => Target::CoreVersions,
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).to_owned()),
        ["api", version] => Target::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => Target::Resources { group: (*group).to_owned(), version: (*version).to_owned() },
        ["openapi", "v2"] => Target::OldOpenApi,
        ["openapi", "v3"] => Target::OpenApi(None),
        ["openapi", "v3", rest @ ..] => Target::OpenApi(Some(rest.join("/"))),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Target::Unknown,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Target {
    let mut path = ResourcePath { group: group.to_owned(), version: version.to_owned(), ..ResourcePath::default() };
    let mut rest = rest;
    if let (["watch", after @ ..], true) = (rest, rest.len() > 1) {
        path.legacy_watch = true;
        rest = after;
    }
    let owned = |text: &&str| Some((**text).to_owned());
    match rest {
        ["namespaces"] => path.plural = "namespaces".to_owned(),
        ["namespaces", name] => {
            path.plural = "namespaces".to_owned();
            path.name = owned(name);
        }
        ["namespaces", name, subresource @ ("status" | "finalize")] => {
            path.plural = "namespaces".to_owned();
            path.name = owned(name);
            path.subresource = owned(subresource);
        }
        ["namespaces", namespace, plural, tail @ ..] => {
            path.namespace = owned(namespace);
            path.plural = (*plural).to_owned();
            if !object_tail(&mut path, tail) {
                return Target::Unknown;
            }
        }
        [plural, tail @ ..] => {
            path.plural = (*plural).to_owned();
            if !object_tail(&mut path, tail) {
                return Target::Unknown;
            }
        }
        [] => return Target::Unknown,
    }
    Target::Resource(Box::new(path))
}

fn object_tail(path: &mut ResourcePath, tail: &[&str]) -> bool {
    match tail {
        [] => true,
        [name] => {
            path.name = Some((*name).to_owned());
            true
        }
        [name, subresource] => {
            path.name = Some((*name).to_owned());
            path.subresource = Some((*subresource).to_owned());
            true
        }
        _ => false,
    }
}

/// Splits and decodes; a trailing slash is ignored, an empty segment inside is no path of ours.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    path.split('/').map(|segment| if segment.is_empty() { None } else { percent_decode(segment) }).collect()
}

fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let [high, low, after @ ..] = tail else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(*high)? * 16 + digit(*low)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource_of(path: &str) -> ResourcePath {
        match parse_path(path) {
            Target::Resource(resource) => *resource,
            other => unreachable!("{path}: {other:?}"),
        }
    }

    #[test]
    fn reads_collections_objects_and_subresources() {
        let object = resource_of("/apis/cluster.k8s.io/v1alpha1/namespaces/lab/machines/m1/status");
        assert_eq!((object.group.as_str(), object.version.as_str()), ("cluster.k8s.io", "v1alpha1"));
        assert_eq!((object.namespace.as_deref(), object.plural.as_str()), (Some("lab"), "machines"));
        assert_eq!((object.name.as_deref(), object.subresource.as_deref()), (Some("m1"), Some("status")));
        let all = resource_of("/api/v1/configmaps");
        assert_eq!((all.namespace, all.plural.as_str(), all.name), (None, "configmaps", None));
    }

    #[test]
    fn a_namespace_itself_is_no_scope() {
        let one = resource_of("/api/v1/namespaces/lab");
        assert_eq!((one.namespace, one.plural.as_str(), one.name.as_deref()), (None, "namespaces", Some("lab")));
        let finalize = resource_of("/api/v1/namespaces/lab/finalize");
        assert_eq!((finalize.plural.as_str(), finalize.subresource.as_deref()), ("namespaces", Some("finalize")));
        assert_eq!(resource_of("/api/v1/namespaces/lab/secrets").plural, "secrets");
    }

    #[test]
    fn decodes_and_ignores_a_trailing_slash() {
        assert_eq!(parse_path("/apis/"), Target::Groups);
        assert_eq!(resource_of("/api/v1/namespaces/a/configmaps/b%3Ac").name.as_deref(), Some("b:c"));
        assert_eq!(parse_path("/api/v1/namespaces/%ff/x"), Target::Unknown);
        assert_eq!(parse_path("/api//v1"), Target::Unknown);
        assert!(resource_of("/api/v1/watch/namespaces/a/configmaps").legacy_watch);
    }
}
