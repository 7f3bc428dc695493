//! Entropy values of packets: the choice of paths by the sender.
//!
//! An entropy value stands for the UDP source port of a packet: where switches hash headers (ECMP), another value may take another path.
//! Files choose among [`ENTROPY_KINDS`], each in a file here, by the `entropy` of `[nic]`. Another crate adds one with an
//! [`EntropyKind`] and an [`EntropySelector`] for each flow.

mod bitmap;
mod flow;
mod per_packet;
mod reps;

use std::collections::VecDeque;
use std::fmt::Debug;

use weir_reader::{Plugin, Registry};
use weir_units::{SplitMix64, Time};
use weir_wire::rocev2::Psn;

/// Registry of the choices of entropy values that files can make. The first one, a value per flow, is the default.
pub static ENTROPY_KINDS: Registry<dyn EntropyKind> =
    Registry::new("entropy", &[&flow::KIND, &per_packet::KIND, &bitmap::KIND, &reps::KIND]);

/// Choice of entropy values that files make by name.
pub trait EntropyKind: Plugin + Debug {
    /// Creates the selector of a flow, with random numbers of its own; `None` if all packets of a flow have one value.
    fn selector(&self, random: SplitMix64) -> Option<Box<dyn EntropySelector>>;
}

/// Selector of the entropy values of one flow. Each packet has an acknowledgement of its own, which names it and echoes its CE mark.
pub trait EntropySelector: Debug + Send {
    /// Returns the value of the next packet.
    fn select(&mut self) -> u16;

    /// Handles the arrival or the loss of a packet with this value.
    fn handle_feedback(&mut self, now: Time, value: u16, feedback: PathFeedback);
}

/// Fate of a packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFeedback {
    /// Arrival without a CE mark.
    Arrived,
    /// Arrival with a CE mark.
    Marked,
    /// Loss found by the arrival of later packets; the packet is sent again.
    Overtaken,
    /// Loss found by a timeout; the packet is sent again.
    TimedOut,
}

/// Entropy values of a flow's packets in flight.
#[derive(Debug)]
pub(super) struct FlowEntropy {
    selector: Box<dyn EntropySelector>,
    /// Hash of the flow's addresses and ports.
    flow_hash: u32,
    /// First unacknowledged packet, and the values from it on.
    first: Psn,
    values: VecDeque<u16>,
}

impl FlowEntropy {
    /// Creates the values of a flow; `None` if all its packets have one.
    pub(super) fn new(kind: &dyn EntropyKind, flow_hash: u32, first: Psn) -> Option<FlowEntropy> {
        let selector = kind.selector(SplitMix64::new(SplitMix64::mix(flow_hash.into())))?;
        Some(FlowEntropy { selector, flow_hash, first, values: VecDeque::new() })
    }

    /// Sets the hash of the flow and the number of its first packet.
    pub(super) fn connect(&mut self, flow_hash: u32, first: Psn) {
        (self.flow_hash, self.first) = (flow_hash, first);
    }

    /// Selects the value of a packet that is sent now; returns the hash of its headers.
    pub(super) fn select(&mut self, psn: Psn) -> u32 {
        let value = self.selector.select();
        match self.value_mut(psn) {
            Some(earlier) => *earlier = value,
            None => self.values.push_back(value),
        }
        SplitMix64::mix(u64::from(value) << 32 | u64::from(self.flow_hash)) as u32
    }

    /// Handles the acknowledgement of the packet `arrived`, and of all before `first`.
    pub(super) fn handle_ack(&mut self, now: Time, first: Psn, arrived: Psn, is_marked: bool) {
        let feedback = if is_marked { PathFeedback::Marked } else { PathFeedback::Arrived };
        self.handle_feedback(now, arrived, feedback);
        while first.ahead_of(self.first) > 0 {
            self.values.pop_front();
            self.first = self.first.plus(1);
        }
    }

    /// Handles the arrival or the loss of a packet, if it is unacknowledged.
    pub(super) fn handle_feedback(&mut self, now: Time, psn: Psn, feedback: PathFeedback) {
        if let Some(value) = self.value_mut(psn).copied() {
            self.selector.handle_feedback(now, value, feedback);
        }
    }

    fn value_mut(&mut self, psn: Psn) -> Option<&mut u16> {
        let ahead = usize::try_from(psn.ahead_of(self.first)).ok()?;
        self.values.get_mut(ahead)
    }
}

/// Returns a random value.
fn any(random: &mut SplitMix64) -> u16 {
    (random.next_u64() >> 48) as u16
}
