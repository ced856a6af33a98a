//! `bpa.akraino.org/v1alpha1`: the Binary Provisioning Agent's kinds.

mod checks;
pub mod demand;
pub mod provisioning;
pub mod reasons;
pub mod run;
pub mod software;
pub mod software_reasons;
pub mod software_status;

pub use checks::kubernetes_version;

use crate::kind::{Column, KindDescriptor, no_defaults};
use crate::schema::{object_schema, structural};

/// API group of the agent's kinds.
pub const GROUP: &str = "bpa.akraino.org";
/// API version of the agent's kinds.
pub const VERSION: &str = "v1alpha1";

const fn column(
    name: &'static str,
    r#type: &'static str,
    json_path: &'static str,
    description: &'static str,
) -> Column {
    Column { name, r#type, json_path, priority: 0, description }
}

const PROVISIONING: &str =
    "A cluster to be installed on hosts: which machines it needs, by size, by MAC address or both.";
const SOFTWARE: &str = "Packages for the masters and workers of a finished cluster.";

pub(crate) fn kinds() -> Vec<KindDescriptor> {
    vec![
        KindDescriptor {
            group: GROUP,
            version: VERSION,
            kind: "Provisioning",
            plural: "provisionings",
            singular: "provisioning",
            short_names: &["bpa"],
            categories: &["hagane"],
            description: PROVISIONING,
            namespaced: true,
            status_subresource: true,
            columns: const {
                &[
                    column("Cluster", "string", ".status.cluster", "Name of the cluster."),
                    column("Phase", "string", ".status.phase", "Where the installation is."),
                    column("Task", "string", ".status.run.task", "What the installer does now."),
                    column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
                ]
            },
            schema: || {
                object_schema(
                    PROVISIONING,
                    structural::<provisioning::ProvisioningSpec>(),
                    structural::<provisioning::ProvisioningStatus>(),
                )
            },
            default: no_defaults,
            validate: provisioning::validate,
        },
        KindDescriptor {
            group: GROUP,
            version: VERSION,
            kind: "Software",
            plural: "softwares",
            singular: "software",
            short_names: &[],
            categories: &["hagane"],
            description: SOFTWARE,
            namespaced: true,
            status_subresource: true,
            columns: const {
                &[
                    column("Cluster", "string", ".metadata.labels.cluster", "Name of the cluster."),
                    column("Phase", "string", ".status.phase", "Where the work is."),
                    column("Done", "string", ".status.done", "Hosts that have all packages, of how many."),
                    column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
                ]
            },
            schema: || {
                object_schema(
                    SOFTWARE,
                    structural::<software::SoftwareSpec>(),
                    structural::<software_status::SoftwareStatus>(),
                )
            },
            default: no_defaults,
            validate: software::validate,
        },
    ]
}
