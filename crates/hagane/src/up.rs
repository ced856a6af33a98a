//! `hagane up` and `hagane controllers`: what is started, in which order, and how it ends.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hagane_apiserver::{ApiServer, Identity, Options, ensure_pki};
use hagane_cli::args::{ControllersArgs, OperatorArgs, UpArgs};
use hagane_controllers::{Context as LoopContext, Selection};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{adapters, holder, limits, logging, notify};

/// API, controllers and image server in one process.
pub async fn up(mut args: UpArgs) -> Result<()> {
    make_absolute(&mut args.data_dir, &mut args.operator)?;
    logging::start(args.operator.log_format, &args.operator.log_level)?;
    limits::raise_open_files();
    let selection: Selection = args.operator.controllers.parse().context("--controllers")?;
    make_data_dir(&args.data_dir)?;
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;

    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("failed to listen on {}", args.listen))?;
    let address = listener.local_addr().context("failed to ask for the address listened on")?;
    let names = tls_names(address, &args.tls_names);
    // First of all, for its lock: a second process on the data directory must not touch the files of the first.
    let server = ApiServer::open(args.data_dir.join("api"), Options::default()).await?;
    let pki_dir = args.data_dir.join("pki");
    let certificates = tokio::task::spawn_blocking(move || ensure_pki(&pki_dir, &names)).await??;
    let url = format!("https://{}", reachable(address));
    let kubeconfig = args.data_dir.join("admin.kubeconfig");
    certificates.write_admin_kubeconfig(&kubeconfig, &url)?;

    let mut tasks = JoinSet::new();
    let tls = certificates.server_config()?;
    let (api, stop) = (server.clone(), shutdown.clone());
    tasks.spawn(async move { api.serve(listener, tls, stop).await });
    info!(target: logging::READY, url, kubeconfig = %kubeconfig.display(), "ready");
    notify::ready();

    let client = Client::new(server.client(Identity::internal("controllers")), "default");
    let started = start_work(&mut tasks, client, &args.data_dir, &args.operator, selection, &shutdown).await;
    if started.is_err() {
        shutdown.cancel();
    }
    join(tasks, &shutdown).await;
    server.stop().await;
    started
}

/// The control loops and the image server against an API that is there.
pub async fn controllers(mut args: ControllersArgs) -> Result<()> {
    make_absolute(&mut args.data_dir, &mut args.operator)?;
    logging::start(args.operator.log_format, &args.operator.log_level)?;
    limits::raise_open_files();
    let selection: Selection = args.operator.controllers.parse().context("--controllers")?;
    make_data_dir(&args.data_dir)?;
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let client = client(&args.kubeconfig).await?;
    let mut tasks = JoinSet::new();
    start_work(&mut tasks, client, &args.data_dir, &args.operator, selection, &shutdown).await?;
    info!(target: logging::READY, "ready");
    notify::ready();
    join(tasks, &shutdown).await;
    Ok(())
}

async fn client(path: &Path) -> Result<Client> {
    let problem = || format!("failed to use kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(problem)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.with_context(problem)?).with_context(problem)
}

/// Starts what needs the API: the control loops, and the image server beside them.
async fn start_work(
    tasks: &mut JoinSet<()>,
    client: Client,
    data_dir: &Path,
    args: &OperatorArgs,
    selection: Selection,
    shutdown: &CancellationToken,
) -> Result<()> {
    serve_images(tasks, args, shutdown).await?;
    if selection == Selection::None {
        return Ok(());
    }
    let holder = holder::name(data_dir)?;
    let ports = adapters::ports(data_dir, &holder, args).await?;
    let context = LoopContext::new(client, ports, adapters::settings(&holder, args));
    let stop = shutdown.clone();
    tasks.spawn(async move { hagane_controllers::run(context, &selection, stop).await });
    Ok(())
}

async fn serve_images(tasks: &mut JoinSet<()>, args: &OperatorArgs, shutdown: &CancellationToken) -> Result<()> {
    let Some(address) = args.serve_address else { return Ok(()) };
    let directory = args.image_dir.clone().context("--serve-address serves --image-dir: give that too")?;
    let listener = TcpListener::bind(address).await.with_context(|| format!("failed to listen on {address}"))?;
    let router = hagane_images::image_server(directory);
    let stop = shutdown.clone().cancelled_owned();
    tasks.spawn(async move {
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop).await {
            warn!(%error, "the image server ended");
        }
    });
    info!(%address, "images are served");
    Ok(())
}

