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

/// Forwards what its ports received.
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
    /// Packets that ask to be admitted, and their arrivals.
    staged: ArrayVec<P, BURST_MAX>,
    arrivals: ArrayVec<Arrival, BURST_MAX>,
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
        let writer = |port: PortId| ports.contains(&port).then(|| shared.mmu.writer(port)).flatten();
        let writers = (0..shared.ports().len() as u16).map(|port| writer(PortId(port))).collect();
        let (staged, arrivals) = (ArrayVec::new(), ArrayVec::new());
        Forwarder { shared, input, outputs, output_of, writers, counters, staged, arrivals }
    }

    /// Forwards what `port` received at `now`, and empties the burst.
    pub fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>, store: &mut impl PacketStore<P>) {
        for packet in burst.drain(..) {
            self.handle_packet(now, port, packet, store);
        }
        self.flush(now, port);
    }

    /// Forwards up to a burst of what the receiver handed over; returns how much it was.
    pub fn run_once(&mut self, now: Time, store: &mut impl PacketStore<P>) -> usize {
        let mut handled = 0;
        let mut port = PortId::default();
        while handled < BURST_MAX {
            let Some((from, packet)) = self.input.as_mut().and_then(|input| input.pop().ok()) else { break };
            if from != port {
                self.flush(now, port);
                port = from;
            }
            self.handle_packet(now, port, packet, store);
            handled += 1;
        }
        self.flush(now, port);
        handled
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, port: PortId, packet: P, store: &mut impl PacketStore<P>) {
        let headers = match packet.parse() {
            Parsed::Data(headers) => headers,
            Parsed::Control(control) => {
                return handle_control(&self.shared, &mut self.counters, now, port, control);
            }
            Parsed::Malformed => {
                let class = self.shared.classifier.port_class(port);
                self.count_received(QueueId::new(port, class), packet.frame_bytes());
                return self.counters.drop(QueueId::new(port, class), DropReason::Malformed);
            }
        };
        let ingress = QueueId::new(port, self.shared.classifier.class(port, &headers));
        self.count_received(ingress, packet.frame_bytes());
        if packet.frame_bytes() > self.shared.frame_bytes_max {
            return self.counters.drop(ingress, DropReason::Oversize);
        }
        if headers.destination.is_link_local() {
            return self.counters.drop(ingress, DropReason::LinkLocal);
        }
        self.shared.fdb.learn(headers.source, port, now);
        match self.destination(&headers, now) {
            Some(to) if to == port => self.counters.drop(ingress, DropReason::SamePort),
            Some(to) => self.stage(now, packet, ingress, to),
            None => self.flood(now, packet, ingress, store),
        }
    }

    #[inline]
    fn count_received(&mut self, ingress: QueueId, frame_bytes: u32) {
        self.counters.add(ingress, queue_stat::FRAMES, 1);
        self.counters.add(ingress, queue_stat::BYTES, u64::from(frame_bytes));
    }

    /// The one port that a frame goes to; `None` for all of them.
    #[inline]
    fn destination(&self, headers: &Headers, now: Time) -> Option<PortId> {
        if headers.destination.is_group() { None } else { self.shared.fdb.lookup(headers.destination, now) }
    }

    /// Sends a frame to every port but its own: copies to all but the last, itself to the last.
    fn flood(&mut self, now: Time, packet: P, ingress: QueueId, store: &mut impl PacketStore<P>) {
        let ports = self.shared.ports().len() as u16;
        let is_target = |port: &PortId| *port != ingress.port() && self.shared.port(*port).link_up();
        let targets: ArrayVec<PortId, FLOOD_MAX> = (0..ports).map(PortId).filter(is_target).take(FLOOD_MAX).collect();
        let Some((last, others)) = targets.split_last() else {
            return self.counters.drop(ingress, DropReason::PortDown);
        };
        for to in others {
            self.counters.add(ingress, queue_stat::EXTRA, 1);
            match store.copy(&packet) {
                Some(copy) => self.stage(now, copy, ingress, *to),
                None => self.counters.drop(ingress, DropReason::NoMemory),
            }
        }
        self.stage(now, packet, ingress, *last);
    }

    /// Queues a packet for admission.
    #[inline]
    fn stage(&mut self, now: Time, packet: P, ingress: QueueId, to: PortId) {
        if !self.shared.port(to).link_up() {
            return self.counters.drop(ingress, DropReason::PortDown);
        }
        if self.staged.is_full() {
            self.flush(now, ingress.port());
        }
        let bytes = self.shared.charge.of(packet.frame_bytes());
        self.arrivals.push(Arrival { ingress, egress: QueueId::new(to, ingress.class()), bytes });
        self.staged.push(packet);
    }

    /// Admits what is staged, all of it from `port`, and hands what is kept to the transmitters.
    #[inline]
    fn flush(&mut self, now: Time, port: PortId) {
        if self.staged.is_empty() {
            return;
        }
        let mut verdicts = [Verdict::Drop(weir_mmu::DropReason::SharedFull); BURST_MAX];
        let verdicts = &mut verdicts[..self.arrivals.len()];
        let writer = self.writers[port.index()].as_mut().expect("a port that is forwarded here, and only here");
        if self.shared.mmu.admit(writer, now, &self.arrivals, verdicts) != 0 {
            self.shared.port(port).note_xoff(now);
        }
        let counters = &mut self.counters;
        let packets = self.staged.drain(..).zip(self.arrivals.drain(..)).zip(verdicts);
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
            let queue = QueueId::new(port, self.shared.classifier.port_class(port));
            self.count_received(queue, packet.frame_bytes());
            self.counters.drop(queue, DropReason::Shutdown);
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
