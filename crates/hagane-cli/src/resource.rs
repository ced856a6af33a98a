//! Finding the objects that a person names by a short word.

use hagane_api::KindDescriptor;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};

use crate::CliError;
use crate::args::Subject;

/// The resources a subject may mean, most likely first.
pub(crate) fn kinds_of(subject: Subject) -> Vec<&'static KindDescriptor> {
    let (groups, plural): (&[&str], &str) = match subject {
        Subject::Cluster => (&[hagane_api::machine::GROUP, hagane_api::machine::SLIDES_GROUP], "clusters"),
        Subject::Machine => (&[hagane_api::machine::GROUP, hagane_api::machine::SLIDES_GROUP], "machines"),
        Subject::Provisioning => (&[hagane_api::bpa::GROUP], "provisionings"),
        Subject::Software => (&[hagane_api::bpa::GROUP], "softwares"),
        Subject::Host => (&[hagane_api::metal3::GROUP], "baremetalhosts"),
    };
    groups.iter().filter_map(|group| hagane_api::kind_of(group, plural)).collect()
}

/// The word of a subject.
pub(crate) fn word(subject: Subject) -> &'static str {
    match subject {
        Subject::Cluster => "cluster",
        Subject::Machine => "machine",
        Subject::Provisioning => "provisioning",
        Subject::Software => "software",
        Subject::Host => "host",
    }
}

/// The dynamic client type of a kind.
pub(crate) fn api_resource(kind: &KindDescriptor) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group, kind.version, kind.kind), kind.plural)
}

/// The objects of a kind in a namespace.
pub(crate) fn api(client: &Client, kind: &KindDescriptor, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &api_resource(kind))
}

/// Looks an object up under every resource its subject may mean, and takes the first.
pub(crate) async fn find(
    client: &Client,
    subject: Subject,
    namespace: &str,
    name: &str,
) -> Result<(&'static KindDescriptor, DynamicObject), CliError> {
    Ok(find_all(client, subject, namespace, name).await?.swap_remove(0))
}

/// Looks an object up under every resource its subject may mean; what it returns is never empty.
pub(crate) async fn find_all(
    client: &Client,
    subject: Subject,
    namespace: &str,
    name: &str,
) -> Result<Vec<(&'static KindDescriptor, DynamicObject)>, CliError> {
    let mut found = Vec::new();
    for kind in kinds_of(subject) {
        match api(client, kind, namespace).get_opt(name).await {
            Ok(Some(object)) => found.push((kind, object)),
            Ok(None) => {}
            // A server may lack one of the groups.
            Err(Error::Api(status)) if status.code == 404 => {}
            Err(source) => return Err(api_error(format!("get {} {name:?}", kind.full_name()), source)),
        }
    }
    if found.is_empty() {
        let what = word(subject).to_owned();
        return Err(CliError::NotFound { what, name: name.to_owned(), namespace: namespace.to_owned() });
    }
    Ok(found)
}

/// Wraps an error of the API.
pub(crate) fn api_error(operation: impl Into<String>, source: Error) -> CliError {
    CliError::Api { operation: operation.into(), source: Box::new(source) }
}
