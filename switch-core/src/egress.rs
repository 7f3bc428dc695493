//! Egress queues: the frames that wait for a port and class, and the ingress port that is served next.

use weir_arbitration::{Arbiter, DequeuedFrame};
use weir_config::QueueConfig;
use weir_mmu::BurstRequest;
use weir_units::{CLASSES, ClassSet, PortBitmap, PortId, PortSet, PortSetRef, QueueId};

use crate::burst::chunks::{ChunkCursor, Chunks};
use crate::packet::{Burst, Packet, QueuedPacket};
use crate::queues::PacketQueues;
use crate::random::Random;

/// Egress queues of all ports of a transmitter.
///
/// A queue in order of arrival is one FIFO. Under another arbitration it has a FIFO for each ingress port, its subqueues, which take turns.
#[derive(Debug)]
pub(crate) struct EgressQueues<F, S> {
    /// FIFO of each queue in order of arrival, by [`QueueId::index`], and then the subqueues.
    fifos: F,
    /// Subqueues of each queue, `None` in order of arrival; empty if all queues are.
    subqueues: Box<[Option<IngressFifos<S>>]>,
    random: Random,
}

/// Subqueues of a queue, by ingress port, and the arbiter among them.
#[derive(Debug)]
struct IngressFifos<S> {
    /// FIFO of the first ingress port's subqueue.
    first: usize,
    /// Ingress ports with a frame.
    waiting: S,
    /// Served ingress port: a waiting one, if any.
    served: PortId,
    arbiter: Box<dyn Arbiter>,
}

impl<S: PortBitmap> IngressFifos<S> {
    /// Returns the FIFO of an ingress port's frames.
    fn subqueue(&self, ingress: PortId) -> usize {
        self.first + ingress.index()
    }

    /// Takes notice of frames from an ingress port.
    fn arrive(&mut self, ingress: PortId) {
        if self.waiting.is_empty() {
            self.served = ingress;
            self.arbiter.start(ingress);
        }
        self.waiting.insert(ingress);
    }

    /// Chooses the ingress port that is served after a frame has left. `is_last`: it was the only one from its port.
    fn depart(&mut self, frame_bytes: u32, is_last: bool, random: &mut Random) {
        let IngressFifos { waiting, served, arbiter, .. } = self;
        if is_last {
            waiting.remove(*served);
        }
        if !waiting.is_empty() {
            let frame = DequeuedFrame { port: *served, frame_bytes, waiting: PortSetRef::new(waiting) };
            *served = arbiter.select_next(frame, &mut |n| random.below(n));
            debug_assert!(waiting.contains(*served), "an arbiter chooses a port that waits");
        }
    }
}

impl<F: PacketQueues, S: PortBitmap> EgressQueues<F, S> {
    /// Returns empty queues for a switch of `ports` ports, with room for `limit` frames together, of which `places` are allocated now.
    pub(crate) fn new(
        ports: usize,
        limit: usize,
        places: usize,
        queues: &[QueueConfig; CLASSES],
        seed: u64,
    ) -> EgressQueues<F, S> {
        let mut fifos = ports * CLASSES;
        let arbiters = (0..ports).flat_map(|_| queues).map(|queue| queue.arbitration.arbiter());
        let subqueues = arbiters.map(|arbiter| {
            arbiter.map(|arbiter| {
                fifos += ports;
                IngressFifos { first: fifos - ports, waiting: S::EMPTY, served: PortId(0), arbiter }
            })
        });
        let subqueues: Vec<_> = subqueues.collect();
        let any = subqueues.iter().any(Option::is_some);
        EgressQueues {
            fifos: F::new(fifos, limit, places),
            subqueues: if any { subqueues.into() } else { Box::default() },
            random: Random::new(seed),
        }
    }

    #[inline(always)]
    fn ingress_fifos(&self, queue: QueueId) -> Option<&IngressFifos<S>> {
        self.subqueues.get(queue.index())?.as_ref()
    }

    /// Queues a frame; returns it if all places are taken.
    #[inline]
    pub(crate) fn push(&mut self, queued: QueuedPacket<F::Packet>) -> Result<(), QueuedPacket<F::Packet>> {
        let queue = queued.charged.egress;
        match self.ingress_fifos(queue) {
            None => self.fifos.push(queue.index(), queued),
            Some(_) => self.push_to_subqueue(queue, queued),
        }
    }

    #[inline(never)]
    fn push_to_subqueue(
        &mut self,
        queue: QueueId,
        queued: QueuedPacket<F::Packet>,
    ) -> Result<(), QueuedPacket<F::Packet>> {
        let Some(subqueues) = &mut self.subqueues[queue.index()] else { return Err(queued) };
        let ingress = queued.charged.ingress.port();
        self.fifos.push(subqueues.subqueue(ingress), queued)?;
        subqueues.arrive(ingress);
        Ok(())
    }

    /// Returns the FIFO of the frame that leaves next.
    #[inline]
    fn served(&self, queue: QueueId) -> usize {
        self.ingress_fifos(queue).map_or(queue.index(), |subqueues| subqueues.subqueue(subqueues.served))
    }

