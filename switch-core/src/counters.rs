//! Counters: plain numbers on the lcore that counts, published on request.
//!
//! Each half of the pipeline adds to its own counters without atomics, and copies them out between two bursts when asked, so that
//! they are consistent. A reader that asks transmitters before forwarders never finds more sent than received (see
//! [`crate::report`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use prefetch_index::prefetch_index;
use weir_units::archive::{State, Value};
use weir_units::{CLASSES, PortId, QueueId};

/// Why a frame was not forwarded. Every frame that is lost has one of these, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum DropReason {
    /// A lossless frame found its headroom full: a violation, the peer ignored PAUSE or headroom is too small.
    HeadroomViolation,
    /// A lossy frame found its egress queue at the threshold.
    EgressThreshold,
    /// A lossy frame found the shared segment full.
    SharedFull,
    /// Too short for a header, or sent by a group address.
    Malformed,
    /// Longer than the MTU allows, so the headroom rule does not cover it.
    Oversize,
    /// Addressed to 01-80-C2-00-00-00 to -0F, which bridges never forward.
    LinkLocal,
    /// Its destination is behind the port that it came from.
    SamePort,
    /// The port of departure has no link.
    PortDown,
    /// The egress queue, or the ingress queue that it came by, is in a PFC storm.
    PfcWatchdog,
    /// No packet memory for a copy, or for what was admitted: a fault of the set-up, since the pool is sized for the buffer.
    NoMemory,
    /// Still held when the switch was stopped.
    Shutdown,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 11] = [
        DropReason::HeadroomViolation,
        DropReason::EgressThreshold,
        DropReason::SharedFull,
        DropReason::Malformed,
        DropReason::Oversize,
        DropReason::LinkLocal,
        DropReason::SamePort,
        DropReason::PortDown,
        DropReason::PfcWatchdog,
        DropReason::NoMemory,
        DropReason::Shutdown,
    ];

    /// The reason's name in summaries.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::HeadroomViolation => "headroom_violation",
            DropReason::EgressThreshold => "egress_threshold",
            DropReason::SharedFull => "shared_full",
            DropReason::Malformed => "malformed",
            DropReason::Oversize => "oversize",
            DropReason::LinkLocal => "link_local",
            DropReason::SamePort => "same_port",
            DropReason::PortDown => "port_down",
            DropReason::PfcWatchdog => "pfc_watchdog",
            DropReason::NoMemory => "no_memory",
            DropReason::Shutdown => "shutdown",
        }
    }
}

impl From<weir_mmu::DropReason> for DropReason {
    fn from(reason: weir_mmu::DropReason) -> DropReason {
        match reason {
            weir_mmu::DropReason::HeadroomViolation => DropReason::HeadroomViolation,
            weir_mmu::DropReason::EgressThreshold => DropReason::EgressThreshold,
            weir_mmu::DropReason::SharedFull => DropReason::SharedFull,
        }
    }
}

/// Counted for each queue, on the side where its packets are.
pub(crate) mod queue_stat {
    use super::DropReason;

    /// Frames: received (ingress) or sent (egress).
    pub(crate) const FRAMES: usize = 0;
    /// Bytes of these frames, without FCS.
    pub(crate) const BYTES: usize = 1;
    /// Ingress: further copies of flooded frames. Egress: frames marked CE.
    pub(crate) const EXTRA: usize = 2;
    /// Frames handed over: by the forwarder (ingress) or taken by the transmitter (egress).
    pub(crate) const HANDED_OVER: usize = 3;
    /// Egress, no count: of a queue that its peer lets send nothing, the ingress ports that it holds frames of;
    /// as of the last publishing.
    pub(crate) const BLOCKED_FROM: usize = 4;
    /// Drops, one for each reason.
    pub(crate) const DROPS: usize = 5;
    /// Numbers in a row.
    pub(crate) const WIDTH: usize = DROPS + DropReason::ALL.len();
    /// The first ones, which forwarded frames change.
    pub(super) const OF_FRAMES: usize = HANDED_OVER + 1;
}

/// Counted for each port, about flow control; the same row on both sides.
pub(crate) mod port_stat {
    use super::CLASSES;

