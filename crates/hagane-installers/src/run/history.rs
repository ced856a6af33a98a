//! How long good runs took, kept below the data directory, and what that leads to expect.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::intent::RunKind;

/// Name of the file, in the directory of the runs.
pub const FILE: &str = "history.jsonl";
/// Size at which old entries go.
const BYTES_MAX: u64 = 256 * 1024;
/// Entries of the same kind that count: the newest.
const ENTRIES_USED: usize = 5;

/// One good run.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    kind: RunKind,
    seconds: f64,
}

/// Adds a good run.
///
/// # Errors
/// Whatever the file system says.
pub fn add(runs: &Path, kind: &RunKind, length: Duration) -> io::Result<()> {
    let path = runs.join(FILE);
    // The line end before it keeps it apart from a line that a crash tore.
    let line = format!("\n{}\n", serde_json::to_string(&Entry { kind: kind.clone(), seconds: length.as_secs_f64() })?);
    let mut file = OpenOptions::new().create(true).append(true).mode(0o640).open(&path)?;
    // One write a line: what two supervisors add at once does not mix.
    file.write_all(line.as_bytes())?;
    if file.metadata()?.len() <= BYTES_MAX {
        return Ok(());
    }
    let text = fs::read_to_string(&path)?;
    // The newer half.
    let half = text.len() - text.len() / 2;
    let newer = text.match_indices('\n').map(|(at, _)| at + 1).find(|at| *at >= half).unwrap_or(half);
    let kept = text.get(newer..).unwrap_or_default();
    let beside = runs.join(format!("{FILE}.new"));
    fs::write(&beside, kept)?;
    fs::rename(beside, path)
}

/// How long a run of this kind is to be expected to take. Runs on as many nodes are the best witness; runs on at least two
/// other numbers of nodes show how the time grows; anything less gives no estimate.
#[must_use]
pub fn estimate(runs: &Path, kind: &RunKind) -> Option<Duration> {
    let text = fs::read_to_string(runs.join(FILE)).ok()?;
    let alike = |entry: &Entry| {
        (entry.kind.installer, &entry.kind.verb, &entry.kind.version) == (kind.installer, &kind.verb, &kind.version)
            && entry.seconds.is_finite()
            && entry.seconds >= 0.0
    };
    // A line that is none, as a crash may leave one, says nothing.
    let entries = text.lines().rev().filter_map(|line| serde_json::from_str::<Entry>(line).ok()).filter(alike);
    let points: Vec<(u32, f64)> = entries.map(|entry| (entry.kind.nodes, entry.seconds)).collect();
    let mut same: Vec<f64> =
        points.iter().filter(|(nodes, _)| *nodes == kind.nodes).map(|(_, seconds)| *seconds).collect();
    same.truncate(ENTRIES_USED);
    let seconds = if same.is_empty() { on_the_line(&points, kind.nodes)? } else { median(same)? };
    Duration::try_from_secs_f64(seconds).ok()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The value at `nodes` of the straight line nearest to the points; not far beyond them.
fn on_the_line(points: &[(u32, f64)], nodes: u32) -> Option<f64> {
    let counts: BTreeSet<u32> = points.iter().map(|(nodes, _)| *nodes).collect();
    let (least, most) = (*counts.first()?, *counts.last()?);
    if counts.len() < 2 || nodes < least / 2 || nodes > most.saturating_mul(2) {
        return None;
    }
    let number = f64::from(u32::try_from(points.len()).ok()?);
    let mean_nodes = points.iter().map(|(nodes, _)| f64::from(*nodes)).sum::<f64>() / number;
    let mean_seconds = points.iter().map(|(_, seconds)| seconds).sum::<f64>() / number;
    let (mut both, mut square) = (0.0, 0.0);
    for (nodes, seconds) in points {
        let off = f64::from(*nodes) - mean_nodes;
        both += off * (seconds - mean_seconds);
        square += off * off;
    }
    let value = mean_seconds + both / square * (f64::from(nodes) - mean_nodes);
    (value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use hagane_ports::installer::InstallerKind;

    use super::*;

    fn kind(verb: &str, version: &str, nodes: u32) -> RunKind {
        RunKind { installer: InstallerKind::Kubeadm, verb: verb.to_owned(), version: version.to_owned(), nodes }
    }

    fn seconds(place: &Path, kind: &RunKind) -> Option<u64> {
        estimate(place, kind).map(|length| length.as_secs())
    }

    #[test]
    fn expects_what_runs_alike_took_and_nothing_without_them() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path();
        let install = kind("Install", "1.36.3", 3);
        assert_eq!(seconds(place, &install), None);
        for length in [1000, 10, 12, 11, 500, 13] {
            add(place, &install, Duration::from_secs(length)).expect("written");
        }
        assert_eq!(seconds(place, &install), Some(12), "the middle of the newest five");
        for other in [kind("Upgrade", "1.36.3", 3), kind("Install", "1.36.4", 3), kind("Install", "1.36.3", 4)] {
            assert_eq!(seconds(place, &other), None, "{other:?}");
        }
    }

    #[test]
    fn grows_with_the_nodes_only_where_earlier_runs_show_how() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path();
        for (nodes, length) in [(2, 120), (4, 140), (4, 140)] {
            add(place, &kind("Install", "1", nodes), Duration::from_secs(length)).expect("written");
        }
        assert_eq!(seconds(place, &kind("Install", "1", 3)), Some(130));
        assert_eq!(seconds(place, &kind("Install", "1", 8)), Some(180));
        assert_eq!(seconds(place, &kind("Install", "1", 9)), None, "too far from what was seen");
    }

    #[test]
    fn lives_with_torn_lines_and_stays_small() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path();
        let install = kind("Install", &"v".repeat(500), 1);
        for number in 0..600 {
            add(place, &install, Duration::from_secs(number)).expect("written");
        }
        let path = place.join(FILE);
        assert!(fs::metadata(&path).expect("a file").len() <= BYTES_MAX + 1024);
        let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(b"{\"installer\":\"kube").expect("written");
        assert_eq!(seconds(place, &install), Some(597));
        add(place, &install, Duration::from_secs(600)).expect("written");
        assert_eq!(seconds(place, &install), Some(598));
    }
}
