//! What can go wrong between us and libvirtd.

use std::time::Duration;

use super::xdr::XdrError;

/// Numbers libvirt gives to the failures that this crate tells apart.
pub mod code {
    /// The driver cannot do this.
    pub const NO_SUPPORT: i32 = 3;
    /// An argument, such as a flag, is not known to the driver.
    pub const INVALID_ARG: i32 = 8;
    /// No domain of that name or UUID.
    pub const NO_DOMAIN: i32 = 42;
    /// No network of that name or UUID.
    pub const NO_NETWORK: i32 = 43;
    /// No storage pool of that name or UUID.
    pub const NO_STORAGE_POOL: i32 = 49;
    /// No volume of that name.
    pub const NO_STORAGE_VOL: i32 = 50;
    /// The object is in the wrong state.
    pub const OPERATION_INVALID: i32 = 55;
    /// The operation is known and not possible here.
    pub const OPERATION_UNSUPPORTED: i32 = 84;
    /// A volume of that name exists.
    pub const STORAGE_VOL_EXIST: i32 = 90;
}

/// Why a call did not give its answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RpcError {
    /// There is no connection at the moment, or it broke before the answer came.
    #[error("not connected to libvirtd: {0}")]
    Disconnected(String),
    /// No answer within the time a call may take.
    #[error("libvirtd did not answer call {procedure} within {}", describe(*.limit))]
    Timeout {
        /// Number of the procedure.
        procedure: i32,
        /// The limit.
        limit: Duration,
    },
    /// The answer is no valid message. The connection is closed and made anew.
    #[error("libvirtd sent a message that makes no sense")]
    Malformed(#[source] XdrError),
    /// libvirtd answered with an error of its own.
    #[error("libvirtd says: {message}")]
    Remote {
        /// One of libvirt's error numbers, see [`code`].
        code: i32,
        /// libvirt's own text.
        message: String,
    },
    /// The local side of an upload failed.
    #[error("the data to send cannot be read: {0}")]
    LocalData(String),
}

impl RpcError {
    /// Whether libvirtd answered with this error number.
    #[must_use]
    pub fn is(&self, wanted: i32) -> bool {
        matches!(self, Self::Remote { code, .. } if *code == wanted)
    }

    /// Whether the connection is the cause, so that the same call may work later unchanged.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Timeout { .. } | Self::Malformed(_))
    }
}

fn describe(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f32())
}

/// Turns "there is no such object" into `None`.
///
/// # Errors
/// Every other error stays.
pub fn found<T>(result: Result<T, RpcError>, missing: i32) -> Result<Option<T>, RpcError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is(missing) => Ok(None),
        Err(error) => Err(error),
    }
}