    /// PFC frames received or sent.
    pub(crate) const PFC: usize = 0;
    /// 802.3x PAUSE frames received or sent.
    pub(crate) const PAUSE: usize = 1;
    /// Control frames received and ignored: of an unknown opcode, or for a flow control that the port does not speak.
    pub(crate) const IGNORED: usize = 2;
    /// Control frames received that are broken, or enable no class.
    pub(crate) const MALFORMED: usize = 3;
    /// Frames with credit or queues' lengths, received or sent.
    pub(crate) const CREDIT: usize = 4;
    /// For each class: frames that pause it (refreshes included).
    pub(crate) const XOFF: usize = 5;
    /// For each class: frames that resume it.
    pub(crate) const XON: usize = XOFF + CLASSES;
    /// For each class: changes from running to paused (sent side; refreshes not included).
    pub(crate) const PAUSES: usize = XON + CLASSES;
    /// For each class: picoseconds for which the peer was told to pause (sent side).
    pub(crate) const OFF_PICOS: usize = PAUSES + CLASSES;
    /// For each class: bytes that its ingress queue held at each of these changes, added up (sent side).
    pub(crate) const HELD_AT_PAUSES: usize = OFF_PICOS + CLASSES;
    /// RX lcore: frames passed on to the forwarder.
    pub(crate) const PASSED_ON: usize = HELD_AT_PAUSES + CLASSES;
    /// Control frames received that are [`IGNORED`] because they are of another flow control than the port's.
    pub(crate) const FOREIGN: usize = PASSED_ON + 1;
    /// Classes that went back to the line rate because the peer's last word on them had aged (sent side).
    pub(crate) const AGED: usize = FOREIGN + 1;
    /// Messages of a flow control with frames of its own, received and obeyed, or sent.
    pub(crate) const OWN: usize = AGED + 1;
    /// Control frames that were due and had no memory (sent side), each time that one was.
    pub(crate) const PUT_OFF: usize = OWN + 1;
    /// PFC frames received that pause a class which is lossy here, and are ignored for it.
    pub(crate) const LOSSY_PAUSES: usize = PUT_OFF + 1;
    /// Numbers in a row.
    pub(crate) const WIDTH: usize = LOSSY_PAUSES + 1;
}

/// Told by a transmitter about itself, after the rows.
pub(crate) mod gauge {
    /// Frames that it holds now.
    pub(crate) const HELD: usize = 0;
    /// Messages that tell the peer to slow down, since the arrival that crossed the threshold: a delay.
    pub(crate) const MESSAGE_DELAYS: usize = 1;
    /// Delays of messages obeyed, since their arrival.
    pub(crate) const REACTIONS: usize = MESSAGE_DELAYS + DELAY;
    /// Numbers that tell a delay; first how many were measured.
    pub(crate) const DELAY: usize = BY_LENGTH + LENGTHS;
    /// How many delays were measured. p50, p99, p99.9 and the longest follow, in nanoseconds.
    pub(crate) const COUNT: usize = 0;
    /// All nanoseconds of a delay together.
    pub(crate) const SUM: usize = 5;
    /// How many delays had each length.
    pub(crate) const BY_LENGTH: usize = 6;
    /// Lengths that are told apart. All but the last have a [bound](length_up_to).
    pub(crate) const LENGTHS: usize = 28;
    /// Numbers of this kind.
    pub(crate) const WIDTH: usize = REACTIONS + DELAY;

    /// The longest delay of a length, in nanoseconds: 128, and twice as much with each, up to 8.6 s; `None` of the last length.
    pub(crate) fn length_up_to(length: usize) -> Option<u64> {
        (length + 1 < LENGTHS).then(|| 1 << (SHORTEST_BITS + length as u32))
    }

    /// The length of a delay in nanoseconds, at least 1.
    #[inline]
    pub(crate) fn length_of(nanos: u64) -> usize {
        let bits = u64::BITS - (nanos - 1).leading_zeros();
        (bits.saturating_sub(SHORTEST_BITS) as usize).min(LENGTHS - 1)
    }

    const SHORTEST_BITS: u32 = 7;
}

/// The live counters of one half, for all queues and ports of the switch.
#[derive(Debug, State)]
pub(crate) struct Counters {
    queues: Box<[QueueRow]>,
    /// By port, what most ports never count; nothing of a port that has not, unless memory is taken upfront.
    seldom: Box<[Option<Box<Seldom>>]>,
    gauges: [u64; gauge::WIDTH],
    /// [`queue_stat`]'s counts of all queues together, drops in one; in debug builds.
    totals: [u64; queue_stat::DROPS + 1],
    #[state(same)]
    published: Arc<Published>,
}

/// What a queue's forwarded frames are counted in: [`queue_stat::OF_FRAMES`] numbers, in one cache line.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(32))]
struct QueueRow([u64; queue_stat::OF_FRAMES]);

const _: () = assert!(size_of::<QueueRow>() == 32);

