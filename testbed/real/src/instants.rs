//! Timestamps of flow control at switch ports, for the feedback probes of links.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_switch_core::FeedbackInstants;
use weir_units::Time;

use super::shared_stats::SharedStats;

/// Timestamps of a port's flow control, in scenario time.
#[derive(Debug)]
pub(super) struct PortInstants(FeedbackInstants);

impl PortInstants {
    /// Creates a reader of the port's timestamps.
    pub(super) fn new(feedback: &FeedbackInstants) -> PortInstants {
        PortInstants(feedback.clone())
    }

    /// Returns the arrival time that triggered the port's last message; `None` before the scenario's start.
    pub(super) fn crossed(&self, shared_stats: &SharedStats) -> Option<Time> {
        read(&self.0.crossed_at, shared_stats)
    }

    /// Returns the time at which the port last applied a message; `None` before the scenario's start.
    pub(super) fn applied(&self, shared_stats: &SharedStats) -> Option<Time> {
        read(&self.0.applied_at, shared_stats)
    }
}

/// Reads a timestamp. Relaxed: a measurement only; no other data depends on it.
fn read(instant: &AtomicU64, shared_stats: &SharedStats) -> Option<Time> {
    shared_stats.scenario_time(Time::from_picos(instant.load(Ordering::Relaxed)))
}
