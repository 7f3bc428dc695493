//! The forwarder: classify, learn, look up, admit, hand over to the transmitter's lcore.

use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_mmu::{Arrival, PortWriter, Verdict};
use weir_units::{PortId, QueueId, Time};

use crate::counters::{Counters, DropReason, Published, queue_stat};
use crate::handoff::{FromReceiver, Queued, ToTransmitter};
use crate::packet::{BURST_MAX, Burst, Headers, Packet, PacketStore, Parsed};
use crate::receiver::handle_control;
use crate::shared::Shared;

/// Forwards what its ports received, and a copy of it for each of their clones.
#[derive(Debug)]
pub struct Forwarder<P> {
    shared: Arc<Shared>,
    /// What a receiver on another lcore hands over; none where this lcore receives itself.
    input: Option<FromReceiver<P>>,
    /// One ring to each transmitter.
    outputs: Box<[ToTransmitter<P>]>,
    /// Which transmitter serves a port.
    output_of: Box<[usize]>,
    /// The right to admit for the ports that are forwarded here, by port.
    writers: Box<[Option<PortWriter>]>,
    counters: Counters,
    /// The clones of each port; none for most.
    clones: Box<[Box<[PortId]>]>,
    /// What asks to be admitted: of the port in hand first, then of its clones in turn.
    staged: Box<[Staged<P>]>,
}

/// Packets of one ingress port that ask to be admitted, and their arrivals.
#[derive(Debug)]
struct Staged<P> {
    packets: ArrayVec<P, BURST_MAX>,
    arrivals: ArrayVec<Arrival, BURST_MAX>,
}

/// What becomes of a frame and its copies: decided once, so that they have one fate up to the MMU.
#[derive(Clone, Copy)]
enum Way {
    To(PortId),
    Flood,
    Drop(DropReason),
}

