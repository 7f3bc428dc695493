//! Late polls: the line time that a port makes up, and the line time that it loses. In virtual time no poll is late.

use weir_flowctl::Claim;
use weir_units::{Bytes, ClassSet, QueueId, Span, Time};

use super::bursts::{BurstPort, Bursts, Waits};
use crate::packet::Packet;
use crate::transmission::{OutPort, Transmission};

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Gives up line time that this poll may not make up. Returns the part of it in which frames waited.
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

    /// Records the state after this poll, in which `sent` frames left. `missed` is line time that can't be made up any more. It is lost to
    /// the extent that the waiting frames could have used it.
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
        // A part of them leaves with the line time that can still be made up.
        let unserved = waiting.saturating_sub(now.since(port.shaper.free_at()));
        // A device that accepted nothing at either end of the gap would not have accepted more in between.
        let refused = port.own.waits == Waits::Device && sent == 0;
        tally.note_lost(missed.min(unserved), refused);
    }
}

impl<P> OutPort<BurstPort<P>> {
    /// Returns whether the wire is free and the catch-up below its peak rate.
    #[inline]
    pub(super) fn may_send(&self, now: Time) -> bool {
        self.shaper.is_free(now) && self.own.peak.is_free(now)
    }
}

impl<P> BurstPort<P> {
    /// Returns the extent to which the port may make up the time since its last poll.
    #[inline]
    fn claim(&self) -> Claim {
        match self.waits {
            Waits::Nothing => Claim::Idle,
            _ => Claim::Bound,
        }
    }
}
