//! Leads from the machine's loopback into a lab.

use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

/// One way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Address on the machine's loopback; port 0 is replaced by a free one.
    pub listen: SocketAddr,
    /// Address inside the lab.
    pub target: SocketAddr,
}

impl std::str::FromStr for Forward {
    type Err = anyhow::Error;

    /// Reads `LISTEN=TARGET`, both ADDRESS:PORT.
    fn from_str(text: &str) -> Result<Self> {
        let (listen, target) =
            text.split_once('=').with_context(|| format!("forward {text:?}: LISTEN=TARGET is wanted"))?;
        let listen: SocketAddr =
            listen.parse().with_context(|| format!("forward {text:?}: read {listen:?} as ADDRESS:PORT"))?;
        let target = target.parse().with_context(|| format!("forward {text:?}: read {target:?} as ADDRESS:PORT"))?;
        if !listen.ip().is_loopback() {
            bail!("forward {text:?}: only loopback addresses may be listened on");
        }
        Ok(Self { listen, target })
    }
}

/// Opens the listening sockets; gives them with the addresses they got.
///
/// # Errors
/// When an address is taken.
pub fn listen(forwards: &[Forward]) -> Result<Vec<(TcpListener, Forward)>> {
    let open = |forward: &Forward| {
        let listener = TcpListener::bind(forward.listen).with_context(|| format!("listen on {}", forward.listen))?;
        let listen = listener.local_addr().context("ask for the address listened on")?;
        Ok((listener, Forward { listen, ..*forward }))
    };
    forwards.iter().map(open).collect()
}

/// Relays connections until the process ends.
///
/// # Errors
/// When the lab's network namespace can not be opened.
pub fn serve(listeners: Vec<(TcpListener, Forward)>, network_namespace: &Path) -> Result<()> {
    let namespace = File::open(network_namespace).context("open the lab's network namespace")?;
    let namespace = Arc::new(namespace);
    let mut threads = Vec::new();
    for (listener, forward) in listeners {
        let namespace = Arc::clone(&namespace);
        threads.push(thread::spawn(move || accept(&listener, forward.target, &namespace)));
    }
    for thread in threads {
        if thread.join().is_err() {
            bail!("a relay's thread ended");
        }
    }
    Ok(())
}

fn accept(listener: &TcpListener, target: SocketAddr, namespace: &Arc<File>) {
    for connection in listener.incoming() {
        match connection {
            Ok(outside) => {
                let namespace = Arc::clone(namespace);
                thread::spawn(move || relay(outside, target, &namespace));
            }
            // Out of descriptors, for example: give the other connections time to end.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The namespace change is the calling thread's own: it holds for this connection and its second thread.
fn relay(outside: TcpStream, target: SocketAddr, namespace: &File) {
    let inside = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(io::Error::from)
        .and_then(|()| TcpStream::connect_timeout(&target, Duration::from_secs(10)));
    let Ok(inside) = inside else { return };
    let (Ok(outside_too), Ok(inside_too)) = (outside.try_clone(), inside.try_clone()) else { return };
    let back = thread::spawn(move || copy(inside_too, outside_too));
    copy(outside, inside);
    let _ended = back.join();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _broken = io::copy(&mut from, &mut to);
    let _gone = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_on_loopback_only() {
        let error = "0.0.0.0:1=10.0.0.1:2".parse::<Forward>().expect_err("not loopback");
        assert!(error.to_string().contains("loopback"), "{error}");
        assert!("127.0.0.1:0=10.199.0.11:6443".parse::<Forward>().is_ok());
    }
}
