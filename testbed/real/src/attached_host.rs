//! Emulated host on a DPDK port, polled by an lcore, with its link's delay in both directions.

use std::sync::Arc;

use weir_dpdk_driver::{Phase, Tap, TapPlan, Task, tap};
use weir_dpdk_io::{Batch, Clock, Mbuf, Mempool};
use weir_nic::host::Host;
use weir_results::record::MessageOrigin;
use weir_scenario::{CapturePlan, PortRef};
use weir_switch_core::Direction;
use weir_units::{Class, Span, Time};

use super::attachment::Attachment;
use super::host_events::{EventReceiver, HostReporter, record_pfc};
use super::in_flight::{BURST, InFlightFrame, LinkConfig};
use super::instants::PortInstants;
use super::shared_stats::{FinalStats, SharedStats};
use super::software_channel::{ConnectionCommand, NicQueues};
use super::triggers::HostTriggers;
use crate::delayed_link::{self, DelayedLink};

/// Emulated host with its link at the far end of a switch port.
///
/// A frame has arrived with its first byte, in both directions: its transmission time is enforced by the sender's line
/// rate alone.
pub(super) struct AttachedHost {
    host: Host,
    number: usize,
    /// Switch port, and its flow-control timestamps.
    port: PortRef,
    instants: PortInstants,
    attachment: Attachment,
    /// Channel to the host's software; `None` without software.
    nic_queues: Option<NicQueues>,
    pool: Mempool,
    /// Spare mbuf, allocated before it is known whether there is a frame to send.
    spare: Option<Mbuf>,
    to_switch: DelayedLink<InFlightFrame>,
    to_host: DelayedLink<InFlightFrame>,
    arrived: Batch,
    unsent: Batch,
    shared_stats: Arc<SharedStats>,
    reporter: HostReporter,
    tap: Option<Tap>,
    /// Time of the last poll, and the scenario's end. Polls after the end don't count.
    polled: Time,
    end: Time,
    /// Line time lost to late polls.
    late: Span,
    gap_max: Span,
    /// Whether the host was finished at a poll after the end.
    is_over: bool,
    has_finished: bool,
}

/// Emulated host, and the switch port that it is attached to.
pub(super) struct HostEnd {
    pub(super) number: usize,
    pub(super) host: Host,
    pub(super) port: PortRef,
    pub(super) instants: PortInstants,
    pub(super) attachment: Attachment,
    pub(super) nic_queues: Option<NicQueues>,
    pub(super) triggers: Option<HostTriggers>,
    pub(super) end: Time,
}

impl AttachedHost {
    /// Creates a host at the far end of a port. `link_config` gives its link in both directions.
    pub(super) fn new(
        end: HostEnd,
        link_config: LinkConfig,
        pool: Mempool,
        shared_stats: Arc<SharedStats>,
        capture: Option<&CapturePlan>,
    ) -> (AttachedHost, EventReceiver) {
        let HostEnd { number, host, port, instants, attachment, nic_queues, triggers, end } = end;
        let plan = |plan: &CapturePlan| TapPlan { data_from: plan.data_from, data_frames: plan.data_frames };
        let (tap, captured) = capture.map(plan).map(tap).unzip();
        let (reporter, event_receiver) = HostReporter::new(number, triggers, captured);
        let [to_host, to_switch] = link_config.directions();
        let attached = AttachedHost {
            host,
            number,
            port,
            instants,
            attachment,
            nic_queues,
            pool,
            spare: None,
            to_switch: to_switch.with_probe(),
            to_host,
            arrived: Batch::new(),
            unsent: Batch::new(),
            shared_stats,
            reporter,
            tap,
            polled: Time::ZERO,
            end,
            late: Span::ZERO,
            gap_max: Span::ZERO,
            is_over: false,
            has_finished: false,
        };
        (attached, event_receiver)
    }

