//! `hagane plan`: which host would play which role, by the decision that the controllers use.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hagane_api::bpa::provisioning::{ProvisioningSpec, ProvisioningStatus};
use hagane_api::keys::PROVISIONING_CLUSTER_LABEL;
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus};
use hagane_plan::host::{HostInput, host_facts, mark_duplicate_macs};
use hagane_plan::provisioning::{installable, wanted};
use hagane_plan::roles::{Availability, HostFacts, NodeRole, Plan, Recorded, plan_roles};
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::args::{PlanArgs, Subject};
use crate::resource::{api, api_error, kinds_of};
use crate::unknown::unknown_field;
use crate::{CliError, connect, output};

/// Exit code where a demand is not met.
const NOT_MET: u8 = 2;

pub(crate) async fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let mut input = Input { namespace: args.namespace.clone(), ..Input::default() };
    for path in &args.filenames {
        input.read_file(path)?;
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        let client = connect::client(kubeconfig).await?;
        for kind in kinds_of(Subject::Host) {
            let list = api(&client, kind, &args.namespace).list(&ListParams::default()).await;
            for host in list.map_err(|source| api_error("list BareMetalHosts", source))? {
                input.add(host);
            }
        }
    }
    let plan = plan(&input)?;
    let text = match args.output {
        Some(format) => output::render(&plan, format)?,
        None => table(&plan)?,
    };
    output::write(&text)?;
    Ok(if plan.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(NOT_MET) })
}

/// The objects of the input, by kind.
#[derive(Default)]
struct Input {
    provisionings: Vec<(PathBuf, DynamicObject)>,
    /// In order of appearance: it stands for the order of creation. A host of the API does not replace one of a file.
    hosts: Vec<DynamicObject>,
    source: PathBuf,
    /// Namespace of objects that name none.
    namespace: String,
}

impl Input {
    fn read_file(&mut self, path: &Path) -> Result<(), CliError> {
        let file = |source| CliError::File { operation: "read", path: path.to_owned(), source };
        let text = if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(file)?;
            text
        } else {
            std::fs::read_to_string(path).map_err(file)?
        };
        let shown = if path.as_os_str() == "-" { Path::new("standard input") } else { path };
        self.source = shown.to_owned();
        let content = |problem: String| CliError::Content { path: shown.to_owned(), problem };
        let syntax = |error: String| content(error.strip_prefix("error: ").unwrap_or(&error).to_owned());
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| syntax(error.to_string()))?;
        for document in documents {
            self.add_document(document, &content)?;
        }
        Ok(())
    }

    fn add_document(&mut self, document: Value, content: &impl Fn(String) -> CliError) -> Result<(), CliError> {
        if document.is_null() {
            return Ok(());
        }
        if let Some(items) = document.get("items").and_then(Value::as_array) {
            for item in items {
                self.add_document(item.clone(), content)?;
            }
            return Ok(());
        }
        let object =
            serde_json::from_value(document).map_err(|error| content(format!("is no Kubernetes object: {error}")))?;
        self.add(object);
        Ok(())
    }

    /// Other kinds than the two that matter are left alone: one file often holds a whole site.
    fn add(&mut self, object: DynamicObject) {
        let kind = object.types.as_ref().map_or("BareMetalHost", |types| types.kind.as_str()).to_owned();
        match kind.as_str() {
            "Provisioning" => self.provisionings.push((self.source.clone(), object)),
            "BareMetalHost" => {
                let same = |host: &DynamicObject| {
                    host.metadata.name == object.metadata.name && self.namespace_of(host) == self.namespace_of(&object)
                };
                if !self.hosts.iter().any(same) {
                    self.hosts.push(object);
                }
            }
            _ => {}
        }
    }
}

impl Input {
    fn namespace_of<'a>(&'a self, object: &'a DynamicObject) -> &'a str {
        let named = object.metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        named.unwrap_or(if self.namespace.is_empty() { "default" } else { &self.namespace })
    }
}

/// One plan for all Provisionings: each is planned after those before it, with the hosts of its namespace that they left.
fn plan(input: &Input) -> Result<Plan, CliError> {
    if input.provisionings.is_empty() {
        return Err(CliError::NotYet("no Provisioning in the input: give one by --filename".to_owned()));
    }
    let mut by_namespace: BTreeMap<&str, Vec<HostFacts>> = BTreeMap::new();
    for object in &input.hosts {
        by_namespace.entry(input.namespace_of(object)).or_default().push(facts(object));
    }
    by_namespace.values_mut().for_each(|hosts| mark_duplicate_macs(hosts));
    let mut whole = Plan::default();
    for (path, object) in &input.provisionings {
        let hosts = by_namespace.entry(input.namespace_of(object)).or_default();
        let part = plan_one(path, object, hosts)?;
        for assignment in &part.assignments {
            let taken = hosts.iter_mut().filter(|host| host.name == assignment.host);
            for host in taken {
                host.available = Availability::ClaimedBy(format!("node {}", assignment.node));
            }
        }
        whole.assignments.extend(part.assignments);
        whole.unsatisfied.extend(part.unsatisfied);
        whole.rejected = part.rejected;
    }
    Ok(whole)
}

