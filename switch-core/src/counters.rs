//! Counters: plain integers on the lcore that counts, published on request.
//!
//! Each pipeline stage adds to its own counters without atomics, and copies them out between two bursts on request. Each copy is therefore
//! consistent. A reader that asks transmitters before forwarders never finds more sent than received (see [`crate::report`]).

use std::sync::{Arc, OnceLock};

use prefetch_index::prefetch_index;
pub use weir_units::DropReason;
use weir_units::{CLASSES, PortId, QueueId};

use crate::sync::{AtomicU64, Ordering};

/// Counters of each queue, on the side where its packets are.
pub(crate) mod queue_stat {
    use super::DropReason;

    /// Frames: received (ingress) or sent (egress).
    pub(crate) const FRAMES: usize = 0;
    /// Bytes of the frames, without FCS.
    pub(crate) const BYTES: usize = 1;
    /// Ingress: further copies of flooded frames. Egress: frames marked CE.
    pub(crate) const EXTRA: usize = 2;
    /// Frames handed over: by the forwarder (ingress) or taken by the transmitter (egress).
    pub(crate) const HANDED_OVER: usize = 3;
    /// Egress, no count: bitmap of the ingress ports with frames in a queue that its peer blocks, as of the last publishing.
    pub(crate) const BLOCKED_FROM: usize = 4;
    /// Egress, no count: set of the priority groups of these frames.
    pub(crate) const BLOCKED_GROUPS: usize = 5;
    /// Drops, by reason.
    pub(crate) const DROPS: usize = 6;
    /// Number of counters per queue.
    pub(crate) const WIDTH: usize = DROPS + DropReason::ALL.len();
    /// Number of leading counters, which forwarded frames change.
    pub(super) const OF_FRAMES: usize = HANDED_OVER + 1;
}

/// Flow-control counters of each port; both sides use the same layout.
pub(crate) mod port_stat {
    use super::CLASSES;

    /// PFC frames received or sent.
    pub(crate) const PFC: usize = 0;
    /// 802.3x PAUSE frames received or sent.
    pub(crate) const PAUSE: usize = 1;
    /// Control frames received and ignored: of an unknown opcode, or of another flow control than the port's.
    pub(crate) const IGNORED: usize = 2;
    /// Control frames received that are malformed, or enable no class.
    pub(crate) const MALFORMED: usize = 3;
    /// Frames with credit or queue lengths, received or sent.
    pub(crate) const CREDIT: usize = 4;
    /// Frames that pause a class, refreshes included; one counter per class.
    pub(crate) const XOFF: usize = 5;
    /// Frames that resume a class; one counter per class.
    pub(crate) const XON: usize = XOFF + CLASSES;
    /// Transitions from running to paused (sent side; no refreshes); one counter per class.
    pub(crate) const PAUSES: usize = XON + CLASSES;
    /// Picoseconds for which the peer was paused (sent side); one counter per class.
    pub(crate) const OFF_PICOS: usize = PAUSES + CLASSES;
    /// Sum of the ingress queue's occupancy in bytes at each transition to paused (sent side); one counter per class.
    pub(crate) const HELD_AT_PAUSES: usize = OFF_PICOS + CLASSES;
    /// Frames that an RX lcore passed on to the forwarder.
    pub(crate) const PASSED_ON: usize = HELD_AT_PAUSES + CLASSES;
    /// Control frames received that are [`IGNORED`] because they belong to another flow control than the port's.
    pub(crate) const FOREIGN: usize = PASSED_ON + 1;
    /// Returns of a class to the line rate because the peer's last message had aged (sent side).
    pub(crate) const AGED: usize = FOREIGN + 1;
    /// Raw control frames, of flow controls with a format of their own, received and obeyed, or sent.
    pub(crate) const OWN: usize = AGED + 1;
    /// Due control frames that found no memory (sent side), counted at each attempt.
    pub(crate) const PUT_OFF: usize = OWN + 1;
    /// PFC frames received that pause a lossy class, and are ignored for it.
    pub(crate) const LOSSY_PAUSES: usize = PUT_OFF + 1;
    /// LLDP frames received for the switch, or sent by it.
    pub(crate) const LLDP: usize = LOSSY_PAUSES + 1;
    /// Messages counted in [`CREDIT`] that were ordered sets, below the MAC (sent side).
    pub(crate) const ORDERED_SETS: usize = LLDP + 1;
    /// Number of counters per port.
    pub(crate) const WIDTH: usize = ORDERED_SETS + 1;
}

