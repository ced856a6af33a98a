//! A client of libvirt's RPC protocol: XDR in frames over a unix socket.
//!
//! Written from the protocol's public numbers. It knows the calls this crate needs and nothing of machines.

mod connection;
mod domains;
mod error;
mod frame;
mod networks;
mod procedure;
mod storage;
mod types;
pub mod xdr;

pub use connection::{CALL_LIMIT, Connection, LifecycleEvent, SLOW_CALL_LIMIT};
pub use error::{RpcError, code, found};
pub use networks::HostChange;
pub use types::{DomainRef, DomainState, Lease, NetworkRef, PoolRef, VolumeInfo, VolumeRef};
