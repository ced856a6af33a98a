//! What the control loops are given: a client, the ports, and the operator's settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hagane_ports::{
    Actuator, Clock, ClusterInstaller, ClusterNodes, ClusterProbe, HostKeyMaker, ImageSource, InstallerKind,
    RemoteShell,
};
use kube::Client;

use crate::runtime::{Meter, NoMeter, Periods};

/// Everything a controller may use. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The only way to the API, embedded or real.
    pub client: Client,
    /// The only way to the rest of the world.
    pub ports: Ports,
    /// What the operator set.
    pub settings: Arc<Settings>,
    /// Hears how passes end.
    pub meter: Arc<dyn Meter>,
}

impl Context {
    /// A context that counts nothing.
    #[must_use]
    pub fn new(client: Client, ports: Ports, settings: Settings) -> Self {
        Self { client, ports, settings: Arc::new(settings), meter: Arc::new(NoMeter) }
    }
}

/// The ports, wired to adapters by whoever starts the controllers.
#[derive(Clone)]
pub struct Ports {
    /// Makes and removes machines.
    pub actuator: Arc<dyn Actuator>,
    /// Fetches images.
    pub images: Arc<dyn ImageSource>,
    /// Runs commands on hosts.
    pub shell: Arc<dyn RemoteShell>,
    /// Installs Kubernetes; one entry an installer that is set up here.
    pub installers: BTreeMap<InstallerKind, Arc<dyn ClusterInstaller>>,
    /// Asks a new cluster whether it answers.
    pub probe: Arc<dyn ClusterProbe>,
    /// Drains nodes of clusters that stand.
    pub nodes: Arc<dyn ClusterNodes>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes SSH key pairs.
    pub host_keys: Arc<dyn HostKeyMaker>,
}

/// What the operator set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Image of machines that name none.
    pub default_image: Option<String>,
    /// Installer of Provisionings that name none.
    pub default_installer: InstallerKind,
    /// Names this process among several on one data set: recorded as the holder of runs.
    pub holder: String,
    /// Objects a controller works on at the same time.
    pub workers: usize,
    /// One pass over an object is cut off after this time.
    pub pass_deadline: Duration,
    /// How often work that goes on outside the API is looked at; also the shortest time between two writes of its
    /// progress.
    pub poll: Duration,
    /// Time that passes in flight get to end on shutdown.
    pub grace: Duration,
    /// Periods of the work queues.
    pub periods: Periods,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_image: None,
            default_installer: InstallerKind::Kubeadm,
            holder: "hagane".to_owned(),
            workers: 8,
            pass_deadline: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            periods: Periods::default(),
        }
    }
}