/// Gauges of a transmitter, published after the counters.
pub(crate) mod gauge {
    pub(crate) const HELD: usize = 0;
    /// Delay of messages that slow the peer, from the arrival that crossed the threshold.
    pub(crate) const MESSAGE_DELAYS: usize = 1;
    /// Delay of obeyed messages, from their arrival.
    pub(crate) const REACTIONS: usize = MESSAGE_DELAYS + DELAY;
    /// Number of values per delay. The first is the count.
    pub(crate) const DELAY: usize = BY_LENGTH + LENGTHS;
    /// Index of the count of delays. p50, p99, p99.9 and the longest follow, in nanoseconds.
    pub(crate) const COUNT: usize = 0;
    /// Index of the sum of delays, in nanoseconds.
    pub(crate) const SUM: usize = 5;
    /// Index of the histogram's first bin.
    pub(crate) const BY_LENGTH: usize = 6;
    /// Number of histogram bins. All but the last have a [bound](length_up_to).
    pub(crate) const LENGTHS: usize = 28;
    pub(crate) const WIDTH: usize = REACTIONS + DELAY;

    /// Returns the upper bound of a bin in nanoseconds: 128, doubled with each bin, up to 8.6 s; `None` for the last bin.
    pub(crate) fn length_up_to(length: usize) -> Option<u64> {
        (length + 1 < LENGTHS).then(|| 1 << (SHORTEST_BITS + length as u32))
    }

    /// Returns the bin of a delay in nanoseconds, which is at least 1.
    #[inline]
    pub(crate) fn bin_of(nanos: u64) -> usize {
        let bits = u64::BITS - (nanos - 1).leading_zeros();
        (bits.saturating_sub(SHORTEST_BITS) as usize).min(LENGTHS - 1)
    }

    const SHORTEST_BITS: u32 = 7;
}

/// Live counters of one pipeline stage, for all queues and ports of the switch.
#[derive(Debug)]
pub(crate) struct Counters {
    queues: Box<[QueueRow]>,
    /// Rare counters, by port. A port without any has no memory for them, unless all memory is allocated upfront.
    rare: Box<[Option<Box<RareCounters>>]>,
    gauges: [u64; gauge::WIDTH],
    /// Sums of the [`queue_stat`] counters over all queues, with all drops in one; in debug builds.
    totals: [u64; queue_stat::DROPS + 1],
    published: Arc<CounterSnapshot>,
}

/// Counters of a queue's forwarded frames: [`queue_stat::OF_FRAMES`] numbers, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct QueueRow([u64; queue_stat::OF_FRAMES]);

const _: () = assert!(size_of::<QueueRow>() == 32);

/// Drop and flow-control counters of a port.
#[derive(Clone, Copy, Debug)]
struct RareCounters {
    /// Remaining [`queue_stat`] counters of each class.
    queues: [[u64; queue_stat::WIDTH - queue_stat::OF_FRAMES]; CLASSES],
    port: [u64; port_stat::WIDTH],
}

impl RareCounters {
    const ZERO: RareCounters =
        RareCounters { queues: [[0; queue_stat::WIDTH - queue_stat::OF_FRAMES]; CLASSES], port: [0; port_stat::WIDTH] };

    fn zero() -> Box<RareCounters> {
        Box::new(RareCounters::ZERO)
    }
}

/// Last published copy, and the request for a new one.
#[derive(Debug)]
pub(crate) struct CounterSnapshot {
    requested: AtomicU64,
    served: AtomicU64,
    values: OnceLock<Box<[AtomicU64]>>,
}

