//! Forwarding on an lcore: of frames that its ports received, or that a receiver on another lcore hands over.

use std::sync::Arc;

use weir_mmu::{BurstRequest, RouteTotal};
use weir_units::{PortId, Time};

use super::exact_match::ExactMatchCache;
use super::handoff::{RxRingConsumer, TxRingProducer};
use crate::counters::{CounterSnapshot, Counters, DropReason};
use crate::forwarding::{AdmittedSink, Forwarding};
use crate::packet::{BURST_MAX, Burst, Packet, PacketAllocator, QueuedPacket};
use crate::shared::Shared;

/// RX and FWD on one lcore: forwards the frames that its ports received.
#[derive(Debug)]
pub(super) struct RxForwarder<P> {
    forwarding: Forwarding<P>,
    cache: ExactMatchCache,
}

/// FWD alone: forwards the frames that a [`Receiver`](super::Receiver) on another lcore hands over.
#[derive(Debug)]
pub(super) struct Forwarder<P> {
    forwarding: Forwarding<P>,
    cache: ExactMatchCache,
    input: RxRingConsumer<P>,
    rings: TxRings<P, false>,
    burst: Burst<P>,
}

/// Rings to the transmitters. Their forwarder obeys control frames, unless a receiver on another lcore does.
#[derive(Debug)]
pub(super) struct TxRings<P, const OBEYS_CONTROL: bool> {
    /// Rings by transmitter; `None` for the one on this lcore.
    outputs: Box<[Option<TxRingProducer<P>>]>,
    /// Index of each port's transmitter.
    output_of: Box<[usize]>,
    /// Whether frames wait for a full ring.
    is_waiting: bool,
}

impl<P: Packet> RxForwarder<P> {
    /// Returns a forwarder of `ports`, which include clones.
    pub(super) fn new(shared: Arc<Shared>, ports: &[PortId]) -> RxForwarder<P> {
        let counters = Counters::upfront(shared.ports().len());
        let cache = ExactMatchCache::new(shared.fdb.cache_sets());
        RxForwarder { forwarding: Forwarding::new(shared, ports, counters), cache }
    }

    /// Forwards the frames that `port` received at `now`, and empties the burst.
    pub(super) fn handle_burst(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        let RxForwarder { forwarding, cache } = self;
        if forwarding.has_clones(port) {
            return forwarding.handle_copied(now, port, burst, allocator, sink);
        }
        forwarding.handle_burst(now, port, burst, cache, allocator, sink);
    }

    pub(super) fn audit(&self) {
        self.forwarding.audit();
    }

    #[inline]
    pub(super) fn serve(&mut self) {
        self.forwarding.serve();
    }

    pub(super) fn published(&self) -> Arc<CounterSnapshot> {
        self.forwarding.published()
    }
}

impl<P: Packet> Forwarder<P> {
    /// Returns a forwarder of `ports`, which include clones.
    pub(super) fn new(
        shared: Arc<Shared>,
        ports: &[PortId],
        input: RxRingConsumer<P>,
        rings: TxRings<P, false>,
    ) -> Forwarder<P> {
        let counters = Counters::upfront(shared.ports().len());
        let cache = ExactMatchCache::new(shared.fdb.cache_sets());
        let forwarding = Forwarding::new(shared, ports, counters);
        Forwarder { forwarding, cache, input, rings, burst: Burst::new() }
    }

    /// Forwards up to a burst of frames from the receiver; returns their number.
    pub(super) fn run_once(&mut self, now: Time, allocator: &mut impl PacketAllocator<P>) -> usize {
        let mut handled = 0;
        let mut port = PortId::default();
        while handled < BURST_MAX {
            let Ok((from, packet)) = self.input.pop() else { break };
            if from != port {
                self.handle_burst(now, port, allocator);
                port = from;
            }
            self.burst.push(packet);
            handled += 1;
        }
        self.handle_burst(now, port, allocator);
        handled
    }

    fn handle_burst(&mut self, now: Time, port: PortId, allocator: &mut impl PacketAllocator<P>) {
        let Forwarder { forwarding, cache, rings, burst, .. } = self;
        match () {
            () if burst.is_empty() => {}
            () if forwarding.has_clones(port) => forwarding.handle_copied(now, port, burst, allocator, rings),
            () => forwarding.handle_burst(now, port, burst, cache, allocator, rings),
        }
    }

