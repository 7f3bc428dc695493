//! Emulated host on a DPDK port, polled by an lcore, with its link's delay in both directions.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_driver::{Phase, Tap, TapPlan, Tapped, Task, tap};
use weir_dpdk_io::{Batch, Clock, Mbuf, Mempool};
use weir_nic::host::{Completion, Host};
use weir_results::record::Teller;
use weir_scenario::{CapturePlan, PortPlace};
use weir_switch_core::Direction;
use weir_units::{Class, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::attachment::Attachment;
use super::board::{Board, LastWords};
use super::door::{Door, Order};
use super::instants::PortInstants;
use super::on_link::{BURST, LinkShape, OnLink};
use crate::lane::{self, Lane};

/// Capacity of the event ring to the control thread.
const NOTES: usize = 4_096;

/// Event of a host or link for the control thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    /// PFC frame sent by a switch port, or by the host attached to it.
    Pfc(Time, Teller, PortPlace, PfcFrame),
    /// Completed message; the flow is the host's own index.
    Done(Completion),
}

/// Control thread's end of an event ring.
#[derive(Debug)]
pub(super) struct Reader {
    /// Host that the events are from, by index in the scenario; `None` for a link.
    pub(super) host: Option<usize>,
    pub(super) notes: Consumer<Note>,
    pub(super) capture: Option<Tapped>,
}

/// Creates an event ring, with the control thread's end.
pub(super) fn notes(host: Option<usize>, capture: Option<Tapped>) -> (Producer<Note>, Reader) {
    let (notes, notes_out) = RingBuffer::new(NOTES);
    (notes, Reader { host, notes: notes_out, capture })
}

/// Records a PFC frame that a port sends or receives.
pub(super) fn note_told(notes: &mut Producer<Note>, now: Time, by: Teller, port: PortPlace, frame: &Mbuf) {
    if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(frame.data()) {
        // Full only if the control thread is stuck; counters are exact anyway.
        let _ = notes.push(Note::Pfc(now, by, port, pfc));
    }
}

/// Emulated host with its link at the far end of a switch port.
///
/// A frame has arrived with its first byte, in both directions: its transmission time is enforced by the sender's line
/// rate alone.
pub(super) struct AttachedHost {
    host: Host,
    number: usize,
    /// Switch port, and its flow-control timestamps.
    port: PortPlace,
    instants: PortInstants,
    attachment: Attachment,
    /// Channel to the host's software; `None` without software.
    door: Option<Door>,
    pool: Mempool,
    /// Spare mbuf, allocated before it is known whether there is a frame to send.
    blank: Option<Mbuf>,
    to_switch: Lane<OnLink>,
    to_host: Lane<OnLink>,
    arrived: Batch,
    unsent: Batch,
    board: Arc<Board>,
    notes: Producer<Note>,
    tap: Option<Tap>,
    /// Time of the last poll, and the scenario's end. Polls after the end don't count.
    polled: Time,
    end: Time,
    /// Line time lost to late polls.
    late: Span,
    gap_max: Span,
    has_left: bool,
}

/// Emulated host, and the switch port that it is attached to.
pub(super) struct HostEnd {
    pub(super) number: usize,
    pub(super) host: Host,
    pub(super) port: PortPlace,
    pub(super) instants: PortInstants,
    pub(super) attachment: Attachment,
    pub(super) door: Option<Door>,
    pub(super) end: Time,
}

impl AttachedHost {
    /// Creates a host at the far end of a port. `shape` gives its link in both directions.
    pub(super) fn new(
        end: HostEnd,
        shape: LinkShape,
        pool: Mempool,
        board: Arc<Board>,
        capture: Option<&CapturePlan>,
    ) -> (AttachedHost, Reader) {
        let HostEnd { number, host, port, instants, attachment, door, end } = end;
        let plan = |plan: &CapturePlan| TapPlan { data_from: plan.data_from, data_frames: plan.data_frames };
        let (tap, captured) = capture.map(plan).map(tap).unzip();
        let (notes, reader) = notes(Some(number), captured);
        let [to_host, to_switch] = shape.lanes();
        let attached = AttachedHost {
            host,
            number,
            port,
            instants,
            attachment,
            door,
            pool,
            blank: None,
            to_switch: to_switch.with_probe(),
            to_host,
            arrived: Batch::new(),
            unsent: Batch::new(),
            board,
            notes,
            tap,
            polled: Time::ZERO,
            end,
            late: Span::ZERO,
            gap_max: Span::ZERO,
            has_left: false,
        };
        (attached, reader)
    }

    /// Moves frames from the switch into the link, and arrived ones to the host.
    fn receive(&mut self, now: Time) -> usize {
        let received = self.attachment.receive(&mut self.arrived, BURST.min(self.to_host.room()));
        for mbuf in self.arrived.drain() {
            note_told(&mut self.notes, now, Teller::Port, self.port, &mbuf);
            if let Some(tap) = &mut self.tap {
                tap.note(now, Direction::Outbound, &mbuf);
            }
            let frame = OnLink::from_port(mbuf, &self.instants, &self.board);
            self.to_host.handle(now, frame, |frame| frame.copy(&self.pool));
        }
        let mut delivered = 0;
        while delivered < BURST
            && let Some(frame) = self.to_host.poll(now)
        {
            frame.tell(now, self.to_switch.probe_mut());
            if !self.door.as_mut().is_some_and(|door| door.take(frame.bytes())) {
                self.host.handle_frame(now, frame.bytes());
            }
            delivered += 1;
        }
        // A host applies flow control at once, before it sends more.
        if let Some(probe) = self.to_switch.probe_mut() {
            probe.handle_applied(now);
        }
        received + delivered
    }

