//! How long plays take, from the times that the callback plugin tells.

use hagane_ports::installer::PlayTime;

use super::{PLAYS_MAX, milliseconds};

/// Keeps when the current play began.
#[derive(Debug, Default)]
pub(super) struct PlayClock {
    begun: u64,
    since: Option<f64>,
    last: f64,
}

impl PlayClock {
    /// Number of plays that began.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Something happened at that time.
    pub(super) fn tick(&mut self, at: f64) {
        self.last = self.last.max(at);
    }

    /// A play begins, which ends the one before.
    pub(super) fn play(&mut self, plays: &mut Vec<PlayTime>, play: String, at: f64) {
        self.end(plays, at);
        self.begun += 1;
        self.since = Some(at);
        if plays.len() >= PLAYS_MAX {
            plays.remove(0);
        }
        plays.push(PlayTime { play, milliseconds: None });
    }

    /// The last play ends.
    pub(super) fn end(&mut self, plays: &mut [PlayTime], at: f64) {
        self.tick(at);
        if let (Some(since), Some(play)) = (self.since.take(), plays.last_mut()) {
            play.milliseconds = Some(milliseconds(self.last - since));
        }
    }
}
