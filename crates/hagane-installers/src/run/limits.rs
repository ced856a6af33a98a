//! The limits of a run, kept on a clock that nobody can set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hagane_ports::installer::RunExit;
use tokio::time::{Instant, sleep_until};

use super::intent::Intent;
use super::layout::RunLayout;
use super::process::reap_adopted;
use crate::progress::ProgressReader;

/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Progress bytes taken in at once, and how often in one look.
const PROGRESS_BYTES: usize = 256 * 1024;
const PIECES_PER_LOOK: usize = 16;

/// Watches a run against its limits, over all its steps.
pub(super) struct LimitWatch {
    reader: ProgressReader,
    /// Bytes of output so far. They are a sign of life too: on a full disk there is no other.
    output: Arc<AtomicU64>,
    deadline: Instant,
    stall: Option<Duration>,
    play: Option<Duration>,
    seen: (u64, u64),
    alive_at: Instant,
    plays: u64,
    play_since: Instant,
}

impl LimitWatch {
    pub(super) fn new(layout: &RunLayout, intent: &Intent, output: Arc<AtomicU64>) -> Self {
        let now = Instant::now();
        Self {
            reader: ProgressReader::new(layout.work()),
            output,
            deadline: now + Duration::from_secs(intent.time_limit_seconds),
            stall: intent.stall_limit_seconds.map(Duration::from_secs),
            play: intent.play_limit_seconds.map(Duration::from_secs),
            seen: (0, 0),
            alive_at: now,
            plays: 0,
            play_since: now,
        }
    }

    /// Comes back when a limit is exceeded. Meanwhile takes leave of adopted processes that end; not of `child`.
    pub(super) async fn exceeded(&mut self, child: i32) -> RunExit {
        loop {
            sleep_until(self.deadline.min(Instant::now() + LOOK_EVERY)).await;
            reap_adopted(child);
            if let Some(exit) = self.look(Instant::now()) {
                return exit;
            }
        }
    }

    fn look(&mut self, now: Instant) -> Option<RunExit> {
        if now >= self.deadline {
            return Some(RunExit::TimedOut);
        }
        for _ in 0..PIECES_PER_LOOK {
            // A progress file that cannot be read shows nothing new, which is what counts.
            if !matches!(self.reader.advance(PROGRESS_BYTES), Ok(false)) {
                break;
            }
        }
        let seen = (self.reader.position(), self.output.load(Ordering::Relaxed));
        if seen != self.seen {
            (self.seen, self.alive_at) = (seen, now);
        }
        if self.reader.plays_begun() != self.plays {
            (self.plays, self.play_since) = (self.reader.plays_begun(), now);
        }
        let over = |limit: Option<Duration>, since: Instant| limit.filter(|limit| now.duration_since(since) >= *limit);
        if let Some(limit) = over(self.stall, self.alive_at) {
            return Some(RunExit::Stalled { seconds: limit.as_secs() });
        }
        let limit = over(self.play, self.play_since).filter(|_| self.plays > 0)?;
        let play = self.reader.progress().play.clone().unwrap_or_default();
        Some(RunExit::PlayTimedOut { play, seconds: limit.as_secs() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    struct Bed {
        place: tempfile::TempDir,
        watch: LimitWatch,
        output: Arc<AtomicU64>,
        now: Instant,
    }

    fn bed(limits: [Option<u64>; 3]) -> Bed {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(place.path().join("work")).expect("a directory");
        let seconds = |limit: Option<u64>| limit.map(Duration::from_secs);
        let now = Instant::now();
        let output = Arc::new(AtomicU64::new(0));
        let watch = LimitWatch {
            reader: ProgressReader::new(place.path().join("work")),
            output: Arc::clone(&output),
            deadline: now + seconds(limits[0]).unwrap_or(Duration::from_secs(1_000_000)),
            stall: seconds(limits[1]),
            play: seconds(limits[2]),
            seen: (0, 0),
            alive_at: now,
            plays: 0,
            play_since: now,
        };
        Bed { place, watch, output, now }
    }

    impl Bed {
        fn line(&self, line: &str) {
            let path = self.place.path().join("work/progress.jsonl");
            let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
            writeln!(file, "{line}").expect("written");
        }

        /// What is exceeded when looking every second for so many seconds.
        fn within(&mut self, seconds: u64) -> Option<RunExit> {
            (0..seconds).find_map(|_| {
                self.now += Duration::from_secs(1);
                self.watch.look(self.now)
            })
        }
    }

    #[test]
    fn the_whole_run_ends_at_its_limit_whatever_it_does() {
        let mut bed = bed([Some(100), Some(60), None]);
        bed.line("{\"event\":\"alive\"}");
        assert_eq!(bed.within(55), None);
        bed.line("{\"event\":\"alive\"}");
        assert_eq!(bed.within(61), Some(RunExit::TimedOut));
    }

    #[test]
    fn anything_new_is_a_sign_of_life() {
        let mut bed = bed([None, Some(60), None]);
        for step in 0..5 {
            match step % 2 {
                0 => bed.line("{\"event\":\"alive\"}"),
                _ => drop(bed.output.fetch_add(1, Ordering::Relaxed)),
            }
            assert_eq!(bed.within(55), None);
        }
        assert_eq!(bed.within(61), Some(RunExit::Stalled { seconds: 60 }));
    }

    #[test]
    fn each_play_has_the_limit_for_itself() {
        let mut bed = bed([None, None, Some(60)]);
        assert_eq!(bed.within(500), None, "no play has begun");
        for _ in 0..3 {
            bed.line("{\"event\":\"play\",\"play\":\"Join\"}");
            assert_eq!(bed.within(50), None);
        }
        assert_eq!(bed.within(61), Some(RunExit::PlayTimedOut { play: "Join".to_owned(), seconds: 60 }));
    }
}
