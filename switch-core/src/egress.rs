//! Egress queues: the frames that wait for a port and class, and the ingress port that is served next.

use weir_arbitration::{Arbiter, Served};
use weir_config::QueueConfig;
use weir_units::archive::{Archive, State};
use weir_units::{CLASSES, PortId, PortsView, QueueId, SetOfPorts};

use crate::packet::Queued;
use crate::queues::PacketQueues;
use crate::random::Random;

/// Egress queues of all ports of a transmitter.
///
/// A queue in order of arrival is one FIFO. Under another arbitration it has a FIFO for each ingress port, its lanes, which take turns.
#[derive(Debug)]
pub(crate) struct EgressQueues<F, S> {
    fifos: F,
    /// Lanes of each queue; 1 if all queues are in order of arrival.
    lanes: usize,
    /// Arbitration state of each queue; empty if all queues are in order of arrival.
    turns: Box<[Turn<S>]>,
    random: Random,
}

#[derive(Debug)]
struct Turn<S> {
    /// Lanes with a frame: ingress ports, or lane 0 of a queue in order of arrival.
    waiting: S,
    /// Served lane: a waiting one, if any.
    lane: PortId,
    /// Arbiter that chooses the lane; `None` in order of arrival.
    arbiter: Option<Box<dyn Arbiter>>,
}

impl<F: State, S: SetOfPorts> State for EgressQueues<F, S> {
    fn state(&mut self, archive: &mut Archive) {
        let EgressQueues { fifos, lanes: _, turns, random } = self;
        fifos.state(archive);
        turns.state(archive);
        random.state(archive);
    }
}

impl<S: SetOfPorts> State for Turn<S> {
    fn state(&mut self, archive: &mut Archive) {
        let Turn { waiting, lane, arbiter } = self;
        waiting.state(archive);
        lane.state(archive);
        archive.fixed(arbiter.iter_mut());
    }
}

