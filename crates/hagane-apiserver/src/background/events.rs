//! Events are kept for a while only.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::object;
use crate::registry::EVENTS;
use crate::state::Core;

/// How long an event is kept after it happened last.
const TIME_TO_LIVE: SignedDuration = SignedDuration::from_hours(1);
const SWEEP_PERIOD: Duration = Duration::from_secs(300);

/// Removes events that are too old, now and then, until the server stops.
pub(crate) async fn expire(core: Arc<Core>) {
    let mut timer = tokio::time::interval(SWEEP_PERIOD);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = timer.tick() => sweep(&core, crate::clock::now()).await,
        }
    }
}

async fn sweep(core: &Core, now: Timestamp) {
    for entry in core.store.list(EVENTS, None).iter() {
        let old = object::from_entry(entry).is_ok_and(|event| is_old(&event, now));
        // One that changed meanwhile is no longer old; other failures are met again at the next sweep.
        if old && let Err(error) = core.remove(entry).await {
            tracing::debug!(%error, "an old event stays for now");
        }
    }
}

fn is_old(event: &Value, now: Timestamp) -> bool {
    let times = ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"];
    let time =
        |pointer: &&str| event.pointer(pointer).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let last = times.iter().filter_map(time).max();
    last.is_none_or(|last| now.duration_since(last) > TIME_TO_LIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_from_its_last_sight() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let event =
            |last: &str| json!({"metadata": {"creationTimestamp": "2026-01-01T01:00:00Z"}, "lastTimestamp": last});
        assert!(is_old(&event("2026-01-01T10:59:00Z"), now));
        assert!(!is_old(&event("2026-01-01T11:30:00Z"), now));
    }
}
