//! The TX half: flow-control frames first, then the queues whose gate is open, within the port's rate.

use std::sync::Arc;

use arrayvec::ArrayVec;
use hdrhistogram::Histogram;
use weir_flowctl::Shaper;
use weir_flowctl::frame::ControlFrame;
use weir_flowctl::pfc::Generator;
use weir_mmu::{Departure, EcnMarker, Mmu};
use weir_units::{CLASSES, Class, PortId, QueueId, Span, Time};

use crate::counters::{Counters, DropReason, Published, gauge, port_stat, queue_stat};
use crate::handoff::{FromForwarder, Queued};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput};
use crate::queue_limits::QueueLimits;
use crate::queues::Queues;
use crate::scheduler::Scheduler;
use crate::shared::Shared;

/// Transmits on its ports.
#[derive(Debug)]
pub struct Transmitter<P> {
    shared: Arc<Shared>,
    inputs: Box<[FromForwarder<P>]>,
    queues: Queues<Queued<P>>,
    ports: Box<[OutPort<P>]>,
    /// Position in `ports` of each port of the switch that is served here.
    position_of: Box<[usize]>,
    counters: Counters,
    markers: [Option<EcnMarker>; CLASSES],
    /// State of the generator that RED's probabilities are drawn from (xorshift64*).
    random: u64,
    /// Nanoseconds from the arrival that crossed Xoff to the PAUSE handed to the port.
    pause_delays: Histogram<u64>,
}

/// One port's way out.
#[derive(Debug)]
pub(crate) struct OutPort<P> {
    pub id: PortId,
    pub shaper: Shaper,
    pub limits: QueueLimits,
    pub scheduler: Scheduler,
    /// `None` where the port speaks no flow control.
    pub generator: Option<Generator>,
    /// Classes that the MMU wants paused, as last seen: the port's own.
    own_off: u8,
    /// Those of each clone. Its frames come over this port's link, so its PAUSE is this port's.
    clones_off: Box<[(PortId, u8)]>,
    /// All of these together.
    off: u8,
    /// Classes with a frame in their queue.
    backlog: u8,
    /// Taken from the queues, not yet accepted by the port.
    staged: Burst<P>,
    /// What each of these was charged, and its length without FCS.
    departures: ArrayVec<Departure, BURST_MAX>,
    lengths: ArrayVec<u32, BURST_MAX>,
    /// When each class advertised OFF went OFF.
    off_since: [Time; CLASSES],
}

impl<P> OutPort<P> {
    pub(crate) fn new(
        id: PortId,
        clones: impl Iterator<Item = PortId>,
        shaper: Shaper,
        limits: QueueLimits,
        scheduler: Scheduler,
        generator: Option<Generator>,
    ) -> OutPort<P> {
        OutPort {
            id,
            shaper,
            limits,
            scheduler,
            generator,
            own_off: 0,
            clones_off: clones.map(|clone| (clone, 0)).collect(),
            off: 0,
            backlog: 0,
            staged: Burst::new(),
            departures: ArrayVec::new(),
            lengths: ArrayVec::new(),
            off_since: [Time::ZERO; CLASSES],
        }
    }
}

/// Packets taken from the forwarders' rings at once, so that a port is served at least that often.
const TAKEN_MAX: usize = 4 * BURST_MAX;
/// Longest delay that is told apart.
const PAUSE_DELAY_NANOS_MAX: u64 = 60_000_000_000;

