//! Logs go to standard error, as lines for people or as JSON.

use hagane_cli::args::LogFormat;
use tracing_subscriber::EnvFilter;

/// Target of the one line that tells that the API answers: programs wait for it, so that no level hides it.
pub const READY: &str = "hagane::ready";

/// Installs the logger of the process.
///
/// # Errors
/// Says which filter directive cannot be parsed.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|error| anyhow::anyhow!("--log-level: {level:?} is not possible: {error}"))?;
    let always = format!("{READY}=info").parse();
    let filter = filter.add_directive(always.map_err(|error| anyhow::anyhow!("the filter's own directive: {error}"))?);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