impl Counters {
    /// Memory of a port without rare counters.
    pub(crate) const PORT_BYTES: usize = CLASSES * size_of::<QueueRow>() + size_of::<Option<Box<RareCounters>>>();

    /// Returns zero counters for a switch of `ports` ports. All memory is allocated now.
    pub(crate) fn upfront(ports: usize) -> Counters {
        let mut counters = Counters::lazy(ports);
        counters.rare.iter_mut().for_each(|port| *port = Some(RareCounters::zero()));
        counters.copy();
        counters
    }

    /// Returns zero counters for a switch of `ports` ports. The published copy is allocated at the first request, since few of many
    /// switches in one process are ever asked. A port's rare counters are allocated with the first event.
    pub(crate) fn lazy(ports: usize) -> Counters {
        Counters {
            queues: vec![QueueRow::default(); ports * CLASSES].into(),
            rare: vec![None; ports].into(),
            gauges: [0; gauge::WIDTH],
            totals: [0; queue_stat::DROPS + 1],
            published: Arc::new(CounterSnapshot::new()),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, queue: QueueId, stat: usize, n: u64) {
        if cfg!(debug_assertions) {
            self.totals[stat.min(queue_stat::DROPS)] += n;
        }
        *self.count_mut(queue, stat) += n;
    }

    #[inline]
    fn count_mut(&mut self, queue: QueueId, stat: usize) -> &mut u64 {
        match stat.checked_sub(queue_stat::OF_FRAMES) {
            None => &mut self.queues[queue.index()].0[stat],
            Some(rare) => &mut self.rare_mut(queue.port()).queues[queue.class().index()][rare],
        }
    }

    #[inline]
    fn rare_mut(&mut self, port: PortId) -> &mut RareCounters {
        self.rare[port.index()].get_or_insert_with(RareCounters::zero)
    }

    fn rare(&self, port: usize) -> &RareCounters {
        self.rare[port].as_deref().unwrap_or(&RareCounters::ZERO)
    }

    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        prefetch_index(&self.queues, queue.index());
    }

    #[inline]
    pub(crate) fn add_frame(&mut self, queue: QueueId, frame_bytes: u32) {
        self.add_frames(queue, 1, u64::from(frame_bytes));
    }

    #[inline]
    pub(crate) fn add_frames(&mut self, queue: QueueId, frames: u64, bytes: u64) {
        if cfg!(debug_assertions) {
            self.totals[queue_stat::FRAMES] += frames;
            self.totals[queue_stat::BYTES] += bytes;
        }
        let QueueRow(row) = &mut self.queues[queue.index()];
        row[queue_stat::FRAMES] += frames;
        row[queue_stat::BYTES] += bytes;
    }

    /// Counts a received frame, which counted as data, as LLDP for the switch itself.
    pub(crate) fn count_lldp(&mut self, queue: QueueId, frame_bytes: u32) {
        let bytes = u64::from(frame_bytes);
        if cfg!(debug_assertions) {
            self.totals[queue_stat::FRAMES] -= 1;
            self.totals[queue_stat::BYTES] -= bytes;
        }
        let QueueRow(row) = &mut self.queues[queue.index()];
        row[queue_stat::FRAMES] -= 1;
        row[queue_stat::BYTES] -= bytes;
        self.add_port(queue.port(), port_stat::LLDP, 1);
    }

    /// Counts frames of these lengths in bytes.
    #[inline]
    pub(crate) fn add_lengths(&mut self, queue: QueueId, lengths: &[u32]) {
        self.add_frames(queue, lengths.len() as u64, u64::from(lengths.iter().sum::<u32>()));
    }

    pub(crate) fn get(&self, queue: QueueId, stat: usize) -> u64 {
        match stat.checked_sub(queue_stat::OF_FRAMES) {
            None => self.queues[queue.index()].0[stat],
            Some(rare) => self.rare(queue.port().index()).queues[queue.class().index()][rare],
        }
    }