    /// Returns the length of the frame that leaves next, in bytes without FCS.
    #[inline]
    pub(crate) fn head_bytes(&self, queue: QueueId) -> Option<u32> {
        self.fifos.head_bytes(self.served(queue))
    }

    #[inline]
    pub(crate) fn pop(&mut self, queue: QueueId) -> Option<QueuedPacket<F::Packet>> {
        let served = self.served(queue);
        let mut queued = self.fifos.pop(served)?;
        // A FIFO may not store the egress queue, and with subqueues can't derive it from its index.
        queued.charged.egress = queue;
        if let Some(Some(subqueues)) = self.subqueues.get_mut(queue.index()) {
            subqueues.depart(queued.frame_bytes, self.fifos.is_empty(served), &mut self.random);
        }
        Some(queued)
    }

    /// Prefetches the head of a queue.
    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        self.fifos.prefetch(queue.index());
    }

    #[inline]
    pub(crate) fn prefetch_front(&self, queue: QueueId) {
        self.fifos.prefetch_front(self.served(queue));
    }

    #[inline]
    pub(crate) fn is_empty(&self, queue: QueueId) -> bool {
        match self.ingress_fifos(queue) {
            None => self.fifos.is_empty(queue.index()),
            Some(subqueues) => subqueues.waiting.is_empty(),
        }
    }

    /// Returns the ingress ports and priority groups of a queue's frames. Visits every frame.
    pub(crate) fn ingress_of(&self, queue: QueueId) -> (S, ClassSet) {
        let (mut ports, mut groups) = (S::EMPTY, ClassSet::EMPTY);
        let mut add = |fifo| {
            self.fifos.ingress(fifo).for_each(|ingress| {
                ports.insert(ingress.port());
                groups.insert(ingress.class());
            });
        };
        match self.ingress_fifos(queue) {
            None => add(queue.index()),
            Some(subqueues) => subqueues.waiting.into_iter().for_each(|port| add(subqueues.subqueue(port))),
        }
        (ports, groups)
    }

    /// Returns the storage of the frames.
    #[inline]
    pub(crate) fn fifos(&mut self) -> &mut F {
        &mut self.fifos
    }

    pub(crate) fn held(&self) -> usize {
        self.fifos.held()
    }
}

impl<P: Packet> EgressQueues<Chunks<P>, PortSet> {
    /// Queues the packets of a burst. The caller ensures that there is room.
    #[inline(always)]
    pub(crate) fn put_all(&mut self, packets: &mut Burst<P>, request: &BurstRequest) {
        let EgressQueues { fifos, subqueues, .. } = self;
        fifos.put_all(packets, request, |route| match subqueues.get_mut(route.egress.index()) {
            Some(Some(subqueues)) => {
                subqueues.arrive(route.ingress.port());
                subqueues.subqueue(route.ingress.port())
            }
            _ => route.egress.index(),
        });
    }

    /// Returns the position and lengths of frames that leave next in sequence, at most `most`: contiguous ones, and a single one where
    /// ingress ports take turns.
    #[inline(always)]
    pub(crate) fn front(&self, queue: QueueId, most: usize) -> (ChunkCursor, &[u32]) {
        match self.ingress_fifos(queue) {
            None => self.fifos.front(queue.index(), most),
            Some(subqueues) => {
                let most = if subqueues.waiting.len() == 1 { most } else { most.min(1) };
                self.fifos.front(subqueues.subqueue(subqueues.served), most)
            }
        }
    }

    /// Removes the first frames, taken from [`EgressQueues::front`]. Returns whether the queue is empty then.
    #[inline(always)]
    pub(crate) fn consume(&mut self, queue: QueueId, at: ChunkCursor, count: usize) -> bool {
        let fifo = self.served(queue);
        if self.fifos.is_standing(fifo) {
            self.fifos.prefetch_behind(fifo, count);
        }
        let is_empty = self.fifos.consume(fifo, count);
        match self.ingress_fifos(queue) {
            None => is_empty,
            Some(_) => self.arbitrate(queue, at, count, is_empty),
        }
    }

