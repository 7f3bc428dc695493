//! When flow control happened at a switch's port, for the probes of the links.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_switch_core::Feedback;
use weir_units::Time;

use super::board::Board;

/// What a port tells of its flow control, in scenario time.
#[derive(Debug)]
pub(super) struct PortInstants(Feedback);

impl PortInstants {
    /// Instants of the port that notes them.
    pub(super) fn new(feedback: &Feedback) -> PortInstants {
        PortInstants(feedback.clone())
    }

    /// The arrival that made the port send its last message; `None` if the scenario had not begun.
    pub(super) fn crossed(&self, board: &Board) -> Option<Time> {
        read(&self.0.crossed_at, board)
    }

    /// When the port last noticed a message; `None` if the scenario had not begun.
    pub(super) fn applied(&self, board: &Board) -> Option<Time> {
        read(&self.0.applied_at, board)
    }
}

/// Relaxed: the instants are a measurement's, and no other data hangs on them.
fn read(instant: &AtomicU64, board: &Board) -> Option<Time> {
    board.scenario_time(Time::from_picos(instant.load(Ordering::Relaxed)))
}
