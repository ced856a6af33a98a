//! A measured figure, as a JSON line and as a row of a table.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// One figure.
#[derive(Serialize)]
pub(super) struct Figure {
    pub name: String,
    pub ours: f64,
    /// The peer's figure, where there is a peer.
    pub peer: Option<f64>,
    pub unit: &'static str,
    /// How many times better ours is.
    pub ratio: Option<f64>,
    /// Number of measurements.
    pub n: usize,
    /// Distance of the quartiles, in the unit.
    pub spread: f64,
    pub versions: String,
}

impl Figure {
    /// The median of some times, in milliseconds.
    pub(super) fn median(name: String, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |quarter: usize| times.get(times.len() * quarter / 4).copied().unwrap_or_default().as_secs_f64() * 1e3;
        Self { n: times.len(), spread: rounded(at(3) - at(1)), ..Self::once(name, at(2), "ms") }
    }

    /// A figure that is measured once.
    pub(super) fn once(name: String, ours: f64, unit: &'static str) -> Self {
        let versions = format!("hagane {}", env!("CARGO_PKG_VERSION"));
        Self { name, ours: rounded(ours), peer: None, unit, ratio: None, n: 1, spread: 0.0, versions }
    }
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[allow(clippy::print_stdout, reason = "the output of the command")]
pub(super) fn print(figures: &[Figure]) -> Result<()> {
    for figure in figures {
        println!("{}", serde_json::to_string(figure).context("failed to print a figure")?);
    }
    let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    println!();
    println!("{:width$}  {:>12}  {:>12}  {:>8}  {:>4}  {:>10}", "name", "ours", "peer", "ratio", "n", "spread");
    let optional = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"));
    for figure in figures {
        println!(
            "{:width$}  {:>9.2} {:<3}  {:>11}  {:>8}  {:>4}  {:>10.2}",
            figure.name,
            figure.ours,
            figure.unit,
            optional(figure.peer),
            optional(figure.ratio),
            figure.n,
            figure.spread
        );
    }
    Ok(())
}
