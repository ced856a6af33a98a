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
    pub(super) fn median(name: String, times: Vec<Duration>) -> Self {
        Self::middle(name, milliseconds(times), "ms")
    }

    /// The median of some numbers.
    pub(super) fn middle(name: String, mut numbers: Vec<f64>, unit: &'static str) -> Self {
        numbers.sort_unstable_by(f64::total_cmp);
        let spread = rounded(quartile(&numbers, 3) - quartile(&numbers, 1));
        Self { n: numbers.len(), spread, ..Self::once(name, quartile(&numbers, 2), unit) }
    }

    /// A figure that is measured once.
    pub(super) fn once(name: String, ours: f64, unit: &'static str) -> Self {
        let versions = format!("hagane {}", env!("CARGO_PKG_VERSION"));
        Self { name, ours: rounded(ours), peer: None, unit, ratio: None, n: 1, spread: 0.0, versions }
    }

    /// Beside the peer's times; none means there is no peer.
    pub(super) fn against(self, times: Vec<Duration>) -> Self {
        self.against_numbers(milliseconds(times))
    }

    /// Beside the peer's numbers, of which smaller ones are better; none means there is no peer.
    pub(super) fn against_numbers(mut self, mut numbers: Vec<f64>) -> Self {
        numbers.sort_unstable_by(f64::total_cmp);
        if !numbers.is_empty() {
            let peer = quartile(&numbers, 2);
            self.peer = Some(rounded(peer));
            self.ratio = (self.ours > 0.0).then(|| rounded(peer / self.ours));
        }
        self
    }

    /// Names what else was measured.
    pub(super) fn with_versions(mut self, further: Option<&str>) -> Self {
        if let Some(further) = further {
            self.versions = format!("{}, {further}", self.versions);
        }
        self
    }
}

fn milliseconds(times: Vec<Duration>) -> Vec<f64> {
    times.into_iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

fn quartile(sorted: &[f64], quarter: usize) -> f64 {
    sorted.get(sorted.len() * quarter / 4).copied().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_tells_how_many_times_better_ours_is() {
        let figure = Figure::middle("x".to_owned(), vec![3.0, 1.0, 2.0], "ms").against_numbers(vec![9.0, 7.0, 8.0]);
        assert_eq!((figure.ours, figure.peer, figure.ratio, figure.n), (2.0, Some(8.0), Some(4.0), 3));
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let figure = Figure::middle("x".to_owned(), vec![1.0], "ms").against_numbers(Vec::new());
        assert_eq!((figure.peer, figure.ratio), (None, None));
    }
}
