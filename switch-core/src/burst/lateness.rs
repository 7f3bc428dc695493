//! Late polls: the line time that a port makes up, and the line time that it loses. In virtual time no poll is late.

use weir_flowctl::CatchUpLevel;
use weir_units::{Bytes, ClassSet, QueueId, Span, Time};

use super::burst_output::{BurstOutput, BurstPort, WaitReason};
use crate::packet::Packet;
use crate::transmission::{PortTransmitter, Transmission};

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Gives up line time that this poll may not make up. Returns the part of it in which frames waited.
    #[inline]
    pub(super) fn make_up(&mut self, now: Time, index: usize) -> Span {
        let port = &mut self.ports[index];
        if !port.limits.are_none() {
            port.limits.poll(&self.mode.late, port.own.open);
        }
        port.own.peak.poll(now);
        let mut floor = self.mode.late.floor(port.own.catch_up_level());
        if port.own.at_line_rate {
            floor = floor.max(port.own.peak.floor(now));
        }
        let given_up = port.shaper.give_up_before(floor);
        if port.own.wait_reason == WaitReason::Nothing {
            return Span::ZERO;
        }
        if let Some(line_time) = self.shared.port(port.id).line_time_counters() {
            line_time.record_waited(self.mode.late.gap(), now.since(port.shaper.free_at()), given_up);
        }
        given_up
    }

    /// Records the state after this poll, in which `sent` frames left. `missed` is line time that can't be made up any more. It is lost to
    /// the extent that the waiting frames could have used it.
    #[inline]
    pub(super) fn record_waiting(&mut self, now: Time, index: usize, held: ClassSet, missed: Span, sent: usize) {
        if missed != Span::ZERO {
            self.record_lost(now, index, held, missed, sent);
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
        port.own.wait_reason = match (&port.own.staged, ready) {
            (Some(_), _) => WaitReason::Device,
            (None, ClassSet::EMPTY) if !port.own.blocked.is_empty() => WaitReason::Device,
            (None, ClassSet::EMPTY) => WaitReason::Nothing,
            (None, _) => WaitReason::Wire,
        };
        // A NIC whose ring is filled to its bound is not behind: its link has enough to carry.
        let may_go = if port.own.at_line_rate { port.may_send(now) } else { port.shaper.is_free(now) };
        self.mode.is_behind |= port.own.wait_reason == WaitReason::Wire && may_go && self.mode.late.makes_up();
    }

    #[cold]
    fn record_lost(&self, now: Time, index: usize, held: ClassSet, missed: Span, sent: usize) {
        let port = &self.ports[index];
        let Some(line_time) = self.shared.port(port.id).line_time_counters() else { return };
        let lengths = (!held).iter().map(|class| self.shared.mmu.egress_length(QueueId::new(port.id, class)));
        let waiting = port.shaper.time_for(Bytes::new(lengths.sum()));
        // A part of them leaves with the line time that can still be made up.
        let unserved = waiting.saturating_sub(now.since(port.shaper.free_at()));
        // A device that accepted nothing at either end of the gap would not have accepted more in between.
        let refused = port.own.wait_reason == WaitReason::Device && sent == 0;
        line_time.record_lost(missed.min(unserved), refused);
    }
}

impl<P> PortTransmitter<BurstPort<P>> {
    /// Returns whether the wire is free and the catch-up below its peak rate.
    #[inline]
    pub(super) fn may_send(&self, now: Time) -> bool {
        self.shaper.is_free(now) && self.own.peak.is_free(now)
    }
}

impl<P> BurstPort<P> {
    /// Returns the extent to which the port may make up the time since its last poll.
    #[inline]
    fn catch_up_level(&self) -> CatchUpLevel {
        match self.wait_reason {
            WaitReason::Nothing => CatchUpLevel::Idle,
            _ => CatchUpLevel::Bound,
        }
    }
}
