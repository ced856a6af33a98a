//! The planner: from facts, demands and recorded assignments to a plan.

use std::collections::HashMap;

use super::candidates::Problem;
use super::demand::{Demand, Recorded};
use super::facts::HostFacts;
use super::network::Network;
use super::report::{Plan, Violation, report};
use super::settle::settle;
use super::spread::Setup;

/// Chooses a host for every demand that is not recorded, by the goals of the module [`super`].
///
/// `demands` have distinct node names. Recorded assignments stay whatever became of their hosts; a recorded node that no
/// demand names keeps its host too. Where a demand cannot be met, [`Plan::unsatisfied`] says why, and nothing of the plan
/// should be installed. Time grows fast with the number of masters of different needs that can stand in several failure
/// domains: up to nine are quick.
#[must_use]
pub fn plan_roles(hosts: &[HostFacts], demands: &[Demand], recorded: &[Recorded]) -> Plan {
    let problem = Problem::new(hosts, demands, recorded);
    let (met, violations) = meet(&problem);
    let mut placed = vec![0; problem.shapes.len()];
    let served: Vec<usize> = problem
        .priority
        .iter()
        .copied()
        .filter(|demand| {
            let shape = problem.shape_of[*demand];
            placed[shape] += 1;
            placed[shape] <= met[shape]
        })
        .collect();
    let setup = Setup::new(&problem, &met);
    let spreads = setup.spreads;
    let (chosen, domains) = settle(&problem, setup, &served);
    let spread = domains.filter(|_| spreads);
    report(&problem, recorded, &chosen, &violations, spread)
}

/// Goal 2: how many demands of each shape are met (the first ones of its members), and what stands against the others.
fn meet(problem: &Problem<'_>) -> (Vec<usize>, Vec<Violation>) {
    let count = problem.shapes.len();
    let lanes: Vec<(Vec<usize>, Option<u32>)> = (0..count).map(|shape| (vec![shape], None)).collect();
    let mut network = Network::new(problem, &lanes, count, problem.recorded_masters.clone(), &[]);
    let mut met = vec![0; count];
    let mut violations: Vec<Violation> = Vec::new();
    let mut violation_of: HashMap<usize, usize> = HashMap::new();
    for demand in &problem.priority {
        let shape = problem.shape_of[*demand];
        if let Some(violation) = violation_of.get(&shape) {
            // What competes for hosts that all serve already can never be met later.
            violations[*violation].unmet.push(*demand);
            continue;
        }
        match network.place(shape) {
            Ok(()) => met[shape] += 1,
            Err(shapes) => {
                violation_of.insert(shape, violations.len());
                violations.push(Violation { shapes, unmet: vec![*demand] });
            }
        }
    }
    (met, violations)
}
