//! An actuator in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use hagane_api::quantity::GIB;
use hagane_ports::{
    Actuator, ActuatorError, CreateMachine, Creation, MachineFacts, MachineKey, PowerState, Presence, Progress, Removal,
};
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;

/// Which operation of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActuatorCall {
    /// [`Actuator::create`].
    Create,
    /// [`Actuator::exists`].
    Exists,
    /// [`Actuator::delete`].
    Delete,
}

/// How far a create came before it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CreateStage {
    /// The root volume is there, nothing else.
    RootVolume,
    /// Volumes and seed are there, no domain.
    Seed,
    /// The domain is defined but off.
    Defined,
}

/// State of a pool or network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteState {
    /// Ready for use.
    Active,
    /// Defined, not started.
    Inactive,
    /// Not there at all.
    Missing,
}

/// Obeys the contract of [`Actuator`] without a hypervisor. Pool `default` and network `default` are active at first.
#[derive(Debug)]
pub struct FakeActuator {
    state: Mutex<State>,
    changes: broadcast::Sender<String>,
}

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    strangers: BTreeSet<String>,
    pools: BTreeMap<String, SiteState>,
    networks: BTreeMap<String, SiteState>,
    faults: VecDeque<(ActuatorCall, ActuatorError)>,
    interrupt: Option<CreateStage>,
    unreachable: bool,
    preparing: u32,
    pending_removals: u32,
    calls: Vec<(ActuatorCall, MachineKey)>,
    next_address: u8,
}

/// What exists of one machine, by owner uid.
#[derive(Debug)]
struct Machine {
    request: CreateMachine,
    domain: Option<MachineFacts>,
    leftovers: Vec<String>,
}

impl Default for FakeActuator {
    fn default() -> Self {
        let state = State {
            pools: BTreeMap::from([("default".to_owned(), SiteState::Active)]),
            networks: BTreeMap::from([("default".to_owned(), SiteState::Active)]),
            next_address: 10,
            ..State::default()
        };
        Self { state: Mutex::new(state), changes: broadcast::channel(256).0 }
    }
}

impl FakeActuator {
    /// An empty hypervisor with pool and network `default`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// While on, every call fails with [`ActuatorError::Unreachable`]. Turning it off reports "anything may have
    /// changed", as the real one does after a reconnect.
    pub fn set_unreachable(&self, unreachable: bool) {
        self.lock().unreachable = unreachable;
        if !unreachable {
            self.report("");
        }
    }

    /// The next `call` fails with `error`, before it changes anything. Several queue up.
    pub fn fail_next(&self, call: ActuatorCall, error: ActuatorError) {
        self.lock().faults.push_back((call, error));
    }

    /// The next create is cut off after `stage` with [`ActuatorError::Failed`], and leaves what it had made.
    pub fn interrupt_next_create(&self, stage: CreateStage) {
        self.lock().interrupt = Some(stage);
    }

    /// The next `times` creates of new machines answer [`Creation::Preparing`].
    pub fn prepare_for(&self, times: u32) {
        self.lock().preparing = times;
    }

    /// The next `times` deletes of existing machines answer [`Removal::Pending`].
    pub fn hold_removal(&self, times: u32) {
        self.lock().pending_removals = times;
    }

    /// Sets the state of a storage pool.
    pub fn set_pool(&self, name: &str, state: SiteState) {
        self.lock().pools.insert(name.to_owned(), state);
    }

    /// Sets the state of a network.
    pub fn set_network(&self, name: &str, state: SiteState) {
        self.lock().networks.insert(name.to_owned(), state);
    }

    /// Puts a domain of somebody else under `name`, see [`Self::domain_name`].
    pub fn add_stranger(&self, name: &str) {
        self.lock().strangers.insert(name.to_owned());
    }

    /// Removes a stranger's domain again.
    pub fn remove_stranger(&self, name: &str) {
        self.lock().strangers.remove(name);
    }

    /// Whether the stranger's domain is still there.
    #[must_use]
    pub fn has_stranger(&self, name: &str) -> bool {
        self.lock().strangers.contains(name)
    }

