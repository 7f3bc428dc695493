//! Counters: plain numbers on the lcore that counts, published on request.
//!
//! Each half of the pipeline owns its counters and adds to them without atomics. When a reader asks, the half copies
//! them out between two bursts, so that what is published is consistent for that half. A reader that asks the
//! transmitters before the forwarders never finds more sent than received (see [`crate::report`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use prefetch_index::prefetch_index;
use weir_units::archive::State;
use weir_units::{CLASSES, PortId, QueueId};

/// Why a frame was not forwarded. Every frame that is lost has one of these, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The switch holds as many frames as it has packet memory for: they are smaller than `mean_frame` says.
    PoolEmpty,
    /// No packet memory for a copy, or for what was admitted: a fault of the set-up, since the pool is sized for the buffer.
    NoMemory,
    /// Still held when the switch was stopped.
    Shutdown,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 12] = [
        DropReason::HeadroomViolation,
        DropReason::EgressThreshold,
        DropReason::SharedFull,
        DropReason::Malformed,
        DropReason::Oversize,
        DropReason::LinkLocal,
        DropReason::SamePort,
        DropReason::PortDown,
        DropReason::PfcWatchdog,
        DropReason::PoolEmpty,
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
            DropReason::PoolEmpty => "pool_empty",
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
pub mod queue_stat {
    use super::DropReason;

    /// Frames: received (ingress) or sent (egress).
    pub const FRAMES: usize = 0;
    /// Bytes of these frames, without FCS.
    pub const BYTES: usize = 1;
    /// Ingress: further copies of flooded frames. Egress: frames marked CE.
    pub const EXTRA: usize = 2;
    /// Frames handed over: by the forwarder (ingress) or taken by the transmitter (egress).
    pub const HANDED_OVER: usize = 3;
    /// Egress, no count: of a queue that its peer lets send nothing, the ingress ports that it holds frames of;
    /// as of the last publishing.
    pub const BLOCKED_FROM: usize = 4;
    /// Drops, one for each reason.
    pub const DROPS: usize = 5;
    /// Numbers in a row.
    pub const WIDTH: usize = DROPS + DropReason::ALL.len();
}

/// Counted for each port, about flow control; the same row on both sides.
pub mod port_stat {
    use super::CLASSES;

    /// PFC frames received or sent.
    pub const PFC: usize = 0;
    /// 802.3x PAUSE frames received or sent.
    pub const PAUSE: usize = 1;
    /// Control frames received and ignored: of an unknown opcode, or for a flow control that the port does not speak.
    pub const IGNORED: usize = 2;
    /// Control frames received that are broken, or enable no class.
    pub const MALFORMED: usize = 3;
    /// Frames with credit or queues' lengths, received or sent.
    pub const CREDIT: usize = 4;
    /// For each class: frames that pause it (refreshes included).
    pub const XOFF: usize = 5;
    /// For each class: frames that resume it.
    pub const XON: usize = XOFF + CLASSES;
    /// For each class: changes from running to paused (sent side; refreshes not included).
    pub const PAUSES: usize = XON + CLASSES;
    /// For each class: picoseconds for which the peer was told to pause (sent side).
    pub const OFF_PICOS: usize = PAUSES + CLASSES;
    /// For each class: bytes that its ingress queue held at each of these changes, added up (sent side).
    pub const HELD_AT_PAUSES: usize = OFF_PICOS + CLASSES;
    /// RX lcore: frames passed on to the forwarder.
    pub const PASSED_ON: usize = HELD_AT_PAUSES + CLASSES;
    /// Control frames received that are [`IGNORED`] because they are of another flow control than the port's.
    pub const FOREIGN: usize = PASSED_ON + 1;
    /// Classes that went back to the line rate because the peer's last word on them had aged (sent side).
    pub const AGED: usize = FOREIGN + 1;
    /// Messages of a flow control with frames of its own, received and obeyed, or sent.
    pub const OWN: usize = AGED + 1;
    /// Control frames that were due and had no memory (sent side), each time that one was.
    pub const PUT_OFF: usize = OWN + 1;
    /// Numbers in a row.
    pub const WIDTH: usize = PUT_OFF + 1;
}

/// Told by a transmitter about itself, after the rows.
pub mod gauge {
    /// Frames that it holds now.
    pub const HELD: usize = 0;
    /// Messages that tell the peer to slow down, since the arrival that crossed the threshold: a delay.
    pub const MESSAGE_DELAYS: usize = 1;
    /// Delays of messages obeyed, since their arrival.
    pub const REACTIONS: usize = MESSAGE_DELAYS + DELAY;
    /// Numbers that tell a delay; first how many were measured.
    pub const DELAY: usize = BY_LENGTH + LENGTHS;
    /// How many delays were measured. p50, p99, p99.9 and the longest follow, in nanoseconds.
    pub const COUNT: usize = 0;
    /// All nanoseconds of a delay together.
    pub const SUM: usize = 5;
    /// How many delays had each length.
    pub const BY_LENGTH: usize = 6;
    /// Lengths that are told apart. All but the last have a [bound](length_up_to).
    pub const LENGTHS: usize = 28;
    /// Numbers of this kind.
    pub const WIDTH: usize = REACTIONS + DELAY;

    /// The longest delay of a length, in nanoseconds: 128, and twice as much with each, up to 8.6 s; `None` of the last length.
    pub fn length_up_to(length: usize) -> Option<u64> {
        (length + 1 < LENGTHS).then(|| 1 << (SHORTEST_BITS + length as u32))
    }

    /// The length of a delay in nanoseconds, at least 1.
    #[inline]
    pub fn length_of(nanos: u64) -> usize {
        let bits = u64::BITS - (nanos - 1).leading_zeros();
        (bits.saturating_sub(SHORTEST_BITS) as usize).min(LENGTHS - 1)
    }

    const SHORTEST_BITS: u32 = 7;
}

/// The live counters of one half, for all queues and ports of the switch.
#[derive(Debug, State)]
pub struct Counters {
    queues: Box<[QueueRow]>,
    ports: Box<[[u64; port_stat::WIDTH]]>,
    gauges: [u64; gauge::WIDTH],
    /// [`queue_stat`]'s counts of all queues together, drops in one; in debug builds.
    totals: [u64; queue_stat::DROPS + 1],
    #[state(same)]
    published: Arc<Published>,
}

/// One queue's counters. Counts that each frame changes come first, and are in one cache line.
#[derive(Clone, Debug, State)]
#[repr(align(64))]
struct QueueRow([u64; queue_stat::WIDTH]);

const _: () = assert!(queue_stat::HANDED_OVER < 8);

/// The last published copy, and the request for a new one.
#[derive(Debug)]
pub struct Published {
    requested: AtomicU64,
    served: AtomicU64,
    values: OnceLock<Box<[AtomicU64]>>,
}

impl Counters {
    /// All zero, for a switch of this many ports. Memory of the published copy is taken now, and none later.
    pub fn upfront(ports: usize) -> Counters {
        let counters = Counters::as_needed(ports);
        counters.copy();
        counters
    }

    /// All zero, for a switch of this many ports. Memory of the published copy is taken at the first request: of many switches
    /// in one process few are ever asked.
    pub fn as_needed(ports: usize) -> Counters {
        let published = Published { requested: AtomicU64::new(0), served: AtomicU64::new(0), values: OnceLock::new() };
        Counters {
            queues: vec![QueueRow([0; queue_stat::WIDTH]); ports * CLASSES].into(),
            ports: vec![[0; port_stat::WIDTH]; ports].into(),
            gauges: [0; gauge::WIDTH],
            totals: [0; queue_stat::DROPS + 1],
            published: Arc::new(published),
        }
    }

    /// Adds to a queue's counter.
    #[inline]
    pub fn add(&mut self, queue: QueueId, stat: usize, n: u64) {
        if cfg!(debug_assertions) {
            self.totals[stat.min(queue_stat::DROPS)] += n;
        }
        self.queues[queue.index()].0[stat] += n;
    }

    /// Asks for what a queue's frames are counted in, ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, queue: QueueId) {
        prefetch_index(&self.queues, queue.index());
    }

    /// Counts a frame of so many bytes.
    #[inline]
    pub fn add_frame(&mut self, queue: QueueId, frame_bytes: u32) {
        self.add_frames(queue, 1, u64::from(frame_bytes));
    }

    /// Counts frames of so many bytes together.
    #[inline]
    pub fn add_frames(&mut self, queue: QueueId, frames: u64, bytes: u64) {
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
        self.queues[queue.index()].0[stat]
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
    pub fn set(&mut self, queue: QueueId, stat: usize, value: u64) {
        self.queues[queue.index()].0[stat] = value;
    }

    /// Counts a dropped frame.
    #[inline]
    pub fn drop(&mut self, queue: QueueId, reason: DropReason) {
        self.add(queue, queue_stat::DROPS + reason as usize, 1);
    }

    /// Adds to a port's counter.
    #[inline]
    pub fn add_port(&mut self, port: PortId, stat: usize, n: u64) {
        self.ports[port.index()][stat] += n;
    }

    /// A gauge, as it was set.
    pub(crate) fn gauge(&self, gauge: usize) -> u64 {
        self.gauges[gauge]
    }

    /// Sets a gauge.
    pub fn set_gauge(&mut self, gauge: usize, value: u64) {
        self.gauges[gauge] = value;
    }

    /// The number of a reader's request that has not been answered. Asked between bursts; answer with
    /// [`Counters::publish`].
    #[inline]
    pub fn requested(&self) -> Option<u64> {
        // Acquire: pairs with the Release of the request, so that a request seen is answered with counters of now.
        let requested = self.published.requested.load(Ordering::Acquire);
        (requested != self.published.served.load(Ordering::Relaxed)).then_some(requested)
    }

    /// Copies the counters out in answer to a request.
    pub fn publish(&self, requested: u64) {
        let queues = self.queues.iter().flat_map(|QueueRow(row)| row);
        let values = queues.chain(self.ports.as_flattened()).chain(&self.gauges);
        for (slot, value) in self.copy().iter().zip(values) {
            slot.store(*value, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `Published::is_served`; the values are visible before the answer.
        self.published.served.store(requested, Ordering::Release);
    }

    /// Where they are copied to: queue by queue, then port by port, then gauges.
    fn copy(&self) -> &[AtomicU64] {
        self.published.copy(self.queues.len() * queue_stat::WIDTH + self.ports.as_flattened().len() + gauge::WIDTH)
    }

    /// Where readers find the published copy.
    pub fn published(&self) -> Arc<Published> {
        self.published.clone()
    }
}

impl Published {
    /// Asks for a new copy; the answer is there when [`Published::is_served`] says so of the returned number.
    pub fn request(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether the request of this number, or a later one, has been answered.
    pub fn is_served(&self, request: u64) -> bool {
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
    fn reasons_are_indexed_as_listed() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
