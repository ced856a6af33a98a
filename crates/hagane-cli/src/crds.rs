//! `hagane crds`.

use std::process::ExitCode;

use crate::args::{CrdsArgs, Format};
use crate::{CliError, output};

/// The CRDs as one document stream (YAML) or one list (JSON).
pub(crate) fn text(args: &CrdsArgs) -> Result<String, CliError> {
    let slides = hagane_api::machine::SLIDES_GROUP;
    let wanted = hagane_api::kinds().iter().filter(|kind| args.slides_group || kind.group != slides);
    let crds: Vec<_> = wanted.map(hagane_api::crd).collect();
    match args.output {
        Format::Json => {
            output::render(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crds}), Format::Json)
        }
        Format::Yaml => {
            let documents: Result<Vec<_>, _> = crds.iter().map(|crd| output::render(crd, Format::Yaml)).collect();
            Ok(documents?.iter().map(|document| format!("---\n{document}")).collect())
        }
    }
}

pub(crate) fn run(args: &CrdsArgs) -> Result<ExitCode, CliError> {
    output::write(&text(args)?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_the_slides_group_out_unless_asked() {
        let with = |slides_group| text(&CrdsArgs { slides_group, output: Format::Yaml }).expect("plain data renders");
        assert!(!with(false).contains("cluster-api.k8s.io"));
        assert!(with(true).contains("machines.cluster-api.k8s.io"));
        assert!(with(false).contains("api-approved.kubernetes.io"));
    }
}
