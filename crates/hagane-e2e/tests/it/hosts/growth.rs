//! A cluster that stands and gets more.

use anyhow::{Result, ensure};
use hagane_testkit::road::{Workload, host_manifests};

use super::outcome::workload;
use super::road::{AT_FIRST, CLUSTER, ask_for_workers};
use super::site::{INSTALLED, Site, condition, line, text};

/// A worker is added by an edit: the cluster stays ready, its nodes stay what they are, and the new one works.
pub fn a_further_worker(site: &Site<'_>) -> Result<()> {
    let workload = workload(site)?;
    let earlier = node_uids(&workload)?;
    let before = site.run_directory(&site.provisioning(CLUSTER)?);
    site.server.apply(&host_manifests(&site.hosts()[AT_FIRST..]))?;
    ask_for_workers(site, 3)?;
    let mut not_ready = None;
    let seen = site.wait_provisioning("a further worker", CLUSTER, INSTALLED, |seen| {
        let ready = condition(seen, "Ready").is_some_and(|ready| ready["status"] == "True");
        not_ready = not_ready.take().or_else(|| (!ready).then(|| line(seen)));
        let standing = seen.pointer("/status/installed/nodes").and_then(|nodes| nodes.as_array()).map_or(0, Vec::len);
        standing == 4 || text(seen, "/status/phase") == "Failed"
    })?;
    ensure!(not_ready.is_none(), "the cluster was told not to be ready: {not_ready:?}");
    ensure!(
        text(&seen, "/status/run/verb") == "AddWorkers" && text(&seen, "/status/phase") == "Ready",
        "{}",
        line(&seen)
    );
    ensure!(condition(&seen, "UpToDate").is_some_and(|told| told["status"] == "True"), "{}", line(&seen));
    let (runs, now) = (site.run_directories()?, site.run_directory(&seen));
    ensure!(now != before && runs.contains(&before) && runs.contains(&now), "runs {runs:?}");
    let nodes = workload.wait_for_nodes(4)?;
    ensure!(nodes.iter().any(|node| node.name == format!("{CLUSTER}-worker-3")), "{nodes:?}");
    let now = node_uids(&workload)?;
    ensure!(earlier.iter().all(|node| now.contains(node)), "{earlier:?} became {now:?}");
    workload.remove_pods()?;
    let [old, new] = [1, 3].map(|index| format!("{CLUSTER}-worker-{index}"));
    workload.try_pods(&new, &old)?.iter().for_each(|line| println!("        {line}"));
    Ok(())
}

fn node_uids(workload: &Workload<'_>) -> Result<Vec<String>> {
    let filter = "jsonpath={range .items[*]}{.metadata.name}={.metadata.uid}{\"\\n\"}{end}";
    let text = workload.kubectl(&["get", "nodes", "--output", filter])?;
    Ok(text.lines().map(str::to_owned).collect())
}