/// What a port counts of drops and flow control.
#[derive(Clone, Copy, Debug, Value)]
struct Seldom {
    /// The rest of each class's [`queue_stat`].
    queues: [[u64; queue_stat::WIDTH - queue_stat::OF_FRAMES]; CLASSES],
    /// Its [`port_stat`].
    port: [u64; port_stat::WIDTH],
}

impl Seldom {
    const ZERO: Seldom =
        Seldom { queues: [[0; queue_stat::WIDTH - queue_stat::OF_FRAMES]; CLASSES], port: [0; port_stat::WIDTH] };

    fn zero() -> Box<Seldom> {
        Box::new(Seldom::ZERO)
    }
}

/// The last published copy, and the request for a new one.
#[derive(Debug)]
pub(crate) struct Published {
    requested: AtomicU64,
    served: AtomicU64,
    values: OnceLock<Box<[AtomicU64]>>,
}

impl Counters {
    /// All zero, for a switch of this many ports. All memory is taken now, and none later.
    pub(crate) fn upfront(ports: usize) -> Counters {
        let mut counters = Counters::as_needed(ports);
        counters.seldom.iter_mut().for_each(|port| *port = Some(Seldom::zero()));
        counters.copy();
        counters
    }

    /// All zero, for a switch of this many ports. Memory of the published copy is taken at the first request: of many switches
    /// in one process few are ever asked. A port's counts of drops and flow control take memory with the first of them.
    pub(crate) fn as_needed(ports: usize) -> Counters {
        let published = Published { requested: AtomicU64::new(0), served: AtomicU64::new(0), values: OnceLock::new() };
        Counters {
            queues: vec![QueueRow::default(); ports * CLASSES].into(),
            seldom: vec![None; ports].into(),
            gauges: [0; gauge::WIDTH],
            totals: [0; queue_stat::DROPS + 1],
            published: Arc::new(published),
        }
    }

