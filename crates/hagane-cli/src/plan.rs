//! `hagane plan`: which host would play which role, by the decision that the controllers use.

mod input;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use hagane_api::bpa::provisioning::{PlannedRun, ProvisioningSpec, ProvisioningStatus};
use hagane_api::keys::{PROVISIONING_CLUSTER_LABEL, RENEW_CERTIFICATES_ANNOTATION};
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus};
use hagane_plan::host::{HostInput, consumer_name, host_facts, mark_duplicate_macs};
use hagane_plan::provisioning::{Claim, Host, Preview, Wanted, assign_roles, wanted};
use hagane_plan::roles::{Availability, HostFacts, Plan, Rejected, Spare};
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{PlanArgs, Subject};
use crate::plan_run::{self, NextRun};
use crate::resource::kinds_of;
use crate::unknown::unknown_field;
use crate::{CliError, connect, output};
use input::Input;

/// Exit code where a demand is not met.
const NOT_MET: u8 = 2;

pub(crate) async fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let (text, complete) = answer(args).await?;
    output::write(&text)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(NOT_MET) })
}

/// What is printed, and whether every demand is met.
async fn answer(args: &PlanArgs) -> Result<(String, bool), CliError> {
    let mut input = Input::new(&args.namespace);
    for path in &args.filenames {
        input.read_file(path)?;
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        input.add_api(&connect::client(kubeconfig).await?).await?;
    }
    let (plan, runs) = plan_with_runs(&input)?;
    let text = match args.output {
        Some(format) => output::render(&Shown { plan: &plan, runs: &runs }, format)?,
        None => table(&plan)? + &gap(&runs) + &plan_run::table(&runs),
    };
    Ok((text, plan.is_complete()))
}

/// The plan's table comes first: there is a node, or a demand that is not met.
fn gap(runs: &[NextRun]) -> String {
    if runs.is_empty() { String::new() } else { "\n".to_owned() }
}

/// The plan, and the runs that clusters which stand would need.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "<[NextRun]>::is_empty")]
    runs: &'a [NextRun],
}

/// One plan for all Provisionings: each is planned after those before it, with the hosts of its namespace that they left.
fn plan_with_runs(input: &Input) -> Result<(Plan, Vec<NextRun>), CliError> {
    if input.provisionings.is_empty() {
        return Err(CliError::NotYet("no Provisioning in the input: give one by --filename".to_owned()));
    }
    let mut sites: BTreeMap<&str, Site> = BTreeMap::new();
    for object in &input.hosts {
        sites.entry(input.namespace_of(object)).or_default().add(object);
    }
    let mut whole = Plan::default();
    let mut runs = Vec::new();
    for (path, object) in &input.provisionings {
        let wish = Wish::read(path, object)?;
        let site = sites.entry(input.namespace_of(object)).or_default();
        let hosts = site.hosts_for(&wish);
        let part = assign_roles(wish.status.plan.as_ref(), &wish.wanted, &hosts);
        runs.extend(NextRun::of(object.metadata.name.as_deref().unwrap_or_default(), wish.preview(hosts)));
        for assignment in &part.assignments {
            site.taken.insert(assignment.host.clone(), format!("node {}", assignment.node));
        }
        whole.assignments.extend(part.assignments);
        whole.unsatisfied.extend(part.unsatisfied);
        // The last plan of a namespace knows what the others left.
        site.rejected = part.rejected;
        site.spare = part.spare;
    }
    for site in sites.into_values() {
        whole.spare += site.spare;
        whole.rejected.extend(site.rejected.into_iter().filter(|entry| !site.taken.contains_key(&entry.host)));
    }
    Ok((whole, runs))
}

/// The hosts of a namespace.
#[derive(Default)]
struct Site {
    /// Facts, and what the object says of itself.
    hosts: Vec<(HostFacts, KnownHost)>,
    /// Nodes of this plan by host.
    taken: BTreeMap<String, String>,
    rejected: Vec<Rejected>,
    spare: Spare,
}

struct KnownHost {
    uid: Option<String>,
    /// Who uses it: uid, and kind, namespace and name.
    consumer: Option<(Option<String>, String)>,
}

impl Site {
    fn add(&mut self, object: &DynamicObject) {
        let spec = host_spec(object);
        let consumer = spec.consumer_ref.as_ref().map(|consumer| (consumer.uid.clone(), consumer_name(consumer)));
        self.hosts.push((facts(object, &spec), KnownHost { uid: object.metadata.uid.clone(), consumer }));
    }

