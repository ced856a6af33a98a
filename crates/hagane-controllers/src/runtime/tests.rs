use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hagane_api::machine::GROUP;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Controller, Engine, Next, Pass, PassError, Resource, Seen};
use crate::testing::{World, condition, text};

/// Reads Machines with a narrower idea of `vcpu` than the API has, so that some of them cannot be read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Narrow {
    provider_spec: NarrowProvider,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NarrowProvider {
    vcpu: u8,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
}

/// Marks objects as running, panics over those called `panic`, hangs over those called `slow`, and counts the passes over the
/// others.
struct Odd {
    passes: Arc<AtomicUsize>,
    unserved: bool,
}

#[async_trait]
impl Controller for Odd {
    type Spec = Narrow;
    type Status = Status;

    fn name(&self) -> &'static str {
        "odd"
    }

    fn resources(&self) -> Vec<Resource> {
        let missing = Resource { group: "nosuch.example.com", version: "v1", kind: "Nothing", plural: "nothings" };
        let unserved = self.unserved.then_some(missing);
        Resource::of(GROUP, "machines").into_iter().chain(unserved).collect()
    }

    fn finalizer(&self) -> Option<&'static str> {
        None
    }

    async fn reconcile(&self, seen: Seen<Narrow, Status>, pass: &Pass) -> Result<Next, PassError> {
        match seen.key.name.as_str() {
            #[allow(clippy::panic, reason = "the runtime is to catch it")]
            "panic" => panic!("out of luck"),
            "slow" => tokio::time::sleep(Duration::from_secs(3600)).await,
            _ => {}
        }
        self.passes.fetch_add(1, Ordering::SeqCst);
        let vcpus = seen.spec.provider_spec.vcpu;
        let phase = if vcpus > 4 { "Failed" } else { "Running" };
        let status = Status { phase: Some(phase.to_owned()) };
        pass.recorder(&seen).status(&seen.status, &status).await?;
        Ok(Next::AwaitChange)
    }
}

struct Started {
    world: World,
    passes: Arc<AtomicUsize>,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(unserved: bool) -> Started {
    let mut world = World::quiet().await;
    world.settings.pass_deadline = Duration::from_millis(200);
    let passes = Arc::new(AtomicUsize::new(0));
    let mut engine = Engine::new(world.context());
    engine.add(Odd { passes: Arc::clone(&passes), unserved });
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(engine.run(shutdown.clone()));
    Started { world, passes, shutdown, task }
}

fn machines() -> Resource {
    Resource::of(GROUP, "machines").expect("a kind of ours")
}

fn machine(name: &str, vcpus: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"providerSpec": {"vcpu": vcpus}}})
}

fn message(object: &Value) -> String {
    condition(object, "Ready").map(|condition| text(&condition["message"])).unwrap_or_default()
}

#[tokio::test]
async fn an_object_that_cannot_be_read_says_so_and_others_go_on() {
    let started = start(false).await;
    let world = &started.world;
    world.create(machines(), machine("poison", 300)).await;
    world.create(machines(), machine("good", 1)).await;
    let poison = world.until_ready_says(machines(), "poison", "InvalidConfiguration").await;
    assert!(message(&poison).contains("300"), "{}", message(&poison));
    world.until(machines(), "good", "Running", |object| object["status"]["phase"] == "Running").await;
    world.patch(machines(), "poison", json!({"spec": {"providerSpec": {"vcpu": 2}}})).await;
    world.until(machines(), "poison", "Running", |object| object["status"]["phase"] == "Running").await;
}

#[tokio::test]
async fn a_panic_stays_with_its_object() {
    let started = start(false).await;
    let world = &started.world;
    world.create(machines(), machine("panic", 1)).await;
    world.create(machines(), machine("good", 1)).await;
    let broken = world.until_ready_says(machines(), "panic", "InternalError").await;
    assert!(message(&broken).contains("out of luck"), "{}", message(&broken));
    world.until(machines(), "good", "Running", |object| object["status"]["phase"] == "Running").await;
}

#[tokio::test]
async fn a_pass_that_hangs_is_cut_off_and_said() {
    let started = start(false).await;
    let world = &started.world;
    world.create(machines(), machine("slow", 1)).await;
    world.create(machines(), machine("good", 1)).await;
    world.until(machines(), "good", "Running", |object| object["status"]["phase"] == "Running").await;
    world.until_ready_says(machines(), "slow", "DeadlineExceeded").await;
}

#[tokio::test]
async fn a_kind_that_is_not_served_keeps_nobody_waiting() {
    let started = start(true).await;
    started.world.create(machines(), machine("good", 1)).await;
    let running = |object: &Value| object["status"]["phase"] == "Running";
    started.world.until(machines(), "good", "Running", running).await;
}

#[tokio::test]
async fn its_own_status_writes_do_not_wake_it() {
    let started = start(false).await;
    started.world.create(machines(), machine("good", 1)).await;
    let running = |object: &Value| object["status"]["phase"] == "Running";
    started.world.until(machines(), "good", "Running", running).await;
    started.world.patch(machines(), "good", json!({"metadata": {"labels": {"a": "b"}}})).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(started.passes.load(Ordering::SeqCst), 2);
    assert_eq!(started.world.fuse.effects().len(), 1);
}

#[tokio::test]
async fn ends_in_order_while_a_pass_hangs() {
    let mut started = start(false).await;
    started.world.create(machines(), machine("slow", 1)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    started.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut started.task).await;
    ended.expect("it ends").expect("it ends well");
}
