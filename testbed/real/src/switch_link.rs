//! Emulated link between two switches' DPDK ports, polled by an lcore, with propagation delay.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use weir_dpdk_driver::{Phase, Task};
use weir_dpdk_io::{Batch, Clock, Mempool, RingEnd};
use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_units::Time;

use super::host_events::{EventReceiver, HostEvent, event_channel, record_pfc};
use super::in_flight::{BURST, InFlightFrame, LinkConfig};
use super::instants::PortInstants;
use super::shared_stats::SharedStats;
use crate::delayed_link::{self, DelayedLink};

/// Link between two ports: the far ends of both rings, and a delay line per direction.
///
/// Frames that a delay line or port does not accept wait in order. Only injected faults lose frames.
pub(super) struct SwitchLink {
    number: usize,
    ends: [SwitchLinkEnd; 2],
    /// Link direction from each end's port.
    directions: [DelayedLink<InFlightFrame>; 2],
    pool: Mempool,
    arrived: Batch,
    shared_stats: Arc<SharedStats>,
    events: Sender<HostEvent>,
    has_finished: bool,
}

pub(super) struct SwitchLinkEnd {
    port: PortRef,
    instants: PortInstants,
    ring: RingEnd,
    /// Frames that have arrived but were not accepted by the port.
    unsent: Batch,
}

impl SwitchLinkEnd {
    /// Creates the far end of a port's ring; `instants` are the port's flow-control timestamps.
    pub(super) fn new(port: PortRef, instants: PortInstants, ring: RingEnd) -> SwitchLinkEnd {
        SwitchLinkEnd { port, instants, ring, unsent: Batch::new() }
    }
}

impl SwitchLink {
    pub(super) fn new(
        number: usize,
        ends: [SwitchLinkEnd; 2],
        link_config: LinkConfig,
        pool: Mempool,
        shared_stats: Arc<SharedStats>,
    ) -> (SwitchLink, EventReceiver) {
        let (events, event_receiver) = event_channel(None, None);
        let (directions, arrived) = (link_config.directions().map(DelayedLink::with_probe), Batch::new());
        (
            SwitchLink { number, ends, directions, pool, arrived, shared_stats, events, has_finished: false },
            event_receiver,
        )
    }

    /// Moves frames from an end's port into its direction of the link.
    fn receive(&mut self, now: Time, from: usize) -> usize {
        let (end, direction) = (&mut self.ends[from], &mut self.directions[from]);
        let received = end.ring.receive(&mut self.arrived, BURST.min(direction.room()));
        for mbuf in self.arrived.drain() {
            record_pfc(&self.events, now, MessageOrigin::Port, end.port, &mbuf);
            let frame = InFlightFrame::from_port(mbuf, &end.instants, &self.shared_stats);
            direction.handle(now, frame, |frame| frame.copy(&self.pool));
        }
        received
    }

    /// Moves frames that have arrived from an end to the other end's port.
    fn deliver(&mut self, now: Time, from: usize) -> usize {
        let to = &mut self.ends[1 - from];
        while to.unsent.len() < BURST
            && let Some(frame) = self.directions[from].poll(now)
        {
            frame.pass_to_probe(now, self.directions[1 - from].probe_mut());
            assert!(to.unsent.push(frame.mbuf).is_ok(), "a burst fits a batch");
        }
        if to.unsent.is_empty() { 0 } else { to.ring.send(&mut to.unsent) }
    }

    /// Passes the time at which an end's port last applied a message to the probe, before more of its frames enter the
    /// link.
    fn record_applied(&mut self, end: usize) {
        if let (Some(probe), Some(applied)) =
            (self.directions[end].probe_mut(), self.ends[end].instants.applied(&self.shared_stats))
        {
            probe.handle_applied(applied);
        }
    }

    /// Drops the frames in flight and publishes the final counters.
    fn finish(&mut self) {
        if self.has_finished {
            return;
        }
        self.has_finished = true;
        self.arrived.clear();
        self.ends.iter_mut().for_each(|end| end.unsent.clear());
        self.directions.iter_mut().for_each(DelayedLink::clear);
        self.shared_stats.store_link_stats(self.number, delayed_link::link_stats(self.directions.each_ref()));
    }
}

impl Task for SwitchLink {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(now) = self.shared_stats.scenario_time(Time::from_picos(clock.now_ps())) else { return 0 };
        if phase >= Phase::Discard {
            self.finish();
            return 0;
        }
        let mut moved = 0;
        for from in 0..2 {
            self.record_applied(from);
            moved += self.receive(now, from) + self.deliver(now, from);
        }
        moved
    }
}
