//! Base volumes: images in a storage pool, shared by all root disks made of them.
//!
//! A base volume is **complete** if and only if a marker volume `NAME.ok` is beside it. The marker is made after
//! libvirtd has confirmed the last byte, so an upload that is cut off, by a crash of either side, is never booted
//! from. Each attempt writes into a volume of its own name: two programs that upload the same image at once make two
//! complete base volumes, never a mixed one. What a crash cut off is removed with the next upload or deletion; a
//! complete base volume stays as a cache.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hagane_ports::{DiskFormat, LocalImage, Progress};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::actuator::Reports;
use crate::names;
use crate::rpc::{Connection, PoolRef, RpcError, VolumeRef, code, found};
use crate::supervisor::Session;
use crate::uri::ConnectionUri;
use crate::xml::storage::{VolumeSpec, parse_volume, volume_xml};

/// Base volumes hold no secrets, and every guest's process must be able to read them.
const READABLE: &str = "0644";
/// Size of a marker: the smallest every pool can make.
const MARKER_SIZE: u64 = 512;

/// Where a base volume stands.
#[derive(Debug)]
pub(crate) enum Base {
    Ready(VolumeRef),
    Uploading(Progress),
}

/// Why there is no base volume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    #[error("the image could not be brought into the storage pool")]
    Rpc(#[from] RpcError),
    /// Uploading once more would only add another such volume.
    #[error(
        "base volume {volume:?} has {capacity} bytes instead of {expected}: it was changed; remove it and {volume}.ok"
    )]
    WrongSize { volume: String, capacity: u64, expected: u64 },
}

/// Uploads of this program.
#[derive(Debug)]
pub(crate) struct Uploads {
    uri: ConnectionUri,
    holder: String,
    reports: Arc<Reports>,
    running: Mutex<HashMap<(String, String), Upload>>,
}

/// One upload, going on or just ended.
#[derive(Debug)]
struct Upload {
    volume: String,
    sent: Arc<AtomicU64>,
    outcome: Arc<Mutex<Option<Result<(), RpcError>>>>,
    /// Uids of the machines that wait for it.
    waiting: Arc<Mutex<BTreeSet<String>>>,
    _task: AbortOnDropHandle<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uploads {
    pub(crate) fn new(uri: ConnectionUri, holder: String, reports: Arc<Reports>) -> Self {
        Self { uri, holder, reports, running: Mutex::default() }
    }

    /// libvirt's name of an image's format.
    pub(crate) fn format_name(&self, image: &LocalImage) -> &'static str {
        match image.format {
            DiskFormat::Raw => "raw",
            DiskFormat::Qcow2 => "qcow2",
        }
    }

    /// The complete base volume of an image; starts the upload where there is none and none is going on.
    pub(crate) async fn ensure(
        &self,
        session: &Session,
        pool: &PoolRef,
        image: &LocalImage,
        uid: &str,
    ) -> Result<Base, BaseError> {
        let key = (pool.name.clone(), image.sha256.clone());
        if let Some(answer) = self.look_at_running(&key, image, uid) {
            return Ok(answer?);
        }
        if let Some(base) = complete_base(&session.connection, pool, image).await? {
            return Ok(Base::Ready(base));
        }
        self.clear_pool(session, pool).await?;
        if session.keeps_no_content() {
            // Nothing to send: made within the call.
            let volume = self.new_name(image);
            let base = make_volume(&session.connection, pool, &volume, image.file_size.0).await?;
            make_volume(&session.connection, pool, &names::marker(&volume), MARKER_SIZE).await?;
            return Ok(Base::Ready(base));
        }
        Ok(Base::Uploading(self.start(key, pool.clone(), image.clone(), uid)))
    }

    fn new_name(&self, image: &LocalImage) -> String {
        let attempt = &Uuid::new_v4().simple().to_string()[..12];
        let ending = match image.format {
            DiskFormat::Raw => "raw",
            DiskFormat::Qcow2 => "qcow2",
        };
        names::base_volume(&image.sha256, &self.holder, attempt, ending)
    }

