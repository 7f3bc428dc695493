//! Emulated link between two switches' DPDK ports, polled by an lcore, with propagation delay.

use std::sync::Arc;

use rtrb::Producer;
use weir_dpdk_driver::{Phase, Task};
use weir_dpdk_io::{Batch, Clock, Mempool, RingEnd};
use weir_results::record::Teller;
use weir_scenario::PortPlace;
use weir_units::Time;

use super::attached_host::{Note, Reader, note_told, notes};
use super::board::Board;
use super::instants::PortInstants;
use super::on_link::{BURST, LinkShape, OnLink};
use crate::lane::{self, Lane};

/// Link between two ports: the far ends of both rings, and a delay line per direction.
///
/// Frames that a delay line or port does not accept wait in order. Only injected faults lose frames.
pub(super) struct SwitchLink {
    number: usize,
    ends: [SwitchLinkEnd; 2],
    /// Direction from each end's port.
    lanes: [Lane<OnLink>; 2],
    pool: Mempool,
    arrived: Batch,
    board: Arc<Board>,
    notes: Producer<Note>,
    has_left: bool,
}

pub(super) struct SwitchLinkEnd {
    port: PortPlace,
    instants: PortInstants,
    ring: RingEnd,
    /// Frames that have arrived but were not accepted by the port.
    unsent: Batch,
}

impl SwitchLinkEnd {
    /// Creates the far end of a port's ring; `instants` are the port's flow-control timestamps.
    pub(super) fn new(port: PortPlace, instants: PortInstants, ring: RingEnd) -> SwitchLinkEnd {
        SwitchLinkEnd { port, instants, ring, unsent: Batch::new() }
    }
}

impl SwitchLink {
    pub(super) fn new(
        number: usize,
        ends: [SwitchLinkEnd; 2],
        shape: LinkShape,
        pool: Mempool,
        board: Arc<Board>,
    ) -> (SwitchLink, Reader) {
        let (notes, reader) = notes(None, None);
        let (lanes, arrived) = (shape.lanes().map(Lane::with_probe), Batch::new());
        (SwitchLink { number, ends, lanes, pool, arrived, board, notes, has_left: false }, reader)
    }

    /// Moves frames from an end's port into its lane.
    fn receive(&mut self, now: Time, from: usize) -> usize {
        let (end, lane) = (&mut self.ends[from], &mut self.lanes[from]);
        let received = end.ring.receive(&mut self.arrived, BURST.min(lane.room()));
        for mbuf in self.arrived.drain() {
            note_told(&mut self.notes, now, Teller::Port, end.port, &mbuf);
            let frame = OnLink::from_port(mbuf, &end.instants, &self.board);
            lane.handle(now, frame, |frame| frame.copy(&self.pool));
        }
        received
    }

    /// Moves arrived frames of an end's lane to the other end's port.
    fn deliver(&mut self, now: Time, from: usize) -> usize {
        let to = &mut self.ends[1 - from];
        while to.unsent.len() < BURST
            && let Some(frame) = self.lanes[from].poll(now)
        {
            frame.tell(now, self.lanes[1 - from].probe_mut());
            assert!(to.unsent.push(frame.mbuf).is_ok(), "a burst fits a batch");
        }
        if to.unsent.is_empty() { 0 } else { to.ring.send(&mut to.unsent) }
    }

    /// Passes the time at which an end's port last applied a message to the probe, before more of its frames enter the
    /// lane.
    fn note_applied(&mut self, end: usize) {
        if let (Some(probe), Some(applied)) =
            (self.lanes[end].probe_mut(), self.ends[end].instants.applied(&self.board))
        {
            probe.handle_applied(applied);
        }
    }

    /// Drops the frames in flight and publishes the final counters.
    fn leave(&mut self) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        self.arrived.clear();
        self.ends.iter_mut().for_each(|end| end.unsent.clear());
        self.lanes.iter_mut().for_each(Lane::clear);
        self.board.leave_link(self.number, lane::words(self.lanes.each_ref()));
    }
}

impl Task for SwitchLink {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(now) = self.board.scenario_time(Time::from_picos(clock.now_ps())) else { return 0 };
        if phase >= Phase::Discard {
            self.leave();
            return 0;
        }
        let mut moved = 0;
        for from in 0..2 {
            self.note_applied(from);
            moved += self.receive(now, from) + self.deliver(now, from);
        }
        moved
    }
}
