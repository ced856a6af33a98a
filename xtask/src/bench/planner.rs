//! The role planner on structs in memory: time and peak memory of whole plans, with all their reasons.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hagane_api::quantity::{ByteSize, GIB, MemoryMib, MilliCpus};
use hagane_plan::roles::{Demand, HostFacts, Needs, NodeRole, plan_roles};

use super::figure::Figure;

struct Case {
    /// Name of its figures.
    figure: &'static str,
    hosts: usize,
    demands: usize,
    shapes: u64,
    /// Masters, and how many shapes they have.
    masters: (usize, u64),
    domains: u64,
    runs: usize,
}

const CASES: [Case; 6] = [
    Case {
        figure: "planner_one_domain",
        hosts: 10_000,
        demands: 500,
        shapes: 50,
        masters: (5, 1),
        domains: 1,
        runs: 30,
    },
    Case { figure: "planner_10000", hosts: 10_000, demands: 500, shapes: 50, masters: (5, 1), domains: 20, runs: 30 },
    Case {
        figure: "planner_mixed_masters",
        hosts: 10_000,
        demands: 500,
        shapes: 50,
        masters: (5, 3),
        domains: 20,
        runs: 30,
    },
    Case { figure: "planner_scarce", hosts: 520, demands: 500, shapes: 50, masters: (5, 1), domains: 20, runs: 30 },
    Case {
        figure: "planner_100000",
        hosts: 100_000,
        demands: 1000,
        shapes: 50,
        masters: (5, 1),
        domains: 20,
        runs: 10,
    },
    Case {
        figure: "planner_distinct",
        hosts: 100_000,
        demands: 1000,
        shapes: 1000,
        masters: (5, 1),
        domains: 20,
        runs: 3,
    },
];

pub(super) fn run() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for case in &CASES {
        let (hosts, demands) = (hosts(case), demands(case));
        reset_peak()?;
        let (mut times, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..case.runs {
            let (start, processor) = (Instant::now(), processor_seconds()?);
            let plan = plan_roles(black_box(&hosts), black_box(&demands), &[]);
            times.push(start.elapsed().as_secs_f64());
            busy.push(processor_seconds()? - processor);
            ensure!(
                plan.assignments.len() + plan.unsatisfied.len() == demands.len(),
                "the plan of {} lost a demand",
                case.figure
            );
        }
        let name = case.figure;
        figures.push(Figure::middle(format!("{name}.seconds"), times, "s"));
        // On a machine that does other work too this says what the plan alone costs.
        figures.push(Figure::middle(format!("{name}.processor_seconds"), busy, "s"));
        figures.push(Figure::once(format!("{name}.rss_mib"), peak_mib()?, "MiB"));
    }
    Ok(figures)
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64: good enough to mix sizes, and no dependency.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn hosts(case: &Case) -> Vec<HostFacts> {
    let mut numbers = Numbers(1);
    let host = |number: usize| HostFacts {
        name: format!("host-{number:06}"),
        cpus: Some(MilliCpus((4 + 4 * numbers.below(32)) * 1000)),
        memory: Some(MemoryMib((8 + 8 * numbers.below(64)) * 1024)),
        disk: Some(ByteSize((100 + 100 * numbers.below(20)) * GIB)),
        failure_domain: Some(format!("rack-{}", numbers.below(case.domains))),
        sriov: Some(numbers.below(4) == 0),
        ..HostFacts::default()
    };
    (0..case.hosts).map(host).collect()
}

fn demands(case: &Case) -> Vec<Demand> {
    let mut numbers = Numbers(2);
    let mut shape = || Needs {
        cpu: MilliCpus((1 + numbers.below(96)) * 1000),
        memory: ByteSize((1 + numbers.below(384)) * GIB),
        disk: ByteSize(numbers.below(1000) * GIB),
        sriov: numbers.below(8) == 0,
        ..Needs::default()
    };
    let shapes: Vec<Needs> = (0..case.shapes).map(|_| shape()).collect();
    let (masters, master_shapes) = case.masters;
    let demand = |number: usize| {
        let master = number < masters;
        let shape = number as u64 % if master { master_shapes } else { case.shapes };
        Demand {
            node: format!("node-{number}"),
            roles: vec![if master { NodeRole::Master } else { NodeRole::Worker }],
            needs: shapes.get(usize::try_from(shape).unwrap_or(0)).cloned().unwrap_or_default(),
        }
    };
    (0..case.demands).map(demand).collect()
}

/// Time that this thread was on a processor.
fn processor_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").context("failed to read the processor time")?;
    let nanoseconds: f64 = stat.split_whitespace().next().unwrap_or("0").parse().context("failed to read a number")?;
    Ok(nanoseconds / 1e9)
}

fn reset_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("failed to reset the peak memory")
}

fn peak_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("failed to read the peak memory")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the kernel tells no peak memory")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().context("failed to read the peak memory")?;
    Ok(kib / 1024.0)
}
