//! A developer's tool: drives the installers without the rest of hagane, against hosts of a lab. Never shipped.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hagane_installers::{EngineOptions, KubeadmInstaller, KubeadmOptions, payload, python};
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, Inventory, InventoryNode, NodeRole, RunExit, RunState, SshAccess,
};

const USAGE: &str = "usage: hagane-installers-lab run-shim DIR
       hagane-installers-lab venv
       hagane-installers-lab payload build [VERSION]|verify|list
       hagane-installers-lab VERB RUNS RUN-ID KEY-FILE KNOWN-HOSTS-FILE USER NAME=ADDRESS=ROLE[,ROLE]… [VARIABLE:=JSON…]
verbs: install, add-workers:NODE,…, add-masters:NODE,…, remove:NODE,…[:LOST-NODE,…], upgrade:VERSION, reconfigure, renew,
       reset, recover:LOST-NODE,…; the part of RUN-ID before its last dash names the owner";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["run-shim", directory] => return hagane_installers::run_shim_main(Path::new(directory)),
        ["venv"] => ensure_ansible().map(|program| println!("{}", program.display())),
        ["payload", action] => payload_command(action, None),
        ["payload", "build", version] => payload_command("build", Some(version)),
        [verb, runs, id, key, known_hosts, user, rest @ ..] => {
            parse_verb(verb).and_then(|verb| install(Path::new(runs), (id, verb), [key, known_hosts, user], rest))
        }
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", payload::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn ensure_ansible() -> Result<PathBuf, Box<dyn Error>> {
    Ok(python::ensure_ansible(&python::default_cache(), &mut |step| println!("{step}"))?)
}

fn parse_verb(text: &str) -> Result<InstallVerb, Box<dyn Error>> {
    let mut words = text.split(':');
    let verb = words.next().unwrap_or_default();
    let mut names = || -> Vec<String> {
        let list = words.next().unwrap_or_default();
        list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    Ok(match verb {
        "install" => InstallVerb::Install,
        "add-workers" => InstallVerb::AddWorkers(names()),
        "add-masters" => InstallVerb::AddMasters(names()),
        "remove" => InstallVerb::RemoveNodes { nodes: names(), lost: names() },
        "upgrade" => InstallVerb::Upgrade { version: names().concat() },
        "reconfigure" => InstallVerb::Reconfigure,
        "renew" => InstallVerb::RenewCertificates,
        "reset" => InstallVerb::Reset,
        "recover" => InstallVerb::RecoverControlPlane { lost: names() },
        _ => return Err(USAGE.into()),
    })
}

fn payload_command(action: &str, version: Option<&str>) -> Result<(), Box<dyn Error>> {
    let cache = python::default_cache();
    let directory = payload::directory(&cache);
    match action {
        "build" => {
            let mut last = String::new();
            let mut options = payload::BuildOptions::new(cache);
            version.unwrap_or(&options.version.clone()).clone_into(&mut options.version);
            let built = payload::build(&options, &mut |progress| {
                if progress.step != last {
                    println!("{}/{} {}", progress.done, progress.total, progress.step);
                    last.clone_from(&progress.step);
                }
            })?;
            println!("{}", built.display());
        }
        "verify" => drop(payload::verify(&directory, &mut |item| println!("{}", item.file.display()))?),
        "list" => {
            for item in payload::load(&directory)?.items {
                println!("{}\t{}\t{:?}\t{}", item.name, item.version, item.kind, item.tag.unwrap_or_default());
            }
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn install(
    runs: &Path,
    (id, verb): (&str, InstallVerb),
    access: [&str; 3],
    rest: &[&str],
) -> Result<(), Box<dyn Error>> {
    let [key, known_hosts, user] = access;
    let mut nodes = Vec::new();
    let mut variables = BTreeMap::new();
    for word in rest {
        if let Some((name, value)) = word.split_once(":=") {
            variables.insert(name.to_owned(), serde_json::from_str(value)?);
            continue;
        }
        let parts: Vec<&str> = word.split('=').collect();
        let [name, address, roles] = parts.as_slice() else { return Err(USAGE.into()) };
        let role = |text: &str| if text == "master" { NodeRole::Master } else { NodeRole::Worker };
        nodes.push(InventoryNode {
            name: (*name).to_owned(),
            address: address.parse()?,
            ssh_port: 22,
            roles: roles.split(',').map(role).collect(),
            second_address: None,
        });
    }
    let ansible = std::env::var_os("HAGANE_ANSIBLE_PLAYBOOK").map_or_else(ensure_ansible, |path| Ok(path.into()))?;
    let cache = python::default_cache();
    let places = payload::versions().into_iter().filter_map(|version| payload::directory_of(&cache, version).ok());
    let payloads = places.filter(|place| place.join(payload::MANIFEST).exists()).collect();
    let request = InstallRequest {
        run_id: id.to_owned(),
        owner_uid: format!("lab-{}", id.rsplit_once('-').map_or(id, |(owner, _)| owner)),
        cluster: "lab".to_owned(),
        verb,
        inventory: Inventory { nodes, ..Inventory::default() },
        variables,
        ssh: SshAccess {
            user: user.to_owned(),
            private_key: std::fs::read_to_string(key)?,
            known_hosts: std::fs::read_to_string(known_hosts)?.lines().map(str::to_owned).collect(),
        },
        time_limit: Duration::from_secs(1800),
        limits: hagane_ports::installer::RunLimits::default(),
    };
    let mut options = EngineOptions::new(runs.to_path_buf(), ansible, std::env::current_exe()?);
    options.run_as = std::env::var("HAGANE_RUN_AS").ok();
    let installer = KubeadmInstaller::new(options, KubeadmOptions { payloads })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(watch(&installer, &request))
}

async fn watch(installer: &dyn ClusterInstaller, request: &InstallRequest) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let handle = installer.start(request).await?;
    println!("{:6.1} started {}", begun.elapsed().as_secs_f32(), handle.directory.display());
    let mut last = None;
    loop {
        let seen = installer.observe(&request.run_id).await?;
        let progress = seen.progress;
        if progress.task != last {
            let (done, total) = (progress.tasks_started, progress.tasks_total.unwrap_or_default());
            println!(
                "{:6.1} {done}/{total} {}",
                begun.elapsed().as_secs_f32(),
                progress.task.as_deref().unwrap_or("-")
            );
            last = progress.task;
        }
        if let RunState::Finished(exit) = seen.state {
            println!("{:6.1} {exit:?} {:?} {:?}", begun.elapsed().as_secs_f32(), progress.hosts, progress.failures);
            let kubeconfig = installer.kubeconfig(&request.run_id).await?.map(|content| content.len());
            println!("kubeconfig: {kubeconfig:?} bytes; log: {}", seen.log.display());
            return if exit == RunExit::Succeeded { Ok(()) } else { Err("the run failed".into()) };
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
