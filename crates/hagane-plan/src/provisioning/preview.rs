//! What is decided before anything is applied, and without asking any host.

use hagane_api::bpa::provisioning::{PlannedRun, ProvisioningSpec, ProvisioningStatus};

use super::decide::planned_run;
use super::facts::{Facts, Host, KubeconfigFact, Login, NameOwner, RunSeen, SecretFact, StartFact};

/// A Provisioning as it would be once a file was applied.
#[derive(Clone, Debug)]
pub struct Preview<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The spec that is asked for.
    pub spec: &'a ProvisioningSpec,
    /// The status that is recorded.
    pub status: &'a ProvisioningStatus,
    /// Value of the annotation that asks for new certificates.
    pub renew: Option<&'a str>,
    /// The hosts of the namespace.
    pub hosts: Vec<Host>,
}

impl Preview<'_> {
    /// The run that would come first. It has no id yet; hosts that leave may turn out not to answer.
    ///
    /// # Errors
    /// What would not be carried out, one line.
    pub fn planned_run(self) -> Result<Option<PlannedRun>, String> {
        planned_run(&self.facts()).map(|planned| planned.map(|run| PlannedRun { id: String::new(), ..run }))
    }

    fn facts(self) -> Facts {
        let kept = self.status.kubeconfig_secret.is_some();
        Facts {
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
            generation: 0,
            deleting: false,
            finalizer: true,
            paused: false,
            retry: None,
            cancel: None,
            abandon: None,
            approved: None,
            renew: self.renew.map(ToOwned::to_owned),
            cluster: self.cluster.to_owned(),
            spec: Ok(self.spec.clone()),
            name_owner: NameOwner::Ours,
            hosts: self.hosts,
            plan: self.status.plan.clone(),
            login: Login::Present,
            installer_missing: None,
            scans: None,
            checks: None,
            planned: None,
            cluster_version: None,
            certificates_end: None,
            // What a run that goes on now will leave is not known.
            run: None,
            installed: self.status.installed.clone(),
            seen: RunSeen::Absent,
            start: StartFact::NotTried,
            kubeconfig: KubeconfigFact::NotFetched,
            secret: if kept { SecretFact::Ours { run: None } } else { SecretFact::Absent },
            holder: String::new(),
        }
    }
}
