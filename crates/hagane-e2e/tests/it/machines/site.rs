//! A lab with hagane in it, and the questions that tests ask of both.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hagane_testkit::lab::{Image, Lab, LabOptions, Progress};
use hagane_testkit::road::{Server, ServerOptions, wait_for};
use serde_json::Value;

use super::objects::{Machine, RELEASED, list};
use crate::support;

/// Until a Machine of the tiny image runs: emulated, on a machine that has other things to do.
pub const BOOT: Duration = Duration::from_secs(240);
/// Until a Machine is gone.
pub const GONE: Duration = Duration::from_secs(60);
/// Until a Machine says what is wrong with it.
pub const SAID: Duration = Duration::from_secs(30);
/// Port of hagane's image server.
const IMAGE_PORT: u16 = 8081;

/// A lab with hagane in it.
pub struct Site<'a> {
    pub lab: &'a Lab,
    pub server: Server<'a>,
    begin: Instant,
}

/// What machines left or hold at the hypervisor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Names of all domains.
    pub domains: BTreeSet<String>,
    /// All volumes of all active pools but base images, as pool/name.
    pub volumes: BTreeSet<String>,
    /// MAC addresses with a lease or a reservation in a network, as network/MAC.
    pub addresses: BTreeSet<String>,
}

/// Runs a test in a lab of its own with hagane started. Where it fails, the error ends with what hagane logged last.
pub fn in_lab(test: &str, flags: &[String], work: impl FnOnce(&mut Site<'_>) -> Result<()>) -> Result<()> {
    if !support::can_run(test) {
        return Ok(());
    }
    let begin = Instant::now();
    let tools = support::tools()?;
    let lab = Lab::up(&LabOptions { progress: Progress::Silent, ..LabOptions::default() })?;
    println!("{test}: lab {} after {:.1} s", lab.description().id, begin.elapsed().as_secs_f64());
    let serve = format!("{}:{IMAGE_PORT}", lab.description().machine_gateway);
    let options = ServerOptions { listen: "127.0.0.1:6440".to_owned(), serve, flags: flags.to_vec(), stays: false };
    let server = Server::start(&lab, &tools, options)?;
    let mut site = Site { lab: &lab, server, begin };
    let outcome = work(&mut site).with_context(|| site.last_words());
    println!(
        "{test}: {} after {:.1} s",
        if outcome.is_ok() { "good" } else { "FAILED" },
        begin.elapsed().as_secs_f64()
    );
    drop(site);
    lab.down()?;
    outcome
}

impl Site<'_> {
    /// Runs a step and says so.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let outcome = work(self).with_context(|| format!("step: {name}"));
        let word = if outcome.is_ok() { "" } else { ": FAILED" };
        let (took, whole) = (begin.elapsed().as_secs_f64(), self.begin.elapsed().as_secs());
        println!("  [{whole:>3} s] {name}{word} ({took:.1} s)");
        outcome
    }

    /// URL of a built image at hagane's own image server.
    pub fn image_url(&self, image: Image) -> Result<String> {
        let path = self.image_file(image)?;
        let name = path.file_name().context("an image has a name")?.to_string_lossy().into_owned();
        Ok(format!("http://{}:{IMAGE_PORT}/{name}", self.lab.description().machine_gateway))
    }

    pub fn tiny(&self) -> Result<String> {
        self.image_url(Image::Tiny)
    }

    /// A built image's file.
    pub fn image_file(&self, image: Image) -> Result<PathBuf> {
        let found = self.lab.description().images.iter().find(|built| built.image == image);
        Ok(found.with_context(|| format!("image {image:?} is built"))?.path.clone())
    }

    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        self.server.apply(&list(objects)).map(drop)
    }

    /// Starts the deletion of Machines and does not wait for its end.
    pub fn delete(&self, names: &[&str]) -> Result<()> {
        let mut arguments = vec!["delete", "machines.cluster.k8s.io", "--wait=false"];
        arguments.extend(names);
        self.server.kubectl(&arguments).map(drop)
    }

    /// All Machines of a group.
    pub fn machines(&self, group: &str) -> Result<Vec<Machine>> {
        let text = self.server.kubectl(&["get", &format!("machines.{group}"), "--output=json"])?;
        let mut answer: Value = serde_json::from_str(&text).context("kubectl prints JSON")?;
        let items = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        Ok(items.unwrap_or_default().into_iter().map(Machine).collect())
    }

    /// Waits until every one of these Machines of the released group is as wanted; gives them in the order asked for.
    pub fn wait_machines(
        &self,
        what: &str,
        names: &[&str],
        limit: Duration,
        wanted: impl Fn(&Machine) -> bool,
    ) -> Result<Vec<Machine>> {
        self.wait_machines_in(RELEASED, what, names, limit, wanted)
    }

    /// The same in any group.
    pub fn wait_machines_in(
        &self,
        group: &str,
        what: &str,
        names: &[&str],
        limit: Duration,
        wanted: impl Fn(&Machine) -> bool,
    ) -> Result<Vec<Machine>> {
        wait_for(what, limit, || {
            let all = self.machines(group)?;
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for name in names {
                match all.iter().find(|machine| machine.name() == *name) {
                    Some(machine) if wanted(machine) => found.push(machine.clone()),
                    Some(machine) => missing.push(machine.line()),
                    None => missing.push(format!("{name} is not there")),
                }
            }
            Ok(if missing.is_empty() { Ok(found) } else { Err(missing.join("; ")) })
        })
    }

    /// Waits until these Machines run and have an address.
    pub fn wait_ready(&self, names: &[&str]) -> Result<Vec<Machine>> {
        self.wait_machines("Machines run with an address", names, BOOT, |machine| {
            machine.reason("Ready") == "Running" && !machine.address().is_empty()
        })
    }

    /// Waits until these Machines' domains run, with or without an address.
    pub fn wait_running(&self, names: &[&str]) -> Result<Vec<Machine>> {
        self.wait_machines("Machines run", names, BOOT, |machine| machine.phase() == "Running")
    }

    /// Waits until these Machines give this reason.
    pub fn wait_reason(&self, names: &[&str], reason: &str) -> Result<Vec<Machine>> {
        self.wait_machines(&format!("Machines say {reason}"), names, SAID, |machine| machine.reason("Ready") == reason)
    }

    /// Waits until none of these Machines is left.
    pub fn wait_gone(&self, names: &[&str], limit: Duration) -> Result<()> {
        wait_for("Machines are gone", limit, || {
            let left: Vec<_> = self.machines(RELEASED)?.into_iter().filter(|one| names.contains(&one.name())).collect();
            let lines: Vec<_> = left.iter().map(Machine::line).collect();
            Ok(if left.is_empty() { Ok(()) } else { Err(lines.join("; ")) })
        })
    }

    /// Deletes Machines and waits until they are gone. Nothing that carries their uids may be left then.
    pub fn remove(&self, names: &[&str]) -> Result<()> {
        let removed: Vec<_> = self.machines(RELEASED)?.into_iter().filter(|one| names.contains(&one.name())).collect();
        self.delete(names)?;
        self.wait_gone(names, GONE)?;
        let holdings = self.holdings()?;
        for machine in removed {
            let left: Vec<_> = holdings.volumes.iter().filter(|name| name.contains(machine.uid())).collect();
            ensure!(left.is_empty(), "{} is gone and left {left:?}", machine.name());
        }
        Ok(())
    }

    /// Runs virsh.
    pub fn virsh(&self, words: &[&str]) -> Result<String> {
        let argv = ["virsh", "--quiet", "--connect", "qemu:///system"].iter().chain(words).copied();
        self.run(argv)
    }

    /// Runs a program in the lab that must end well.
    pub fn run<'s>(&self, argv: impl IntoIterator<Item = &'s str>) -> Result<String> {
        let argv: Vec<&str> = argv.into_iter().collect();
        let output = self.lab.exec(argv.iter().copied())?;
        if !output.status.success() {
            bail!("{} failed: {}", argv.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes a file into the lab's directory, which is seen inside under the same path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Result<String> {
        let path = self.lab.directory().join(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// Defines a network 192.168.`subnet`.0/24 with DHCP, and starts it where asked to.
    pub fn define_network(&self, name: &str, subnet: u8, started: bool) -> Result<()> {
        let xml = format!(
            "<network><name>{name}</name><forward mode='open'/><bridge name='virbr{subnet}' stp='off' delay='0'/>\
             <ip address='192.168.{subnet}.1' netmask='255.255.255.0'><dhcp>\
             <range start='192.168.{subnet}.100' end='192.168.{subnet}.200'/></dhcp></ip></network>"
        );
        let file = self.file(&format!("network-{name}.xml"), xml)?;
        self.virsh(&["net-define", &file])?;
        if started {
            self.virsh(&["net-start", name])?;
        }
        Ok(())
    }

    /// The file of a path that the lab covers with a layer of its own (below /etc, /var/lib, …), seen from outside.
    pub fn outside(&self, path: &str) -> PathBuf {
        let mut parts = path.trim_start_matches('/').splitn(3, '/');
        let first = parts.next().unwrap_or_default();
        let layers = self.lab.directory().join("layers");
        if first == "etc" {
            return layers.join(path.trim_start_matches('/'));
        }
        let second = parts.next().unwrap_or_default();
        layers.join(format!("{first}-{second}")).join(parts.next().unwrap_or_default())
    }

    /// What is at the hypervisor now.
    pub fn holdings(&self) -> Result<Holdings> {
        let domains = lines(&self.virsh(&["list", "--all", "--name"])?).into_iter().collect();
        let mut holdings = Holdings { domains, ..Holdings::default() };
        for pool in lines(&self.virsh(&["pool-list", "--name"])?) {
            for volume in lines(&self.virsh(&["vol-list", &pool])?) {
                let name = volume.split_whitespace().next().unwrap_or_default();
                if !name.starts_with("hagane-base-") {
                    holdings.volumes.insert(format!("{pool}/{name}"));
                }
            }
        }
        // Also what libvirtd does not know of.
        let files = std::fs::read_dir(self.outside("/var/lib/libvirt/images")).into_iter().flatten().flatten();
        let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let files = files.filter(|name| !name.starts_with("hagane-base-"));
        holdings.volumes.extend(files.map(|name| format!("default/{name}")));
        for network in lines(&self.virsh(&["net-list", "--name"])?) {
            let leases = self.virsh(&["net-dhcp-leases", &network])?;
            let reservations = self.virsh(&["net-dumpxml", &network])?;
            let words = leases.split_whitespace().chain(reservations.split('\''));
            holdings.addresses.extend(words.filter(|word| is_machine_mac(word)).map(|mac| format!("{network}/{mac}")));
        }
        Ok(holdings)
    }

    /// Nothing of any machine may be at the hypervisor, and no Secret with a host key in the API.
    pub fn expect_nothing_left(&self) -> Result<()> {
        let holdings = self.holdings()?;
        ensure!(holdings == Holdings::default(), "left at the hypervisor: {holdings:?}");
        // The collector of owned objects may be a moment behind.
        wait_for("no Secret is left", SAID, || {
            let secrets = self.server.kubectl(&["get", "secrets", "--output=name"])?;
            Ok(if secrets.trim().is_empty() { Ok(()) } else { Err(secrets) })
        })
    }

    /// Exactly one domain, one root volume and one seed of the Machine, all found by its uid.
    pub fn expect_one_of_each(&self, machine: &Machine) -> Result<()> {
        let holdings = self.holdings()?;
        let mut owned = 0;
        for domain in &holdings.domains {
            owned += usize::from(self.virsh(&["dumpxml", domain])?.contains(machine.uid()));
        }
        let volumes: Vec<_> = holdings.volumes.iter().filter(|name| name.contains(machine.uid())).collect();
        let of = |part: &str| volumes.iter().filter(|name| name.contains(part)).count();
        let seen = (owned, of("root"), of("seed"), volumes.len());
        ensure!(seen == (1, 1, 1, 2), "{} has {seen:?} domains, roots, seeds, volumes: {holdings:?}", machine.name());
        let uuid = self.virsh(&["domuuid", machine.text("/status/providerStatus/domain")])?;
        ensure!(machine.instance() == uuid.trim(), "instanceID {} is not domuuid {uuid}", machine.instance());
        let provider_id = machine.text("/spec/providerID");
        ensure!(provider_id == format!("libvirt:///{}", uuid.trim()), "provider id {provider_id} is not of {uuid}");
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.server.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(60).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        format!("{:?}\nhagane's log ends with:\n{}\n", self.holdings(), lines.join("\n"))
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Whether a word is a MAC address other than that of the lab's own bridge: ours begin with `52:` alone.
fn is_machine_mac(word: &str) -> bool {
    let octets: Vec<_> = word.split(':').collect();
    octets.len() == 6
        && octets.iter().all(|octet| octet.len() == 2 && octet.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && word.starts_with("52:")
        && !word.starts_with("52:54:00")
}
