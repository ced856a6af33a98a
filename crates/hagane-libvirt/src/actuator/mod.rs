//! [`Actuator`] over libvirt.

mod create;
mod facts;
mod leases;
mod remove;
mod reservations;
mod scope;
mod volumes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hagane_ports::{Actuator, ActuatorError, CreateMachine, Creation, MachineKey, Presence, Removal};
use tokio::sync::broadcast;

use crate::names;
use crate::options::LibvirtOptions;
use crate::supervisor::{Change, Supervisor};
use crate::upload::Uploads;
use crate::uri::{ConnectionUri, UriProblem};
use scope::Scope;

/// Changes that may wait for a slow listener before it is told "anything".
const CHANGES_MAX: usize = 1024;

/// Makes machines as domains of one libvirtd.
#[derive(Debug)]
pub struct LibvirtActuator {
    uri: ConnectionUri,
    options: LibvirtOptions,
    supervisor: Supervisor,
    reports: Arc<Reports>,
    uploads: Uploads,
}

/// Tells listeners which machines may have changed.
#[derive(Debug)]
pub(crate) struct Reports {
    sender: broadcast::Sender<String>,
    /// Owner uids of the UUIDs that were asked for. libvirt's events name domains by UUID only.
    uids: Mutex<HashMap<[u8; 16], String>>,
}

impl Reports {
    fn new() -> Self {
        Self { sender: broadcast::channel(CHANGES_MAX).0, uids: Mutex::default() }
    }

    fn remember(&self, uid: &str) {
        let uuid = names::domain_uuid(uid);
        // A uid that is its own UUID need not be remembered.
        if uuid.to_string() != uid {
            let mut uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
            uids.insert(*uuid.as_bytes(), uid.to_owned());
        }
    }

    fn forget(&self, uid: &str) {
        self.uids.lock().unwrap_or_else(PoisonError::into_inner).remove(names::domain_uuid(uid).as_bytes());
    }

    fn report(&self, change: &Change) {
        match change {
            Change::Anything => self.send(""),
            Change::Domain(uuid) => {
                let uid = self.uids.lock().unwrap_or_else(PoisonError::into_inner).get(uuid).cloned();
                self.send(&uid.unwrap_or_else(|| uuid::Uuid::from_bytes(*uuid).to_string()));
            }
        }
    }

    /// Nobody listening is fine: a change is a hint, the state itself is asked for.
    pub(crate) fn send(&self, uid: &str) {
        let _ = self.sender.send(uid.to_owned());
    }
}

impl LibvirtActuator {
    /// Starts connecting to `uri` in the background and returns at once; libvirtd need not be there. Must be called
    /// within a Tokio runtime.
    ///
    /// # Errors
    /// [`UriProblem`] where the URI can never work.
    pub fn new(uri: &str, options: LibvirtOptions) -> Result<Self, UriProblem> {
        let uri = ConnectionUri::parse(uri)?;
        let reports = Arc::new(Reports::new());
        let to_report = reports.clone();
        let supervisor = Supervisor::start(uri.clone(), move |change| to_report.report(&change));
        let uploads = Uploads::new(uri.clone(), options.holder.clone(), reports.clone());
        Ok(Self { uri, options, supervisor, reports, uploads })
    }

    /// Version of libvirt that answers at the URI.
    ///
    /// # Errors
    /// [`ActuatorError::Unreachable`] or [`ActuatorError::Failed`].
    pub async fn version(&self) -> Result<String, ActuatorError> {
        let scope = self.enter().await?;
        let version = scope.session.connection.version().await;
        let (major, minor, release) = version.map_err(scope.failed("ask libvirtd for its version"))?;
        Ok(format!("{major}.{minor}.{release}"))
    }

    async fn enter(&self) -> Result<Scope<'_>, ActuatorError> {
        match self.supervisor.session().await {
            Ok(session) => Ok(Scope { actuator: self, session }),
            Err(error) => Err(ActuatorError::Unreachable { uri: self.uri.text.clone(), source: Box::new(error) }),
        }
    }
}

#[async_trait]
impl Actuator for LibvirtActuator {
    async fn create(&self, request: &CreateMachine) -> Result<Creation, ActuatorError> {
        self.reports.remember(&request.key.uid);
        self.enter().await?.create(request).await
    }

    async fn exists(&self, key: &MachineKey) -> Result<Presence, ActuatorError> {
        self.reports.remember(&key.uid);
        self.enter().await?.exists(key).await
    }

    async fn delete(&self, key: &MachineKey) -> Result<Removal, ActuatorError> {
        let removal = self.enter().await?.delete(key).await?;
        if removal == Removal::Done {
            self.reports.forget(&key.uid);
        }
        Ok(removal)
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.reports.sender.subscribe()
    }
}
