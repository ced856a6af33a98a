//! Equipment of this crate's tests: an API server in the process, fakes of the ports, control loops that can crash.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hagane_apiserver::{ApiServer, Identity, InProcess};
use hagane_ports::{
    Actuator, ActuatorError, Clock, ClusterInstaller, CreateMachine, Creation, HostKeyMaker, InstallerKind, MachineKey,
    Presence, Removal, ShellError, SshKeyPair, SystemClock,
};
use hagane_testkit::fake::{FakeActuator, FakeImages, FakeNodes, FakeProbe, FakeShell};
use jiff::{Timestamp, ToSpan as _};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::runtime::{Periods, Resource};
use crate::{Context, Ports, Selection, Settings, run};

/// Namespace of all test objects.
pub(crate) const NAMESPACE: &str = "default";
/// Image of machines that name none.
pub(crate) const DEFAULT_IMAGE: &str = "http://images.test/default.qcow2";
/// Beyond this something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts effects, and stops the control loops after a chosen one, as a crash between two steps would.
#[derive(Default)]
pub(crate) struct Fuse {
    effects: Mutex<Vec<String>>,
    left: Mutex<Option<usize>>,
    blown: Notify,
}

impl Fuse {
    /// Blows after `count` more effects.
    pub(crate) fn set(&self, count: usize) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(count);
    }

    /// Never blows again.
    pub(crate) fn unset(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Effects so far, oldest first.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes an effect that was done; never returns once the fuse is blown.
    pub(crate) async fn burn(&self, effect: String) {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
        let blown = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = left.as_mut() {
                *count = count.saturating_sub(1);
            }
            *left == Some(0)
        };
        if blown {
            self.blown.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

struct FusedActuator {
    inner: Arc<FakeActuator>,
    fuse: Arc<Fuse>,
}

#[async_trait]
impl Actuator for FusedActuator {
    async fn create(&self, request: &CreateMachine) -> Result<Creation, ActuatorError> {
        let answer = self.inner.create(request).await;
        self.fuse.burn(format!("create {}", request.key.name)).await;
        answer
    }

    async fn exists(&self, key: &MachineKey) -> Result<Presence, ActuatorError> {
        self.inner.exists(key).await
    }

    async fn delete(&self, key: &MachineKey) -> Result<Removal, ActuatorError> {
        let answer = self.inner.delete(key).await;
        self.fuse.burn(format!("delete {}", key.name)).await;
        answer
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.inner.changes()
    }
}

/// The API as the control loops see it: every write burns the fuse.
#[derive(Clone)]
struct FusedApi {
    inner: InProcess,
    fuse: Arc<Fuse>,
}

impl Service<http::Request<Body>> for FusedApi {
    type Response = <InProcess as Service<http::Request<Body>>>::Response;
    type Error = <InProcess as Service<http::Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let write =
            (request.method() != http::Method::GET).then(|| format!("{} {}", request.method(), request.uri().path()));
        let answer = self.inner.call(request);
        let fuse = Arc::clone(&self.fuse);
        Box::pin(async move {
            let answer = answer.await;
            if let Some(write) = write {
                fuse.burn(write).await;
            }
            answer
        })
    }
}

/// Makes keys that can be told apart.
#[derive(Default)]
struct CountingKeys {
    made: AtomicUsize,
}

impl HostKeyMaker for CountingKeys {
    fn generate(&self) -> Result<SshKeyPair, ShellError> {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        Ok(SshKeyPair {
            private_openssh: format!("private {number}\n"),
            public_line: format!("ssh-ed25519 public{number}"),
        })
    }
}

/// The machine's clock, but that a test may set it.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    ahead: AtomicI64,
}

impl WallClock {
    /// Sets it so many seconds ahead of the machine's, or back.
    pub(crate) fn jump(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::SeqCst).seconds();
        SystemClock.now().checked_add(ahead).expect("a jump stays in range")
    }
}

/// Everything of one test.
pub(crate) struct World {
    server: ApiServer,
    pub(crate) client: Client,
    pub(crate) actuator: Arc<FakeActuator>,
    pub(crate) images: Arc<FakeImages>,
    pub(crate) shell: Arc<FakeShell>,
    pub(crate) probe: Arc<FakeProbe>,
    pub(crate) nodes: Arc<FakeNodes>,
    /// Installers that are set up; none at first.
    pub(crate) installers: BTreeMap<InstallerKind, Arc<dyn ClusterInstaller>>,
    pub(crate) fuse: Arc<Fuse>,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<WallClock>,
    /// Which control loops [`World::start`] starts: `cluster` and `machine` at first.
    pub(crate) selection: Selection,
    keys: Arc<CountingKeys>,
    running: Option<(JoinHandle<()>, CancellationToken)>,
}

impl World {
    /// A world in which no control loop runs yet.
    pub(crate) async fn quiet() -> Self {
        let server = ApiServer::in_memory().await.expect("a server in memory");
        let client = Client::new(server.client(Identity::internal("test")), NAMESPACE);
        let periods = Periods {
            backoff_first: Duration::from_millis(20),
            backoff_longest: Duration::from_millis(200),
            after_longest: Duration::from_millis(50),
            stale: Duration::from_millis(10),
            ..Periods::default()
        };
        let settings = Settings {
            default_image: Some(DEFAULT_IMAGE.to_owned()),
            grace: Duration::from_secs(1),
            periods,
            ..Settings::default()
        };
        Self {
            server,
            client,
            actuator: Arc::new(FakeActuator::new()),
            images: Arc::new(FakeImages::new()),
            shell: Arc::new(FakeShell::new()),
            probe: Arc::new(FakeProbe::new()),
            nodes: Arc::new(FakeNodes::new()),
            installers: BTreeMap::new(),
            fuse: Arc::default(),
            settings,
            clock: Arc::default(),
            selection: "cluster,machine".parse().expect("names of ours"),
            keys: Arc::default(),
            running: None,
        }
    }