    /// Adds to a queue's counter.
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
            Some(seldom) => &mut self.seldom_mut(queue.port()).queues[queue.class().index()][seldom],
        }
    }

    #[inline]
    fn seldom_mut(&mut self, port: PortId) -> &mut Seldom {
        self.seldom[port.index()].get_or_insert_with(Seldom::zero)
    }

    fn seldom(&self, port: usize) -> &Seldom {
        self.seldom[port].as_deref().unwrap_or(&Seldom::ZERO)
    }

    /// Asks for what a queue's frames are counted in, ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        prefetch_index(&self.queues, queue.index());
    }

    /// Counts a frame of so many bytes.
    #[inline]
    pub(crate) fn add_frame(&mut self, queue: QueueId, frame_bytes: u32) {
        self.add_frames(queue, 1, u64::from(frame_bytes));
    }

    /// Counts frames of so many bytes together.
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

    /// Counts frames of a burst, of these lengths.
    #[inline]
    pub(crate) fn add_row(&mut self, queue: QueueId, lengths: &[u32]) {
        self.add_frames(queue, lengths.len() as u64, u64::from(lengths.iter().sum::<u32>()));
    }

    /// A queue's counter.
    pub(crate) fn get(&self, queue: QueueId, stat: usize) -> u64 {
        match stat.checked_sub(queue_stat::OF_FRAMES) {
            None => self.queues[queue.index()].0[stat],
            Some(seldom) => self.seldom(queue.port().index()).queues[queue.class().index()][seldom],
        }
    }

    /// A count of all queues together ([`queue_stat::DROPS`]: for whatever reason); 0 but in debug builds.
    pub(crate) fn total(&self, stat: usize) -> u64 {
        self.totals[stat]
    }

    /// A queue's drops, for whatever reason.
    pub(crate) fn dropped(&self, queue: QueueId) -> u64 {
        (0..DropReason::ALL.len()).map(|reason| self.get(queue, queue_stat::DROPS + reason)).sum()
    }

    /// Sets what is no count.
    pub(crate) fn set(&mut self, queue: QueueId, stat: usize, value: u64) {
        if self.get(queue, stat) != value {
            *self.count_mut(queue, stat) = value;
        }
    }

    /// Counts a dropped frame.
    #[inline]
    pub(crate) fn drop(&mut self, queue: QueueId, reason: DropReason) {
        self.add(queue, queue_stat::DROPS + reason as usize, 1);
    }

    /// Adds to a port's counter.
    #[inline]
    pub(crate) fn add_port(&mut self, port: PortId, stat: usize, n: u64) {
        self.seldom_mut(port).port[stat] += n;
    }

    /// A gauge, as it was set.
    pub(crate) fn gauge(&self, gauge: usize) -> u64 {
        self.gauges[gauge]
    }

    /// Sets a gauge.
    pub(crate) fn set_gauge(&mut self, gauge: usize, value: u64) {
        self.gauges[gauge] = value;
    }

    /// The number of a reader's request that has not been answered. Asked between bursts; answer with
    /// [`Counters::publish`].
    #[inline]
    pub(crate) fn requested(&self) -> Option<u64> {
        // Acquire: pairs with the Release of the request, so that a request seen is answered with counters of now.
        let requested = self.published.requested.load(Ordering::Acquire);
        (requested != self.published.served.load(Ordering::Relaxed)).then_some(requested)
    }

    /// Adds all of them to as many sums, which stand queue by queue, then port by port, then gauges.
    pub(crate) fn add_to(&self, sums: &mut [u64]) {
        self.each_run(|at, run| sums[at..][..run.len()].iter_mut().zip(run).for_each(|(sum, value)| *sum += value));
    }

    /// The gauges, as they were set.
    pub(crate) fn gauges(&self) -> &[u64] {
        &self.gauges
    }

    /// Copies the counters out in answer to a request.
    pub(crate) fn publish(&self, requested: u64) {
        let copy = self.copy();
        // What has no memory has always been zero, and so is the copy.
        self.each_run(|at, run| {
            copy[at..][..run.len()].iter().zip(run).for_each(|(slot, value)| slot.store(*value, Ordering::Relaxed));
        });
        // Release: pairs with the Acquire in `Published::is_served`; the values are visible before the answer.
        self.published.served.store(requested, Ordering::Release);
    }

    /// Calls `take` for all counters that have memory, in runs of neighbours: with the place of the run's first one, and the run.
    /// A reader waits for thousands of them, and the packet path with it.
    #[inline(always)]
    fn each_run(&self, mut take: impl FnMut(usize, &[u64])) {
        let [of_ports, of_gauges] = self.places();
        for (queue, QueueRow(row)) in self.queues.iter().enumerate() {
            take(queue * queue_stat::WIDTH, row);
        }
        for (port, seldom) in self.seldom.iter().enumerate() {
            let Some(seldom) = seldom else { continue };
            for (class, row) in seldom.queues.iter().enumerate() {
                take((port * CLASSES + class) * queue_stat::WIDTH + queue_stat::OF_FRAMES, row);
            }
            take(of_ports + port * port_stat::WIDTH, &seldom.port);
        }
        take(of_gauges, &self.gauges);
    }

    /// Where the ports' counters begin, and where the gauges.
    fn places(&self) -> [usize; 2] {
        let of_ports = self.queues.len() * queue_stat::WIDTH;
        [of_ports, of_ports + self.seldom.len() * port_stat::WIDTH]
    }

    /// Where they are copied to: queue by queue, then port by port, then gauges.
    fn copy(&self) -> &[AtomicU64] {
        let [_, of_gauges] = self.places();
        self.published.copy(of_gauges + gauge::WIDTH)
    }

    /// Where readers find the published copy.
    pub(crate) fn published(&self) -> Arc<Published> {
        self.published.clone()
    }
}

impl Published {
    /// Asks for a new copy; the answer is there when `Published::is_served` says so of the returned number.
    pub(crate) fn request(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether the request of this number, or a later one, has been answered.
    pub(crate) fn is_served(&self, request: u64) -> bool {
        self.served.load(Ordering::Acquire) >= request
    }

    /// The memory of a copy of so many values.
    fn copy(&self, len: usize) -> &[AtomicU64] {
        self.values.get_or_init(|| (0..len).map(|_| AtomicU64::new(0)).collect())
    }

    /// The published values; none before the first request is answered.
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
        counters.drop(queue, DropReason::Shutdown);
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
        let (mut needed, mut upfront) = (Counters::as_needed(3), Counters::upfront(3));
        let with_memory = |counters: &Counters| counters.seldom.iter().map(Option::is_some).collect::<Vec<_>>();
        let queue = |port| QueueId::new(PortId(port), Class::new(3));
        for counters in [&mut needed, &mut upfront] {
            counters.add_frame(queue(0), 60);
            counters.add(queue(0), queue_stat::HANDED_OVER, 1);
            counters.set(queue(0), queue_stat::BLOCKED_FROM, 0);
            assert_eq!((counters.get(queue(1), queue_stat::DROPS), counters.dropped(queue(2))), (0, 0));
        }
        assert_eq!(with_memory(&needed), [false; 3]);
        for counters in [&mut needed, &mut upfront] {
            counters.drop(queue(1), DropReason::LinkLocal);
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
