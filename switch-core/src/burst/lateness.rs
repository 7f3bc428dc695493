//! Polls that come late: what a port makes up of its line time, and what it has lost. In virtual time nobody is late.

use weir_flowctl::Claim;
use weir_units::{Bytes, ClassSet, QueueId, Span, Time};

use super::bursts::{BurstPort, Bursts, Waits};
use crate::packet::Packet;
use crate::transmission::{OutPort, Transmission};

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Gives up what this poll may not make up of the port's line time; returns how much that is of the time in which frames
    /// waited.
    #[inline]
    pub(super) fn make_up(&mut self, now: Time, index: usize) -> Span {
        let port = &mut self.ports[index];
        if !port.limits.are_none() {
            port.limits.poll(&self.manner.late, port.own.open);
        }
        port.own.peak.poll(now);
        let mut floor = self.manner.late.floor(port.own.claim());
        if port.own.at_line_rate {
            floor = floor.max(port.own.peak.floor(now));
        }
        let given_up = port.shaper.give_up_before(floor);
        if port.own.waits == Waits::Nothing {
            return Span::ZERO;
        }
        if let Some(tally) = self.shared.port(port.id).line_tally() {
            tally.note_waited(self.manner.late.gap(), now.since(port.shaper.free_at()), given_up);
        }
        given_up
    }

    /// Notes what this poll leaves, after `sent` frames went. `missed` is line time that can't be made up any more: it is lost so
    /// far as the frames that still wait could have used it.
    #[inline]
    pub(super) fn note_waiting(&mut self, now: Time, index: usize, held: ClassSet, missed: Span, sent: usize) {
        if missed != Span::ZERO {
            self.note_lost(now, index, held, missed, sent);
        }
        let ready = self.ready(now, index, held | self.ports[index].own.blocked);
        let port = &self.ports[index];
        let open = if port.limits.are_none() {
            ClassSet::EMPTY
        } else {
            let open = port.backlog - held;
            open - self.without_credit(port, open)
        };
        let port = &mut self.ports[index];
        port.own.open = open;
        port.own.waits = match (&port.own.staged, ready) {
            (Some(_), _) => Waits::Device,
            (None, ClassSet::EMPTY) if !port.own.blocked.is_empty() => Waits::Device,
            (None, ClassSet::EMPTY) => Waits::Nothing,
            (None, _) => Waits::Wire,
        };
        // A NIC whose ring is filled to its bound is not behind: its link has enough to carry.
        let may_go = if port.own.at_line_rate { port.may_send(now) } else { port.shaper.is_free(now) };
        self.manner.is_behind |= port.own.waits == Waits::Wire && may_go && self.manner.late.makes_up();
    }

    #[cold]
    fn note_lost(&self, now: Time, index: usize, held: ClassSet, missed: Span, sent: usize) {
        let port = &self.ports[index];
        let Some(tally) = self.shared.port(port.id).line_tally() else { return };
        let lengths = (!held).iter().map(|class| self.shared.mmu.egress_length(QueueId::new(port.id, class)));
        let waiting = port.shaper.time_for(Bytes::new(lengths.sum()));
        // Some of them go with what is still to be made up.
        let unserved = waiting.saturating_sub(now.since(port.shaper.free_at()));
        // A device that took nothing at either end of the gap would not have taken more from a poll in between.
        let refused = port.own.waits == Waits::Device && sent == 0;
        tally.note_lost(missed.min(unserved), refused);
    }
}

impl<P> OutPort<BurstPort<P>> {
    /// Whether the wire is free, and what was missed not made up too fast.
    #[inline]
    pub(super) fn may_send(&self, now: Time) -> bool {
        self.shaper.is_free(now) && self.own.peak.is_free(now)
    }
}

impl<P> BurstPort<P> {
    /// What the port may make up of the time since its last poll.
    #[inline]
    fn claim(&self) -> Claim {
        match self.waits {
            Waits::Nothing => Claim::Idle,
            _ => Claim::Bound,
        }
    }
}
