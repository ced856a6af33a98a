//! Images that cannot be had, are none, or do not fit; and servers that do things their own way.

use anyhow::{Context, Result, ensure};
use hagane_libvirt::seed::seed_image;
use hagane_ports::CloudInitFiles;
use serde_json::{Value, json};

use super::console;
use super::image_server::ImageServer;
use super::objects::{Machine, machine};
use super::site::{BOOT, Holdings, SAID, Site, in_lab};

/// Name of the Machine, path at the server, and a word that its message must hold beside the URL.
const BAD: [(&str, &str, &str); 9] = [
    ("missing", "missing", "404"),
    ("loop", "loop", "redirect"),
    ("cut", "cut", ""),
    ("empty", "empty", "empty"),
    ("page", "page", "HTML"),
    ("words", "words.qcow2", "text"),
    ("archive", "archive.xz", "xz"),
    ("backed", "backed", "backing file"),
    ("other", "other", "checksum"),
];

#[test]
fn bad_images_are_named_never_booted_and_tried_again() -> Result<()> {
    in_lab("machines::images", &[], |site| {
        let server = site.step("a server of good and bad images", |site| ImageServer::start(site))?;
        let names = BAD.map(|(name, ..)| name);
        site.step("each bad image is told of with URL and cause; nothing is in the pool", |site| {
            expect_told(site, &server)
        })?;
        site.step("an image within reach of the management host only is refused", |site| expect_refused(site))?;
        site.step("redirects, no HEAD, no length and raw images work", |site| expect_unusual(site, &server))?;
        site.step("a slow image shows how far it is; hagane is killed meanwhile and goes on", |site| {
            expect_progress(site, &server)
        })?;
        site.step("a seed that the user named is read as it is; a missing one is told of", |site| {
            expect_named_seed(site, &server)
        })?;
        site.step("the server is repaired; all Machines go on", |site| {
            server.repair()?;
            let machines = site.wait_running(&names)?;
            machines.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
            site.remove(&names)
        })?;
        site.step("root disks are as large as asked and never smaller than the image", |site| {
            expect_sizes(site, &server)
        })?;
        site.step("nothing is left", |site| site.expect_nothing_left())
    })
}

fn expect_told(site: &Site<'_>, server: &ImageServer) -> Result<()> {
    let digest = format!("sha256:{}", server.good_sha256);
    let fields = |name: &str| if name == "other" { json!({"imageChecksum": digest}) } else { json!({}) };
    site.apply(&BAD.map(|(name, path, _)| machine(name, &server.url(path), fields(name))))?;
    for (name, path, word) in BAD {
        let found = site.wait_reason(&[name], "ImageFailed")?.remove(0);
        let message = found.message("Ready").to_lowercase();
        let (url, word) = (server.url(path), word.to_lowercase());
        ensure!(message.contains(&url) && message.contains(&word), "{name}: {message:?} names not {url} and {word:?}");
        println!("    {}", found.line());
    }
    expect_empty_pool(site)
}

fn expect_empty_pool(site: &Site<'_>) -> Result<()> {
    let volumes = site.virsh(&["vol-list", "default"])?;
    ensure!(volumes.trim().is_empty() && site.holdings()? == Holdings::default(), "in the pool: {volumes}");
    Ok(())
}

fn expect_refused(site: &Site<'_>) -> Result<()> {
    let cases = [
        ("loopback", "http://127.0.0.1:8090/good", "loopback"),
        ("metadata", "http://169.254.169.254/latest/meta-data", "link-local"),
        ("outside", "file:///etc/passwd", "file:///etc/passwd"),
    ];
    site.apply(&cases.map(|(name, url, _)| machine(name, url, json!({}))))?;
    for (name, url, word) in cases {
        let found = site.wait_reason(&[name], "ImageFailed")?.remove(0);
        ensure!(
            found.message("Ready").contains(word),
            "{name}: {url} and {word:?} are not in {:?}",
            found.message("Ready")
        );
    }
    expect_empty_pool(site)?;
    site.remove(&cases.map(|(name, ..)| name))
}

fn expect_unusual(site: &Site<'_>, server: &ImageServer) -> Result<()> {
    let names = ["moved", "plainly", "chunked", "odd"];
    let url = |name: &str| server.url(if name == "plainly" { "good" } else { name });
    site.apply(&names.map(|name| machine(name, &url(name), json!({}))))?;
    let machines = site.wait_running(&names)?;
    machines.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
    // A whole number of sectors, and so no end of updates.
    expect_capacity(site, machines[3].uid(), 1_000_448)?;
    let versions = |site: &Site<'_>| -> Result<Vec<Value>> {
        Ok(site
            .machines(super::objects::RELEASED)?
            .iter()
            .filter(|one| one.name() == "odd")
            .map(|one| one.0["status"].clone())
            .collect())
    };
    let before = versions(site)?;
    std::thread::sleep(std::time::Duration::from_secs(5));
    ensure!(before == versions(site)?, "the status goes on changing");
    site.remove(&names)
}

