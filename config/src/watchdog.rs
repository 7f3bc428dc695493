//! The watchdog over received PFC.

use weir_units::Span;

/// `[pfc_watchdog]`, with SONiC's names: finds queues that a peer pauses without end (PFC storms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcWatchdogConfig {
    /// `action`: what becomes of the queue's frames in a storm.
    pub action: WatchdogAction,
    /// `detection_time`: a storm is one once its condition has held for this long; at least `poll_interval`.
    pub detection_time: Span,
    /// `restoration_time`: a storm is over once no PFC has come for this long; at least `poll_interval`.
    pub restoration_time: Span,
    /// `poll_interval`: the time between two looks at a queue.
    pub poll_interval: Span,
    /// `condition`: what is taken for a storm.
    pub condition: StormCondition,
}

/// What the watchdog does with a queue in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drops what the queue holds and what comes for it.
    Drop,
    /// Sends on, as if no PFC had come.
    Forward,
    /// Tells, and lets the queue be.
    Alert,
}

/// What the watchdog takes for a storm, at each poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StormCondition {
    /// A new PFC frame since the last poll, no resume, and the queue paused at both; it may be empty. SONiC's on Broadcom.
    PfcReceived,
    /// Packets in the queue, none sent since the last poll, and paused for more than 99 % of the time. SONiC's on Mellanox.
    QueueStalled,
}
