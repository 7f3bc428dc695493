//! What nodes will touch in their turns, asked for while others have theirs.
//!
//! In a large fabric the cache has nothing of a node any more when its turn comes. A switch that is busy then touches some
//! hundred cache lines, and would wait for one after the other. So they are asked for ahead, a few at each instant of the turns
//! before, which costs little: memory is slow to answer and not to be asked. Nothing else comes of it.

use super::network::Network;
use super::node::{SimHost, SimSwitch};

/// A node is asked for in so many steps, in one turn of another after the other, each of which goes by what the one before
/// has fetched: the node itself with the wires that lead to it; what these point to; and what that points to.
pub(super) const STEPS: usize = 3;

/// Memory that is asked for in one turn: a step of each of the next nodes, port by port for a switch.
#[derive(Debug)]
pub(super) struct Ahead<'d> {
    /// The nodes in the order of their turns.
    due: &'d [u32],
    /// The one of which the first step is due, further ones of those before.
    at: usize,
    /// Steps that are left, the last of which comes first: its node is next.
    steps: usize,
    port: usize,
}

/// The nodes that are still to have their turns, by their numbers in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later<'s> {
    pub(super) first_switch: usize,
    pub(super) switches: &'s [SimSwitch],
    pub(super) first_host: usize,
    pub(super) hosts: &'s [SimHost],
}

impl<'d> Ahead<'d> {
    /// The turn of the node that is [`STEPS`] before this one.
    #[inline]
    pub(super) fn new(due: &'d [u32], at: usize) -> Ahead<'d> {
        Ahead { due, at, steps: STEPS, port: 0 }
    }

    /// Asks for some more; says whether there was any.
    // Always: most instants find nothing left, and are not to pay for a call.
    #[inline(always)]
    pub(super) fn next(&mut self, later: &Later<'_>, network: &Network) -> bool {
        let has_more = self.steps > 0;
        if has_more {
            self.ask(later, network);
        }
        has_more
    }

    /// Asks for what is next of the steps that are left.
    #[inline(never)]
    fn ask(&mut self, later: &Later<'_>, network: &Network) {
        let step = self.steps - 1;
        let node = self.at.checked_sub(step).and_then(|at| self.due.get(at)).map(|node| *node as usize);
        let has_more = node.is_some_and(|node| match node.checked_sub(later.first_host) {
            None => later.switches[node - later.first_switch].prefetch(step, self.port, node, network),
            Some(host) => {
                later.hosts[host].prefetch(step, node, network);
                false
            }
        });
        (self.port, self.steps) = if has_more { (self.port + 1, self.steps) } else { (0, step) };
    }
}
