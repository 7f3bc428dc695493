//! Selective retransmission, as IRN's (Mittal et al., SIGCOMM 2018): the receiver accepts packets in any order, each acknowledgement
//! names the packet that arrived, and the sender repeats the missing ones.

use weir_units::Time;
use weir_wire::rocev2::Psn;

use super::entropy::{EntropyKind, FlowEntropy, PathFeedback};
use super::packet_set::{PacketSet, WINDOW};

/// Recovery of lost packets.
#[derive(Clone, Copy, Debug, Default)]
pub enum LossRecovery {
    /// Go-back-N: the receiver drops packets after a missing one, and the sender repeats all from there.
    #[default]
    GoBackN,
    /// Selective retransmission.
    Selective(SelectiveConfig),
}

/// Configuration of selective retransmission.
#[derive(Clone, Copy, Debug)]
pub struct SelectiveConfig {
    /// Packets that may overtake a packet before it counts as lost without a timeout: 1 where the network keeps the order.
    pub reordering: u32,
    /// Choice of the packets' entropy values.
    pub entropy: &'static dyn EntropyKind,
}

impl LossRecovery {
    /// Whether only missing packets are repeated.
    pub fn is_selective(self) -> bool {
        matches!(self, LossRecovery::Selective(_))
    }
}

/// Sender's record of the packets that arrived out of order.
#[derive(Debug)]
pub(super) struct SelectiveRepeat {
    reordering: u32,
    /// First unacknowledged packet.
    first: Psn,
    /// Packets after `first` that have arrived.
    arrived: PacketSet,
    /// Packet after the last one in `arrived`; `first` without any.
    end: Psn,
    /// Packets before this one that have not arrived are lost.
    lost_until: Psn,
    /// Packets before this one were lost by a timeout.
    timed_out_until: Psn,
    /// Next packet to repeat, or `lost_until`.
    next_lost: Psn,
    /// Entropy values of the packets; `None` if they have one.
    entropy: Option<FlowEntropy>,
}

impl SelectiveRepeat {
    pub(super) fn new(config: SelectiveConfig, flow_hash: u32) -> SelectiveRepeat {
        let start = Psn::default();
        let SelectiveConfig { reordering, entropy } = config;
        SelectiveRepeat {
            reordering,
            first: start,
            arrived: PacketSet::default(),
            end: start,
            lost_until: start,
            timed_out_until: start,
            next_lost: start,
            entropy: FlowEntropy::new(entropy, flow_hash, start),
        }
    }

    /// Sets the hash of the flow and the number of its first packet, before any is sent.
    pub(super) fn connect(&mut self, flow_hash: u32, first: Psn) {
        (self.first, self.end, self.lost_until, self.next_lost) = (first, first, first, first);
        self.timed_out_until = first;
        if let Some(entropy) = &mut self.entropy {
            entropy.connect(flow_hash, first);
        }
    }

    /// Selects the entropy value of a packet that is sent now; returns the hash of its headers, if it is not the flow's.
    pub(super) fn select_entropy(&mut self, psn: Psn) -> Option<u32> {
        self.entropy.as_mut().map(|entropy| entropy.select(psn))
    }

    /// Records that all packets before `first` have arrived, and this one, which may be before it, with or without a CE mark.
    pub(super) fn handle_ack(&mut self, now: Time, first: Psn, arrived: Psn, is_marked: bool) {
        if let Some(entropy) = &mut self.entropy {
            entropy.handle_ack(now, first, arrived, is_marked);
        }
        while first.ahead_of(self.first) > 0 {
            self.arrived.remove_first(self.first);
            self.first = self.first.plus(1);
        }
        (self.end, self.lost_until) = (later(self.end, first), later(self.lost_until, first));
        self.timed_out_until = later(self.timed_out_until, first);
        if arrived.ahead_of(self.first) >= 0 && (arrived.ahead_of(self.first) as u32) < WINDOW {
            self.arrived.insert(self.first, arrived);
            self.end = later(self.end, arrived.plus(1));
        }
        let overtaken = self.end.ahead_of(self.first) - self.reordering as i32;
        if overtaken > 0 {
            self.lost_until = later(self.lost_until, self.first.plus(overtaken as u32));
        }
        self.find_lost(self.next_lost);
    }

