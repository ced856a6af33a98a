//! The kinds of Kubernetes itself, a row each.

use std::sync::Arc;

use serde_json::Value;

use super::{Conversion, Origin, Resource, Strategy, Version, builtin_schemas, defined, events, strategies};
use crate::schema::Schema;
use crate::table::{Columns, Definition};

/// A version and the schema of its objects.
type VersionRow = (&'static str, fn() -> Value);

struct Row {
    group: &'static str,
    versions: &'static [VersionRow],
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    status: bool,
    storage: &'static str,
    stored: &'static str,
    fields: &'static [(&'static str, &'static str)],
    conversion: Conversion,
    strategy: fn() -> Strategy,
}

const ROW: Row = Row {
    group: "",
    versions: &[],
    kind: "",
    plural: "",
    short_names: &[],
    namespaced: true,
    status: false,
    storage: "",
    stored: "v1",
    fields: &[],
    conversion: Conversion { to_stored: |_, _| {}, from_stored: |_, _| {} },
    strategy: Strategy::default,
};

/// Storage name of definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Storage name of namespaces.
pub(crate) const NAMESPACES: &str = "namespaces";
/// Storage name of events of both groups.
pub(crate) const EVENTS: &str = "events";

static ROWS: &[Row] = &[
    Row {
        kind: "Namespace",
        plural: NAMESPACES,
        storage: NAMESPACES,
        short_names: &["ns"],
        namespaced: false,
        status: true,
        versions: &[("v1", builtin_schemas::namespace)],
        fields: &[("status.phase", "/status/phase"), ("name", "/metadata/name")],
        strategy: strategies::namespace,
        ..ROW
    },
    Row {
        kind: "ConfigMap",
        plural: "configmaps",
        storage: "configmaps",
        short_names: &["cm"],
        versions: &[("v1", builtin_schemas::config_map)],
        strategy: strategies::config_map,
        ..ROW
    },
    Row {
        kind: "Secret",
        plural: "secrets",
        storage: "secrets",
        versions: &[("v1", builtin_schemas::secret)],
        fields: &[("type", "/type")],
        strategy: strategies::secret,
        ..ROW
    },
    Row {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        storage: "serviceaccounts",
        short_names: &["sa"],
        versions: &[("v1", builtin_schemas::service_account)],
        strategy: strategies::service_account,
        ..ROW
    },
    Row {
        kind: "Event",
        plural: "events",
        storage: EVENTS,
        short_names: &["ev"],
        versions: &[("v1", builtin_schemas::core_event)],
        fields: events::CORE_FIELDS,
        strategy: events::strategy,
        ..ROW
    },
    Row {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        storage: EVENTS,
        short_names: &["ev"],
        versions: &[("v1", builtin_schemas::event)],
        fields: events::NEW_FIELDS,
        conversion: events::CONVERSION,
        strategy: events::strategy,
        ..ROW
    },
    Row {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        storage: "leases.coordination.k8s.io",
        stored: "coordination.k8s.io/v1",
        versions: &[("v1", builtin_schemas::lease)],
        strategy: strategies::lease,
        ..ROW
    },
    Row {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        storage: DEFINITIONS,
        stored: "apiextensions.k8s.io/v1",
        short_names: &["crd", "crds"],
        namespaced: false,
        status: true,
        versions: &[("v1", builtin_schemas::definition), ("v1beta1", builtin_schemas::definition_beta)],
        conversion: defined::CONVERSION,
        strategy: strategies::definition,
        ..ROW
    },
];

const NO_COLUMNS: [(Definition, &str); 0] = [];

/// The rows, compiled.
pub(super) fn rows() -> Vec<Resource> {
    ROWS.iter().map(resource).collect()
}

/// Selector paths of stored objects, for the store's index.
pub(crate) fn indexed_fields(storage: &str) -> &'static [(&'static str, &'static str)] {
    ROWS.iter().find(|row| row.storage == storage).map_or(&[], |row| row.fields)
}

fn resource(row: &Row) -> Resource {
    let singular = row.kind.to_ascii_lowercase();
    Resource {
        group: row.group.to_owned(),
        plural: row.plural.to_owned(),
        singular,
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        short_names: row.short_names.iter().map(ToString::to_string).collect(),
        categories: Vec::new(),
        namespaced: row.namespaced,
        storage: row.storage.into(),
        stored_api_version: row.stored.to_owned(),
        versions: row.versions.iter().map(|(name, schema)| version(row, name, *schema)).collect(),
        conversion: row.conversion,
        strategy: (row.strategy)(),
        origin: Origin::BuiltIn,
        definition_uid: String::new(),
        definition_generation: 0,
        terminating: false,
        schema_since: 0,
    }
}

fn version(row: &Row, name: &str, schema: fn() -> Value) -> Version {
    Version {
        name: name.to_owned(),
        served: true,
        deprecation: (row.plural == "customresourcedefinitions" && name == "v1beta1").then(|| {
            "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated; use apiextensions.k8s.io/v1 \
             CustomResourceDefinition"
                .to_owned()
        }),
        schema: Schema::new(Arc::new(schema())),
        columns: Columns::builtin(row.group, row.kind).unwrap_or_else(|| Columns::defined(NO_COLUMNS)),
        status: row.status,
        selectable: row.fields.iter().map(|(path, pointer)| ((*path).to_owned(), (*pointer).to_owned())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::NameRule;
    use crate::schema::structural_problems;

    #[test]
    fn every_schema_of_a_row_compiles() {
        for row in ROWS {
            for (version, schema) in row.versions {
                assert_eq!(structural_problems(&schema(), "schema"), [], "{} {version}", row.kind);
            }
        }
    }

    #[test]
    fn only_namespaces_are_named_by_labels() {
        let labels = rows().into_iter().filter(|row| row.strategy.names == NameRule::Label).map(|row| row.kind);
        assert_eq!(labels.collect::<Vec<_>>(), ["Namespace"]);
    }
}