/// Paths on the command line are meant from here; runs work, and status is read, elsewhere.
fn make_absolute(data_dir: &mut PathBuf, args: &mut OperatorArgs) -> Result<()> {
    let has_folder = |program: &&mut PathBuf| program.components().count() > 1;
    let given = [&mut args.kubespray_dir, &mut args.image_dir, &mut args.image_ca_file];
    let paths = given.into_iter().filter_map(Option::as_mut).chain(&mut args.payload_dir).chain([data_dir]);
    let programs = args.kubespray_ansible_playbook.as_mut().into_iter().chain([&mut args.ansible_playbook]);
    for path in paths.chain(programs.filter(has_folder)) {
        let whole = std::path::absolute(&*path);
        *path = whole.with_context(|| format!("failed to find the absolute path of {}", path.display()))?;
    }
    Ok(())
}

/// Waits for everything to end. A task that ends by itself, or panics, takes the whole down: half a system is none.
async fn join(mut tasks: JoinSet<()>, shutdown: &CancellationToken) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            warn!(%error, "a part of the system ended early");
        } else if !shutdown.is_cancelled() && !tasks.is_empty() {
            warn!("a part of the system ended by itself");
        }
        shutdown.cancel();
    }
    info!("stopped");
}

fn stop_on_signal(shutdown: CancellationToken) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping");
        shutdown.cancel();
    });
    Ok(())
}

/// The directory can be passed through, so that the unprivileged user of a run reaches the run's own directory; whatever
/// is secret in it has a mode of its own.
fn make_data_dir(path: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o711).create(path);
    made.with_context(|| format!("failed to create the data directory {}", path.display()))
}

/// An address that a client on this machine can use for the one that is listened on.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn tls_names(address: SocketAddr, further: &[String]) -> Vec<String> {
    let mut names =
        vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), reachable(address).ip().to_string()];
    names.extend(further.iter().cloned());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_on_the_command_line_are_meant_from_here() {
        use clap::Parser;
        use hagane_cli::args::{Cli, Command};
        let parse = |flags: &[&str]| match Cli::parse_from(["hagane", "up"].iter().chain(flags)).command {
            Command::Up(args) => *args,
            other => unreachable!("up was parsed: {other:?}"),
        };
        let mut args = parse(&["--data-dir=data", "--payload-dir=a/b", "--ansible-playbook=./bin/ansible-playbook"]);
        make_absolute(&mut args.data_dir, &mut args.operator).expect("there is a working directory");
        let here = std::env::current_dir().expect("there is a working directory");
        assert_eq!((args.data_dir, args.operator.payload_dir), (here.join("data"), vec![here.join("a/b")]));
        assert_eq!(args.operator.ansible_playbook, here.join("bin/ansible-playbook"));
        let mut args = parse(&[]);
        make_absolute(&mut args.data_dir, &mut args.operator).expect("there is a working directory");
        assert_eq!(args.operator.ansible_playbook, Path::new("ansible-playbook"), "a name is looked for on PATH");
    }

    #[test]
    fn a_client_gets_an_address_that_it_can_use() {
        let address = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(address("0.0.0.0:6440"), "127.0.0.1:6440");
        assert_eq!(address("[::]:6440"), "[::1]:6440");
        assert_eq!(address("192.0.2.1:6440"), "192.0.2.1:6440");
    }
}
