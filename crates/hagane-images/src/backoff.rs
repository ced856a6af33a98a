//! How long to wait after a failure.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::fault::Retry;

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);
/// A server may ask for more than our own longest delay, but not for ever.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// Delay after the `failures`-th failure in a row (1 is the first); `None` where waiting cannot help.
pub(crate) fn delay(retry: Retry, failures: u32) -> Option<Duration> {
    let growing = FIRST.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX)).min(LONGEST);
    let usual = jittered(growing, RandomState::new().hash_one(failures));
    match retry {
        Retry::Never => None,
        Retry::Backoff => Some(usual),
        Retry::NotBefore(asked) => Some(usual.max(asked.min(LONGEST_ASKED))),
    }
}

/// Up to a quarter less, so that requests that failed together do not come back together.
fn jittered(delay: Duration, random: u64) -> Duration {
    let per_mille = 1000 - u32::try_from(random % 251).unwrap_or(0);
    delay * per_mille / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_five_minutes_and_stays_there() {
        let mut before = Duration::ZERO;
        for failures in 1..=8 {
            let now = delay(Retry::Backoff, failures).expect("waiting helps");
            assert!(now > before, "{now:?} after {before:?}");
            before = now;
        }
        for failures in [9, 31, 32, 33, u32::MAX] {
            let now = delay(Retry::Backoff, failures).expect("waiting helps");
            assert!(now <= LONGEST && now >= LONGEST * 3 / 4, "{now:?}");
        }
    }

    #[test]
    fn honours_what_the_server_asks_within_reason() {
        assert_eq!(delay(Retry::NotBefore(Duration::from_secs(1000)), 1), Some(Duration::from_secs(1000)));
        assert_eq!(delay(Retry::NotBefore(Duration::from_secs(1_000_000)), 1), Some(LONGEST_ASKED));
        assert!(delay(Retry::NotBefore(Duration::ZERO), 5) > Some(Duration::from_secs(20)));
        assert_eq!(delay(Retry::Never, 1), None);
    }
}