impl<F: PacketQueues, S: SetOfPorts> EgressQueues<F, S> {
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
        let lanes = if take_turns { ports } else { 1 };
        let turns = (0..if take_turns { ports } else { 0 }).flat_map(|_| arbiters());
        EgressQueues {
            fifos: F::new(ports * CLASSES * lanes, limit, places),
            lanes,
            turns: turns.map(|arbiter| Turn { waiting: S::EMPTY, lane: PortId(0), arbiter }).collect(),
            random: Random::new(seed),
        }
    }

    /// Queues a frame; returns it if all places are taken.
    #[inline]
    pub(crate) fn push(&mut self, queued: Queued<F::Packet>) -> Result<(), Queued<F::Packet>> {
        let queue = queued.charged.egress;
        if self.lanes == 1 { self.fifos.push(queue.index(), queued) } else { self.push_to_lane(queue, queued) }
    }

    #[inline(never)]
    fn push_to_lane(&mut self, queue: QueueId, queued: Queued<F::Packet>) -> Result<(), Queued<F::Packet>> {
        let turn = &mut self.turns[queue.index()];
        let lane = if turn.arbiter.is_some() { queued.charged.ingress.port() } else { PortId(0) };
        self.fifos.push(queue.index() * self.lanes + lane.index(), queued)?;
        if turn.waiting.is_empty() {
            turn.lane = lane;
            if let Some(arbiter) = &mut turn.arbiter {
                arbiter.start(lane);
            }
        }
        turn.waiting.insert(lane);
        Ok(())
    }

    #[inline]
    fn served(&self, queue: QueueId) -> usize {
        if self.lanes == 1 {
            queue.index()
        } else {
            queue.index() * self.lanes + self.turns[queue.index()].lane.index()
        }
    }

    /// Returns the length of the frame that leaves next, in bytes without FCS.
    #[inline]
    pub(crate) fn front_bytes(&self, queue: QueueId) -> Option<u32> {
        self.fifos.front_bytes(self.served(queue))
    }

    #[inline]
    pub(crate) fn pop(&mut self, queue: QueueId) -> Option<Queued<F::Packet>> {
        let served = self.served(queue);
        let mut queued = self.fifos.pop(served)?;
        // A FIFO may not store the egress queue, and with lanes can't derive it from its index.
        queued.charged.egress = queue;
        if self.lanes > 1 {
            self.pass_turn(queue, served, queued.frame_bytes);
        }
        Some(queued)
    }

    fn pass_turn(&mut self, queue: QueueId, served: usize, frame_bytes: u32) {
        let EgressQueues { fifos, turns, random, .. } = self;
        let Turn { waiting, lane, arbiter } = &mut turns[queue.index()];
        if fifos.is_empty(served) {
            waiting.remove(*lane);
        }
        if let Some(arbiter) = arbiter
            && !waiting.is_empty()
        {
            let served = Served { port: *lane, frame_bytes, waiting: PortsView::of(waiting) };
            *lane = arbiter.pass(served, &mut |n| random.below(n));
            debug_assert!(waiting.contains(*lane), "an arbiter chooses a port that waits");
        }
    }

    /// Prefetches the head of a queue.
    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        self.fifos.prefetch(queue.index() * self.lanes);
    }

    #[inline]
    pub(crate) fn prefetch_front(&self, queue: QueueId) {
        self.fifos.prefetch_front(self.served(queue));
    }

    #[inline]
    pub(crate) fn is_empty(&self, queue: QueueId) -> bool {
        if self.lanes == 1 { self.fifos.is_empty(queue.index()) } else { self.turns[queue.index()].waiting.is_empty() }
    }

    /// Returns the ingress ports of a queue's frames. Visits every frame of a queue in order of arrival.
    pub(crate) fn holds_from(&self, queue: QueueId) -> S {
        match self.turns.get(queue.index()) {
            Some(Turn { waiting, arbiter: Some(_), .. }) => *waiting,
            _ => self.fifos.came_by(queue.index() * self.lanes),
        }
    }

    /// Whether all queues are in order of arrival, so that each is one FIFO.
    pub(crate) fn are_in_order(&self) -> bool {
        self.lanes == 1
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
    use weir_arbitration::{Arbitrate, Arbitration, RoundRobin};
    use weir_mmu::Arrival;
    use weir_units::{Class, PortSet};

    use super::*;
    use crate::burst::chunks::Chunks;
    use crate::queues::Queues;

    const CLASS: Class = Class::new(3);
    const TO: QueueId = QueueId::new(PortId(2), CLASS);

    fn queues(arbitration: Arbitration) -> EgressQueues<Queues<u32>, PortSet> {
        let config = QueueConfig { strict: false, quantum: 1_600, rate: None, ecn: None, arbitration };
        EgressQueues::new(4, 1_000, 1_000, &std::array::from_fn(|_| config.clone()), 7)
    }

    fn charged(from: u16) -> Arrival {
        Arrival { ingress: QueueId::new(PortId(from), CLASS), egress: TO, bytes: 100 }
    }

    fn push(queues: &mut EgressQueues<Queues<u32>, PortSet>, from: u16, number: u32) {
        let charged = charged(from);
        assert!(queues.push(Queued { packet: number, frame_bytes: 60, charged }).is_ok());
    }

    /// Ingress ports in order of departure, with `frames` frames each from ports 0, 1 and 3.
    fn order(arbitration: Arbitration, frames: u32) -> Vec<u16> {
        let mut queues = queues(arbitration);
        for from in [0, 1, 3] {
            (0..frames).for_each(|n| push(&mut queues, from, n));
        }
        assert_eq!(queues.holds_from(TO).bits(), 0b1011);
        let mut next = [0; 4];
        let order = std::iter::from_fn(|| {
            let front = queues.front_bytes(TO);
            let queued = queues.pop(TO)?;
            assert_eq!(front, Some(queued.frame_bytes));
            let from = queued.charged.ingress.port();
            assert_eq!(queued.packet, next[from.index()], "frames of a port keep their order");
            next[from.index()] += 1;
            Some(from.0)
        });
        let order: Vec<u16> = order.collect();
        assert!(queues.is_empty(TO) && queues.held() == 0 && queues.holds_from(TO).is_empty());
        assert_eq!(next, [frames, frames, 0, frames]);
        order
    }

    #[test]
    fn the_order_of_arrival() {
        assert_eq!(order(Arbitration::default(), 2), [0, 0, 1, 1, 3, 3]);
    }

    /// Lcores' queues store only a part of a frame's charge, and must restore all of it, also where ports take turns.
    #[test]
    fn charges_come_out_as_they_went_in() {
        for arbitration in [Arbitration::default(), Arbitration::new(RoundRobin::new(1))] {
            let config = QueueConfig { strict: false, quantum: 1_600, rate: None, ecn: None, arbitration };
            let mut queues: EgressQueues<Chunks<u32>, PortSet> =
                EgressQueues::new(4, 1_000, 1_000, &std::array::from_fn(|_| config.clone()), 7);
            for from in [0, 1, 3] {
                let frame = Queued { packet: u32::from(from), frame_bytes: 60, charged: charged(from) };
                assert!(queues.push(frame).is_ok());
            }
            let came: Vec<Arrival> = std::iter::from_fn(|| Some(queues.pop(TO)?.charged)).collect();
            assert_eq!(came, [0, 1, 3].map(charged));
        }
    }

    #[test]
    fn ports_take_turns() {
        assert_eq!(order(Arbitration::new(RoundRobin::new(1)), 3), [0, 1, 3, 0, 1, 3, 0, 1, 3]);
        assert_eq!(order(Arbitration::new(RoundRobin::new(2)), 3), [0, 0, 1, 1, 3, 3, 0, 1, 3]);
    }

    #[test]
    fn a_drawn_port_sends_its_burst_and_all_are_drawn_alike() {
        let order = order(Arbitration::new(weir_arbitration::Random::new(4)), 300);
        let mut first = [0u32; 4];
        order[..400].iter().for_each(|from| first[usize::from(*from)] += 1);
        assert!([0, 1, 3].iter().all(|from| (70..200).contains(&first[*from])), "{first:?}");
        assert!(order[..400].chunks(4).all(|burst| burst.iter().all(|from| *from == burst[0])));
    }

    #[derive(Clone, Copy, Debug)]
    struct Highest;

    impl Arbitrate for Highest {
        fn kind(&self) -> &'static str {
            "highest"
        }

        fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
            Some(Box::new(Highest))
        }
    }

    impl Arbiter for Highest {
        fn start(&mut self, _port: PortId) {}

        fn pass(&mut self, served: Served<'_>, _below: &mut dyn FnMut(u32) -> u32) -> PortId {
            assert_eq!(served.frame_bytes, 60);
            served.waiting.iter().last().unwrap()
        }
    }

    #[test]
    fn an_arbiter_of_someone_elses_chooses() {
        assert_eq!(order(Arbitration::new(Highest), 2), [0, 3, 3, 1, 1, 0]);
    }

    #[test]
    fn the_port_that_ran_empty_loses_its_turn() {
        let mut queues = queues(Arbitration::new(RoundRobin::new(32)));
        push(&mut queues, 3, 0);
        push(&mut queues, 1, 1);
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(0));
        assert_eq!(queues.front_bytes(TO), Some(60));
        push(&mut queues, 3, 2);
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(1));
        assert_eq!(queues.pop(TO).map(|queued| queued.packet), Some(2));
        assert!(queues.pop(TO).is_none());
    }
}