    /// Hands over frames that wait for a full ring.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        self.rings.hand_over_waiting();
    }

    /// Drops and counts frames that a stopped receiver left; returns their number.
    pub(super) fn discard(&mut self, reason: DropReason) -> usize {
        let mut discarded = 0;
        while let Ok((port, packet)) = self.input.pop() {
            if !packet.is_control() {
                self.forwarding.count_discarded(port, packet.frame_bytes(), reason);
                discarded += 1;
            }
        }
        discarded
    }

    pub(super) fn audit(&self) {
        self.forwarding.audit();
    }

    #[inline]
    pub(super) fn serve(&mut self) {
        self.forwarding.serve();
    }

    pub(super) fn published(&self) -> Arc<CounterSnapshot> {
        self.forwarding.published()
    }
}

impl<P: Packet, const OBEYS_CONTROL: bool> TxRings<P, OBEYS_CONTROL> {
    /// Returns the rings. `output_of` has, for each port of the switch, the index in `outputs`, which is `None` for a transmitter on this
    /// lcore.
    pub(super) fn new(
        outputs: impl IntoIterator<Item = Option<TxRingProducer<P>>>,
        output_of: Box<[usize]>,
    ) -> TxRings<P, OBEYS_CONTROL> {
        TxRings { outputs: outputs.into_iter().collect(), output_of, is_waiting: false }
    }

    /// Returns whether the transmitters of all ports of these routes are on this lcore.
    #[inline]
    pub(super) fn are_own(&self, routes: &[RouteTotal]) -> bool {
        let is_own = |route: &RouteTotal| self.outputs[self.output_of[route.egress.port().index()]].is_none();
        matches!(&*self.outputs, [None]) || routes.iter().all(is_own)
    }

    /// Returns the ring to the transmitter of a packet's port, unless that is on this lcore. Packets staged in the ring go with the next
    /// [`TxRings::hand_over`].
    #[inline]
    pub(super) fn remote_ring_mut(&mut self, queued: &QueuedPacket<P>) -> Option<&mut TxRingProducer<P>> {
        self.outputs[self.output_of[queued.charged.egress.port().index()]].as_mut()
    }

    /// Hands over a burst that was admitted without exception, if all of it goes to one transmitter on another lcore; returns whether it
    /// does.
    #[inline]
    pub(super) fn hand_over_all(&mut self, packets: &mut Burst<P>, request: &BurstRequest) -> bool {
        let mut outputs = request.routes().iter().map(|route| self.output_of[route.egress.port().index()]);
        let Some(first) = outputs.next() else { return true };
        if outputs.any(|output| output != first) {
            return false;
        }
        let Some(output) = &mut self.outputs[first] else { return false };
        self.is_waiting |= output.hand_over_all(packets, request);
        true
    }

    #[inline]
    pub(super) fn hand_over(&mut self) {
        self.is_waiting = self.outputs.iter_mut().flatten().fold(false, |waiting, output| output.hand_over() | waiting);
    }

    /// Hands over packets that wait for a full ring. Call it in each round, with or without frames.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        if self.is_waiting {
            self.hand_over();
        }
    }
}

impl<P: Packet, const OBEYS_CONTROL: bool> AdmittedSink<P> for TxRings<P, OBEYS_CONTROL> {
    const OBEYS_CONTROL: bool = OBEYS_CONTROL;

    #[inline]
    fn take(&mut self, _now: Time, admitted: impl Iterator<Item = QueuedPacket<P>>) {
        if let [Some(output)] = &mut *self.outputs {
            admitted.for_each(|queued| output.stage(queued));
        } else {
            admitted.for_each(|queued| self.remote_ring_mut(&queued).expect(ELSEWHERE).stage(queued));
        }
        self.hand_over();
    }

    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, request: &BurstRequest) {
        if !self.hand_over_all(packets, request) {
            self.take(now, QueuedPacket::all(packets, request));
        }
    }
}

const ELSEWHERE: &str = "a forwarder without a transmitter on its lcore has a ring to each";
