//! A machine's own volumes: root disk and seed.
//!
//! libvirt keeps no notes beside a volume, so that a volume is ours is read from what it holds, not from its name
//! alone. A **root volume** is ours where it is a qcow2 over one of our base volumes. A **seed** is ours where its last
//! sector is our trailer, which is written before anything else; one too large to be read through is made small, marked
//! at its first sector, and only then given its size. A small volume that holds nothing but zeros was cut off between
//! "made" and "written" and counts as ours too: there is nothing in it to lose. Everything else of such a name is
//! somebody else's: it is never booted from, written to or removed.

use bytes::Bytes;
use hagane_api::quantity::ByteSize;
use hagane_ports::{ActuatorError, LocalImage, MachineKey};

use super::scope::Scope;
use crate::names;
use crate::rpc::{PoolRef, RpcError, VolumeInfo, VolumeRef, code, found};
use crate::seed::{SECTOR, is_trailer, trailer};
use crate::xml::storage::{VolumeFacts, VolumeSpec, parse_volume, volume_xml};

/// Largest ready-made seed image: it is copied while the caller waits.
const SEED_MAX: ByteSize = ByteSize(64 << 20);
/// Largest volume that is read through to see that it is empty.
const BLANK_MAX: u64 = 8 << 20;
/// Root disks and seeds may hold secrets; the hypervisor opens them for the guest.
const PRIVATE: &str = "0600";

/// What a seed volume is filled with. It may hold secrets, so it cannot be printed.
pub(super) enum SeedContent {
    Bytes(Bytes),
    File { path: std::path::PathBuf, size: u64 },
}

impl SeedContent {
    pub(super) fn from_image(image: &LocalImage) -> Result<Self, ActuatorError> {
        if image.file_size > SEED_MAX {
            return Err(ActuatorError::Invalid {
                field: "userDataURI",
                value: format!("an image of {}", image.file_size),
                allowed: format!("at most {SEED_MAX}"),
            });
        }
        Ok(Self::File { path: image.path.clone(), size: image.file_size.0 })
    }

    /// Where the trailer goes: the first whole sector after the content.
    fn trailer_offset(&self) -> u64 {
        let size = match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        };
        size.next_multiple_of(SECTOR)
    }
}

