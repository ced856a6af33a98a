//! References to libvirt's objects and the small records its calls return.

use super::xdr::{Decoder, Encoder, XdrError};

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRef {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: [u8; 16],
    /// Number while it runs, -1 otherwise.
    pub id: i32,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRef {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: [u8; 16],
}

/// A storage pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRef {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: [u8; 16],
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRef {
    /// Name of its pool.
    pub pool: String,
    /// Name.
    pub name: String,
    /// What libvirt knows it by; a path for files.
    pub key: String,
}

/// Size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Bytes the guest sees.
    pub capacity: u64,
    /// Bytes in use on the host.
    pub allocation: u64,
}

/// A lease that a network's DHCP server has given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// MAC address it was given to.
    pub mac: Option<String>,
    /// The address.
    pub address: String,
    /// Name the client gave itself.
    pub hostname: Option<String>,
}

/// State of a domain, as libvirt numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainState(pub i32);

impl DomainRef {
    pub(super) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.string(&self.name).fixed(&self.uuid).i32(self.id)
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(Self { name: decoder.string()?, uuid: decoder.uuid()?, id: decoder.i32()? })
    }
}

impl NetworkRef {
    pub(super) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.string(&self.name).fixed(&self.uuid)
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(Self { name: decoder.string()?, uuid: decoder.uuid()? })
    }
}

impl PoolRef {
    pub(super) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.string(&self.name).fixed(&self.uuid)
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(Self { name: decoder.string()?, uuid: decoder.uuid()? })
    }
}

impl VolumeRef {
    pub(super) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.string(&self.pool).string(&self.name).string(&self.key)
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(Self { pool: decoder.string()?, name: decoder.string()?, key: decoder.string()? })
    }
}

impl Lease {
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        let _interface = decoder.string()?;
        let _expires = decoder.u64()?;
        let _family = decoder.i32()?;
        let mac = decoder.optional_string()?;
        let _iaid = decoder.optional_string()?;
        let address = decoder.string()?;
        let _prefix = decoder.u32()?;
        let hostname = decoder.optional_string()?;
        let _client = decoder.optional_string()?;
        Ok(Self { mac, address, hostname })
    }
}
