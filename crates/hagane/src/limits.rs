//! What the operating system lets this process have at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Enough for every connection that the API takes, and for files and connections of runs, images and machines beside.
const OPEN_FILES: u64 = 16 * 1024;

/// Lets this process have as many files open as it may ask for: the customary limit of 1024 holds fewer connections than
/// the API takes, and a process without a free descriptor takes no request at all.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < OPEN_FILES) else { return };
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if wanted > current
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
    {
        warn!(%error, wanted, current, "the limit of open files stays as it is");
    } else if wanted < OPEN_FILES {
        warn!(limit = wanted, "few files may be open at once: with so many clients no further one gets an answer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_goes_as_high_as_is_wanted_or_allowed() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit { current: before.current.map(|current| current.min(512)), ..before };
        setrlimit(Resource::Nofile, low).expect("a limit may always be lowered");
        raise_open_files();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.maximum, before.maximum);
        assert!(after.current.is_none_or(|current| current >= before.maximum.unwrap_or(u64::MAX).min(OPEN_FILES)));
    }
}