    /// Marks packets as lost after a timeout: those that others have overtaken, or else all before `end`.
    pub(super) fn handle_timeout(&mut self, end: Psn) {
        self.lost_until = if self.arrived.is_empty() { end } else { self.end };
        self.timed_out_until = self.lost_until;
        self.find_lost(self.first);
    }

    /// Returns the next packet to repeat.
    #[inline]
    pub(super) fn next_lost(&self) -> Option<Psn> {
        (self.next_lost.ahead_of(self.lost_until) < 0).then_some(self.next_lost)
    }

    /// Records that the next lost packet is sent again.
    pub(super) fn handle_repeated(&mut self, now: Time) {
        let feedback = self.next_lost_feedback();
        if let Some(entropy) = &mut self.entropy {
            entropy.handle_feedback(now, self.next_lost, feedback);
        }
        self.find_lost(self.next_lost.plus(1));
    }

    /// Returns the number of packets that arrived out of order.
    #[inline]
    pub(super) fn arrived(&self) -> u32 {
        self.arrived.len()
    }

    /// Returns how the loss of `next_lost` was found.
    fn next_lost_feedback(&self) -> PathFeedback {
        let timed_out = self.next_lost.ahead_of(self.timed_out_until) < 0;
        if timed_out { PathFeedback::TimedOut } else { PathFeedback::Overtaken }
    }

    fn find_lost(&mut self, from: Psn) {
        self.next_lost = later(from, self.first);
        while self.next_lost.ahead_of(self.lost_until) < 0 && self.arrived.contains(self.first, self.next_lost) {
            self.next_lost = self.next_lost.plus(1);
        }
    }
}

fn later(one: Psn, other: Psn) -> Psn {
    if other.ahead_of(one) > 0 { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::super::entropy::ENTROPY_KINDS;
    use super::*;

    fn lost(repeat: &mut SelectiveRepeat) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(psn) = repeat.next_lost() {
            all.push(psn.get());
            repeat.handle_repeated(Time::ZERO);
        }
        all
    }

    #[test]
    fn overtaken_packets_are_repeated_once_and_all_after_a_timeout() {
        let psn = Psn::new;
        let entropy = ENTROPY_KINDS.find("flow").unwrap();
        let mut repeat = SelectiveRepeat::new(SelectiveConfig { reordering: 3, entropy }, 0);
        let handle_ack = |repeat: &mut SelectiveRepeat, first, arrived| {
            repeat.handle_ack(Time::ZERO, psn(first), psn(arrived), false);
        };
        // 1 and 4 are missing.
        for arrived in [0, 2, 3] {
            handle_ack(&mut repeat, 1, arrived);
        }
        assert_eq!(lost(&mut repeat), [], "3 has overtaken 1 by 2");
        handle_ack(&mut repeat, 1, 5);
        assert_eq!(repeat.next_lost_feedback(), PathFeedback::Overtaken);
        assert_eq!(lost(&mut repeat), [1]);
        handle_ack(&mut repeat, 1, 6);
        assert_eq!(lost(&mut repeat), []);
        handle_ack(&mut repeat, 1, 7);
        assert_eq!(lost(&mut repeat), [4]);
        assert_eq!(repeat.arrived(), 5);
        repeat.handle_timeout(psn(9));
        assert_eq!(repeat.next_lost_feedback(), PathFeedback::TimedOut);
        assert_eq!(lost(&mut repeat), [1, 4], "8 may be under way");
        assert_eq!(repeat.next_lost_feedback(), PathFeedback::Overtaken, "packets after the timed out ones");
        handle_ack(&mut repeat, 4, 1);
        handle_ack(&mut repeat, 8, 4);
        assert_eq!((lost(&mut repeat), repeat.arrived()), (vec![], 0));
        repeat.handle_timeout(psn(9));
        assert_eq!(lost(&mut repeat), [8]);
    }
}
