//! Our own kinds, from the table that `hagane-api` keeps.

use std::sync::Arc;

use hagane_api::{KindDescriptor, kinds};

use super::{Conversion, Origin, Resource, Strategy, Version};
use crate::schema::Schema;
use crate::table::{Columns, Definition};

/// `kubectl get all` means pods and what makes them where those are served; here it means our kinds, or nothing.
const ALL: [&str; 1] = ["all"];

/// A row for each kind.
pub(super) fn rows() -> Vec<Resource> {
    kinds().iter().map(resource).collect()
}

fn resource(kind: &KindDescriptor) -> Resource {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    Resource {
        group: kind.group.to_owned(),
        plural: kind.plural.to_owned(),
        singular: kind.singular.to_owned(),
        kind: kind.kind.to_owned(),
        list_kind: kind.list_kind(),
        short_names: owned(kind.short_names),
        categories: [owned(kind.categories), owned(&ALL)].concat(),
        namespaced: kind.namespaced,
        storage: kind.full_name().into(),
        stored_api_version: kind.api_version(),
        versions: vec![version(kind)],
        conversion: Conversion::default(),
        strategy: Strategy { default: kind.default, validate: kind.validate, ..Strategy::default() },
        origin: Origin::Ours,
        definition_uid: String::new(),
        definition_generation: 0,
        terminating: false,
        schema_since: 0,
    }
}

fn version(kind: &KindDescriptor) -> Version {
    let columns = kind.columns.iter().map(|column| {
        let definition = Definition {
            name: column.name.to_owned(),
            r#type: column.r#type.to_owned(),
            format: String::new(),
            description: column.description.to_owned(),
            priority: column.priority,
        };
        (definition, column.json_path)
    });
    Version {
        name: kind.version.to_owned(),
        served: true,
        deprecation: None,
        schema: Schema::new(Arc::new((kind.schema)())),
        columns: Columns::defined(columns),
        status: kind.status_subresource,
        selectable: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::structural_problems;

    #[test]
    fn every_schema_of_ours_compiles() {
        for kind in kinds() {
            assert_eq!(structural_problems(&(kind.schema)(), "schema"), [], "{}", kind.kind);
        }
    }
}
