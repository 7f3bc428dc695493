//! The MMU: admission, release, and what the transmitters should advertise.

use std::fmt;

use crossbeam_utils::CachePadded;
use weir_units::{Bytes, CLASSES, Class, PortId, QueueId};

use crate::egress_queue::EgressQueue;
use crate::ingress_queue::{Departed, IngressQueue, Levels, Limits};
use crate::layout::BufferLayout;
use crate::policy::Policy;
use crate::pool::Pool;
use crate::signal::Changed;

/// The memory management unit of one switch. See the crate's documentation for who calls what.
pub struct Mmu {
    layout: BufferLayout,
    policy: Box<dyn Policy>,
    /// α of the threshold at which lossy classes drop, over free shared buffer.
    lossy_alpha: weir_units::Alpha,
    shared: CachePadded<Pool>,
    ingress: Box<[CachePadded<IngressQueue>]>,
    egress: Box<[CachePadded<EgressQueue>]>,
    changed: Box<[CachePadded<Changed>]>,
}

/// A packet that asks to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Port of arrival and class.
    pub ingress: QueueId,
    /// Port of departure and class.
    pub egress: QueueId,
    /// What it is charged, from [`crate::Charge::of`].
    pub bytes: u32,
}

/// A packet that was sent: the [`Arrival`] as it was admitted.
pub type Departure = Arrival;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Kept, and charged to this segment of its ingress queue.
    Keep(Segment),
    /// Refused, and charged to nothing.
    Drop(DropReason),
}

/// Where a kept packet is accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The ingress queue's own ρ.
    Private,
    /// The shared segment, under T(t).
    Shared,
    /// The ingress queue's Φ, after Xoff.
    Headroom,
}

/// Why the MMU refused a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// A lossless packet found its headroom full: the peer ignored PAUSE, or the headroom is too small.
    HeadroomViolation,
    /// A lossy packet found its egress queue at the threshold.
    EgressThreshold,
    /// A lossy packet found the shared segment full.
    SharedFull,
}

/// Occupancy of one queue, for reports. Not consistent as a whole while lcores run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUse {
    /// Bytes in private buffer.
    pub private: Bytes,
    /// w_s.
    pub shared: Bytes,
    /// w_h.
    pub headroom: Bytes,
    /// Whether the peer should be paused.
    pub off: bool,
    /// T(t) now.
    pub threshold: Bytes,
    /// How often the queue went OFF.
    pub pauses: u64,
    /// Highest total.
    pub held_max: Bytes,
    /// Highest w_s.
    pub shared_max: Bytes,
    /// Highest w_h.
    pub headroom_max: Bytes,
}

/// Occupancy of the shared segment, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// B_s.
    pub capacity: Bytes,
    /// Σ w_s, and what is reserved for bursts being admitted.
    pub used: Bytes,
    /// Highest Σ w_s.
    pub used_max: Bytes,
}

impl Mmu {
    /// An empty MMU.
    ///
    /// `xon_offset` is δ: RESUME below T − δ. `lossy_alpha` sets the egress threshold of lossy classes,
    /// `α·(B_s − Σ w_s)`.
    pub fn new(
        layout: BufferLayout,
        policy: Box<dyn Policy>,
        xon_offset: Bytes,
        lossy_alpha: weir_units::Alpha,
    ) -> Mmu {
        let limits = |port: PortId, class: Class| {
            let own = &layout.ports()[port.index()];
            Limits {
                private: own.private[class.index()].get() as u32,
                headroom: own.headroom[class.index()].get() as u32,
                lossless: layout.is_lossless(port, class),
                xon_offset: xon_offset.get(),
            }
        };
        let ports = (0..layout.ports().len() as u16).map(PortId);
        let queues = ports.flat_map(|port| Class::ALL.map(|class| (port, class)));
        Mmu {
            shared: CachePadded::new(Pool::new(layout.shared().get())),
            ingress: queues.map(|(port, class)| CachePadded::new(IngressQueue::new(limits(port, class)))).collect(),
            egress: (0..layout.ports().len() * CLASSES).map(|_| CachePadded::default()).collect(),
            changed: (0..layout.ports().len()).map(|_| CachePadded::default()).collect(),
            layout,
            policy,
            lossy_alpha,
        }
    }

