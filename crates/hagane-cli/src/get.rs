//! `hagane get kubeconfig`.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;

use crate::args::{Format, KubeconfigArgs};
use crate::kubeconfig::{Entry, merge_file};
use crate::resource::api_error;
use crate::{CliError, connect, output};

/// Key of the kubeconfig in its Secret, the one Cluster API uses.
const SECRET_KEY: &str = "value";

pub(crate) async fn kubeconfig(args: &KubeconfigArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let name = hagane_api::keys::kubeconfig_secret_name(&args.name);
    let secrets: Api<Secret> = Api::namespaced(client, &args.api.namespace);
    let secret = secrets.get_opt(&name).await.map_err(|source| api_error(format!("get Secret {name:?}"), source))?;
    let Some(secret) = secret else {
        return Err(CliError::NotFound {
            what: "kubeconfig of cluster".to_owned(),
            name: args.name.clone(),
            namespace: args.api.namespace.clone(),
        });
    };
    let bytes =
        secret.data.as_ref().and_then(|data| data.get(SECRET_KEY)).map(|value| value.0.as_slice()).unwrap_or_default();
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(CliError::NotYet(format!("Secret {name:?} holds no kubeconfig under {SECRET_KEY:?}")));
    }
    let Some(path) = args.merge.clone() else {
        output::write(&in_format(text, args.output)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let entry = Entry::from_kubeconfig(text, &args.api.namespace, &args.name)
        .map_err(|problem| CliError::NotYet(format!("the kubeconfig in Secret {name:?} {problem}")))?;
    let context = entry.name().to_owned();
    let target = path.clone();
    tokio::task::spawn_blocking(move || merge_file(&target, &entry))
        .await
        .map_err(|source| CliError::Output(source.into()))??;
    output::write(&format!("context {context:?} is in {}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn in_format(text: &str, format: Format) -> Result<String, CliError> {
    match format {
        Format::Yaml => Ok(text.to_owned()),
        Format::Json => {
            let config: serde_json::Value =
                serde_saphyr::from_str(text).map_err(|source| CliError::Output(Box::new(source)))?;
            output::render(&config, Format::Json)
        }
    }
}