impl<P: Packet> Forwarder<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        input: Option<FromReceiver<P>>,
        outputs: Box<[ToTransmitter<P>]>,
        output_of: Box<[usize]>,
        ports: &[PortId],
    ) -> Forwarder<P> {
        let counters = Counters::new(shared.ports().len());
        let is_here = |port: PortId| ports.contains(&port);
        let writer = |port: PortId| if is_here(port) { shared.mmu.writer(port) } else { None };
        let clones_of = |port: PortId| shared.clones_of(port).filter(|_| is_here(port)).collect();
        let all = || (0..shared.ports().len() as u16).map(PortId);
        let writers = all().map(writer).collect();
        let clones: Box<[Box<[PortId]>]> = all().map(clones_of).collect();
        let clones_max = clones.iter().map(|clones| clones.len()).max().unwrap_or(0);
        let staged = (0..=clones_max).map(|_| Staged { packets: ArrayVec::new(), arrivals: ArrayVec::new() }).collect();
        Forwarder { shared, input, outputs, output_of, writers, counters, clones, staged }
    }

    /// Forwards what `port` received at `now`, and empties the burst.
    pub fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>, store: &mut impl PacketStore<P>) {
        let clones = self.clones[port.index()].len();
        for packet in burst.drain(..) {
            self.handle_packet(now, port, clones, packet, store);
        }
        self.flush_all(now, clones);
    }

    /// Forwards up to a burst of what the receiver handed over; returns how much it was.
    pub fn run_once(&mut self, now: Time, store: &mut impl PacketStore<P>) -> usize {
        let mut handled = 0;
        let mut port = PortId::default();
        let mut clones = self.clones[port.index()].len();
        while handled < BURST_MAX {
            let Some((from, packet)) = self.input.as_mut().and_then(|input| input.pop().ok()) else { break };
            if from != port {
                self.flush_all(now, clones);
                port = from;
                clones = self.clones[port.index()].len();
            }
            self.handle_packet(now, port, clones, packet, store);
            handled += 1;
        }
        self.flush_all(now, clones);
        handled
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, port: PortId, clones: usize, packet: P, store: &mut impl PacketStore<P>) {
        let (headers, way) = match packet.parse() {
            Parsed::Data(headers) => (Some(headers), self.way(now, port, &headers, packet.frame_bytes())),
            Parsed::Control(control) => {
                return handle_control(&self.shared, &mut self.counters, now, port, control);
            }
            Parsed::Malformed => (None, Way::Drop(DropReason::Malformed)),
        };
        if clones > 0 {
            self.forward_copies(now, port, &packet, headers.as_ref(), way, store);
        }
        let ingress = self.receive(port, headers.as_ref(), packet.frame_bytes());
        self.forward(now, 0, packet, ingress, way, store);
    }

    /// Learns the sender, and says what becomes of its frame.
    #[inline]
    fn way(&self, now: Time, port: PortId, headers: &Headers, frame_bytes: u32) -> Way {
        if frame_bytes > self.shared.frame_bytes_max {
            return Way::Drop(DropReason::Oversize);
        }
        if headers.destination.is_link_local() {
            return Way::Drop(DropReason::LinkLocal);
        }
        self.shared.fdb.learn(headers.source, port, now);
        match self.destination(headers, now) {
            Some(to) if to == port => Way::Drop(DropReason::SamePort),
            Some(to) => Way::To(to),
            None => Way::Flood,
        }
    }

    /// Has each clone of `port` receive a copy, and forwards it the same way. What there is no memory for was received,
    /// and is lost.
    fn forward_copies(
        &mut self,
        now: Time,
        port: PortId,
        packet: &P,
        headers: Option<&Headers>,
        way: Way,
        store: &mut impl PacketStore<P>,
    ) {
        for n in 0..self.clones[port.index()].len() {
            let ingress = self.receive(self.clones[port.index()][n], headers, packet.frame_bytes());
            if let Way::Drop(reason) = way {
                self.counters.drop(ingress, reason);
                continue;
            }
            match store.copy(packet) {
                Some(copy) => self.forward(now, 1 + n, copy, ingress, way, store),
                None => self.counters.drop(ingress, DropReason::NoMemory),
            }
        }
    }

    /// Counts a frame as received, and finds its ingress queue; without headers it is in the port's own class.
    #[inline]
    fn receive(&mut self, port: PortId, headers: Option<&Headers>, frame_bytes: u32) -> QueueId {
        let classifier = &self.shared.classifier;
        let class = headers.map_or_else(|| classifier.port_class(port), |headers| classifier.class(port, headers));
        let ingress = QueueId::new(port, class);
        self.counters.add(ingress, queue_stat::FRAMES, 1);
        self.counters.add(ingress, queue_stat::BYTES, u64::from(frame_bytes));
        ingress
    }

    /// The one port that a frame goes to; `None` for all of them.
    #[inline]
    fn destination(&self, headers: &Headers, now: Time) -> Option<PortId> {
        if headers.destination.is_group() { None } else { self.shared.fdb.lookup(headers.destination, now) }
    }

    #[inline]
    fn forward(
        &mut self,
        now: Time,
        staged: usize,
        packet: P,
        ingress: QueueId,
        way: Way,
        store: &mut impl PacketStore<P>,
    ) {
        match way {
            Way::To(to) => self.stage(now, staged, packet, ingress, to),
            Way::Flood => self.flood(now, staged, packet, ingress, store),
            Way::Drop(reason) => self.counters.drop(ingress, reason),
        }
    }

    /// Sends a frame to every port but its own: copies to all but the last, itself to the last.
    fn flood(&mut self, now: Time, staged: usize, packet: P, ingress: QueueId, store: &mut impl PacketStore<P>) {
        let from = self.shared.port(ingress.port()).real_port;
        let ports = self.shared.ports().iter().zip(0..).map(|(state, port)| (state, PortId(port)));
        let targets: ArrayVec<PortId, FLOOD_MAX> = ports
            .filter(|(state, port)| *port != from && state.real_port == *port && state.link_up())
            .map(|(_, port)| port)
            .take(FLOOD_MAX)
            .collect();
        let Some((last, others)) = targets.split_last() else {
            return self.counters.drop(ingress, DropReason::PortDown);
        };
        for to in others {
            self.counters.add(ingress, queue_stat::EXTRA, 1);
            match store.copy(&packet) {
                Some(copy) => self.stage(now, staged, copy, ingress, *to),
                None => self.counters.drop(ingress, DropReason::NoMemory),
            }
        }
        self.stage(now, staged, packet, ingress, *last);
    }

    /// Queues a packet for admission.
    #[inline]
    fn stage(&mut self, now: Time, staged: usize, packet: P, ingress: QueueId, to: PortId) {
        if !self.shared.port(to).link_up() {
            return self.counters.drop(ingress, DropReason::PortDown);
        }
        if self.staged[staged].packets.is_full() {
            self.flush(now, staged);
        }
        let bytes = self.shared.charge.of(packet.frame_bytes());
        let staged = &mut self.staged[staged];
        staged.arrivals.push(Arrival { ingress, egress: QueueId::new(to, ingress.class()), bytes });
        staged.packets.push(packet);
    }

    /// Admits what is staged of the port in hand, and of its clones.
    #[inline]
    fn flush_all(&mut self, now: Time, clones: usize) {
        (0..=clones).for_each(|staged| self.flush(now, staged));
    }

    /// Admits what is staged of one ingress port, and hands what is kept to the transmitters.
    #[inline]
    fn flush(&mut self, now: Time, staged: usize) {
        let Staged { packets, arrivals } = &mut self.staged[staged];
        let Some(first) = arrivals.first() else { return };
        let port = first.ingress.port();
        let mut verdicts = [Verdict::Drop(weir_mmu::DropReason::SharedFull); BURST_MAX];
        let verdicts = &mut verdicts[..arrivals.len()];
        let writer = self.writers[port.index()].as_mut().expect("a port that is forwarded here, and only here");
        if self.shared.mmu.admit(writer, now, arrivals, verdicts) != 0 {
            // The peer of the real port is who must pause.
            self.shared.port(self.shared.port(port).real_port).note_xoff(now);
        }
        let counters = &mut self.counters;
        let packets = packets.drain(..).zip(arrivals.drain(..)).zip(verdicts);
        let mut kept = packets.filter_map(|((packet, charged), verdict)| match *verdict {
            Verdict::Keep(_) => {
                counters.add(charged.ingress, queue_stat::HANDED_OVER, 1);
                Some(Queued { frame_bytes: packet.frame_bytes(), packet, charged })
            }
            Verdict::Drop(reason) => {
                counters.drop(charged.ingress, reason.into());
                None
            }
        });
        // A ring has room for all that the buffer can hold, so a full one is a broken invariant and no traffic's fault.
        if let [output] = &mut *self.outputs {
            let room = output.slots().min(BURST_MAX);
            let chunk = output.write_chunk_uninit(room).expect("as many slots as counted");
            chunk.fill_from_iter(&mut kept);
            assert!(kept.next().is_none(), "the MMU admitted more than the buffer holds");
        } else {
            for queued in kept {
                let output = &mut self.outputs[self.output_of[queued.charged.egress.port().index()]];
                assert!(output.push(queued).is_ok(), "the MMU admitted more than the buffer holds");
            }
        }
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    /// Gives up what a stopped receiver left, counting it; returns how much.
    pub fn discard(&mut self) -> usize {
        let mut discarded = 0;
        while let Some((port, packet)) = self.input.as_mut().and_then(|input| input.pop().ok()) {
            for n in 0..=self.clones[port.index()].len() {
                let at = if n == 0 { port } else { self.clones[port.index()][n - 1] };
                let queue = self.receive(at, None, packet.frame_bytes());
                self.counters.drop(queue, DropReason::Shutdown);
            }
            discarded += 1;
        }
        discarded
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
}

/// Ports that one frame is flooded to at most: as many as a switch may have.
const FLOOD_MAX: usize = 64;
