//! What a workload sends.

use std::sync::Arc;

use crate::scenario::TrafficPlan;
use crate::workload::{ClosedLoop, Message};

/// The most messages of a scenario: what runs keep of each adds up.
pub(super) const MESSAGES_MAX: usize = 20_000_000;

/// What a workload sends.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// These.
    List(Arc<[Message]>),
    /// What hosts begin as others are acknowledged.
    ClosedLoop(Arc<ClosedLoop>),
}

impl Sent {
    /// The messages of a list; a closed loop has none before it runs.
    pub(super) fn count(&self) -> usize {
        match self {
            Sent::List(messages) => messages.len(),
            Sent::ClosedLoop(_) => 0,
        }
    }

    /// Has a traffic send it.
    pub(super) fn give_to(self, traffic: &mut TrafficPlan) {
        match self {
            Sent::List(messages) => traffic.messages = messages,
            Sent::ClosedLoop(closed) => traffic.closed_loop = Some(closed),
        }
    }
}
