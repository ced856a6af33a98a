use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hagane_ports::{InstallVerb, Inventory, InventoryNode, NodeRole, SshAccess};

use super::*;
use crate::contract::cluster_installer::{self, Ending, World};

struct FakeWorld {
    installer: Arc<FakeInstaller>,
}

#[async_trait]
impl World for FakeWorld {
    fn installer(&self) -> Arc<dyn ClusterInstaller> {
        Arc::clone(&self.installer) as Arc<dyn ClusterInstaller>
    }

    fn restarted(&self) -> Arc<dyn ClusterInstaller> {
        self.installer()
    }

    fn request(&self, run_id: &str, owner_uid: &str) -> InstallRequest {
        request(run_id, owner_uid)
    }

    async fn end(&self, run_id: &str, ending: Ending) {
        let exit = match ending {
            Ending::Success => RunExit::Succeeded,
            Ending::Failure => RunExit::Failed { status: 2 },
            Ending::Death => RunExit::Lost,
        };
        self.installer.finish(run_id, exit);
    }

    async fn begun(&self, run_id: &str) -> usize {
        self.installer.begun().get(run_id).copied().unwrap_or_default()
    }
}

fn request(run_id: &str, owner_uid: &str) -> InstallRequest {
    let node = InventoryNode {
        name: "node1".to_owned(),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        ssh_port: 22,
        roles: vec![NodeRole::Master],
        second_address: None,
    };
    InstallRequest {
        run_id: run_id.to_owned(),
        owner_uid: owner_uid.to_owned(),
        cluster: "edge".to_owned(),
        verb: InstallVerb::default(),
        inventory: Inventory { nodes: vec![node], ..Inventory::default() },
        variables: BTreeMap::new(),
        ssh: SshAccess { user: "root".to_owned(), private_key: "a key".to_owned(), known_hosts: Vec::new() },
        time_limit: Duration::from_secs(60),
        limits: hagane_ports::installer::RunLimits::default(),
    }
}

#[tokio::test]
async fn obeys_the_contract() {
    let installer = Arc::new(FakeInstaller::new(InstallerKind::Kubeadm));
    cluster_installer::obeys_the_contract(&FakeWorld { installer }).await;
}

#[tokio::test]
async fn goes_by_its_script() {
    let installer = FakeInstaller::new(InstallerKind::Kubeadm);
    let step = |task: &str| RunProgress { task: Some(task.to_owned()), ..RunProgress::default() };
    installer.set_script(vec![step("one"), step("two")], RunExit::Failed { status: 4 });
    installer.start(&request("r1", "u")).await.expect("it starts");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let observation = installer.observe("r1").await.expect("readable");
        seen.push((observation.progress.task.unwrap_or_default(), observation.state));
    }
    let failed = RunState::Finished(RunExit::Failed { status: 4 });
    assert_eq!(
        seen,
        [("one".to_owned(), RunState::Running), ("two".to_owned(), RunState::Running), ("two".to_owned(), failed)]
    );
}

#[tokio::test]
async fn brings_about_the_faults_of_a_start() {
    let installer = FakeInstaller::new(InstallerKind::Kubespray);
    let missing = InstallerError::Prerequisite { what: "checkout".to_owned(), detail: "nowhere".to_owned() };
    installer.fail_next_start(missing);
    assert!(matches!(installer.start(&request("r1", "u")).await, Err(InstallerError::Prerequisite { .. })));
    installer.set_held_elsewhere("r1", true);
    assert!(matches!(installer.start(&request("r1", "u")).await, Err(InstallerError::HeldElsewhere { .. })));
    assert_eq!((installer.recorded(), installer.begun().len()), (Vec::new(), 0));
    installer.set_held_elsewhere("r1", false);
    installer.start(&request("r1", "u")).await.expect("it starts");
    installer.start(&request("r2", "u")).await.expect("it starts");
    assert_eq!(installer.overlaps(), ["r2"]);
    installer.set_unreadable(true);
    assert!(matches!(installer.observe("r1").await, Err(InstallerError::Directory { .. })));
}