    /// The domain of `uid` disappears behind the controllers' back; its volumes stay.
    pub fn vanish(&self, uid: &str) {
        if let Some(machine) = self.lock().machines.get_mut(uid) {
            machine.domain = None;
            machine.leftovers =
                vec![format!("volume hagane-{uid}-root.qcow2"), format!("volume hagane-{uid}-seed.iso")];
        }
        self.report(uid);
    }

    /// Sets the power state, as a person or the hypervisor would.
    pub fn set_power(&self, uid: &str, power: PowerState) {
        self.edit(uid, |facts| facts.power = power);
    }

    /// Sets the addresses the machine has.
    pub fn set_addresses(&self, uid: &str, addresses: Vec<IpAddr>) {
        self.edit(uid, |facts| facts.addresses = addresses);
    }

    /// Facts of every machine that has a domain, by uid.
    #[must_use]
    pub fn domains(&self) -> BTreeMap<String, MachineFacts> {
        let state = self.lock();
        state.machines.iter().filter_map(|(uid, machine)| Some((uid.clone(), machine.domain.clone()?))).collect()
    }

    /// The request the machine of `uid` was first made with.
    #[must_use]
    pub fn request(&self, uid: &str) -> Option<CreateMachine> {
        self.lock().machines.get(uid).map(|machine| machine.request.clone())
    }

    /// True where nothing of any machine is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().machines.is_empty()
    }

    /// Every call so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<(ActuatorCall, MachineKey)> {
        self.lock().calls.clone()
    }

    /// Name of the domain a machine gets.
    #[must_use]
    pub fn domain_name(key: &MachineKey) -> String {
        let digest = Sha256::digest(key.uid.as_bytes());
        format!("{}-{:02x}{:02x}{:02x}", key.name, digest[0], digest[1], digest[2])
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody listening is fine: a broadcast is a hint, not a record.
    fn report(&self, uid: &str) {
        let _ = self.changes.send(uid.to_owned());
    }

    fn edit(&self, uid: &str, change: impl FnOnce(&mut MachineFacts)) {
        if let Some(facts) = self.lock().machines.get_mut(uid).and_then(|machine| machine.domain.as_mut()) {
            change(facts);
        }
        self.report(uid);
    }

    fn enter(&self, call: ActuatorCall, key: &MachineKey) -> Result<MutexGuard<'_, State>, ActuatorError> {
        let mut state = self.lock();
        state.calls.push((call, key.clone()));
        if state.unreachable {
            return Err(ActuatorError::Unreachable {
                uri: "fake:///".to_owned(),
                source: "connection refused (fake)".into(),
            });
        }
        match state.faults.iter().position(|(wanted, _)| *wanted == call).and_then(|index| state.faults.remove(index)) {
            Some((_, error)) => Err(error),
            None => Ok(state),
        }
    }
}

impl State {
    fn check_site(&self, request: &CreateMachine) -> Result<(), ActuatorError> {
        let sites =
            [("storage pool", &self.pools, &request.shape.pool), ("network", &self.networks, &request.shape.network)];
        for (kind, known, name) in sites {
            let state = match known.get(name).copied().unwrap_or(SiteState::Missing) {
                SiteState::Active => continue,
                SiteState::Inactive => "inactive",
                SiteState::Missing => "missing",
            };
            return Err(ActuatorError::NotAvailable { kind, name: name.clone(), state });
        }
        Ok(())
    }

    fn check_request(&self, request: &CreateMachine) -> Result<(), ActuatorError> {
        let needed = request.image.virtual_size;
        if let Some(disk) = request.shape.disk
            && disk < needed
        {
            let allowed = format!("at least {} (the image needs it)", needed.0.div_ceil(GIB));
            return Err(ActuatorError::Invalid { field: "diskInGB", value: (disk.0 / GIB).to_string(), allowed });
        }
        let name = FakeActuator::domain_name(&request.key);
        if self.strangers.contains(&name) {
            return Err(ActuatorError::NameTaken { kind: "domain", name, found: None });
        }
        let Some(address) = request.shape.address else { return Ok(()) };
        let holder = self.machines.iter().find(|(uid, machine)| {
            **uid != request.key.uid
                && machine.request.shape.network == request.shape.network
                && machine.request.shape.address == Some(address)
        });
        match holder {
            Some((_, other)) => {
                Err(ActuatorError::AddressInUse { address, holder: FakeActuator::domain_name(&other.request.key) })
            }
            None => Ok(()),
        }
    }

