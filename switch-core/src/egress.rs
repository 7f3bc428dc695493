//! Egress queues: the frames that wait for a port and class, and the ingress port that is served next.

use weir_arbitration::{Arbiter, DequeuedFrame};
use weir_config::QueueConfig;
use weir_units::{CLASSES, PortBitmap, PortId, PortSetRef, QueueId};

use crate::packet::QueuedPacket;
use crate::queues::PacketQueues;
use crate::random::Random;

/// Egress queues of all ports of a transmitter.
///
/// A queue in order of arrival is one FIFO. Under another arbitration it has a FIFO for each ingress port, its subqueues, which take turns.
#[derive(Debug)]
pub(crate) struct EgressQueues<F, S> {
    fifos: F,
    /// Number of subqueues per queue; 1 if all queues are in order of arrival.
    subqueues: usize,
    /// Arbitration state of each queue; empty if all queues are in order of arrival.
    arbiter_states: Box<[ArbiterState<S>]>,
    random: Random,
}

#[derive(Debug)]
struct ArbiterState<S> {
    /// Subqueues with a frame: ingress ports, or subqueue 0 of a queue in order of arrival.
    waiting: S,
    /// Served subqueue: a waiting one, if any.
    subqueue: PortId,
    /// Arbiter that chooses the subqueue; `None` in order of arrival.
    arbiter: Option<Box<dyn Arbiter>>,
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
        let arbiters = || queues.iter().map(|queue| queue.arbitration.arbiter());
        let take_turns = arbiters().any(|arbiter| arbiter.is_some());
        let subqueues = if take_turns { ports } else { 1 };
        let arbiter_states = (0..if take_turns { ports } else { 0 }).flat_map(|_| arbiters());
        EgressQueues {
            fifos: F::new(ports * CLASSES * subqueues, limit, places),
            subqueues,
            arbiter_states: arbiter_states
                .map(|arbiter| ArbiterState { waiting: S::EMPTY, subqueue: PortId(0), arbiter })
                .collect(),
            random: Random::new(seed),
        }
    }

    /// Queues a frame; returns it if all places are taken.
    #[inline]
    pub(crate) fn push(&mut self, queued: QueuedPacket<F::Packet>) -> Result<(), QueuedPacket<F::Packet>> {
        let queue = queued.charged.egress;
        if self.subqueues == 1 { self.fifos.push(queue.index(), queued) } else { self.push_to_subqueue(queue, queued) }
    }

    #[inline(never)]
    fn push_to_subqueue(
        &mut self,
        queue: QueueId,
        queued: QueuedPacket<F::Packet>,
    ) -> Result<(), QueuedPacket<F::Packet>> {
        let state = &mut self.arbiter_states[queue.index()];
        let subqueue = if state.arbiter.is_some() { queued.charged.ingress.port() } else { PortId(0) };
        self.fifos.push(queue.index() * self.subqueues + subqueue.index(), queued)?;
        if state.waiting.is_empty() {
            state.subqueue = subqueue;
            if let Some(arbiter) = &mut state.arbiter {
                arbiter.start(subqueue);
            }
        }
        state.waiting.insert(subqueue);
        Ok(())
    }

    #[inline]
    fn served(&self, queue: QueueId) -> usize {
        if self.subqueues == 1 {
            queue.index()
        } else {
            queue.index() * self.subqueues + self.arbiter_states[queue.index()].subqueue.index()
        }
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
        if self.subqueues > 1 {
            self.arbitrate(queue, served, queued.frame_bytes);
        }
        Some(queued)
    }

    fn arbitrate(&mut self, queue: QueueId, served: usize, frame_bytes: u32) {
        let EgressQueues { fifos, arbiter_states, random, .. } = self;
        let ArbiterState { waiting, subqueue, arbiter } = &mut arbiter_states[queue.index()];
        if fifos.is_empty(served) {
            waiting.remove(*subqueue);
        }
        if let Some(arbiter) = arbiter
            && !waiting.is_empty()
        {
            let served = DequeuedFrame { port: *subqueue, frame_bytes, waiting: PortSetRef::new(waiting) };
            *subqueue = arbiter.select_next(served, &mut |n| random.below(n));
            debug_assert!(waiting.contains(*subqueue), "an arbiter chooses a port that waits");
        }
    }

    /// Prefetches the head of a queue.
    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        self.fifos.prefetch(queue.index() * self.subqueues);
    }

    #[inline]
    pub(crate) fn prefetch_front(&self, queue: QueueId) {
        self.fifos.prefetch_front(self.served(queue));
    }

    #[inline]
    pub(crate) fn is_empty(&self, queue: QueueId) -> bool {
        if self.subqueues == 1 {
            self.fifos.is_empty(queue.index())
        } else {
            self.arbiter_states[queue.index()].waiting.is_empty()
        }
    }

    /// Returns the ingress ports of a queue's frames. Visits every frame of a queue in order of arrival.
    pub(crate) fn ingress_ports(&self, queue: QueueId) -> S {
        match self.arbiter_states.get(queue.index()) {
            Some(ArbiterState { waiting, arbiter: Some(_), .. }) => *waiting,
            _ => self.fifos.ingress_ports(queue.index() * self.subqueues),
        }
    }

    /// Whether all queues are in order of arrival, so that each is one FIFO.
    pub(crate) fn are_in_order(&self) -> bool {
        self.subqueues == 1
    }

    /// Returns the FIFO of each queue, by [`QueueId::index`], if [queues are in order](EgressQueues::are_in_order).
    #[inline]
    pub(crate) fn fifos(&mut self) -> &mut F {
        debug_assert!(self.are_in_order());
        &mut self.fifos
    }

    pub(crate) fn held(&self) -> usize {
        self.fifos.held()
    }
}

#[cfg(test)]
mod tests {
    use weir_arbitration::{ArbiterChoice, ArbiterConfig, RoundRobin};
    use weir_mmu::BufferRequest;
    use weir_units::{Class, PortSet};

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
        assert_eq!(queues.ingress_ports(TO).bits(), 0b1011);
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
        assert!(queues.is_empty(TO) && queues.held() == 0 && queues.ingress_ports(TO).is_empty());
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