impl<P: Packet> Transmitter<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inputs: Box<[FromForwarder<P>]>,
        ports: Box<[OutPort<P>]>,
        markers: [Option<EcnMarker>; CLASSES],
        places: usize,
        seed: u64,
    ) -> Transmitter<P> {
        let port_count = shared.ports().len();
        let mut position_of = vec![usize::MAX; port_count];
        ports.iter().enumerate().for_each(|(position, port)| position_of[port.id.index()] = position);
        Transmitter {
            position_of: position_of.into(),
            queues: Queues::new(port_count * CLASSES, places),
            counters: Counters::new(port_count),
            shared,
            inputs,
            ports,
            markers,
            random: seed | 1,
            pause_delays: Histogram::new_with_bounds(1, PAUSE_DELAY_NANOS_MAX, 2).expect("legal bounds"),
        }
    }

    /// Takes over what the forwarders admitted and serves every port once; returns how many frames moved.
    pub fn run_once<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        let taken = self.take_over(now);
        let sent: usize = (0..self.ports.len()).map(|port| self.serve_port(now, port, driver)).sum();
        taken + sent
    }

    /// Moves packets from the forwarders' rings into the egress queues.
    fn take_over(&mut self, now: Time) -> usize {
        let mut taken = 0;
        for input in 0..self.inputs.len() {
            let ready = self.inputs[input].slots().min(TAKEN_MAX);
            let Ok(chunk) = self.inputs[input].read_chunk(ready) else { continue };
            for queued in chunk {
                let queue = queued.charged.egress;
                self.counters.add(queue, queue_stat::HANDED_OVER, 1);
                match self.queues.push(queue, queued) {
                    Ok(()) => {
                        let position = self.position_of[queue.port().index()];
                        self.ports[position].backlog |= queue.class().bit();
                    }
                    // There are as many places as the buffer holds packets, so this can't be; if it is, nothing leaks.
                    Err(queued) => {
                        self.counters.drop(queue, DropReason::NoMemory);
                        self.shared.mmu.release(now, &[queued.charged]);
                    }
                }
            }
            taken += ready;
        }
        taken
    }

    /// Serves one port; returns how many frames went out.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let control = self.send_control(now, index, driver);
        let port = &mut self.ports[index];
        if !self.shared.port(port.id).link_up() {
            return control + self.discard_port(now, index, DropReason::PortDown, BURST_MAX);
        }
        if port.staged.is_empty() {
            if port.backlog == 0 {
                return control;
            }
            self.stage_frames(now, index);
        }
        control + self.send_staged(now, index, driver)
    }

    /// Tells the peer what changed, or refreshes a PAUSE that is due.
    #[inline]
    fn send_control<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        let mmu = &self.shared.mmu;
        port.own_off = off_classes(mmu, port.id, port.own_off, now);
        port.off = port.own_off;
        for (clone, off) in &mut port.clones_off {
            *off = off_classes(mmu, *clone, *off, now);
            port.off |= *off;
        }
        let Some(frame) = port.generator.as_ref().and_then(|generator| generator.poll(now, port.off)) else { return 0 };
        self.send_control_frame(now, index, &frame, driver)
    }

    #[cold]
    fn send_control_frame<D: PortOutput<P> + PacketStore<P>>(
        &mut self,
        now: Time,
        index: usize,
        frame: &ControlFrame,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        let Some(packet) = driver.control(frame, state.mac) else {
            self.counters.add_port(port.id, port_stat::IGNORED, 1);
            return 0;
        };
        let frame_bytes = packet.frame_bytes();
        let mut burst = Burst::new();
        burst.push(packet);
        if driver.transmit(port.id, &mut burst) == 0 {
            // The port takes nothing now; the generator will ask again at the next poll.
            return 0;
        }
        // A control frame is not held back by the shaper, but its time on the wire is the port's.
        port.shaper.send(now, frame_bytes);
        let Some(generator) = &mut port.generator else { return 1 };
        let (before, off) = (generator.advertised(), port.off);
        if off & !before != 0 {
            let delay = now.since(state.xoff_at()).as_nanos().clamp(1, PAUSE_DELAY_NANOS_MAX);
            self.pause_delays.record(delay).expect("within bounds");
        }
        generator.handle_sent(now, off);
        match frame {
            ControlFrame::Pfc(_) => self.counters.add_port(port.id, port_stat::PFC, 1),
            ControlFrame::Pause(_) => self.counters.add_port(port.id, port_stat::PAUSE, 1),
        }
        for class in Class::in_mask(off | before) {
            let stat = if off & class.bit() != 0 { port_stat::XOFF } else { port_stat::XON };
            self.counters.add_port(port.id, stat + class.index(), 1);
        }
        for class in Class::in_mask(off & !before) {
            self.counters.add_port(port.id, port_stat::PAUSES + class.index(), 1);
            port.off_since[class.index()] = now;
        }
        for class in Class::in_mask(before & !off) {
            let off_for = now.since(port.off_since[class.index()]);
            self.counters.add_port(port.id, port_stat::OFF_PICOS + class.index(), off_for.as_picos());
        }
        1
    }

    /// Moves frames that may go now from the queues to the port's burst.
    #[inline]
    fn stage_frames(&mut self, now: Time, index: usize) {
        let Transmitter { shared, queues, ports, counters, markers, random, .. } = self;
        let port = &mut ports[index];
        let mut ready = port.backlog & !shared.port(port.id).gate.paused(now);
        ready &= !port.limits.waiting(now, ready);
        while ready != 0 && port.shaper.is_free(now) && !port.staged.is_full() {
            let queue_of = |class| QueueId::new(port.id, class);
            let head = |class| queues.front(queue_of(class)).map_or(0, |queued| queued.frame_bytes);
            let Some(class) = port.scheduler.next(ready, head) else { break };
            let queue = queue_of(class);
            let Some(mut queued) = queues.pop(queue) else { break };
            if let Some(marker) = &markers[class.index()]
                && marker.marks(shared.mmu.egress_length(queue), next_random(random))
                && queued.packet.mark_ce()
            {
                counters.add(queue, queue_stat::EXTRA, 1);
            }
            port.shaper.send(now, queued.frame_bytes);
            if port.limits.send(now, class, queued.frame_bytes) {
                ready &= !class.bit();
            }
            port.departures.push(queued.charged);
            port.lengths.push(queued.frame_bytes);
            port.staged.push(queued.packet);
            if queues.is_empty(queue) {
                port.backlog &= !class.bit();
                ready &= !class.bit();
                port.scheduler.handle_empty(class);
            }
        }
    }

    /// Offers the port its burst, and releases what it accepts.
    #[inline]
    fn send_staged<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        if port.staged.is_empty() {
            return 0;
        }
        let sent = driver.transmit(port.id, &mut port.staged);
        for (departure, frame_bytes) in port.departures[..sent].iter().zip(&port.lengths) {
            self.counters.add(departure.egress, queue_stat::FRAMES, 1);
            self.counters.add(departure.egress, queue_stat::BYTES, u64::from(*frame_bytes));
        }
        self.shared.mmu.release(now, &port.departures[..sent]);
        port.departures.drain(..sent);
        port.lengths.drain(..sent);
        debug_assert_eq!(port.departures.len(), port.staged.len());
        sent
    }

    /// Gives up everything that is held, counting it; returns how much.
    pub fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        let mut discarded = 0;
        loop {
            let more = self.take_over(now)
                + (0..self.ports.len()).map(|index| self.discard_port(now, index, reason, usize::MAX)).sum::<usize>();
            if more == 0 {
                return discarded;
            }
            discarded += more;
        }
    }

    fn discard_port(&mut self, now: Time, index: usize, reason: DropReason, limit: usize) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = port.staged.len();
        port.staged.clear();
        for departure in &port.departures {
            self.counters.drop(departure.egress, reason);
        }
        self.shared.mmu.release(now, &port.departures);
        port.departures.clear();
        port.lengths.clear();
        for class in Class::in_mask(port.backlog) {
            let queue = QueueId::new(port.id, class);
            while discarded < limit
                && let Some(queued) = self.queues.pop(queue)
            {
                self.counters.drop(queue, reason);
                self.shared.mmu.release(now, &[queued.charged]);
                discarded += 1;
            }
            if self.queues.is_empty(queue) {
                port.backlog &= !class.bit();
            }
        }
        discarded
    }

    /// The earliest instant after `now` at which there may be something to do without a packet arriving: a shaper's
    /// wire or a queue's limiter is free, a peer's pause ends, a PAUSE is to be refreshed.
    pub fn next_wakeup(&self, now: Time) -> Time {
        let wakeups = self.ports.iter().map(|port| {
            let refresh = port.generator.as_ref().map_or(Time::NEVER, Generator::next_wakeup);
            let gate = &self.shared.port(port.id).gate;
            let open = port.backlog & !gate.paused(now);
            let waiting = port.limits.waiting(now, open);
            let data = if open & !waiting != 0 || !port.staged.is_empty() {
                port.shaper.free_at()
            } else if port.backlog & !open != 0 {
                gate.next_wakeup(now).unwrap_or(Time::NEVER)
            } else {
                Time::NEVER
            };
            refresh.min(data).min(port.limits.next_wakeup(waiting))
        });
        wakeups.min().unwrap_or(Time::NEVER)
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub fn serve(&mut self, now: Time) {
        if let Some(request) = self.counters.requested() {
            self.publish(now, request);
        }
    }

    #[cold]
    fn publish(&mut self, now: Time, request: u64) {
        let staged: usize = self.ports.iter().map(|port| port.staged.len()).sum();
        self.counters.set_gauge(gauge::HELD, (self.queues.held() + staged) as u64);
        for port in &mut self.ports {
            let advertised = port.generator.as_ref().map_or(0, Generator::advertised);
            for class in Class::in_mask(advertised) {
                let since = std::mem::replace(&mut port.off_since[class.index()], now);
                let off_for: Span = now.since(since);
                self.counters.add_port(port.id, port_stat::OFF_PICOS + class.index(), off_for.as_picos());
            }
        }
        let delays = &self.pause_delays;
        self.counters.set_gauge(gauge::PAUSE_DELAYS, delays.len());
        let quantiles =
            [delays.value_at_quantile(0.5), delays.value_at_quantile(0.99), delays.value_at_quantile(0.999)];
        for (n, nanos) in quantiles.into_iter().chain([delays.max()]).enumerate() {
            self.counters.set_gauge(gauge::PAUSE_DELAY_NANOS + n, nanos);
        }
        self.counters.publish(request);
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
}

/// Which classes of an ingress port are to be paused; those that are OFF get another look, since nothing of their own
/// may tell that they resume.
#[inline]
fn off_classes(mmu: &Mmu, port: PortId, before: u8, now: Time) -> u8 {
    let off = mmu.off_classes(port, before);
    if off == 0 {
        return 0;
    }
    mmu.reconsider(port, off, now);
    mmu.off_classes(port, off)
}

#[inline]
fn next_random(state: &mut u64) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
}