    fn new_facts(&mut self, request: &CreateMachine) -> MachineFacts {
        let digest = Sha256::digest(request.key.uid.as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let uuid = format!("{}-{}-5{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32]);
        let address = request.shape.address.unwrap_or_else(|| {
            self.next_address = self.next_address.wrapping_add(1).max(10);
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, self.next_address))
        });
        MachineFacts {
            provider_id: format!("libvirt:///{uuid}"),
            domain: FakeActuator::domain_name(&request.key),
            uuid,
            power: PowerState::Running,
            addresses: vec![address],
            mac: format!("52:54:00:{:02x}:{:02x}:{:02x}", digest[0], digest[1], digest[2]),
            disk: Some(request.shape.disk.unwrap_or(request.image.virtual_size)),
            vcpus: request.shape.vcpus,
            memory: request.shape.memory,
        }
    }

    /// Leaves what a create that was cut off after `stage` leaves.
    fn leave_half(&mut self, request: &CreateMachine, stage: CreateStage) -> ActuatorError {
        let uid = &request.key.uid;
        let mut leftovers = vec![format!("volume hagane-{uid}-root.qcow2")];
        if stage > CreateStage::RootVolume {
            leftovers.push(format!("volume hagane-{uid}-seed.iso"));
        }
        let domain = (stage == CreateStage::Defined).then(|| MachineFacts {
            power: PowerState::Off,
            addresses: Vec::new(),
            ..self.new_facts(request)
        });
        self.machines.insert(uid.clone(), Machine { request: request.clone(), domain, leftovers });
        ActuatorError::Failed {
            operation: "create the machine".to_owned(),
            source: format!("cut off after {stage:?}").into(),
        }
    }
}

#[async_trait]
impl Actuator for FakeActuator {
    async fn create(&self, request: &CreateMachine) -> Result<Creation, ActuatorError> {
        let mut state = self.enter(ActuatorCall::Create, &request.key)?;
        if let Some(facts) = state.machines.get_mut(&request.key.uid).and_then(|machine| machine.domain.as_mut()) {
            // Create brings the machine into being; a machine that is there and off is started, one that is paused is
            // left alone: somebody did that on purpose.
            if matches!(facts.power, PowerState::Off | PowerState::Crashed) {
                facts.power = PowerState::Running;
            }
            return Ok(Creation::Running(facts.clone()));
        }
        state.check_site(request)?;
        state.check_request(request)?;
        if state.preparing > 0 {
            state.preparing -= 1;
            let progress =
                Progress { what: "uploading the image".to_owned(), done: 0, total: Some(request.image.file_size.0) };
            return Ok(Creation::Preparing(progress));
        }
        if let Some(stage) = state.interrupt.take() {
            return Err(state.leave_half(request, stage));
        }
        let facts = state.new_facts(request);
        let machine = Machine { request: request.clone(), domain: Some(facts.clone()), leftovers: Vec::new() };
        state.machines.insert(request.key.uid.clone(), machine);
        drop(state);
        self.report(&request.key.uid);
        Ok(Creation::Running(facts))
    }

    async fn exists(&self, key: &MachineKey) -> Result<Presence, ActuatorError> {
        let state = self.enter(ActuatorCall::Exists, key)?;
        Ok(match state.machines.get(&key.uid) {
            None => Presence::Absent,
            Some(Machine { domain: Some(facts), .. }) => Presence::Present(facts.clone()),
            Some(Machine { leftovers, .. }) => Presence::Leftovers(leftovers.clone()),
        })
    }

    async fn delete(&self, key: &MachineKey) -> Result<Removal, ActuatorError> {
        let mut state = self.enter(ActuatorCall::Delete, key)?;
        if state.pending_removals > 0 && state.machines.contains_key(&key.uid) {
            state.pending_removals -= 1;
            return Ok(Removal::Pending("the domain is shutting down".to_owned()));
        }
        let removed = state.machines.remove(&key.uid);
        drop(state);
        if removed.is_some() {
            self.report(&key.uid);
        }
        Ok(Removal::Done)
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests;
