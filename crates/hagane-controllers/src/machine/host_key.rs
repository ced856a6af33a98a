//! The SSH host key of a machine: made once, kept in a Secret, so that every retry gives the machine the same key.

use std::collections::BTreeMap;

use hagane_api::keys::{FIELD_MANAGER, OWNER_UID_LABEL};
use hagane_ports::{HostKeyMaker, SshKeyPair};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::runtime::{ObjectKey, PassError, is_already_there, is_not_found};

/// Field of the Secret with the private key.
const PRIVATE: &str = "ssh_host_ed25519_key";
/// Field of the Secret with the public key.
const PUBLIC: &str = "ssh_host_ed25519_key.pub";

/// Name of the Secret: a part of the machine's name, and of its uid, so that a machine of the same name made later (or
/// in the other spelling of the group) has another one.
pub(super) fn secret_name(machine: &str, uid: &str) -> String {
    let kept: String = machine.chars().take(230).collect();
    let short: String = uid.chars().take(8).collect();
    format!("{}-{short}-ssh-host", kept.trim_end_matches(['-', '.']))
}

/// The key of the machine; made and stored where there is none yet. Nothing where a Secret of that name is somebody
/// else's.
pub(super) async fn ensure(
    client: &Client,
    maker: &dyn HostKeyMaker,
    key: &ObjectKey,
    uid: &str,
) -> Result<Option<SshKeyPair>, PassError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let name = secret_name(&key.name, uid);
    match api.get(&name).await {
        Ok(secret) => return replace_unreadable(&api, maker, key, uid, secret).await,
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(PassError::api("read the Secret with the host key", error)),
    }
    let pair = generate(maker)?;
    match api.create(&params(), &secret(key, uid, &name, &pair)).await {
        Ok(_) => Ok(Some(pair)),
        // Made by somebody between the two calls: the next pass reads it.
        Err(error) if is_already_there(&error) => Err(PassError::Conflict),
        Err(error) => Err(PassError::api("store the Secret with the host key", error)),
    }
}

/// The public key that was put into the machine by an earlier pass; nothing where there is none.
pub(super) async fn recorded(client: &Client, key: &ObjectKey, uid: &str) -> Result<Option<String>, PassError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let found = api.get_opt(&secret_name(&key.name, uid)).await;
    let found = found.map_err(|error| PassError::api("read the Secret with the host key", error))?;
    let ours = found.filter(|secret| owner_uid(secret) == Some(uid));
    Ok(ours.and_then(|secret| read(&secret)).map(|pair| pair.public_line))
}

fn owner_uid(secret: &Secret) -> Option<&str> {
    secret.metadata.labels.as_ref()?.get(OWNER_UID_LABEL).map(String::as_str)
}

async fn replace_unreadable(
    api: &Api<Secret>,
    maker: &dyn HostKeyMaker,
    key: &ObjectKey,
    uid: &str,
    found: Secret,
) -> Result<Option<SshKeyPair>, PassError> {
    if owner_uid(&found) != Some(uid) {
        return Ok(None);
    }
    if let Some(pair) = read(&found) {
        return Ok(Some(pair));
    }
    let pair = generate(maker)?;
    let name = secret_name(&key.name, uid);
    let mut fresh = secret(key, uid, &name, &pair);
    fresh.metadata.resource_version = found.metadata.resource_version;
    let replaced = api.replace(&name, &params(), &fresh).await;
    replaced.map_err(|error| PassError::api("store the Secret with the host key", error))?;
    Ok(Some(pair))
}

fn generate(maker: &dyn HostKeyMaker) -> Result<SshKeyPair, PassError> {
    maker.generate().map_err(|source| PassError::HostKey { source })
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn read(secret: &Secret) -> Option<SshKeyPair> {
    let field = |name: &str| {
        let bytes = secret.data.as_ref()?.get(name)?;
        String::from_utf8(bytes.0.clone()).ok().filter(|text| !text.is_empty())
    };
    Some(SshKeyPair { private_openssh: field(PRIVATE)?, public_line: field(PUBLIC)? })
}

fn secret(key: &ObjectKey, uid: &str, name: &str, pair: &SshKeyPair) -> Secret {
    let owner = OwnerReference {
        api_version: key.resource.api_version(),
        kind: key.resource.kind.to_owned(),
        name: key.name.clone(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(key.namespace.clone()),
            labels: Some(BTreeMap::from([(OWNER_UID_LABEL.to_owned(), uid.to_owned())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            (PRIVATE.to_owned(), ByteString(pair.private_openssh.clone().into_bytes())),
            (PUBLIC.to_owned(), ByteString(pair.public_line.clone().into_bytes())),
        ])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_enough_and_differ_by_uid() {
        let long = secret_name(&"m".repeat(253), "12345678-aaaa");
        assert!(long.len() <= 253, "{}", long.len());
        assert_ne!(secret_name("m1", "12345678-a"), secret_name("m1", "87654321-a"));
        assert_eq!(secret_name("m1", "12345678-a"), "m1-12345678-ssh-host");
    }

    #[test]
    fn reads_back_what_it_writes() {
        let resource = crate::runtime::Resource::of("cluster.k8s.io", "machines").expect("a kind of ours");
        let pair = SshKeyPair { private_openssh: "secret\n".to_owned(), public_line: "ssh-ed25519 A".to_owned() };
        let written = secret(&ObjectKey::new(resource, "lab", "m1"), "u1", "m1-u1-ssh-host", &pair);
        assert_eq!(read(&written), Some(pair));
        assert_eq!(read(&Secret::default()), None);
    }
}