    /// What a known upload says; nothing where there is none, or it has ended well.
    fn look_at_running(&self, key: &(String, String), image: &LocalImage, uid: &str) -> Option<Result<Base, RpcError>> {
        let mut running = lock(&self.running);
        let upload = running.get(key)?;
        let outcome = lock(&upload.outcome).take();
        match outcome {
            None => {
                lock(&upload.waiting).insert(uid.to_owned());
                Some(Ok(Base::Uploading(upload.progress(image))))
            }
            Some(outcome) => {
                running.remove(key);
                outcome.err().map(Err)
            }
        }
    }

    fn start(&self, key: (String, String), pool: PoolRef, image: LocalImage, uid: &str) -> Progress {
        let volume = self.new_name(&image);
        let sent = Arc::new(AtomicU64::new(0));
        let outcome = Arc::new(Mutex::new(None));
        let waiting = Arc::new(Mutex::new(BTreeSet::from([uid.to_owned()])));
        let work = {
            let (uri, volume, image) = (self.uri.clone(), volume.clone(), image.clone());
            let (sent, outcome, waiting) = (sent.clone(), outcome.clone(), waiting.clone());
            let reports = self.reports.clone();
            async move {
                let result = upload(&uri, &pool, &image, &volume, &sent).await;
                match &result {
                    Ok(()) => tracing::info!(pool = %pool.name, %volume, "image uploaded"),
                    Err(error) => tracing::warn!(pool = %pool.name, %volume, %error, "image upload failed"),
                }
                *lock(&outcome) = Some(result);
                for uid in std::mem::take(&mut *lock(&waiting)) {
                    reports.send(&uid);
                }
            }
        };
        let mut running = lock(&self.running);
        // Two calls at once: the first one's upload counts.
        let upload = running.entry(key).or_insert_with(|| Upload {
            volume,
            sent,
            outcome,
            waiting,
            _task: AbortOnDropHandle::new(tokio::spawn(work)),
        });
        upload.progress(&image)
    }

    /// Removes what crashed uploads of this program left in all active pools.
    pub(crate) async fn clear_away(&self, session: &Session) -> Result<(), RpcError> {
        for pool in session.connection.active_pools().await? {
            self.clear_pool(session, &pool).await?;
        }
        Ok(())
    }

    async fn clear_pool(&self, session: &Session, pool: &PoolRef) -> Result<(), RpcError> {
        let active: BTreeSet<String> = lock(&self.running).values().map(|upload| upload.volume.clone()).collect();
        let volumes = match session.connection.volumes(pool).await {
            // The pool was stopped meanwhile.
            Err(RpcError::Remote { .. }) => return Ok(()),
            other => other?,
        };
        for volume in cut_off(&volumes, &names::holder_part(&self.holder), &active) {
            tracing::info!(pool = %pool.name, volume = %volume.name, "removing a cut-off upload");
            match found(session.connection.delete_volume(volume).await, code::NO_STORAGE_VOL) {
                Err(error @ RpcError::Remote { .. }) => {
                    tracing::warn!(volume = %volume.name, %error, "cannot remove a cut-off upload");
                }
                other => drop(other?),
            }
        }
        Ok(())
    }
}

impl Upload {
    fn progress(&self, image: &LocalImage) -> Progress {
        Progress {
            what: "uploading the image into the storage pool".to_owned(),
            done: self.sent.load(Ordering::Relaxed),
            total: Some(image.file_size.0),
        }
    }
}

/// Base volumes without marker, and markers without base volume, of this holder.
fn cut_off<'a>(volumes: &'a [VolumeRef], holder: &str, active: &BTreeSet<String>) -> Vec<&'a VolumeRef> {
    let all: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    let is_holders = |name: &str| name.starts_with("hagane-base-") && name.contains(&format!("-{holder}-"));
    let is_cut_off = |name: &str| match name.strip_suffix(".ok") {
        Some(base) => !all.contains(base) && !active.contains(base),
        None => !all.contains(names::marker(name).as_str()) && !active.contains(name),
    };
    volumes.iter().filter(|volume| is_holders(&volume.name) && is_cut_off(&volume.name)).collect()
}