    /// Moves frames from the switch into the link, and arrived ones to the host.
    fn receive(&mut self, now: Time) -> usize {
        let received = self.attachment.receive(&mut self.arrived, BURST.min(self.to_host.room()));
        for mbuf in self.arrived.drain() {
            record_pfc(&self.reporter.events, now, MessageOrigin::Port, self.port, &mbuf);
            if let Some(tap) = &mut self.tap {
                tap.record(now, Direction::Outbound, &mbuf);
            }
            let frame = InFlightFrame::from_port(mbuf, &self.instants, &self.shared_stats);
            self.to_host.handle(now, frame, |frame| frame.copy(&self.pool));
        }
        let mut delivered = 0;
        while delivered < BURST
            && let Some(frame) = self.to_host.poll(now)
        {
            frame.pass_to_probe(now, self.to_switch.probe_mut());
            if !self.nic_queues.as_mut().is_some_and(|nic_queues| nic_queues.take(frame.bytes())) {
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
            let Some(frame) = self.next_software_frame(now).or_else(|| self.next_frame(now)) else { break };
            self.to_switch.handle(now, InFlightFrame { mbuf: frame, crossed: None }, |frame| frame.copy(&self.pool));
            moved += 1;
        }
        while self.unsent.len() < BURST
            && let Some(InFlightFrame { mbuf, .. }) = self.to_switch.poll(now)
        {
            record_pfc(&self.reporter.events, now, MessageOrigin::Host, self.port, &mbuf);
            if let Some(tap) = &mut self.tap {
                tap.record(now, Direction::Inbound, &mbuf);
            }
            assert!(self.unsent.push(mbuf).is_ok(), "a burst fits a batch");
        }
        if self.unsent.is_empty() { moved } else { moved + self.attachment.send(&mut self.unsent) }
    }

    /// Returns the next frame of the host's software when the transmitter is free.
    fn next_software_frame(&mut self, now: Time) -> Option<Mbuf> {
        let frame = self.nic_queues.as_mut()?.next()?;
        // The software sets no DSCP.
        let class = Class::new(self.host.config().group_of_dscp[0]);
        if !self.host.try_send_software_frame(now, class, frame.bytes().len() as u32) {
            return None;
        }
        let mut mbuf = self.spare.take().or_else(|| self.pool.alloc())?;
        frame.write(&mut mbuf);
        self.nic_queues.as_mut()?.advance();
        Some(mbuf)
    }

    /// Executes the commands of the host's software.
    fn execute_commands(&mut self, now: Time) {
        while let Some(command) = self.nic_queues.as_mut().and_then(NicQueues::next_command) {
            match command {
                ConnectionCommand::Send { place, peer, first } => self.host.connect_sender(now, place, peer, first),
                ConnectionCommand::Receive { place, peer, first } => self.host.connect_receiver(place, peer, first),
            }
        }
    }

    /// Serves the software before the scenario's start, so that real hosts can resolve and reach this one. The host
    /// sends no data yet, and the link has no delay.
    fn serve_software(&mut self) -> usize {
        self.execute_commands(Time::ZERO);
        let Some(nic_queues) = &mut self.nic_queues else { return 0 };
        let received = self.attachment.receive(&mut self.arrived, BURST);
        for mbuf in self.arrived.drain() {
            nic_queues.take(mbuf.data());
        }
        while self.unsent.len() < BURST
            && let Some(frame) = nic_queues.next()
            && let Some(mut mbuf) = self.pool.alloc()
        {
            frame.write(&mut mbuf);
            assert!(self.unsent.push(mbuf).is_ok(), "a burst fits a batch");
            nic_queues.advance();
        }
        if self.unsent.is_empty() { received } else { received + self.attachment.send(&mut self.unsent) }
    }

    fn next_frame(&mut self, now: Time) -> Option<Mbuf> {
        if self.host.next_wakeup(now) > now {
            return None;
        }
        let mut mbuf = self.spare.take().or_else(|| self.pool.alloc())?;
        assert!(mbuf.set_len(self.host.frame_bytes_max() as u16), "the pool's mbufs hold any frame");
        match self.host.poll_transmit(now, mbuf.data_mut()) {
            Some(frame_bytes) => {
                assert!(mbuf.set_len(frame_bytes as u16), "shorter than before");
                Some(mbuf)
            }
            None => {
                self.spare = Some(mbuf);
                None
            }
        }
    }

    /// Drops the frames in flight and publishes the final statistics.
    fn finish(&mut self, now: Time) {
        if self.has_finished {
            return;
        }
        self.has_finished = true;
        self.arrived.clear();
        self.unsent.clear();
        self.to_switch.clear();
        self.to_host.clear();
        self.spare = None;
        self.shared_stats.store_host_stats(
            self.number,
            FinalStats {
                stats: self.host.stats(now),
                late: self.late,
                gap_max: self.gap_max,
                link: delayed_link::link_stats([&self.to_host, &self.to_switch]),
            },
        );
    }
}

impl Task for AttachedHost {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(now) = self.shared_stats.scenario_time(Time::from_picos(clock.now_ps())) else {
            return if phase >= Phase::Discard { 0 } else { self.serve_software() };
        };
        if phase >= Phase::Discard {
            self.finish(now);
            return 0;
        }
        let gap = now.min(self.end).since(self.polled.min(self.end));
        self.gap_max = self.gap_max.max(gap);
        self.late += gap.saturating_sub(self.host.config().slack);
        self.polled = now;
        self.execute_commands(now);
        let moved = self.reporter.take_triggers(now, &mut self.host) + self.receive(now) + self.transmit(now);
        let has_events = self.host.has_program_events();
        if moved > 0 || has_events {
            self.reporter.report(&mut self.host);
        }
        let may_end = now >= self.end && !self.is_over;
        if moved > 0 || has_events || may_end {
            self.shared_stats.publish(now, self.number, &self.host);
            self.is_over |= may_end && self.host.is_finished();
        }
        moved
    }
}