    /// A world in which every control loop runs.
    pub(crate) async fn running() -> Self {
        let mut world = Self::quiet().await;
        world.start();
        world
    }

    /// What the control loops are given.
    pub(crate) fn context(&self) -> Context {
        let api = FusedApi { inner: self.server.client(Identity::internal("hagane")), fuse: Arc::clone(&self.fuse) };
        let ports = Ports {
            actuator: Arc::new(FusedActuator { inner: Arc::clone(&self.actuator), fuse: Arc::clone(&self.fuse) }),
            images: Arc::<FakeImages>::clone(&self.images),
            shell: Arc::<FakeShell>::clone(&self.shell),
            installers: self.installers.clone(),
            probe: Arc::<FakeProbe>::clone(&self.probe),
            nodes: Arc::<FakeNodes>::clone(&self.nodes),
            clock: Arc::<WallClock>::clone(&self.clock),
            host_keys: Arc::<CountingKeys>::clone(&self.keys),
        };
        Context::new(Client::new(api, NAMESPACE), ports, self.settings.clone())
    }

    /// Starts the control loops.
    pub(crate) fn start(&mut self) {
        let shutdown = CancellationToken::new();
        let (context, token) = (self.context(), shutdown.clone());
        let selection = self.selection.clone();
        let task = tokio::spawn(async move { run(context, &selection, token).await });
        self.running = Some((task, shutdown));
    }

    /// Ends the control loops at once, wherever they are.
    pub(crate) async fn crash(&mut self) {
        if let Some((task, _)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Ends the control loops in order.
    pub(crate) async fn stop(&mut self) {
        if let Some((task, shutdown)) = self.running.take() {
            shutdown.cancel();
            tokio::time::timeout(PATIENCE, task).await.expect("loops end").expect("loops end well");
        }
    }

    /// Waits until the fuse blows.
    pub(crate) async fn burnt(&self) {
        tokio::time::timeout(PATIENCE, self.fuse.blown.notified()).await.expect("there is something to do");
    }

    /// Crashes after each effect in turn (`first`, then one more each time) and starts again, until a life goes by
    /// without reaching the fuse; says how often it crashed.
    pub(crate) async fn crash_at_every_step<F: Future<Output = ()>>(&mut self, settled: impl Fn(Client) -> F) -> usize {
        const CRASHES_MAX: usize = 500;
        for crashes in 0..CRASHES_MAX {
            self.fuse.set(1);
            self.start();
            let client = self.client.clone();
            tokio::select! {
                () = self.fuse.blown.notified() => self.crash().await,
                () = settled(client) => return crashes,
            }
        }
        unreachable!("it never comes to rest: {:?}", self.fuse.effects())
    }

    pub(crate) async fn create(&self, resource: Resource, object: Value) -> DynamicObject {
        self.try_create(resource, object).await.expect("created")
    }

    pub(crate) async fn try_create(&self, resource: Resource, mut object: Value) -> Result<DynamicObject, kube::Error> {
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.into();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        resource.api(&self.client, NAMESPACE).create(&PostParams::default(), &object).await
    }

    pub(crate) async fn get(&self, resource: Resource, name: &str) -> Option<DynamicObject> {
        resource.api(&self.client, NAMESPACE).get_opt(name).await.expect("readable")
    }

    pub(crate) async fn patch(&self, resource: Resource, name: &str, change: Value) -> DynamicObject {
        let api = resource.api(&self.client, NAMESPACE);
        api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.expect("patched")
    }

    pub(crate) async fn delete(&self, resource: Resource, name: &str) {
        resource.api(&self.client, NAMESPACE).delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Waits until the object looks as wanted.
    pub(crate) async fn until(
        &self,
        resource: Resource,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&self.client, resource, name, what, wanted).await
    }

    /// Waits until the object is gone.
    pub(crate) async fn gone(&self, resource: Resource, name: &str) {
        gone(&self.client, resource, name).await;
    }

    /// Waits until the condition `Ready` has this reason.
    pub(crate) async fn until_ready_says(&self, resource: Resource, name: &str, reason: &str) -> Value {
        self.until(resource, name, &format!("Ready with reason {reason}"), |object| ready(object) == reason).await
    }
}

/// Waits until the object looks as wanted.
pub(crate) async fn until(
    client: &Client,
    resource: Resource,
    name: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let api = resource.api(client, NAMESPACE);
    let started = tokio::time::Instant::now();
    loop {
        let found = api.get_opt(name).await.expect("readable");
        let found = found.map(|object| serde_json::to_value(object).expect("JSON")).unwrap_or_default();
        if wanted(&found) {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{name} never came to {what}: {found:#}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the object is gone.
pub(crate) async fn gone(client: &Client, resource: Resource, name: &str) {
    until(client, resource, name, "its end", Value::is_null).await;
}

/// Reason of the condition `Ready`; empty where there is none.
pub(crate) fn ready(object: &Value) -> String {
    condition(object, "Ready").map_or_else(String::new, |condition| text(&condition["reason"]))
}

/// A condition by type.
pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// A text; empty where the value is none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
