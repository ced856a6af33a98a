//! The Secret that keeps a cluster's kubeconfig.

use std::collections::BTreeMap;

use hagane_api::keys::{FIELD_MANAGER, OWNER_UID_LABEL, PROVISIONING_CLUSTER_LABEL, kubeconfig_secret_name};
use hagane_plan::provisioning::SecretFact;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};

use super::SeenProvisioning;
use crate::runtime::{PassError, is_already_there, is_not_found};

/// Fields with the kubeconfig: the one Cluster API uses, and a plain one.
const FIELDS: [&str; 2] = ["value", "kubeconfig"];
/// Annotation with the id of the run that left the kubeconfig.
const RUN_ANNOTATION: &str = "hagane.dev/run";

fn api(client: &Client, seen: &SeenProvisioning) -> Api<Secret> {
    Api::namespaced(client.clone(), &seen.key.namespace)
}

/// What stands under the name.
pub(super) async fn read(
    client: &Client,
    seen: &SeenProvisioning,
    cluster: &str,
) -> Result<(SecretFact, Option<Secret>), PassError> {
    let found = api(client, seen).get_opt(&kubeconfig_secret_name(cluster)).await;
    let found = found.map_err(|error| PassError::api("read the Secret with the kubeconfig", error))?;
    let Some(secret) = found else { return Ok((SecretFact::Absent, None)) };
    let owner = secret.metadata.labels.as_ref().and_then(|labels| labels.get(OWNER_UID_LABEL));
    let fact = match owner {
        Some(uid) if uid == seen.uid() => {
            let annotations = secret.metadata.annotations.as_ref();
            SecretFact::Ours { run: annotations.and_then(|annotations| annotations.get(RUN_ANNOTATION)).cloned() }
        }
        Some(uid) => SecretFact::Foreign(format!("the owner with uid {uid}")),
        None => SecretFact::Foreign("somebody else: it has no owner uid of ours".to_owned()),
    };
    Ok((fact, Some(secret)))
}

/// Keeps a checked kubeconfig. An older one of ours is replaced, with its resource version as a precondition.
pub(super) async fn store(
    client: &Client,
    seen: &SeenProvisioning,
    cluster: &str,
    run: &str,
    kubeconfig: &[u8],
    old: Option<&Secret>,
) -> Result<(), PassError> {
    let mut secret = fresh(seen, cluster, run, kubeconfig);
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let written = match old {
        Some(old) => {
            secret.metadata.resource_version.clone_from(&old.metadata.resource_version);
            api(client, seen).replace(&kubeconfig_secret_name(cluster), &params, &secret).await
        }
        None => api(client, seen).create(&params, &secret).await,
    };
    match written {
        Ok(_) => Ok(()),
        Err(error) if is_already_there(&error) => Err(PassError::Conflict),
        Err(error) => Err(PassError::api("store the Secret with the kubeconfig", error)),
    }
}

/// Deletes the Secret that was read, if it is still that one.
pub(super) async fn delete(client: &Client, seen: &SeenProvisioning, secret: &Secret) -> Result<(), PassError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api(client, seen).delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(PassError::api("delete the Secret with the kubeconfig", error)),
    }
}

fn fresh(seen: &SeenProvisioning, cluster: &str, run: &str, kubeconfig: &[u8]) -> Secret {
    let owner = OwnerReference {
        api_version: seen.key.resource.api_version(),
        kind: seen.key.resource.kind.to_owned(),
        name: seen.key.name.clone(),
        uid: seen.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(kubeconfig_secret_name(cluster)),
            namespace: Some(seen.key.namespace.clone()),
            labels: Some(BTreeMap::from([
                (OWNER_UID_LABEL.to_owned(), seen.uid().to_owned()),
                (PROVISIONING_CLUSTER_LABEL.to_owned(), cluster.to_owned()),
            ])),
            annotations: Some(BTreeMap::from([(RUN_ANNOTATION.to_owned(), run.to_owned())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(FIELDS.iter().map(|field| ((*field).to_owned(), ByteString(kubeconfig.to_vec()))).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}
