//! One lcore's part of one switch, and the queues of its ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rtrb::Producer;
use weir_dpdk_io::{Batch, Clock, FreeMbufLocation, RxInterrupt, RxQueue, TxQueue};
use weir_switch_core::burst::Lcore;
use weir_switch_core::counters::DropReason;
use weir_switch_core::{BURST_MAX, Burst, Direction, PacketAllocator, PacketRuns, PortOutput, transmit_runs_as_burst};
use weir_units::{MacAddr, PortId, QueueId, Time};
use weir_wire::lldp::is_lldp;
use weir_wire::loop_guard;
use weir_wire::mac_control::ControlFrame;

use crate::capture::Captures;
use crate::dropped::DroppedFrame;
use crate::frame::{Frame, FrameStore};
use crate::lcore_work::PacketTally;
use crate::lldp::LldpLcore;
use crate::tap::Tap;
use crate::task::{Phase, Task};

/// Frames received from a port at once.
const RX_BURST: usize = 64;

/// Task of one lcore of a switch, with the devices' queues.
#[derive(Debug)]
pub(crate) struct SwitchLcore {
    lcore: Lcore<Frame>,
    rx: Vec<RxPort>,
    tx_ports: TxPorts,
    batch: Batch,
    burst: Burst<Frame>,
    may_rest: bool,
    /// Whether mbufs to receive into are prefetched.
    fetches_ahead: bool,
    /// Location of free mbufs for `fetches_ahead`.
    free_memory: FreeMbufLocation,
    packet_tally: PacketTally,
}

/// A port's receive queue.
#[derive(Debug)]
struct RxPort {
    port: PortId,
    queue: RxQueue,
    tap: Option<Tap>,
    /// Whether a tap or a capture watches the frames.
    is_watched: bool,
}

/// Transmit side: the ports' queues, and pools for frames that the switch makes.
#[derive(Debug)]
struct TxPorts {
    store: FrameStore,
    /// Outputs by port; `None` for ports that other lcores transmit on, and for those whose device was removed.
    tx: Vec<Option<TxPort>>,
    batch: Batch,
    /// Whether any port that this lcore transmits on has a tap.
    is_tapped: bool,
    /// Whether there is a tap or a capture.
    is_watched: bool,
    captures: Captures,
    dropped: Option<Producer<DroppedFrame>>,
    lldp: Option<Box<LldpLcore>>,
    /// Instant at which the current round began to transmit; kept only where frames are watched.
    now: Time,
}

/// Transmit side of a port.
#[derive(Debug)]
struct TxPort {
    /// Queue 0, the only one of most ports.
    queue: TxQueue,
    /// Queue 1 and those after it.
    more: Box<[TxQueue]>,
    /// The queue for control frames; `None` where they leave by queue 0.
    control: Option<TxQueue>,
    /// True if the device reports its backlog.
    has_backlog: bool,
    backlog_stats: Arc<DeviceBacklog>,
    tap: Option<Tap>,
    /// Whether a tap or a capture watches the frames.
    is_watched: bool,
}

/// A port's transmit queues.
#[derive(Debug, Default)]
pub(crate) struct TxQueues {
    /// Queues for data: several only at a vhost-user port.
    pub(crate) data: Vec<TxQueue>,
    /// The queue for control frames, where they have their own.
    pub(crate) control: Option<TxQueue>,
}

/// Statistics of frames at a device's own transmit queues, beyond the MMU's counters.
#[derive(Debug, Default)]
pub(crate) struct DeviceBacklog {
    frames_max: AtomicU32,
    fallbacks: AtomicU64,
}

impl DeviceBacklog {
    /// The most frames that stood in a queue so far.
    pub(crate) fn frames_max(&self) -> u32 {
        self.frames_max.load(Ordering::Relaxed)
    }

    /// Frames that left by queue 0 as their own was not enabled.
    pub(crate) fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Ordering::Relaxed)
    }

    /// Records a backlog. One lcore writes.
    fn record(&self, frames: u32) {
        if frames > self.frames_max.load(Ordering::Relaxed) {
            self.frames_max.store(frames, Ordering::Relaxed);
        }
    }

    /// Counts frames that left by queue 0. One lcore writes.
    pub(crate) fn record_fallbacks(&self, frames: usize) {
        self.fallbacks.store(self.fallbacks.load(Ordering::Relaxed) + frames as u64, Ordering::Relaxed);
    }
}

