//! Counters of PFC storms that lcores share.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flowctl::pfc::{StormCounters, StormPackets};
use weir_units::{CLASSES, Class, ClassSet, QueueId};
use weir_wire::mac_control::PfcFrame;

use crate::counters::{Counters, queue_stat};

/// Storm counters of a port with watched classes, shared by lcores.
///
/// Relaxed throughout: plain counts. The transmitter may see a frame of another lcore one poll late.
#[derive(Debug)]
pub(crate) struct SharedStormCounters {
    watched: ClassSet,
    pub(crate) classes: [ClassStormCounters; CLASSES],
}

#[derive(Debug, Default)]
pub(crate) struct ClassStormCounters {
    /// Obeyed PFC frames that pause the class, and that resume it; written by the lcore that receives.
    pub(crate) xoff_frames: AtomicU64,
    pub(crate) xon_frames: AtomicU64,
    /// Frames for queues of this number that the port received in a storm: admitted, and dropped; written by the lcore that forwards.
    admitted: AtomicU64,
    dropped: AtomicU64,
    /// Frames for the egress queue that its storm dropped before admission; written by all lcores that forward.
    refused: AtomicU64,
    /// Counters of the watchdog, in the order of [`StormCounters::named`]; written by the lcore that transmits.
    pub(crate) counters: [AtomicU64; STORM_COUNTERS],
}

const STORM_COUNTERS: usize = 10;

impl SharedStormCounters {
    /// Returns zero counters for a port with these watched classes.
    pub(crate) fn new(classes: ClassSet) -> SharedStormCounters {
        SharedStormCounters { watched: classes, classes: array::from_fn(|_| ClassStormCounters::default()) }
    }

    /// Counts an obeyed PFC frame.
    pub(crate) fn count_pfc(&self, frame: &PfcFrame) {
        frame.paused().iter().for_each(|class| add(&self.classes[class.index()].xoff_frames));
        frame.resumed().iter().for_each(|class| add(&self.classes[class.index()].xon_frames));
    }

    /// Counts an admitted frame for a queue in a storm.
    pub(crate) fn count_admitted(&self, queue: Class) {
        add(&self.classes[queue.index()].admitted);
    }

    /// Counts a dropped frame for a queue in a storm.
    pub(crate) fn count_dropped(&self, queue: Class) {
        add(&self.classes[queue.index()].dropped);
    }

    /// Counts a frame that was dropped because its egress queue, at this port, is in a storm.
    pub(crate) fn count_refused(&self, class: Class) {
        add(&self.classes[class.index()].refused);
    }

    /// Returns the counters of a class's watchdog, as of its last poll or the last report; `None` if it is not watched.
    pub(crate) fn counters(&self, class: Class) -> Option<StormCounters> {
        let slots = self.watched.contains(class).then(|| &self.classes[class.index()].counters)?;
        let [deadlock_detected, deadlock_restored, all @ .., tx, tx_dropped, rx, rx_dropped] =
            slots.each_ref().map(|slot| slot.load(Ordering::Relaxed));
        let last = StormPackets { tx, tx_dropped, rx, rx_dropped };
        let [tx, tx_dropped, rx, rx_dropped] = all;
        let all = StormPackets { tx, tx_dropped, rx, rx_dropped };
        Some(StormCounters { deadlock_detected, deadlock_restored, all, last })
    }

    /// Returns the counts since the start of a queue; `counters` are those of its transmitter.
    pub(crate) fn packets(&self, queue: QueueId, counters: &Counters) -> StormPackets {
        let class = &self.classes[queue.class().index()];
        StormPackets {
            tx: counters.get(queue, queue_stat::FRAMES),
            tx_dropped: counters.dropped(queue) + class.refused.load(Ordering::Relaxed),
            rx: class.admitted.load(Ordering::Relaxed),
            rx_dropped: class.dropped.load(Ordering::Relaxed),
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