    /// Returns a counter summed over all queues ([`queue_stat::DROPS`]: all reasons); 0 except in debug builds.
    pub(crate) fn total(&self, stat: usize) -> u64 {
        self.totals[stat]
    }

    /// Returns the drops of a queue, for all reasons.
    pub(crate) fn dropped(&self, queue: QueueId) -> u64 {
        (0..DropReason::ALL.len()).map(|reason| self.get(queue, queue_stat::DROPS + reason)).sum()
    }

    /// Sets a value that is no count.
    pub(crate) fn set(&mut self, queue: QueueId, stat: usize, value: u64) {
        if self.get(queue, stat) != value {
            *self.count_mut(queue, stat) = value;
        }
    }

    #[inline]
    pub(crate) fn count_drop(&mut self, queue: QueueId, reason: DropReason) {
        self.add(queue, queue_stat::DROPS + reason as usize, 1);
    }

    #[inline]
    pub(crate) fn add_port(&mut self, port: PortId, stat: usize, n: u64) {
        self.rare_mut(port).port[stat] += n;
    }

    pub(crate) fn gauge(&self, gauge: usize) -> u64 {
        self.gauges[gauge]
    }

    pub(crate) fn set_gauge(&mut self, gauge: usize, value: u64) {
        self.gauges[gauge] = value;
    }

    /// Returns the number of a reader's request that is not answered yet. Call it between bursts; answer with [`Counters::publish`].
    #[inline]
    pub(crate) fn requested(&self) -> Option<u64> {
        self.published.requested()
    }

    /// Adds all counters to as many sums, ordered as queues, ports, gauges.
    pub(crate) fn add_to(&self, sums: &mut [u64]) {
        self.each_run(|at, run| sums[at..][..run.len()].iter_mut().zip(run).for_each(|(sum, value)| *sum += value));
    }

    pub(crate) fn gauges(&self) -> &[u64] {
        &self.gauges
    }

    /// Copies the counters out in answer to a request.
    pub(crate) fn publish(&self, requested: u64) {
        let copy = self.copy();
        self.published.publish(requested, || {
            // A counter without memory has always been zero, and so is its copy.
            self.each_run(|at, run| {
                copy[at..][..run.len()].iter().zip(run).for_each(|(slot, value)| slot.store(*value, Ordering::Relaxed));
            });
        });
    }

    /// Calls `take` for each run of adjacent counters that has memory, with the index of the run's first counter. Runs matter, because a
    /// reader, and the packet path with it, waits for thousands of counters.
    #[inline(always)]
    fn each_run(&self, mut take: impl FnMut(usize, &[u64])) {
        let [of_ports, of_gauges] = self.places();
        for (queue, QueueRow(row)) in self.queues.iter().enumerate() {
            take(queue * queue_stat::WIDTH, row);
        }
        for (port, rare) in self.rare.iter().enumerate() {
            let Some(rare) = rare else { continue };
            for (class, row) in rare.queues.iter().enumerate() {
                take((port * CLASSES + class) * queue_stat::WIDTH + queue_stat::OF_FRAMES, row);
            }
            take(of_ports + port * port_stat::WIDTH, &rare.port);
        }
        take(of_gauges, &self.gauges);
    }

    /// Returns the indices of the first port counter and the first gauge.
    fn places(&self) -> [usize; 2] {
        let of_ports = self.queues.len() * queue_stat::WIDTH;
        [of_ports, of_ports + self.rare.len() * port_stat::WIDTH]
    }

    /// Returns the memory of the published copy, ordered as queues, ports, gauges.
    fn copy(&self) -> &[AtomicU64] {
        let [_, of_gauges] = self.places();
        self.published.copy(of_gauges + gauge::WIDTH)
    }

    pub(crate) fn published(&self) -> Arc<CounterSnapshot> {
        self.published.clone()
    }
}

impl CounterSnapshot {
    pub(crate) fn new() -> CounterSnapshot {
        CounterSnapshot { requested: AtomicU64::new(0), served: AtomicU64::new(0), values: OnceLock::new() }
    }