fn plan_one(path: &Path, object: &DynamicObject, hosts: &[HostFacts]) -> Result<Plan, CliError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let content = |problem: String| CliError::Content {
        path: path.to_owned(),
        problem: format!("Provisioning {name:?}: {problem}"),
    };
    let part =
        |field: &str| object.data.get(field).filter(|value| !value.is_null()).cloned().unwrap_or_else(|| json!({}));
    for kind in kinds_of(Subject::Provisioning) {
        let schema = (kind.schema)();
        let unknown = unknown_field(&part("spec"), schema.pointer("/properties/spec").unwrap_or(&Value::Null), "spec");
        unknown.map_or(Ok(()), |problem| Err(content(problem)))?;
    }
    let spec: ProvisioningSpec =
        serde_json::from_value(part("spec")).map_err(|error| content(format!("spec: {error}")))?;
    let status: ProvisioningStatus = serde_json::from_value(part("status")).unwrap_or_default();
    let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(PROVISIONING_CLUSTER_LABEL));
    let cluster = label.filter(|label| !label.is_empty()).unwrap_or(&name);
    let wanted = wanted(&spec, cluster, status.plan.as_ref())
        .map_err(|errors| content(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    let stored = status.plan.iter().flat_map(|plan| &plan.assignments);
    let recorded: Vec<Recorded> = stored
        .map(|entry| Recorded {
            node: entry.node.clone(),
            roles: entry.roles.iter().filter_map(|role| role_of(role)).collect(),
            host: entry.host.clone(),
        })
        .collect();
    Ok(plan_roles(hosts, &wanted.demands, &recorded))
}

fn role_of(word: &str) -> Option<NodeRole> {
    [NodeRole::Master, NodeRole::Worker].into_iter().find(|role| role.as_str() == word)
}

/// What is known of a host. One that the API would refuse is not used, and says why.
fn facts(object: &DynamicObject) -> HostFacts {
    let empty = BTreeMap::new();
    let part = |field: &str| object.data.get(field).filter(|value| !value.is_null()).cloned();
    let spec = part("spec").and_then(|spec| serde_json::from_value::<BareMetalHostSpec>(spec).ok()).unwrap_or_default();
    let status = part("status").and_then(|status| serde_json::from_value::<BareMetalHostStatus>(status).ok());
    let facts = host_facts(&HostInput {
        name: object.metadata.name.as_deref().unwrap_or_default(),
        labels: object.metadata.labels.as_ref().unwrap_or(&empty),
        annotations: object.metadata.annotations.as_ref().unwrap_or(&empty),
        deleting: object.metadata.deletion_timestamp.is_some(),
        spec: &spec,
        status: status.as_ref(),
    });
    match refusal(object) {
        Some(problem) => HostFacts { available: Availability::NotReady(problem), ..facts },
        None => installable(facts),
    }
}

fn refusal(object: &DynamicObject) -> Option<String> {
    let whole = serde_json::to_value(object).ok()?;
    let mut errors = kinds_of(Subject::Host).into_iter().flat_map(|kind| (kind.validate)(&whole, None));
    errors.next().map(|error| format!("it is not valid: {error}"))
}

fn table(plan: &Plan) -> Result<String, CliError> {
    let plan = serde_json::to_value(plan).map_err(|source| CliError::Output(source.into()))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = |value: &Value| {
        value
            .as_array()
            .map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "))
            .unwrap_or_default()
    };
    let mut page = String::new();
    let sections: [(&str, &[&str]); 3] = [
        ("assignments", &["node", "roles", "host", "reasons"]),
        ("unsatisfied", &["demand", "short"]),
        ("rejected", &["host", "reasons"]),
    ];
    for (section, fields) in sections {
        let entries = plan[section].as_array().cloned().unwrap_or_default();
        if entries.is_empty() {
            continue;
        }
        let mut rows = vec![fields.iter().map(|field| field.to_uppercase()).collect::<Vec<_>>()];
        rows.extend(entries.iter().map(|entry| {
            fields
                .iter()
                .map(|field| if entry[field].is_array() { words(&entry[field]) } else { text(&entry[field]) })
                .collect()
        }));
        let gap = if page.is_empty() { "" } else { "\n" };
        page.push_str(gap);
        page.push_str(&output::table(&rows));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "\
apiVersion: bpa.akraino.org/v1alpha1
kind: Provisioning
metadata: {name: edge-1}
spec: {master: {cpu: 2, memory: 4Gi}, worker: {cpu: 1, memory: 2Gi}, replicas: 1}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: big
  annotations: {inspect.metal3.io/hardwaredetails: '{\"cpu\": {\"count\": 4}, \"ramMebibytes\": 8192, \"nics\": [{\"mac\": \"52:54:00:00:00:01\", \"ip\": \"192.0.2.1\"}]}'}
spec: {online: true}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: small}
spec: {online: true}
status: {hardware: {cpu: {count: 1}, ramMebibytes: 2048, nics: [{mac: \"52:54:00:00:00:02\", ip: 192.0.2.2}]}}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: other}
";

    fn planned(text: &str) -> Result<Plan, CliError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("site.yaml");
        std::fs::write(&path, text).expect("writable");
        let mut input = Input::default();
        input.read_file(&path)?;
        plan(&input)
    }

    #[test]
    fn plans_from_the_yaml_that_the_api_takes() {
        let plan = planned(SITE).expect("a good site");
        let pairs: Vec<_> = plan.assignments.iter().map(|entry| (entry.node.as_str(), entry.host.as_str())).collect();
        assert!(plan.is_complete(), "{plan:?}");
        assert_eq!(pairs.iter().map(|(_, host)| *host).collect::<Vec<_>>(), ["big", "small"]);
        assert!(pairs[0].0.starts_with("edge-1-master-") && pairs[1].0.starts_with("edge-1-worker-"), "{pairs:?}");
    }

    #[test]
    fn refuses_a_misspelt_field_as_the_api_does() {
        let error = planned(&SITE.replace("{cpu: 2,", "{cpus: 2,")).expect_err("misspelt").to_string();
        assert!(error.contains("Provisioning \"edge-1\": spec.master.cpus: unknown field: the fields are "), "{error}");
        let named = SITE.replace("{master: {cpu: 2, memory: 4Gi}, worker", "{masters: [{m1: {macs: x}}], worker");
        let error = planned(&named).expect_err("misspelt").to_string();
        assert!(error.contains("spec.masters[0].m1.macs: unknown field"), "{error}");
    }

    #[test]
    fn uses_no_host_that_the_controller_would_not_use() {
        for (from, to, told) in [
            (r#", "ip": "192.0.2.1""#, "", "no address is known"),
            ("spec: {online: true}\n---", "spec: {online: \"yes\"}\n---", "it is not valid: "),
            ("  name: big\n", "  name: big\n  namespace: other\n", ""),
        ] {
            let site = SITE.replacen(from, to, 1);
            assert_ne!(site, SITE, "{from}");
            let plan = planned(&site).expect("it can be planned");
            assert!(
                !plan.is_complete() && plan.assignments.iter().all(|entry| entry.host != "big"),
                "{told}: {plan:?}"
            );
            let reasons = plan.rejected.iter().filter(|host| host.host == "big").flat_map(|host| &host.reasons);
            let reasons: Vec<_> = reasons.map(String::as_str).collect();
            assert!(
                told.is_empty() == reasons.is_empty() && reasons.iter().all(|reason| reason.contains(told)),
                "{told}: {reasons:?}"
            );
        }
    }

    #[test]
    fn hosts_of_one_name_in_two_namespaces_are_two() {
        let other = "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: small, namespace: a}\nspec: {online: true}\n";
        assert!(planned(&format!("{other}---\n{SITE}")).expect("a good site").is_complete());
    }

    #[test]
    fn says_what_is_short() {
        let plan = planned(&SITE.replace("replicas: 1", "replicas: 2")).expect("a good site");
        assert_eq!(plan.unsatisfied.len(), 1);
        let page = table(&plan).expect("plain data");
        assert!(page.contains("DEMAND") && page.contains("edge-1-worker-"), "{page}");
    }

    #[test]
    fn names_the_file_the_object_and_the_field() {
        let error = planned(&SITE.replace("memory: 4Gi", "memory: 4GB")).expect_err("no quantity").to_string();
        assert!(
            error.contains("site.yaml: Provisioning \"edge-1\": spec.master.memory: Invalid value: \"4GB\""),
            "{error}"
        );
        let broken = planned("a: [").expect_err("no YAML").to_string();
        assert!(broken.contains("site.yaml: line 1"), "{broken}");
        assert!(
            planned("kind: ConfigMap\napiVersion: v1\nmetadata: {}\n")
                .expect_err("none")
                .to_string()
                .contains("no Provisioning")
        );
    }
}
