//! The port's contract suite on the real installer.

use std::fs;
use std::sync::Arc;

use async_trait::async_trait;
use hagane_ports::installer::{ClusterInstaller, InstallRequest};
use hagane_testkit::contract::cluster_installer::{Ending, World, obeys_the_contract};
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, request};

/// Each run writes its own files, named by the directory that its artifacts go to.
const TASKS: &str = r#"    - name: Begin
      ansible.builtin.shell: "echo begun >> {{ artifacts_dir }}/../begun"
    - name: Wait for the word
      ansible.builtin.shell: "until [ -e {{ artifacts_dir }}/../end ]; do sleep 0.1; done; cat {{ artifacts_dir }}/../end"
      register: word
    - name: Break where asked
      ansible.builtin.fail: {}
      when: word.stdout != 'Success'
    - name: Leave a kubeconfig
      ansible.builtin.copy: {content: "kind: Config", dest: "{{ artifacts_dir }}/admin.conf", mode: "0600"}
"#;

struct RealWorld(Bed);

impl RealWorld {
    fn work(&self, run_id: &str) -> std::path::PathBuf {
        self.0.options.runs.join(run_id).join("work")
    }
}

#[async_trait]
impl World for RealWorld {
    fn installer(&self) -> Arc<dyn ClusterInstaller> {
        Arc::new(self.0.restarted())
    }

    fn restarted(&self) -> Arc<dyn ClusterInstaller> {
        Arc::new(self.0.restarted())
    }

    fn request(&self, run_id: &str, owner_uid: &str) -> InstallRequest {
        InstallRequest { run_id: run_id.to_owned(), owner_uid: owner_uid.to_owned(), ..request() }
    }

    async fn end(&self, run_id: &str, ending: Ending) {
        if ending == Ending::Death {
            let text = fs::read_to_string(self.work(run_id).join("../started.json")).expect("a record");
            let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let pid = record["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).expect("a pid");
            kill_process(pid, Signal::KILL).expect("killed");
        } else {
            fs::write(self.work(run_id).join("end"), format!("{ending:?}")).expect("a file");
        }
    }

    async fn begun(&self, run_id: &str) -> usize {
        fs::read_to_string(self.work(run_id).join("begun")).map_or(0, |text| text.lines().count())
    }
}

#[tokio::test]
async fn the_real_installer_obeys_the_contract() {
    obeys_the_contract(&RealWorld(Bed::with_tasks(TASKS))).await;
}