    /// Lets the arbiter choose after frames of the served ingress port, all of its frames if it `is_empty`. Returns whether the queue is
    /// empty.
    #[inline(never)]
    fn arbitrate(&mut self, queue: QueueId, at: ChunkCursor, count: usize, is_empty: bool) -> bool {
        let EgressQueues { fifos, subqueues, random } = self;
        let Some(subqueues) = &mut subqueues[queue.index()] else { return is_empty };
        for (left, frame_bytes) in (0..count).rev().zip(fifos.run(at, count).lengths) {
            subqueues.depart(*frame_bytes, is_empty && left == 0, random);
        }
        subqueues.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use weir_arbitration::{ArbiterChoice, ArbiterConfig, RoundRobin};
    use weir_mmu::BufferRequest;
    use weir_units::Class;

    use super::*;
    use crate::burst::chunks::Chunks;
    use crate::queues::LinkedQueues;

    const CLASS: Class = Class::new(3);
    const TO: QueueId = QueueId::new(PortId(2), CLASS);

    fn queues(arbitration: ArbiterChoice) -> EgressQueues<LinkedQueues<u32>, PortSet> {
        let config = QueueConfig { strict: false, quantum: 1_600, rate: None, ecn: None, arbitration };
        EgressQueues::new(4, 1_000, 1_000, &std::array::from_fn(|_| config.clone()), 7)
    }

    fn charged(from: u16) -> BufferRequest {
        BufferRequest { ingress: QueueId::new(PortId(from), CLASS), egress: TO, bytes: 100 }
    }

    fn push(queues: &mut EgressQueues<LinkedQueues<u32>, PortSet>, from: u16, number: u32) {
        let charged = charged(from);
        assert!(queues.push(QueuedPacket { packet: number, frame_bytes: 60, charged }).is_ok());
    }

    /// Ingress ports in order of departure, with `frames` frames each from ports 0, 1 and 3.
    fn order(arbitration: ArbiterChoice, frames: u32) -> Vec<u16> {
        let mut queues = queues(arbitration);
        for from in [0, 1, 3] {
            (0..frames).for_each(|n| push(&mut queues, from, n));
        }
        assert_eq!(queues.ingress_of(TO).0.bits(), 0b1011);
        let mut next = [0; 4];
        let order = std::iter::from_fn(|| {
            let front = queues.head_bytes(TO);
            let queued = queues.pop(TO)?;
            assert_eq!(front, Some(queued.frame_bytes));
            let from = queued.charged.ingress.port();
            assert_eq!(queued.packet, next[from.index()], "frames of a port keep their order");
            next[from.index()] += 1;
            Some(from.0)
        });
        let order: Vec<u16> = order.collect();
        assert!(queues.is_empty(TO) && queues.held() == 0 && queues.ingress_of(TO).0.is_empty());
        assert_eq!(next, [frames, frames, 0, frames]);
        order
    }

    #[test]
    fn the_order_of_arrival() {
        assert_eq!(order(ArbiterChoice::default(), 2), [0, 0, 1, 1, 3, 3]);
    }

    /// Lcores' queues store only a part of a frame's charge, and must restore all of it, also where ports take turns.
    #[test]
    fn charges_come_out_as_they_went_in() {
        for arbitration in [ArbiterChoice::default(), ArbiterChoice::new(RoundRobin::new(1))] {
            let config = QueueConfig { strict: false, quantum: 1_600, rate: None, ecn: None, arbitration };
            let mut queues: EgressQueues<Chunks<u32>, PortSet> =
                EgressQueues::new(4, 1_000, 1_000, &std::array::from_fn(|_| config.clone()), 7);
            for from in [0, 1, 3] {
                let frame = QueuedPacket { packet: u32::from(from), frame_bytes: 60, charged: charged(from) };
                assert!(queues.push(frame).is_ok());
            }
            let popped: Vec<BufferRequest> = std::iter::from_fn(|| Some(queues.pop(TO)?.charged)).collect();
            assert_eq!(popped, [0, 1, 3].map(charged));
        }
    }

    #[test]
    fn ports_take_turns() {
        assert_eq!(order(ArbiterChoice::new(RoundRobin::new(1)), 3), [0, 1, 3, 0, 1, 3, 0, 1, 3]);
        assert_eq!(order(ArbiterChoice::new(RoundRobin::new(2)), 3), [0, 0, 1, 1, 3, 3, 0, 1, 3]);
    }

    #[test]
    fn a_drawn_port_sends_its_burst_and_all_are_drawn_alike() {
        let order = order(ArbiterChoice::new(weir_arbitration::Random::new(4)), 300);
        let mut first = [0u32; 4];
        order[..400].iter().for_each(|from| first[usize::from(*from)] += 1);
        assert!([0, 1, 3].iter().all(|from| (70..200).contains(&first[*from])), "{first:?}");
        assert!(order[..400].chunks(4).all(|burst| burst.iter().all(|from| *from == burst[0])));
    }

    #[derive(Clone, Copy, Debug)]
    struct Highest;

    impl ArbiterConfig for Highest {
        fn kind(&self) -> &'static str {
            "highest"
        }

        fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
            Some(Box::new(Highest))
        }
    }

    impl Arbiter for Highest {
        fn start(&mut self, _port: PortId) {}

        fn select_next(&mut self, served: DequeuedFrame<'_>, _below: &mut dyn FnMut(u32) -> u32) -> PortId {
            assert_eq!(served.frame_bytes, 60);
            served.waiting.iter().last().unwrap()
        }
    }

    #[test]
    fn an_arbiter_of_someone_elses_chooses() {
        assert_eq!(order(ArbiterChoice::new(Highest), 2), [0, 3, 3, 1, 1, 0]);
    }

    #[test]
    fn the_port_that_ran_empty_loses_its_turn() {
        let mut queues = queues(ArbiterChoice::new(RoundRobin::new(32)));
        push(&mut queues, 3, 0);
        push(&mut queues, 1, 1);
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(0));
        assert_eq!(queues.head_bytes(TO), Some(60));
        push(&mut queues, 3, 2);
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(1));
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(2));
        assert!(queues.pop(TO).is_none());
    }
}