    /// Moves frames from the host into the link, and arrived ones to the switch.
    fn transmit(&mut self, now: Time) -> usize {
        let mut moved = 0;
        while moved < BURST && self.to_switch.room() > 0 {
            let Some(frame) = self.next_of_software(now).or_else(|| self.next_frame(now)) else { break };
            self.to_switch.handle(now, OnLink { mbuf: frame, crossed: None }, |frame| frame.copy(&self.pool));
            moved += 1;
        }
        while self.unsent.len() < BURST
            && let Some(OnLink { mbuf, .. }) = self.to_switch.poll(now)
        {
            note_told(&mut self.notes, now, Teller::Host, self.port, &mbuf);
            if let Some(tap) = &mut self.tap {
                tap.note(now, Direction::Inbound, &mbuf);
            }
            assert!(self.unsent.push(mbuf).is_ok(), "a burst fits a batch");
        }
        if self.unsent.is_empty() { moved } else { moved + self.attachment.send(&mut self.unsent) }
    }

    /// Returns the next frame of the host's software when the transmitter is free.
    fn next_of_software(&mut self, now: Time) -> Option<Mbuf> {
        let frame = self.door.as_mut()?.next()?;
        let class = Class::new(self.host.config().class_of_dscp[0]);
        if !self.host.send_beside(now, class, frame.bytes().len() as u32) {
            return None;
        }
        let mut mbuf = self.blank.take().or_else(|| self.pool.alloc())?;
        frame.write(&mut mbuf);
        self.door.as_mut()?.advance();
        Some(mbuf)
    }

    /// Executes the commands of the host's software.
    fn obey(&mut self, now: Time) {
        while let Some(order) = self.door.as_mut().and_then(Door::next_order) {
            match order {
                Order::Send { place, peer, first } => self.host.connect_sender(now, place, peer, first),
                Order::Receive { place, peer, first } => self.host.connect_receiver(place, peer, first),
            }
        }
    }

    /// Serves the software before the scenario's start, so that real hosts can resolve and reach this one. The host
    /// sends no data yet, and the link has no delay.
    fn talk(&mut self) -> usize {
        self.obey(Time::ZERO);
        let Some(door) = &mut self.door else { return 0 };
        let received = self.attachment.receive(&mut self.arrived, BURST);
        for mbuf in self.arrived.drain() {
            door.take(mbuf.data());
        }
        while self.unsent.len() < BURST
            && let Some(frame) = door.next()
            && let Some(mut mbuf) = self.pool.alloc()
        {
            frame.write(&mut mbuf);
            assert!(self.unsent.push(mbuf).is_ok(), "a burst fits a batch");
            door.advance();
        }
        if self.unsent.is_empty() { received } else { received + self.attachment.send(&mut self.unsent) }
    }

    fn next_frame(&mut self, now: Time) -> Option<Mbuf> {
        if self.host.next_wakeup(now) > now {
            return None;
        }
        let mut mbuf = self.blank.take().or_else(|| self.pool.alloc())?;
        assert!(mbuf.set_len(self.host.frame_bytes_max() as u16), "the pool's mbufs hold any frame");
        match self.host.poll_transmit(now, mbuf.data_mut()) {
            Some(frame_bytes) => {
                assert!(mbuf.set_len(frame_bytes as u16), "shorter than before");
                Some(mbuf)
            }
            None => {
                self.blank = Some(mbuf);
                None
            }
        }
    }

    fn note_completions(&mut self) {
        for completion in self.host.drain_completions() {
            let _ = self.notes.push(Note::Done(completion));
        }
    }

    /// Drops the frames in flight and publishes the final statistics.
    fn leave(&mut self, now: Time) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        self.arrived.clear();
        self.unsent.clear();
        self.to_switch.clear();
        self.to_host.clear();
        self.blank = None;
        self.board.leave(
            self.number,
            LastWords {
                stats: self.host.stats(now),
                late: self.late,
                gap_max: self.gap_max,
                link: lane::words([&self.to_host, &self.to_switch]),
            },
        );
    }
}

impl Task for AttachedHost {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(now) = self.board.scenario_time(Time::from_picos(clock.now_ps())) else {
            return if phase >= Phase::Discard { 0 } else { self.talk() };
        };
        if phase >= Phase::Discard {
            self.leave(now);
            return 0;
        }
        let gap = now.min(self.end).since(self.polled.min(self.end));
        self.gap_max = self.gap_max.max(gap);
        self.late += gap.saturating_sub(self.host.config().slack);
        self.polled = now;
        self.obey(now);
        let moved = self.receive(now) + self.transmit(now);
        if moved > 0 {
            self.note_completions();
            self.board.publish(now, self.number, &self.host);
        }
        moved
    }
}
