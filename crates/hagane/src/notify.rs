//! Telling systemd that the service is ready (`Type=notify`; protocol: `sd_notify(3)`).

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::debug;

/// Says `READY=1` where systemd asked for it. A supervisor that cannot be told is none of our failures.
pub fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(path.as_bytes(), b"READY=1") {
        debug!(%error, "systemd could not be told that the service is ready");
    }
}

fn send(path: &[u8], message: &[u8]) -> std::io::Result<()> {
    // A leading @ stands for the zero byte of an abstract socket.
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaches_a_socket_by_path_and_by_abstract_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let name = format!("hagane-notify-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).expect("an address");
        let by_path = UnixDatagram::bind(&path).expect("bound");
        let by_name = UnixDatagram::bind_addr(&abstract_address).expect("bound");
        for (socket, spelling) in [(by_path, path.as_os_str().as_bytes()), (by_name, format!("@{name}").as_bytes())] {
            send(spelling, b"READY=1").expect("sent");
            let mut buffer = [0; 16];
            let length = socket.recv(&mut buffer).expect("received");
            assert_eq!(&buffer[..length], b"READY=1");
        }
    }
}