    /// Places each arrival or refuses it, and writes its verdict beside it. Best called with whole bursts: the shared
    /// pool is touched once a call, an ingress queue once for each run of packets of the same queues.
    ///
    /// The shared bytes of the whole burst are reserved before and what was not used is returned after, so that
    /// lcores that admit at the same time never keep more than there is.
    ///
    /// Returns the classes that went OFF with this call, one bit each, whatever their ports: a burst is usually of one.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn admit(&self, arrivals: &[Arrival], verdicts: &mut [Verdict]) -> u8 {
        assert_eq!(arrivals.len(), verdicts.len(), "a verdict for each arrival");
        let wanted = arrivals.iter().map(|arrival| u64::from(arrival.bytes)).sum();
        let grant = self.shared.reserve(wanted);
        let (mut used, mut went_off) = (0, 0);
        let mut first = 0;
        while first < arrivals.len() {
            let run = run_length(&arrivals[first..]);
            let room = Room { before: grant.before + used, bytes: grant.bytes - used };
            let admitted = self.admit_run(&arrivals[first..first + run], &mut verdicts[first..first + run], room);
            used += admitted.shared;
            went_off |= admitted.went_off;
            first += run;
        }
        self.shared.note_level(grant.before + used);
        self.shared.give_back(grant.bytes - used);
        went_off
    }

    /// Admits packets of one ingress queue to one egress queue.
    fn admit_run(&self, run: &[Arrival], verdicts: &mut [Verdict], room: Room) -> Admitted {
        let (ingress, egress) = (run[0].ingress, run[0].egress);
        let queue = &self.ingress[ingress.index()];
        let egress_queue = &self.egress[egress.index()];
        let (private, egress_length) = (queue.private(), egress_queue.length());
        let mut sums = Placed::default();
        let change = queue.update(|levels| {
            let mut after = levels;
            sums = Placed::default();
            for (arrival, verdict) in run.iter().zip(&mut *verdicts) {
                let bytes = u64::from(arrival.bytes);
                let pool_used = room.before + sums.shared;
                let fits_pool = sums.shared + bytes <= room.bytes;
                *verdict = if private + sums.private + arrival.bytes <= queue.limits.private {
                    sums.private += arrival.bytes;
                    Verdict::Keep(Segment::Private)
                } else if queue.limits.lossless {
                    let threshold = self.policy.threshold(ingress, pool_used);
                    place_lossless(&queue.limits, &mut after, arrival.bytes, threshold, fits_pool)
                } else {
                    let threshold = self.lossy_threshold(pool_used);
                    if egress_length + sums.kept + bytes > threshold {
                        Verdict::Drop(DropReason::EgressThreshold)
                    } else if fits_pool {
                        after.shared += arrival.bytes;
                        Verdict::Keep(Segment::Shared)
                    } else {
                        Verdict::Drop(DropReason::SharedFull)
                    }
                };
                match *verdict {
                    Verdict::Keep(Segment::Shared) => {
                        sums.shared += bytes;
                        sums.kept += bytes;
                    }
                    Verdict::Keep(_) => sums.kept += bytes,
                    Verdict::Drop(_) => {}
                }
            }
            after
        });
        queue.add_private(sums.private);
        if sums.kept > 0 {
            egress_queue.add(sums.kept);
            queue.shared_max.note(u64::from(change.after.shared));
            queue.headroom_max.note(u64::from(change.after.headroom));
            let segments = u64::from(change.after.shared) + u64::from(change.after.headroom);
            queue.held_max.note(segments + u64::from(private + sums.private));
        }
        let went_off = change.after.off && !change.before.off;
        if went_off {
            self.changed[ingress.port().index()].mark(ingress.class().bit());
        }
        Admitted { shared: sums.shared, went_off: if went_off { ingress.class().bit() } else { 0 } }
    }

    /// Returns what sent packets were charged. Runs of the same queues cost one update each.
    pub fn release(&self, departures: &[Departure]) {
        let mut shared = 0;
        let mut first = 0;
        while first < departures.len() {
            let run = run_length(&departures[first..]);
            let bytes = departures[first..first + run].iter().map(|departure| departure.bytes).sum();
            shared += self.release_run(departures[first], bytes, shared);
            first += run;
        }
        self.shared.give_back(shared);
    }

    /// Takes `bytes` out of the queues of `departure`; returns the shared bytes among them. `leaving` is what this
    /// burst has taken from the pool so far and not yet returned.
    fn release_run(&self, departure: Departure, bytes: u32, leaving: u64) -> u64 {
        let queue = &self.ingress[departure.ingress.index()];
        let pool_used = self.shared.used().saturating_sub(leaving);
        let mut departed = Departed::default();
        let change = queue.update(|levels| {
            let mut after = levels;
            departed = after.depart(bytes);
            if after.off {
                let free_of_us = pool_used.saturating_sub(u64::from(departed.shared));
                let threshold = self.policy.threshold(departure.ingress, free_of_us);
                after.off = !queue.limits.resumes(after, threshold);
            }
            after
        });
        queue.take_private(departed.private);
        self.egress[departure.egress.index()].remove(u64::from(bytes));
        if change.after.off != change.before.off {
            self.changed[departure.ingress.port().index()].mark(departure.ingress.class().bit());
        }
        u64::from(departed.shared)
    }

    /// Which classes the peer of `port` should pause now, one bit each. `before` is the last answer: where nothing
    /// changed since, it is returned as it is.
    #[inline]
    pub fn off_classes(&self, port: PortId, before: u8) -> u8 {
        let changed = self.changed[port.index()].take();
        Class::in_mask(changed).fold(before, |off, class| {
            let queue = &self.ingress[QueueId::new(port, class).index()];
            if queue.levels().off { off | class.bit() } else { off & !class.bit() }
        })
    }

    /// Looks again at OFF queues of `port` (those in `classes`): T moves when other queues move, and a queue that
    /// is OFF and empty gets no event of its own.
    pub fn reconsider(&self, port: PortId, classes: u8) {
        for class in Class::in_mask(classes) {
            let id = QueueId::new(port, class);
            let queue = &self.ingress[id.index()];
            let change = queue.update(|levels| {
                let resumes = levels.off && queue.limits.resumes(levels, self.policy.threshold(id, self.shared.used()));
                Levels { off: levels.off && !resumes, ..levels }
            });
            if change.after.off != change.before.off {
                self.changed[port.index()].mark(class.bit());
            }
        }
    }

    /// Bytes waiting for a port and class: what ECN marking goes by.
    #[inline]
    pub fn egress_length(&self, queue: QueueId) -> u64 {
        self.egress[queue.index()].length()
    }

    /// The highest that an egress queue's length was.
    pub fn egress_length_max(&self, queue: QueueId) -> Bytes {
        Bytes::new(self.egress[queue.index()].watermark().get())
    }

    /// An ingress queue as it stands.
    pub fn ingress_use(&self, id: QueueId) -> QueueUse {
        let queue = &self.ingress[id.index()];
        let levels = queue.levels();
        QueueUse {
            private: Bytes::new(u64::from(queue.private())),
            shared: Bytes::new(u64::from(levels.shared)),
            headroom: Bytes::new(u64::from(levels.headroom)),
            off: levels.off,
            threshold: Bytes::new(self.policy.threshold(id, self.shared.used())),
            pauses: queue.pauses(),
            held_max: Bytes::new(queue.held_max.get()),
            shared_max: Bytes::new(queue.shared_max.get()),
            headroom_max: Bytes::new(queue.headroom_max.get()),
        }
    }

    /// The shared segment as it stands.
    pub fn pool_use(&self) -> PoolUse {
        PoolUse {
            capacity: Bytes::new(self.shared.capacity()),
            used: Bytes::new(self.shared.used()),
            used_max: Bytes::new(self.shared.watermark().get()),
        }
    }

    /// The partition that the MMU was made with.
    pub fn layout(&self) -> &BufferLayout {
        &self.layout
    }

    /// The policy that the MMU was made with.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    #[inline]
    fn lossy_threshold(&self, pool_used: u64) -> u64 {
        self.lossy_alpha.of(Bytes::new(self.shared.capacity().saturating_sub(pool_used))).get()
    }
}