impl TxPort {
    fn new(TxQueues { mut data, control }: TxQueues, backlog_stats: &Arc<DeviceBacklog>, tap: Option<Tap>) -> TxPort {
        assert!(!data.is_empty(), "a port that is transmitted on has a queue");
        let more = data.split_off(1).into();
        let queue = data.remove(0);
        let is_watched = tap.is_some();
        TxPort {
            has_backlog: queue.backlog().is_some(),
            queue,
            more,
            control,
            backlog_stats: backlog_stats.clone(),
            tap,
            is_watched,
        }
    }
}

impl SwitchLcore {
    /// Combines an lcore's part with its queues. `rx` are the queues of the ports that this lcore receives from, `tx` those of
    /// the ports that it transmits on; `backlogs` are all ports'. `captures` has none yet. `taps` gives a tap for each queue of a port that is to have
    /// one.
    pub(crate) fn new(
        lcore: Lcore<Frame>,
        rx: Vec<(PortId, Vec<RxQueue>)>,
        tx: Vec<(PortId, TxQueues)>,
        backlogs: &[Arc<DeviceBacklog>],
        store: FrameStore,
        captures: Captures,
        mut taps: impl FnMut(PortId) -> Option<Tap>,
    ) -> SwitchLcore {
        let ports = tx.iter().map(|(port, _)| port.index() + 1).max().unwrap_or(0);
        let mut by_port: Vec<Option<TxPort>> = (0..ports).map(|_| None).collect();
        for (port, queues) in tx {
            by_port[port.index()] = Some(TxPort::new(queues, &backlogs[port.index()], taps(port)));
        }
        let inputs = rx.into_iter().flat_map(|(port, queues)| queues.into_iter().map(move |queue| (port, queue)));
        let input = |(port, queue)| {
            let tap = taps(port);
            RxPort { port, queue, is_watched: tap.is_some(), tap }
        };
        let rx = inputs.map(input).collect();
        let is_tapped = by_port.iter().flatten().any(|output| output.tap.is_some());
        let batch = Batch::new();
        let free_memory =
            if lcore.role.transmits.is_empty() { FreeMbufLocation::OtherCores } else { FreeMbufLocation::Memory };
        let tx_ports = TxPorts {
            store,
            tx: by_port,
            batch,
            is_tapped,
            is_watched: is_tapped,
            captures,
            dropped: None,
            lldp: None,
            now: Time::ZERO,
        };
        SwitchLcore {
            lcore,
            rx,
            tx_ports,
            batch: Batch::new(),
            burst: Burst::new(),
            may_rest: false,
            fetches_ahead: false,
            free_memory,
            packet_tally: PacketTally::default(),
        }
    }

    /// Allows the lcore to rest while idle. Condition: the switch has no other lcore, and every sender to its ports waits while the port is
    /// not polled, or raises an interrupt.
    pub(crate) fn may_rest(&mut self) {
        self.may_rest = true;
    }

    /// Exchanges LLDP frames with the control thread.
    pub(crate) fn exchange_lldp(&mut self, lldp: LldpLcore) {
        self.tx_ports.lldp = Some(Box::new(lldp));
    }

    /// Passes dropped frames to the control thread.
    pub(crate) fn pass_dropped(&mut self, to: Producer<DroppedFrame>) {
        self.tx_ports.dropped = Some(to);
    }

    /// Sends the control thread's frames. Those of the loop guard do not wait: a later one serves as well.
    fn send_lldp(&mut self, clock: &Clock) {
        let SwitchLcore { lcore, tx_ports, .. } = self;
        let Some(mut lldp) = tx_ports.lldp.take() else { return };
        tx_ports.now = now(clock);
        lldp.send(|port, frame| {
            let unsent = lcore.send_lldp(now(clock), port, frame, tx_ports);
            unsent.or_else(|frame| loop_guard::token(frame.0.data()).map(drop).ok_or(frame))
        });
        tx_ports.lldp = Some(lldp);
    }

    /// One round: receive from every port, forward, transmit on every port. Returns how many frames moved, or are overdue.
    // Not inlined: benchmark `forwarding` counts its instructions by its name, without those of a loop that has nothing left.
    #[inline(never)]
    fn run_once(&mut self, clock: &Clock) -> usize {
        let mut moved = 0;
        for RxPort { port, queue, tap, is_watched } in &mut self.rx {
            let received = queue.receive(&mut self.batch, self.lcore.room().min(RX_BURST));
            if received == 0 {
                continue;
            }
            moved += received;
            self.packet_tally.record(received);
            let now = now(clock);
            for mbuf in self.batch.as_slice() {
                mbuf.prefetch();
            }
            self.batch.give_to(&mut self.burst);
            if *is_watched {
                record_received(now, *port, tap, &mut self.tx_ports.captures, &self.burst);
            }
            self.lcore.handle_burst(now, *port, &mut self.burst, &mut self.tx_ports);
            if self.fetches_ahead {
                // As many as came now may come next: with few at a time, memory for a whole burst would take longer than the frames do.
                self.tx_ports.store.data.fetch_ahead(received, self.free_memory);
            }
        }
        let moved_on = self.forward_and_transmit(clock);
        // Where as many frames leave as arrive, frames are received into the mbufs freed last.
        self.fetches_ahead = moved > moved_on && self.lcore.receives_into_cold_memory();
        moved + moved_on
    }