/// Finds a complete base volume of the image whose size is right.
async fn complete_base(
    connection: &Connection,
    pool: &PoolRef,
    image: &LocalImage,
) -> Result<Option<VolumeRef>, BaseError> {
    let volumes = connection.volumes(pool).await?;
    let all: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    let prefix = names::base_prefix(&image.sha256);
    let complete = volumes.iter().filter(|volume| {
        volume.name.starts_with(&prefix)
            && names::is_base_volume(&volume.name)
            && all.contains(names::marker(&volume.name).as_str())
    });
    for volume in complete {
        let Some(text) = found(connection.volume_xml(volume).await, code::NO_STORAGE_VOL)? else { continue };
        let Ok(facts) = parse_volume(&text) else { continue };
        // Before libvirtd has looked into the file it knows the size of the file only.
        let plausible = [image.file_size.0, image.virtual_size.0].map(|size| size.next_multiple_of(512));
        if plausible.contains(&facts.capacity.next_multiple_of(512)) {
            return Ok(Some(volume.clone()));
        }
        let (volume, expected) = (volume.name.clone(), image.virtual_size.0);
        return Err(BaseError::WrongSize { volume, capacity: facts.capacity, expected });
    }
    Ok(None)
}

async fn make_volume(connection: &Connection, pool: &PoolRef, name: &str, size: u64) -> Result<VolumeRef, RpcError> {
    let spec = VolumeSpec { name, capacity: size, format: "raw", backing: None, mode: READABLE };
    connection.create_volume(pool, &volume_xml(&spec)).await
}

/// Sends the image over a connection of its own, so that nothing else waits behind it.
async fn upload(
    uri: &ConnectionUri,
    pool: &PoolRef,
    image: &LocalImage,
    name: &str,
    sent: &AtomicU64,
) -> Result<(), RpcError> {
    let connection = Connection::open(&uri.socket, &uri.hypervisor, None).await?;
    let file = tokio::fs::File::open(&image.path).await;
    let file = file.map_err(|error| RpcError::LocalData(format!("{}: {error}", image.path.display())))?;
    // The volume is made as plain bytes: they are the image's own, header included.
    let volume = make_volume(&connection, pool, name, image.file_size.0).await?;
    let progress = |done| sent.store(done, Ordering::Relaxed);
    if let Err(error) = connection.upload(&volume, file, image.file_size.0, progress).await {
        if let Err(left) = connection.delete_volume(&volume).await {
            tracing::debug!(volume = %name, error = %left, "a failed upload stays until the next one");
        }
        return Err(error);
    }
    make_volume(&connection, pool, &names::marker(name), MARKER_SIZE).await?;
    // Shows the format of the new volume. It is refused while others work in the pool, and needed by nobody.
    if let Err(error) = connection.refresh_pool(pool).await {
        tracing::debug!(pool = %pool.name, %error, "the pool was not refreshed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> VolumeRef {
        VolumeRef { pool: "p".into(), name: name.into(), key: name.into() }
    }

    #[test]
    fn only_our_own_cut_off_uploads_are_removed() {
        let sha = "ab".repeat(32);
        let ours = |attempt| names::base_volume(&sha, "me", attempt, "qcow2");
        let theirs = names::base_volume(&sha, "them", "1", "qcow2");
        let listed = [
            volume(&ours("whole")),
            volume(&names::marker(&ours("whole"))),
            volume(&ours("cut")),
            volume(&ours("active")),
            volume(&names::marker(&ours("orphan"))),
            volume(&theirs),
            volume("m1.qcow2"),
            volume("hagane-uid-root.qcow2"),
        ];
        let active = BTreeSet::from([ours("active")]);
        let found: Vec<_> =
            cut_off(&listed, &names::holder_part("me"), &active).iter().map(|volume| volume.name.clone()).collect();
        assert_eq!(found, [ours("cut"), names::marker(&ours("orphan"))]);
    }
}
