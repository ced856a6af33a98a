//! Writing results: objects as JSON or YAML, tables and ages for people.

use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;

use crate::CliError;
use crate::args::Format;

/// Writes text to standard output. A closed pipe is no error: the reader had enough.
pub(crate) fn write(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Output(source.into())),
        _ => Ok(()),
    }
}

/// A value in a format.
///
/// # Errors
/// [`CliError::Output`] where the value has no such form.
pub fn render(value: &impl Serialize, format: Format) -> Result<String, CliError> {
    match format {
        Format::Json => serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .map_err(|source| CliError::Output(source.into())),
        Format::Yaml => serde_saphyr::to_string(value)
            .map_err(|source| CliError::Output(source.into()))
            .map(|text| if text.ends_with('\n') { text } else { text + "\n" }),
    }
}

/// Columns padded to their widest cell, two blanks between; the last one is not padded.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Time between two moments in one or two units, as kubectl prints it.
pub(crate) fn age(from: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - from.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{minutes}m{}s", seconds % 60),
        600..7200 => format!("{minutes}m"),
        7200..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Now, for ages.
#[allow(clippy::disallowed_methods, reason = "a command prints ages; nothing is decided by them")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_to_the_widest_cell() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["äää".to_owned(), "c".to_owned()]];
        assert_eq!(table(&rows), "a    b\näää  c\n");
    }

    #[test]
    fn ages_shrink_to_one_unit() {
        let at = |second| Timestamp::from_second(second).expect("a valid time");
        let ages: Vec<_> = [5, 121, 660, 7300, 200_000].iter().map(|second| age(at(0), at(*second))).collect();
        assert_eq!(ages, ["5s", "2m1s", "11m", "2h", "2d"]);
        assert_eq!(age(at(10), at(0)), "0s");
    }
}