impl Scope<'_> {
    /// Refuses to go on where one of the machine's volume names is taken.
    pub(super) async fn check_volumes(&self, key: &MachineKey, pool: &PoolRef) -> Result<(), ActuatorError> {
        for name in [names::root_volume(&key.uid), names::seed_volume(&key.uid)] {
            if let Some(volume) = self.volume(pool, &name).await? {
                self.own_or_taken(key, &volume).await?;
            }
        }
        Ok(())
    }

    /// The machine's volumes in every active pool.
    pub(super) async fn own_volumes(&self, key: &MachineKey) -> Result<Vec<VolumeRef>, ActuatorError> {
        let pools = self.session.connection.active_pools().await;
        let mut own = Vec::new();
        for pool in pools.map_err(self.failed("list the storage pools"))? {
            for name in [names::root_volume(&key.uid), names::seed_volume(&key.uid)] {
                if let Some(volume) = self.volume(&pool, &name).await?
                    && self.is_own(key, &volume).await?
                {
                    own.push(volume);
                }
            }
        }
        Ok(own)
    }

    async fn volume(&self, pool: &PoolRef, name: &str) -> Result<Option<VolumeRef>, ActuatorError> {
        match found(self.session.connection.volume_by_name(pool, name).await, code::NO_STORAGE_VOL) {
            // The pool went away between listing and asking.
            Err(error) if error.is(code::NO_STORAGE_POOL) || error.is(code::OPERATION_INVALID) => Ok(None),
            other => other.map_err(self.failed(&format!("look up volume {name:?}"))),
        }
    }

    /// Makes the root volume over `base`, or takes the one an earlier attempt made.
    pub(super) async fn ensure_root(
        &self,
        key: &MachineKey,
        pool: &PoolRef,
        base: &VolumeRef,
        image: &LocalImage,
        capacity: u64,
    ) -> Result<VolumeRef, ActuatorError> {
        let connection = &self.session.connection;
        let name = names::root_volume(&key.uid);
        let failed = self.failed(&format!("make root volume {name:?}"));
        let base_path = connection.volume_path(base).await.map_err(&failed)?;
        if let Some(existing) = self.volume(pool, &name).await? {
            let facts = self.own_or_taken(key, &existing).await?;
            let is_over_the_image = facts
                .backing
                .as_deref()
                .is_some_and(|path| file_name(path).starts_with(&names::base_prefix(&image.sha256)));
            if is_over_the_image {
                // The disk may hold data of a machine whose domain was lost: it is kept and at most made larger.
                let info = connection.volume_info(&existing).await.map_err(&failed)?;
                if info.capacity < capacity {
                    connection.resize_volume(&existing, capacity).await.map_err(&failed)?;
                }
                return Ok(existing);
            }
            tracing::info!(volume = %name, "the root volume is not over the image asked for and is made anew");
            connection.delete_volume(&existing).await.map_err(&failed)?;
        }
        let format = self.actuator.uploads.format_name(image);
        let spec =
            VolumeSpec { name: &name, capacity, format: "qcow2", backing: Some((&base_path, format)), mode: PRIVATE };
        connection.create_volume(pool, &volume_xml(&spec)).await.map_err(&failed)
    }

    /// Writes the seed volume. One that an earlier attempt left is made anew: only whole seeds are ever attached.
    pub(super) async fn write_seed(
        &self,
        key: &MachineKey,
        pool: &PoolRef,
        content: &SeedContent,
    ) -> Result<VolumeRef, ActuatorError> {
        let connection = &self.session.connection;
        let name = names::seed_volume(&key.uid);
        let failed = self.failed(&format!("write seed volume {name:?}"));
        if let Some(existing) = self.volume(pool, &name).await? {
            self.own_or_taken(key, &existing).await?;
            connection.delete_volume(&existing).await.map_err(&failed)?;
        }
        let trailer_offset = content.trailer_offset();
        let whole = trailer_offset + SECTOR;
        // A large volume that is empty could be anybody's: it begins small, and grows once it bears the mark.
        let begins_small = whole > BLANK_MAX && !self.session.keeps_no_content();
        let capacity = if begins_small { SECTOR } else { whole };
        let spec = VolumeSpec { name: &name, capacity, format: "raw", backing: None, mode: PRIVATE };
        let volume = connection.create_volume(pool, &volume_xml(&spec)).await.map_err(&failed)?;
        if self.session.keeps_no_content() {
            return Ok(volume);
        }
        // First of all the mark: whatever is cut off from here on is known to be ours.
        let mark = Bytes::from(trailer(&key.uid));
        if begins_small {
            connection.write_volume(&volume, 0, mark.clone()).await.map_err(&failed)?;
            connection.resize_volume(&volume, whole).await.map_err(&failed)?;
        }
        connection.write_volume(&volume, trailer_offset, mark).await.map_err(&failed)?;
        match content {
            SeedContent::Bytes(bytes) => connection.write_volume(&volume, 0, bytes.clone()).await.map_err(&failed)?,
            SeedContent::File { path, size } => {
                let file = tokio::fs::File::open(path).await;
                let file = file.map_err(|error| failed(RpcError::LocalData(error.to_string())))?;
                // Not as a sparse upload: that would cut the mark off again.
                connection.write_volume_from(&volume, file, *size).await.map_err(&failed)?;
            }
        }
        Ok(volume)
    }

    /// The volume's facts where it is ours.
    async fn own_or_taken(&self, key: &MachineKey, volume: &VolumeRef) -> Result<VolumeFacts, ActuatorError> {
        let facts = self.volume_facts(volume).await?;
        if self.proves_ours(key, volume, &facts).await? {
            return Ok(facts);
        }
        Err(ActuatorError::NameTaken { kind: "volume", name: format!("{}/{}", volume.pool, volume.name), found: None })
    }

    async fn is_own(&self, key: &MachineKey, volume: &VolumeRef) -> Result<bool, ActuatorError> {
        let facts = self.volume_facts(volume).await?;
        self.proves_ours(key, volume, &facts).await
    }

    async fn volume_facts(&self, volume: &VolumeRef) -> Result<VolumeFacts, ActuatorError> {
        let text = self.session.connection.volume_xml(volume).await;
        let text = text.map_err(self.failed(&format!("read volume {:?}", volume.name)))?;
        parse_volume(&text).map_err(Self::unreadable("read a volume's description"))
    }

    async fn proves_ours(
        &self,
        key: &MachineKey,
        volume: &VolumeRef,
        facts: &VolumeFacts,
    ) -> Result<bool, ActuatorError> {
        if self.session.keeps_no_content() {
            return Ok(true);
        }
        let is_root = volume.name == names::root_volume(&key.uid);
        if is_root && facts.backing.as_deref().is_some_and(|path| names::is_base_volume(file_name(path))) {
            return Ok(true);
        }
        let connection = &self.session.connection;
        let failed = self.failed(&format!("look into volume {:?}", volume.name));
        // The size in the file, not the one a header claims.
        let VolumeInfo { capacity, .. } = connection.volume_info(volume).await.map_err(&failed)?;
        if !is_root && capacity >= SECTOR {
            // The first sector bears it only while a large seed grows to its size.
            for offset in [capacity - SECTOR, 0] {
                let sector = connection.read_volume(volume, offset, SECTOR as u32).await.map_err(&failed)?;
                if is_trailer(&sector, &key.uid) {
                    return Ok(true);
                }
            }
        }
        if facts.format == "qcow2" || capacity > BLANK_MAX {
            return Ok(false);
        }
        if capacity == 0 {
            return Ok(true);
        }
        let content = connection.read_volume(volume, 0, BLANK_MAX as u32).await.map_err(&failed)?;
        Ok(content.iter().all(|byte| *byte == 0))
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