    #[inline]
    fn forward_and_transmit(&mut self, clock: &Clock) -> usize {
        let forwarded = self.lcore.forward(|| now(clock), &mut self.tx_ports);
        if self.tx_ports.is_watched {
            self.tx_ports.now = now(clock);
        }
        let sent = self.lcore.transmit(|| now(clock), &mut self.tx_ports);
        let moved = forwarded + sent;
        if self.rx.is_empty() && moved > 0 {
            // From other lcores.
            self.packet_tally.record(moved);
        }
        if self.lcore.is_behind() { moved.max(1) } else { moved }
    }
}

impl Task for SwitchLcore {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let moved = match phase {
            Phase::Run => self.run_once(clock),
            Phase::Drain => self.forward_and_transmit(clock),
            Phase::Discard | Phase::Stop => {
                self.lcore.discard(now(clock), DropReason::Shutdown);
                0
            }
        };
        self.lcore.serve(|| now(clock));
        moved
    }

    fn on_control(&mut self, clock: &Clock) {
        let TxPorts { captures, tx, is_tapped, is_watched, .. } = &mut self.tx_ports;
        captures.on_control();
        self.rx.retain(|input| !input.queue.is_removed());
        for output in tx.iter_mut() {
            *output = output.take().filter(|output| !output.queue.is_removed());
        }
        for input in &mut self.rx {
            input.is_watched = input.tap.is_some() || captures.captures_inbound(input.port);
        }
        for (port, output) in (0..).map(PortId).zip(tx) {
            if let Some(output) = output {
                output.is_watched = output.tap.is_some() || captures.captures_outbound(port);
            }
        }
        *is_watched = *is_tapped || !captures.are_none();
        self.send_lldp(clock);
    }

    fn next_wakeup(&self, now: Time) -> Option<Time> {
        self.may_rest.then(|| self.lcore.next_wakeup(now))
    }

    fn packet_tally(&self) -> PacketTally {
        self.packet_tally
    }

    fn rx_interrupts(&self) -> Option<Vec<RxInterrupt>> {
        self.rx.iter().map(|input| input.queue.rx_interrupt()).collect()
    }
}

impl PacketAllocator<Frame> for TxPorts {
    fn copy(&mut self, packet: &Frame) -> Option<Frame> {
        self.store.copy(packet)
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<Frame> {
        self.store.control(frame, source)
    }

    fn on_drop(&mut self, now: Time, packet: &Frame, queue: QueueId, direction: Direction, reason: DropReason) {
        if let Some(dropped) = &mut self.dropped {
            let _ = dropped.push(DroppedFrame { at: now, queue, reason });
        }
        self.captures.record_drop(now, queue, direction, reason, packet);
    }

    fn take_lldp(&mut self, port: PortId, packet: &Frame) -> bool {
        let frame = packet.0.data();
        let is_for_agent = is_lldp(frame) || loop_guard::token(frame).is_some();
        let Some(lldp) = self.lldp.as_mut().filter(|lldp| lldp.has_room() && is_for_agent) else { return false };
        // A clone's copy came by the real port.
        self.captures.is_real(port) && self.store.copy(packet).is_some_and(|copy| lldp.pass(port, copy))
    }
}

impl PortOutput<Frame> for TxPorts {
    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { return 0 };
        let limit = burst.len();
        let sent = if output.is_watched {
            let watchers = FrameWatchers { port, now: self.now, tap: &mut output.tap, captures: &mut self.captures };
            send_watched(&mut output.queue, watchers, &mut self.batch, burst, limit)
        } else {
            send(&mut output.queue, &mut self.batch, burst, limit)
        };
        if output.has_backlog {
            output.backlog_stats.record(output.queue.backlog().unwrap_or(0));
        }
        sent
    }

    fn transmit_control(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { return 0 };
        let Some(queue) = &mut output.control else { return self.transmit(port, burst) };
        let limit = burst.len();
        if output.is_watched {
            let watchers = FrameWatchers { port, now: self.now, tap: &mut output.tap, captures: &mut self.captures };
            send_watched(queue, watchers, &mut self.batch, burst, limit)
        } else {
            send(queue, &mut self.batch, burst, limit)
        }
    }

