//! The SSH key of a Provisioning's hosts.

use hagane_api::bpa::provisioning::ProvisioningSpec;
use hagane_api::keys::DEFAULT_SSH_SECRET;
use hagane_plan::provisioning::Login;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;

use crate::runtime::PassError;

/// Field of the Secret with the private key, as in Secrets of type `kubernetes.io/ssh-auth`.
const FIELD: &str = "ssh-privatekey";

/// What is known of the key, and the key itself.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    spec: &ProvisioningSpec,
) -> Result<(Login, Option<String>), PassError> {
    let named = spec.ssh.as_ref().and_then(|ssh| ssh.secret_name.clone()).filter(|name| !name.is_empty());
    let secret = named.unwrap_or_else(|| DEFAULT_SSH_SECRET.to_owned());
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found =
        api.get_opt(&secret).await.map_err(|error| PassError::api("read the Secret with the SSH key", error))?;
    let Some(found) = found else { return Ok((Login::Missing { secret }, None)) };
    let bytes = found.data.as_ref().and_then(|data| data.get(FIELD)).map(|value| value.0.as_slice());
    let key = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).filter(|text| text.contains("PRIVATE KEY-----"));
    match key {
        // Editors and `echo` differ in the last newline; OpenSSH insists on one.
        Some(text) => Ok((Login::Present, Some(format!("{}\n", text.replace("\r\n", "\n").trim_end())))),
        None => {
            let problem = format!("it has no private key under {FIELD:?}");
            Ok((Login::Invalid { secret, problem }, None))
        }
    }
}