    /// The hosts as this Provisioning may use them.
    fn hosts_for(&self, wish: &Wish) -> Vec<Host> {
        let mut facts: Vec<HostFacts> = self.hosts.iter().map(|(facts, _)| facts.clone()).collect();
        mark_duplicate_macs(&mut facts);
        let host = |(facts, (_, known)): (HostFacts, &(HostFacts, KnownHost))| {
            let claim = match (self.taken.get(&facts.name), &known.consumer) {
                (Some(node), _) => Claim::Other(node.clone()),
                (None, None) => Claim::None,
                (None, Some((uid, _))) if uid.is_some() && *uid == wish.uid => Claim::Ours,
                (None, Some((_, name))) => Claim::Other(name.clone()),
            };
            // Files have no uids: there the name is all that is known.
            let uid = known.uid.clone().or_else(|| wish.stored_uid(&facts.name)).unwrap_or_default();
            Host { facts, uid, claim, pinned: false }
        };
        facts.into_iter().zip(&self.hosts).map(host).collect()
    }
}

/// A Provisioning that is asked for.
struct Wish {
    uid: Option<String>,
    cluster: String,
    renew: Option<String>,
    spec: ProvisioningSpec,
    status: ProvisioningStatus,
    wanted: Wanted,
}

impl Wish {
    fn read(path: &Path, object: &DynamicObject) -> Result<Self, CliError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let content = |problem: String| CliError::Content {
            path: path.to_owned(),
            problem: format!("Provisioning {name:?}: {problem}"),
        };
        let part =
            |field: &str| object.data.get(field).filter(|value| !value.is_null()).cloned().unwrap_or_else(|| json!({}));
        for kind in kinds_of(Subject::Provisioning) {
            let schema = (kind.schema)();
            let known = schema.pointer("/properties/spec").unwrap_or(&Value::Null);
            unknown_field(&part("spec"), known, "spec").map_or(Ok(()), |problem| Err(content(problem)))?;
        }
        let spec: ProvisioningSpec =
            serde_json::from_value(part("spec")).map_err(|error| content(format!("spec: {error}")))?;
        let status: ProvisioningStatus = serde_json::from_value(part("status")).unwrap_or_default();
        let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(PROVISIONING_CLUSTER_LABEL));
        // Once a run is recorded the name stays.
        let recorded = status.run.as_ref().and(status.cluster.as_ref()).filter(|cluster| !cluster.is_empty());
        let cluster = recorded.or(label.filter(|label| !label.is_empty())).unwrap_or(&name);
        let wanted = wanted(&spec, cluster, status.plan.as_ref())
            .map_err(|errors| content(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
        let noted = object.metadata.annotations.as_ref();
        let renew = noted.and_then(|all| all.get(RENEW_CERTIFICATES_ANNOTATION)).cloned();
        Ok(Self { uid: object.metadata.uid.clone(), cluster: cluster.clone(), renew, spec, status, wanted })
    }

    fn preview(&self, hosts: Vec<Host>) -> Result<Option<PlannedRun>, String> {
        let (cluster, renew) = (self.cluster.as_str(), self.renew.as_deref());
        Preview { cluster, spec: &self.spec, status: &self.status, renew, hosts }.planned_run()
    }

    fn stored_uid(&self, host: &str) -> Option<String> {
        let mut stored = self.status.plan.iter().flat_map(|plan| &plan.assignments);
        stored.find(|entry| entry.host == host).map(|entry| entry.host_uid.clone())
    }
}

fn host_spec(object: &DynamicObject) -> BareMetalHostSpec {
    let spec = object.data.get("spec").filter(|value| !value.is_null()).cloned();
    spec.and_then(|spec| serde_json::from_value(spec).ok()).unwrap_or_default()
}

/// What is known of a host. One that the API would refuse is not used, and says why.
fn facts(object: &DynamicObject, spec: &BareMetalHostSpec) -> HostFacts {
    let empty = BTreeMap::new();
    let status = object.data.get("status").filter(|value| !value.is_null()).cloned();
    let status = status.and_then(|status| serde_json::from_value::<BareMetalHostStatus>(status).ok());
    let facts = host_facts(&HostInput {
        name: object.metadata.name.as_deref().unwrap_or_default(),
        labels: object.metadata.labels.as_ref().unwrap_or(&empty),
        annotations: object.metadata.annotations.as_ref().unwrap_or(&empty),
        deleting: object.metadata.deletion_timestamp.is_some(),
        spec,
        status: status.as_ref(),
    });
    match refusal(object) {
        Some(problem) => HostFacts { available: Availability::NotReady(problem), ..facts },
        None => facts,
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
        ("unsatisfied", &["demand", "short", "change"]),
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
    let spare = &plan["spare"];
    let fields = ["hosts", "cpu", "memory", "disk", "unknown"];
    let amount = |field: &&str| spare[*field].as_str().map_or_else(|| spare[*field].to_string(), str::to_owned);
    page.push_str("\nSpare capacity\n");
    page.push_str(&output::table(&[
        fields.iter().map(|field| field.to_uppercase()).collect(),
        fields.iter().map(amount).collect(),
    ]));
    Ok(page)
}