fn expect_progress(site: &mut Site<'_>, server: &ImageServer) -> Result<()> {
    site.apply(&[machine("slow", &server.url("slow"), json!({}))])?;
    let moving = |one: &Machine| one.reason("Ready") == "ImageFetching" && one.message("Ready").contains('%');
    let seen = site.wait_machines("the message tells how far", &["slow"], SAID, moving)?;
    println!("    {}", seen[0].line());
    site.server.crash_and_restart()?;
    let running = site.wait_running(&["slow"])?;
    site.expect_one_of_each(&running[0])?;
    site.remove(&["slow"])
}

fn expect_named_seed(site: &Site<'_>, server: &ImageServer) -> Result<()> {
    let files = CloudInitFiles {
        user_data: b"#!/bin/sh\necho by-user-data > /run/told\n".to_vec(),
        meta_data: b"instance-id: named-seed-1\nlocal-hostname: named-by-seed\n".to_vec(),
        network_config: None,
    };
    server.offer("seed", &seed_image(&files).context("make a seed")?)?;
    let headless = CloudInitFiles { user_data: b"users: [hunter2]\n".to_vec(), ..files };
    server.offer("headless", &seed_image(&headless).context("make a seed")?)?;
    let tiny = site.tiny()?;
    let with_seed = |name, path| machine(name, &tiny, json!({"userDataURI": server.url(path)}));
    site.apply(&[
        with_seed("seeded", "seed.iso"),
        with_seed("seedless", "missing"),
        with_seed("wordy", "words"),
        with_seed("headless", "headless.iso"),
    ])?;
    let bad =
        [("seedless", "missing", "404"), ("wordy", "words", "text"), ("headless", "headless.iso", "#cloud-config")];
    for (name, path, word) in bad {
        let told = site.wait_reason(&[name], "SeedFailed")?.remove(0);
        let message = told.message("Ready");
        ensure!(message.contains(&server.url(path)) && message.contains(word), "{}", told.line());
        ensure!(!message.contains("hunter2"), "user-data is shown: {message}");
    }
    let seeded = site.wait_ready(&["seeded"])?.remove(0);
    site.expect_one_of_each(&seeded)?;
    let line = "hostname; cat /mnt/meta-data; while [ ! -s /run/told ]; do sleep 1; done; cat /run/told";
    let seen = console::run(site, seeded.text("/status/providerStatus/domain"), line)?;
    for word in ["named-by-seed", "instance-id: named-seed-1", "by-user-data"] {
        ensure!(seen.contains(word), "{word:?} is not in {seen:?}");
    }
    site.remove(&["seeded", "seedless", "wordy", "headless"])
}

fn expect_sizes(site: &Site<'_>, server: &ImageServer) -> Result<()> {
    let names = ["five", "ten", "plain", "twenty"];
    let sizes = [json!({"diskInGB": 5}), json!({"diskInGB": 10}), json!({}), json!({"diskInGB": 20})];
    let objects: Vec<_> = names.iter().zip(sizes).map(|(name, size)| machine(name, &server.url("ten"), size)).collect();
    site.apply(&objects)?;
    let refused = site.wait_machines("the smaller disk is refused", &["five"], SAID, |one| one.phase() == "Failed")?;
    let message = refused[0].message("Ready");
    ensure!(message.contains("diskInGB") && message.contains('5') && message.contains("10"), "{message:?}");
    let machines = site.wait_machines("the others run", &names[1..], BOOT, |one| one.phase() == "Running")?;
    for (machine, gib) in machines.iter().zip([10_u64, 10, 20]) {
        expect_capacity(site, machine.uid(), gib << 30)?;
    }
    let holdings = site.holdings()?;
    ensure!(
        !holdings.volumes.iter().any(|name| name.contains(refused[0].uid())),
        "made for the refused one: {holdings:?}"
    );
    site.remove(&names)
}

fn expect_capacity(site: &Site<'_>, uid: &str, bytes: u64) -> Result<()> {
    let info = site.virsh(&["vol-info", "--bytes", "--pool", "default", &format!("hagane-{uid}-root.qcow2")])?;
    let capacity = info.lines().find_map(|line| line.strip_prefix("Capacity:")).unwrap_or_default();
    ensure!(capacity.split_whitespace().next() == Some(&bytes.to_string()), "not {bytes} bytes: {info}");
    Ok(())
}