    #[inline]
    fn transmit_runs(&mut self, port: PortId, rows: &mut impl PacketRuns<Frame>) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { return 0 };
        if output.is_watched {
            return transmit_runs_as_burst(rows, |burst| self.transmit(port, burst));
        }
        rows.for_each_run(|row| self.batch.take_from_row(row));
        let sent = output.queue.send(&mut self.batch);
        if !self.batch.is_empty() {
            rows.put_back(sent, self.batch.drain().map(Frame));
        }
        if output.has_backlog {
            output.backlog_stats.record(output.queue.backlog().unwrap_or(0));
        }
        sent
    }

    fn transmit_by(&mut self, port: PortId, queue: u8, burst: &mut Burst<Frame>, limit: usize) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { return 0 };
        let own = usize::from(queue).checked_sub(1).map(|after_first| &mut output.more[after_first]);
        let (by, is_fallback) = match own {
            Some(own) if own.is_enabled() => (own, false),
            // The guest has not enabled that queue.
            Some(_) => (&mut output.queue, true),
            None => (&mut output.queue, false),
        };
        let sent = if output.is_watched {
            let watchers = FrameWatchers { port, now: self.now, tap: &mut output.tap, captures: &mut self.captures };
            send_watched(by, watchers, &mut self.batch, burst, limit)
        } else {
            send(by, &mut self.batch, burst, limit)
        };
        if is_fallback && sent > 0 {
            output.backlog_stats.record_fallbacks(sent);
        }
        sent
    }
}

/// Passes a port's received frames to its tap and captures.
#[cold]
#[inline(never)]
fn record_received(now: Time, port: PortId, tap: &mut Option<Tap>, captures: &mut Captures, burst: &Burst<Frame>) {
    if let Some(tap) = tap {
        burst.iter().for_each(|frame| tap.record(now, Direction::Inbound, &frame.0));
    }
    if captures.captures_inbound(port) {
        burst.iter().for_each(|frame| captures.record_received(now, port, frame));
    }
}

/// Sends up to `limit` frames from the front of the burst, and leaves the rest there; returns how many went.
#[inline]
pub(crate) fn send(queue: &mut TxQueue, batch: &mut Batch, burst: &mut Burst<Frame>, limit: usize) -> usize {
    const { assert!(BURST_MAX <= weir_dpdk_io::MAX_BURST) };
    batch.take_from(burst, limit);
    let sent = queue.send(batch);
    if !batch.is_empty() {
        // Frames that are left go before those that were not offered.
        let not_offered = std::mem::take(burst);
        burst.extend(batch.drain().map(Frame));
        burst.extend(not_offered);
    }
    sent
}

/// Watchers of a port's sent frames.
struct FrameWatchers<'w> {
    port: PortId,
    now: Time,
    tap: &'w mut Option<Tap>,
    captures: &'w mut Captures,
}

/// [`send`] where a tap or a capture wants the frames that were sent, and no others.
#[cold]
#[inline(never)]
fn send_watched(
    queue: &mut TxQueue,
    watchers: FrameWatchers<'_>,
    batch: &mut Batch,
    burst: &mut Burst<Frame>,
    limit: usize,
) -> usize {
    let FrameWatchers { port, now, tap, captures } = watchers;
    let is_captured = captures.captures_outbound(port);
    if is_captured {
        captures.stage(now, port, burst, limit);
    }
    let sent = match tap {
        Some(tap) if tap.may_want(burst.first().map(|frame| &frame.0)) => {
            send_tapped(queue, tap, now, batch, burst, limit)
        }
        _ => send(queue, batch, burst, limit),
    };
    if is_captured {
        captures.commit(port, sent);
    }
    sent
}

/// Sends up to `limit` frames one by one, so that a tap has those that were sent and no others.
#[cold]
fn send_tapped(
    queue: &mut TxQueue,
    tap: &mut Tap,
    now: Time,
    batch: &mut Batch,
    burst: &mut Burst<Frame>,
    limit: usize,
) -> usize {
    let mut sent = 0;
    let mut is_full = false;
    for (n, frame) in std::mem::take(burst).into_iter().enumerate() {
        if is_full || n >= limit {
            burst.push(frame);
            continue;
        }
        tap.stage_wanted(now, &frame.0);
        assert!(batch.push(frame.0).is_ok(), "a frame fits an empty batch");
        if queue.send(batch) == 1 {
            tap.commit();
            sent += 1;
        } else {
            tap.withdraw();
            burst.extend(batch.drain().map(Frame));
            is_full = true;
        }
    }
    sent
}

#[inline]
fn now(clock: &Clock) -> Time {
    Time::from_picos(clock.now_ps())
}
