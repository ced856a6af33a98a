//! Labels, annotations, finalizers and names with a fixed spelling.

/// Finalizer of old-generation Machines.
pub const MACHINE_FINALIZER: &str = "machine.cluster.k8s.io";
/// Finalizer of old-generation Clusters.
pub const CLUSTER_FINALIZER: &str = "cluster.cluster.k8s.io";
/// Finalizer of Provisionings.
pub const PROVISIONING_FINALIZER: &str = "hagane.dev/provisioning";
/// Finalizer of Softwares.
pub const SOFTWARE_FINALIZER: &str = "hagane.dev/software";
/// Label of an old-generation Machine that names its Cluster.
pub const CLUSTER_NAME_LABEL: &str = "cluster.k8s.io/cluster-name";
/// Label of a Provisioning or Software that names its cluster.
pub const PROVISIONING_CLUSTER_LABEL: &str = "cluster";
/// Annotation with hardware facts by hand, JSON of `HardwareDetails`.
pub const HARDWARE_DETAILS_ANNOTATION: &str = "inspect.metal3.io/hardwaredetails";
/// Annotation that stops reconciliation of a `BareMetalHost`.
pub const HOST_PAUSED_ANNOTATION: &str = "baremetalhost.metal3.io/paused";
/// Annotations that mark a host as never to be chosen.
pub const HOST_UNHEALTHY_ANNOTATIONS: [&str; 2] = ["capm3.metal3.io/unhealthy", "capi.metal3.io/unhealthy"];
/// Annotation of a `BareMetalHost` with its pinned SSH host keys, one a line.
pub const SSH_HOST_KEYS_ANNOTATION: &str = "hagane.dev/ssh-host-keys";
/// Label prefix of host features that demands like `sriov` ask for.
pub const FEATURE_LABEL_PREFIX: &str = "hagane.dev/feature.";
/// Annotation on a Provisioning: a changed value starts a failed run again, where it ended. One that begins with
/// [`RETRY_FROM_START`] does everything again.
pub const RETRY_ANNOTATION: &str = "hagane.dev/retry";
/// Begin of a value of [`RETRY_ANNOTATION`].
pub const RETRY_FROM_START: &str = "from-start";
/// Annotation on a Provisioning with the id of a run (`status.run.id`) that is to be ended.
pub const CANCEL_RUN_ANNOTATION: &str = "hagane.dev/cancel-run";
/// Annotation on a Provisioning with the id of a run of another holder: a person knows that nothing of it lives any more.
pub const ABANDON_RUN_ANNOTATION: &str = "hagane.dev/abandon-run";
/// Annotation on a Provisioning with the id of a planned run (`status.plannedRun.id`) that a person allows: it may lose data.
pub const APPROVE_RUN_ANNOTATION: &str = "hagane.dev/approve-run";
/// Annotation on a Provisioning: a changed value has the certificates of its cluster's control plane renewed.
pub const RENEW_CERTIFICATES_ANNOTATION: &str = "hagane.dev/renew-certificates";
/// Annotation that makes any of our controllers leave an object alone.
pub const PAUSED_ANNOTATION: &str = "hagane.dev/paused";
/// Label on side objects with the owner's uid.
pub const OWNER_UID_LABEL: &str = "hagane.dev/owner-uid";
/// Field manager and reporting component of the control loops.
pub const FIELD_MANAGER: &str = "hagane";
/// Name of the Secret with the SSH key for the hosts of a Provisioning, unless it names another.
pub const DEFAULT_SSH_SECRET: &str = "ssh-key-secret";

/// Name of the Secret that keeps the kubeconfig of `cluster`.
#[must_use]
pub fn kubeconfig_secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Name of the `ConfigMap` with the addresses of the nodes of `cluster`.
#[must_use]
pub fn addresses_config_map_name(cluster: &str) -> String {
    format!("{cluster}-configmap")
}
