//! Prefetching of nodes' state during the windows of preceding nodes.
//!
//! In a large fabric none of a node's state is cached when its window comes. A busy switch then touches some hundred
//! cache lines and would stall on each. So they are prefetched in advance, a few at each instant of preceding nodes.
//! That is cheap: memory has high latency, but issuing a prefetch costs little. Results don't depend on it.

use super::network::Network;
use super::node::{SimHost, SimSwitch};

/// Prefetch steps per node, each in the window of a different preceding node. Each step follows pointers that the step
/// before fetched: first the node and its incoming wires, then two levels of data behind their pointers.
pub(super) const STEPS: usize = 3;

/// Prefetches issued in one node's window: one step for each of the next nodes, port by port for a switch.
#[derive(Debug)]
pub(super) struct Prefetcher<'d> {
    due: &'d [u32],
    /// Index of the node whose first step is next; earlier nodes are at later steps.
    at: usize,
    /// Steps left; the last step, for the very next node, is issued first.
    steps: usize,
    port: usize,
}

/// Nodes yet to run in this window, by number in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingNodes<'s> {
    pub(super) first_switch: usize,
    pub(super) switches: &'s [SimSwitch],
    pub(super) first_host: usize,
    pub(super) hosts: &'s [SimHost],
}

impl<'d> Prefetcher<'d> {
    /// Creates the prefetcher for the window of the node that is [`STEPS`] before `at`.
    #[inline]
    pub(super) fn new(due: &'d [u32], at: usize) -> Prefetcher<'d> {
        Prefetcher { due, at, steps: STEPS, port: 0 }
    }

    /// Issues some more prefetches; returns whether any were left.
    // Always inlined: most instants have none left and should not pay for a call.
    #[inline(always)]
    pub(super) fn next(&mut self, pending: &PendingNodes<'_>, network: &Network) -> bool {
        let has_more = self.steps > 0;
        if has_more {
            self.prefetch_next(pending, network);
        }
        has_more
    }

    /// Issues the next prefetches of the steps left.
    #[inline(never)]
    fn prefetch_next(&mut self, pending: &PendingNodes<'_>, network: &Network) {
        let step = self.steps - 1;
        let node = self.at.checked_sub(step).and_then(|at| self.due.get(at)).map(|node| *node as usize);
        let has_more = node.is_some_and(|node| match node.checked_sub(pending.first_host) {
            None => pending.switches[node - pending.first_switch].prefetch(step, self.port, node, network),
            Some(host) => {
                pending.hosts[host].prefetch(step, node, network);
                false
            }
        });
        (self.port, self.steps) = if has_more { (self.port + 1, self.steps) } else { (0, step) };
    }
}