/// What of the shared segment a run may use.
#[derive(Clone, Copy)]
struct Room {
    /// Bytes used by others and by earlier runs of the burst.
    before: u64,
    /// Bytes reserved for this burst and not used yet.
    bytes: u64,
}

/// What a run took, and whether its queue went OFF (as a class bit).
struct Admitted {
    shared: u64,
    went_off: u8,
}

/// Bytes that a run has taken so far.
#[derive(Default)]
struct Placed {
    private: u32,
    shared: u64,
    kept: u64,
}

/// Shared up to T, then headroom, then a violation (dsh Algorithm 1); OFF when w_s reaches T.
#[inline]
fn place_lossless(limits: &Limits, levels: &mut Levels, bytes: u32, threshold: u64, fits_pool: bool) -> Verdict {
    if u64::from(levels.shared) + u64::from(bytes) <= threshold && fits_pool {
        levels.shared += bytes;
        levels.off |= u64::from(levels.shared) >= threshold;
        Verdict::Keep(Segment::Shared)
    } else {
        levels.off = true;
        if levels.headroom + bytes <= limits.headroom {
            levels.headroom += bytes;
            Verdict::Keep(Segment::Headroom)
        } else {
            Verdict::Drop(DropReason::HeadroomViolation)
        }
    }
}

/// How many packets from the first on belong to the same two queues.
#[inline]
fn run_length(packets: &[Arrival]) -> usize {
    let first = packets[0];
    packets.iter().take_while(|next| next.ingress == first.ingress && next.egress == first.egress).count()
}

impl fmt::Debug for Mmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmu").field("policy", &self.policy).field("pool", &self.pool_use()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
