//! Serves the API alone on a loopback port: `cargo run -p hagane-apiserver --example serve -- DIR [PORT]`.

use std::path::PathBuf;

use hagane_apiserver::{ApiServer, Options, ensure_pki};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("usage: serve DIR [PORT]")?);
    let port: u16 = match arguments.next() {
        Some(port) => port.to_str().ok_or("PORT must be a number")?.parse()?,
        None => 6440,
    };
    let server = ApiServer::open(&directory, Options::default()).await?;
    let pki = ensure_pki(&directory.join("pki"), &[])?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    pki.write_admin_kubeconfig(&directory.join("admin.kubeconfig"), &url)?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let mut terminated = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(terminated) => terminated,
            Err(_) => return,
        };
        terminated.recv().await;
        stop.cancel();
    });
    eprintln!("ready {url}");
    server.serve(listener, pki.server_config()?, shutdown).await;
    server.stop().await;
    Ok(())
}
