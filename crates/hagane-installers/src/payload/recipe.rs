//! The recipe of a payload and the sources that it builds, as they are in the repository's `payload/` directory.

use std::collections::BTreeMap;

use hagane_ports::installer::NodeRole;
use serde::Deserialize;

/// The recipe's text.
pub(super) const TEXT: &str = include_str!("../../../../payload/recipe.yaml");

/// Go sources, by path below the source directory.
pub(super) const SOURCES: [(&str, &str); 18] = [
    ("kubernetes/go.mod", include_str!("../../../../payload/go/kubernetes/go.mod")),
    ("kubernetes/go.sum", include_str!("../../../../payload/go/kubernetes/go.sum")),
    ("kubernetes/commands.go", include_str!("../../../../payload/go/kubernetes/commands.go")),
    ("etcd/go.mod", include_str!("../../../../payload/go/etcd/go.mod")),
    ("etcd/go.sum", include_str!("../../../../payload/go/etcd/go.sum")),
    ("etcd/commands.go", include_str!("../../../../payload/go/etcd/commands.go")),
    ("etcd/etcd/main.go", include_str!("../../../../payload/go/etcd/etcd/main.go")),
    ("coredns/go.mod", include_str!("../../../../payload/go/coredns/go.mod")),
    ("coredns/go.sum", include_str!("../../../../payload/go/coredns/go.sum")),
    ("coredns/coredns/main.go", include_str!("../../../../payload/go/coredns/coredns/main.go")),
    ("pause/go.mod", include_str!("../../../../payload/go/pause/go.mod")),
    ("pause/main.go", include_str!("../../../../payload/go/pause/main.go")),
    ("echo/go.mod", include_str!("../../../../payload/go/echo/go.mod")),
    ("echo/main.go", include_str!("../../../../payload/go/echo/main.go")),
    ("vip/go.mod", include_str!("../../../../payload/go/vip/go.mod")),
    ("vip/go.sum", include_str!("../../../../payload/go/vip/go.sum")),
    ("vip/main.go", include_str!("../../../../payload/go/vip/main.go")),
    ("vip/arp.go", include_str!("../../../../payload/go/vip/arp.go")),
];

/// `go.mod` and `go.sum` of the module `kubernetes` at further versions. What else is in a payload is the same.
const FURTHER: [(&str, &str, &str); 1] = [(
    "1.36.1",
    include_str!("../../../../payload/versions/1.36.1/go.mod"),
    include_str!("../../../../payload/versions/1.36.1/go.sum"),
)];

/// What a payload of one version is built from.
pub(super) struct Sources {
    /// The recipe's text.
    pub(super) recipe: String,
    /// Go sources, by path below the source directory.
    pub(super) files: Vec<(&'static str, &'static str)>,
}

/// The version that is built where none is named.
pub(super) fn usual_version() -> &'static str {
    TEXT.lines().find_map(|line| line.strip_prefix("kubernetesVersion: ")).unwrap_or_default()
}

/// The versions that can be built, the usual one first.
pub(super) fn versions() -> Vec<&'static str> {
    [usual_version()].into_iter().chain(FURTHER.iter().map(|(version, _, _)| *version)).collect()
}

/// What the payload of `version` is built from; `None` where it is not among [`versions`].
pub(super) fn sources(version: &str) -> Option<Sources> {
    if version == usual_version() {
        return Some(Sources { recipe: TEXT.to_owned(), files: SOURCES.to_vec() });
    }
    let (_, module, sums) = FURTHER.iter().find(|(further, _, _)| *further == version)?;
    let minor = |version: &str| format!("itMinor: {:?}", version.split('.').nth(1).unwrap_or_default());
    let recipe = TEXT.replace(usual_version(), version).replace(&minor(usual_version()), &minor(version));
    let files = SOURCES.iter().map(|(path, text)| match *path {
        "kubernetes/go.mod" => (*path, *module),
        "kubernetes/go.sum" => (*path, *sums),
        _ => (*path, *text),
    });
    Some(Sources { recipe, files: files.collect() })
}

/// What is built and how.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Recipe {
    pub(super) kubernetes_version: String,
    pub(super) modules: Vec<Module>,
    pub(super) programs: Vec<Program>,
    pub(super) binaries: Vec<Binary>,
    pub(super) images: Vec<Image>,
    pub(super) nft_packages: Vec<String>,
}

/// A Go module below `payload/go`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Module {
    pub(super) name: String,
    /// String variables set by the linker.
    #[serde(default)]
    pub(super) variables: BTreeMap<String, String>,
}

/// A program built from a module.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) module: String,
    pub(super) package: String,
    pub(super) version: String,
    pub(super) source: String,
}

/// A program that goes to hosts as it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Binary {
    pub(super) program: String,
    pub(super) roles: Vec<NodeRole>,
}

/// A container image of programs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Image {
    pub(super) name: String,
    pub(super) tag: String,
    /// Program to path inside.
    pub(super) programs: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) entrypoint: Vec<String>,
    /// Whether nft and its libraries are inside.
    #[serde(default)]
    pub(super) nft: bool,
    pub(super) roles: Vec<NodeRole>,
}
