//! Selective retransmission, as IRN's (Mittal et al., SIGCOMM 2018): the receiver accepts packets in any order, each acknowledgement
//! names the packet that arrived, and the sender repeats the missing ones.

use weir_wire::rocev2::Psn;

use super::packet_set::{PacketSet, WINDOW};

/// Recovery of lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRecovery {
    /// Go-back-N: the receiver drops packets after a missing one, and the sender repeats all from there.
    #[default]
    GoBackN,
    /// Selective retransmission. A packet counts as lost once one with a number higher by `reordering` has arrived, or after a timeout.
    Selective {
        /// Packets that may overtake a packet: 1 where the network keeps the order.
        reordering: u32,
    },
}

impl LossRecovery {
    /// Whether only missing packets are repeated.
    pub fn is_selective(self) -> bool {
        self != LossRecovery::GoBackN
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
    /// Next packet to repeat, or `lost_until`.
    next_lost: Psn,
}

impl SelectiveRepeat {
    pub(super) fn new(reordering: u32) -> SelectiveRepeat {
        let start = Psn::default();
        SelectiveRepeat {
            reordering,
            first: start,
            arrived: PacketSet::default(),
            end: start,
            lost_until: start,
            next_lost: start,
        }
    }

    /// Sets the number of the first packet.
    pub(super) fn connect(&mut self, first: Psn) {
        *self = SelectiveRepeat {
            first,
            end: first,
            lost_until: first,
            next_lost: first,
            ..SelectiveRepeat::new(self.reordering)
        };
    }

    /// Records that all packets before `first` have arrived, and this one, which may be before it.
    pub(super) fn handle_ack(&mut self, first: Psn, arrived: Psn) {
        while first.ahead_of(self.first) > 0 {
            self.arrived.remove_first(self.first);
            self.first = self.first.plus(1);
        }
        (self.end, self.lost_until) = (later(self.end, first), later(self.lost_until, first));
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
        self.find_lost(self.first);
    }

    /// Returns the next packet to repeat.
    #[inline]
    pub(super) fn next_lost(&self) -> Option<Psn> {
        (self.next_lost.ahead_of(self.lost_until) < 0).then_some(self.next_lost)
    }

    /// Records that the next lost packet is sent again.
    pub(super) fn handle_repeated(&mut self) {
        self.find_lost(self.next_lost.plus(1));
    }

    /// Returns the number of packets that arrived out of order.
    #[inline]
    pub(super) fn arrived(&self) -> u32 {
        self.arrived.len()
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
    use super::*;

    fn lost(repeat: &mut SelectiveRepeat) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(psn) = repeat.next_lost() {
            all.push(psn.get());
            repeat.handle_repeated();
        }
        all
    }

    #[test]
    fn overtaken_packets_are_repeated_once_and_all_after_a_timeout() {
        let psn = Psn::new;
        let mut repeat = SelectiveRepeat::new(3);
        // 1 and 4 are missing.
        for arrived in [0, 2, 3] {
            repeat.handle_ack(psn(1), psn(arrived));
        }
        assert_eq!(lost(&mut repeat), [], "3 has overtaken 1 by 2");
        repeat.handle_ack(psn(1), psn(5));
        assert_eq!(lost(&mut repeat), [1]);
        repeat.handle_ack(psn(1), psn(6));
        assert_eq!(lost(&mut repeat), []);
        repeat.handle_ack(psn(1), psn(7));
        assert_eq!(lost(&mut repeat), [4]);
        assert_eq!(repeat.arrived(), 5);
        repeat.handle_timeout(psn(9));
        assert_eq!(lost(&mut repeat), [1, 4], "8 may be under way");
        repeat.handle_ack(psn(4), psn(1));
        repeat.handle_ack(psn(8), psn(4));
        assert_eq!((lost(&mut repeat), repeat.arrived()), (vec![], 0));
        repeat.handle_timeout(psn(9));
        assert_eq!(lost(&mut repeat), [8]);
    }
}