    /// Returns the number of a request that is not answered yet.
    #[inline]
    pub(crate) fn requested(&self) -> Option<u64> {
        // Acquire: pairs with the Release of the request, so that the answer is newer than the request.
        let requested = self.requested.load(Ordering::Acquire);
        (requested != self.served.load(Ordering::Relaxed)).then_some(requested)
    }

    /// Has the values written, in answer to a request.
    #[inline]
    pub(crate) fn publish(&self, requested: u64, write: impl FnOnce()) {
        write();
        // Release: pairs with the Acquire in `CounterSnapshot::is_served`; the values are visible before the answer.
        self.served.store(requested, Ordering::Release);
    }

    /// Requests a new copy. The answer is complete when `CounterSnapshot::is_served` is true for the returned number.
    pub(crate) fn request(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether the request of this number, or a later one, has been answered.
    pub(crate) fn is_served(&self, request: u64) -> bool {
        self.served.load(Ordering::Acquire) >= request
    }

    pub(crate) fn copy(&self, len: usize) -> &[AtomicU64] {
        self.values.get_or_init(|| (0..len).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the published values; none before the first request is answered.
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
        self.values.get().into_iter().flatten().map(|value| value.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Class;

    use super::*;

    #[test]
    fn a_copy_is_made_when_asked_for() {
        let mut counters = Counters::upfront(2);
        let queue = QueueId::new(PortId(1), Class::new(7));
        counters.add(queue, queue_stat::FRAMES, 3);
        counters.count_drop(queue, DropReason::Shutdown);
        counters.add_port(PortId(1), port_stat::PASSED_ON, 5);
        let published = counters.published();
        let request = published.request();
        assert!(!published.is_served(request));
        counters.set_gauge(gauge::HELD, 7);
        counters.publish(counters.requested().unwrap());
        assert!(published.is_served(request));
        assert_eq!(counters.requested(), None);
        let values: Vec<u64> = published.values().collect();
        assert_eq!(values.iter().sum::<u64>(), 16);
        let gauges = values.len() - gauge::WIDTH;
        let row = gauges - port_stat::WIDTH;
        assert_eq!(values[row + port_stat::PASSED_ON], 5, "in the last port's row");
        assert_eq!(values[gauges + gauge::HELD], 7);
    }

    #[test]
    fn ports_take_memory_with_their_first_drop_or_message() {
        let (mut needed, mut upfront) = (Counters::lazy(3), Counters::upfront(3));
        let with_memory = |counters: &Counters| counters.rare.iter().map(Option::is_some).collect::<Vec<_>>();
        let queue = |port| QueueId::new(PortId(port), Class::new(3));
        for counters in [&mut needed, &mut upfront] {
            counters.add_frame(queue(0), 60);
            counters.add(queue(0), queue_stat::HANDED_OVER, 1);
            counters.set(queue(0), queue_stat::BLOCKED_FROM, 0);
            assert_eq!((counters.get(queue(1), queue_stat::DROPS), counters.dropped(queue(2))), (0, 0));
        }
        assert_eq!(with_memory(&needed), [false; 3]);
        for counters in [&mut needed, &mut upfront] {
            counters.count_drop(queue(1), DropReason::LinkLocal);
            counters.add_port(PortId(2), port_stat::PFC, 2);
        }
        assert_eq!((with_memory(&needed), with_memory(&upfront)), (vec![false, true, true], vec![true; 3]));
        let published = [&needed, &upfront].map(|counters| {
            counters.publish(1);
            counters.published().values().collect::<Vec<_>>()
        });
        assert_eq!(published[0], published[1], "no memory is as good as zeros");
        let of_queue = queue(1).index() * queue_stat::WIDTH;
        assert_eq!(published[0][of_queue + queue_stat::DROPS + DropReason::LinkLocal as usize], 1);
        assert_eq!(published[0].iter().sum::<u64>(), 1 + 60 + 1 + 1 + 2);
    }

    #[test]
    fn reasons_are_indexed_as_listed() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
