//! When flow control happened at a switch's port, for the probes of the links.

use std::fmt;
use std::sync::Arc;

use weir_units::Time;

use super::board::Board;

/// Reads an instant that a port keeps, on the switches' clock.
pub(super) type InstantSource = Arc<dyn Fn() -> Time + Send + Sync>;

/// What a port tells of its flow control.
#[derive(Clone, Default)]
pub(super) struct PortInstants {
    /// The arrival that made the port send its last message; without it, the message's entry into the link stands for it.
    pub(super) crossed: Option<InstantSource>,
    /// When the port last noticed a message; without it, a message counts as noticed when it is delivered.
    pub(super) applied: Option<InstantSource>,
}

impl PortInstants {
    /// The arrival behind a message that enters the link at `now`; `None` if it was before the scenario began.
    pub(super) fn crossed(&self, now: Time, board: &Board) -> Option<Time> {
        read(&self.crossed, now, board)
    }

    /// When the port last noticed a message, as of `now`; `None` if that was before the scenario began.
    pub(super) fn applied(&self, now: Time, board: &Board) -> Option<Time> {
        read(&self.applied, now, board)
    }
}

fn read(source: &Option<InstantSource>, now: Time, board: &Board) -> Option<Time> {
    match source {
        Some(source) => board.scenario_time(source()),
        None => Some(now),
    }
}

impl fmt::Debug for PortInstants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_told = |source: &Option<InstantSource>| source.is_some();
        f.debug_struct("PortInstants")
            .field("crossed", &is_told(&self.crossed))
            .field("applied", &is_told(&self.applied))
            .finish()
    }
}
