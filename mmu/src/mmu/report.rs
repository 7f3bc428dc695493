//! Occupancy for reports. Values are not a consistent snapshot while lcores run.

use weir_units::{Bytes, QueueId, Time};

use super::Mmu;
use crate::layout::BufferLayout;
use crate::policy::{BufferPolicy, Gauges, QueueView};
use crate::pool::Pool;

/// Occupancy of one ingress queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// Bytes in private buffer.
    pub private: Bytes,
    /// Shared occupancy w_s.
    pub shared: Bytes,
    /// Headroom occupancy w_h.
    pub headroom: Bytes,
    /// Whether the peer should be paused.
    pub off: bool,
    /// Whether the whole port is OFF.
    pub port_off: bool,
    /// Whether the queue's headroom is part of the shared segment ([`BufferPolicy::lends_headroom`]).
    pub lent: bool,
    /// Current Xoff: T(t), or the value that the policy compares instead.
    pub threshold: Bytes,
    /// Current Φ, in charges ([`BufferLayout::charged_by`]).
    pub headroom_limit: Bytes,
    /// Number of times that the queue went OFF.
    pub pauses: u64,
    /// Peak total occupancy since the start.
    pub held_max: Bytes,
    /// Peak w_s since the start.
    pub shared_max: Bytes,
    /// Peak w_h since the start.
    pub headroom_max: Bytes,
    /// Gauges of the policy for the queue.
    pub gauges: Gauges,
}

/// Occupancy of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Size of the pool.
    pub capacity: Bytes,
    /// Bytes in use, including those reserved for bursts being admitted.
    pub used: Bytes,
    /// Peak of the bytes in use since the start.
    pub used_max: Bytes,
}

/// Watermarks of an ingress and an egress queue since [`Mmu::restart_watermarks`], or since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueWatermarks {
    /// Peak w_s of the ingress queue.
    pub shared: Bytes,
    /// Peak w_h of the ingress queue.
    pub headroom: Bytes,
    /// Peak length of the egress queue.
    pub egress: Bytes,
}

impl QueueWatermarks {
    /// The higher of each watermark.
    pub fn highest(self, other: QueueWatermarks) -> QueueWatermarks {
        QueueWatermarks {
            shared: self.shared.max(other.shared),
            headroom: self.headroom.max(other.headroom),
            egress: self.egress.max(other.egress),
        }
    }
}

/// Watermarks of the pools since [`Mmu::restart_watermarks`], or since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWatermarks {
    /// Peak of the shared segment.
    pub shared: Bytes,
    /// Peak of the headroom pool, in layouts that pool headroom.
    pub headroom: Option<Bytes>,
    /// Peak of the egress lossy pool, in the four-pool model.
    pub egress_lossy: Option<Bytes>,
}

impl PoolWatermarks {
    /// The higher of each watermark.
    pub fn highest(self, other: PoolWatermarks) -> PoolWatermarks {
        PoolWatermarks {
            shared: self.shared.max(other.shared),
            headroom: self.headroom.max(other.headroom),
            egress_lossy: self.egress_lossy.max(other.egress_lossy),
        }
    }
}

/// Occupancy of an ingress queue at an instant, without the policy's view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOccupancy {
    /// Bytes in private buffer.
    pub private: u32,
    /// Shared occupancy w_s, in bytes.
    pub shared: u32,
    /// Headroom occupancy w_h, in bytes.
    pub headroom: u32,
    /// Whether the queue is OFF.
    pub off: bool,
}

impl Mmu {
    /// Occupancy of an ingress queue. Costs two loads.
    pub fn queue_occupancy(&self, id: QueueId) -> QueueOccupancy {
        let queue = &self.ingress[id.index()];
        let occupancy = queue.occupancy.load();
        QueueOccupancy {
            private: queue.private(),
            shared: occupancy.shared,
            headroom: occupancy.headroom,
            off: occupancy.off,
        }
    }

    /// Bytes in use of the shared segment. Costs one load for each slice.
    pub fn shared_used(&self) -> u64 {
        self.shared_pools().map(|pool| pool.level().used).sum()
    }

    /// Bytes in use of the egress lossy pool; 0 without one.
    pub(super) fn egress_lossy_used(&self) -> u64 {
        self.egress_lossy_pools().map(|pool| pool.level().used).sum()
    }

    /// Returns occupancy, threshold, peaks and gauges of an ingress queue.
    pub fn ingress_usage(&self, id: QueueId, now: Time) -> QueueUsage {
        let queue = &*self.ingress[id.index()];
        let occupancy = queue.occupancy.load();
        let shared = self.of_slice(id.port()).shared.level();
        let view = self.ingress_view(&self.flags, id, occupancy, shared, now);
        let port_off = self.flags.port_xon_offset.is_some()
            && queue.limits.lossless
            && self.ports[id.port().index()].occupancy.load().off;
        let [held_max, shared_max, headroom_max] =
            queue.highest(self.persistent.get().map(|all| &all[id.index()])).map(Bytes::new);
        QueueUsage {
            private: Bytes::new(u64::from(queue.private())),
            shared: Bytes::new(u64::from(occupancy.shared)),
            headroom: Bytes::new(u64::from(occupancy.headroom)),
            off: occupancy.off || port_off,
            port_off,
            lent: occupancy.lent,
            threshold: Bytes::new(self.policy.reported_threshold(&view)),
            headroom_limit: Bytes::new(u64::from(queue.headroom_limit())),
            pauses: queue.pauses(),
            held_max,
            shared_max,
            headroom_max,
            gauges: if queue.limits.lossless { self.policy.gauges(&view) } else { Gauges::NONE },
        }
    }

    /// Whether the usage of a queue may change with time alone.
    pub fn usage_depends_on_time(&self) -> bool {
        self.policy.depends_on_time()
    }

    /// Current maximum length of a lossy egress queue, including an arriving packet; with slices that in the slice of the queue's port.
    pub fn lossy_threshold(&self, id: QueueId, now: Time) -> Bytes {
        Bytes::new(self.policy.lossy_threshold(&self.lossy_view(id, now), self.lossy_alpha.get()))
    }

    /// View of the queue that the policy bounds: the ingress queue of a lossless class, the egress queue of another.
    #[cfg(not(loom))]
    pub(crate) fn bounded_view(&self, id: QueueId, now: Time) -> QueueView {
        let queue = &self.ingress[id.index()];
        if queue.limits.lossless {
            let shared = self.of_slice(id.port()).shared.level();
            return self.ingress_view(&self.flags, id, queue.occupancy.load(), shared, now);
        }
        self.lossy_view(id, now)
    }

    fn lossy_view(&self, id: QueueId, now: Time) -> QueueView {
        let slice = self.of_slice(id.port());
        self.egress_view(&slice.context(), id, slice.egress[id.index()].length(), slice.shared.level(), now)
    }

    /// Total occupancy of an ingress queue, for flow control by queue length.
    #[inline]
    pub fn held(&self, queue: QueueId) -> Bytes {
        let queue = &self.ingress[queue.index()];
        let occupancy = queue.occupancy.load();
        Bytes::new(u64::from(occupancy.shared) + u64::from(occupancy.headroom) + u64::from(queue.private()))
    }

    /// Bytes queued for a port and class, for ECN marking.
    #[inline]
    pub fn egress_length(&self, queue: QueueId) -> u64 {
        self.egress[queue.index()].length()
    }

    /// Peak length of an egress queue since the start.
    pub fn egress_length_max(&self, queue: QueueId) -> Bytes {
        Bytes::new(self.egress[queue.index()].highest())
    }

    /// Watermarks of a port's and class's queues since their last restart.
    pub fn queue_watermarks(&self, id: QueueId) -> QueueWatermarks {
        let (ingress, egress) = (&self.ingress[id.index()], &self.egress[id.index()]);
        QueueWatermarks {
            shared: Bytes::new(ingress.shared_max.get()),
            headroom: Bytes::new(ingress.headroom_max.get()),
            egress: Bytes::new(egress.watermark().get()),
        }
    }

    /// Watermarks of the pools since their last restart.
    pub fn pool_watermarks(&self) -> PoolWatermarks {
        self.watermarks_of_pools(|pool, _| pool.watermark().get())
    }

    /// Restarts the watermarks of [`Mmu::queue_watermarks`] and [`Mmu::pool_watermarks`] from the current occupancy, while lcores run.
    /// Returns those until then, of queues by [`QueueId::index`]. Peaks since the start, as in [`QueueUsage`] and [`PoolUsage`], are kept. Call
    /// from one thread only.
    pub fn restart_watermarks(&self) -> (Vec<QueueWatermarks>, PoolWatermarks) {
        let persistent = self.persistent.get_or_init(|| self.ingress.iter().map(|_| Default::default()).collect());
        let queues =
            self.ingress.iter().zip(persistent).zip(self.egress.iter()).map(|((ingress, persistent), egress)| {
                let [shared, headroom] = ingress.restart_watermarks(persistent).map(Bytes::new);
                QueueWatermarks { shared, headroom, egress: Bytes::new(egress.restart_watermark()) }
            });
        (queues.collect(), self.watermarks_of_pools(|pool, used| pool.restart_watermark(used)))
    }

    /// Reads the watermarks of the pools; `watermark` gets a pool, and its current use over all slices.
    fn watermarks_of_pools(&self, watermark: impl Fn(&Pool, &dyn Fn() -> u64) -> u64) -> PoolWatermarks {
        let own = |pool: &Pool| Bytes::new(watermark(pool, &|| pool.level().used));
        PoolWatermarks {
            shared: Bytes::new(watermark(&self.shared, &|| self.shared_used())),
            headroom: self.headroom.as_deref().map(|pool| own(pool)),
            egress_lossy: self
                .egress_lossy
                .as_deref()
                .map(|pool| Bytes::new(watermark(pool, &|| self.egress_lossy_used()))),
        }
    }

    /// Usage of the shared segment: Σ w_s of B_s, which lent headroom enlarges.
    pub fn pool_usage(&self) -> PoolUsage {
        pool_usage(&self.shared, self.shared_pools())
    }

    /// Usage of the headroom pool, in layouts that pool headroom.
    pub fn headroom_pool_usage(&self) -> Option<PoolUsage> {
        self.headroom.as_deref().map(|pool| pool_usage(pool, [&**pool]))
    }

    /// Usage of the egress lossy pool, in the four-pool model.
    pub fn egress_lossy_pool_usage(&self) -> Option<PoolUsage> {
        self.egress_lossy.as_deref().map(|pool| pool_usage(pool, self.egress_lossy_pools()))
    }

    /// Partition that the MMU was created with.
    pub fn layout(&self) -> &BufferLayout {
        &self.layout
    }

    /// Policy that the MMU was created with.
    pub fn policy(&self) -> &dyn BufferPolicy {
        &*self.policy
    }
}

/// Usage of a pool, whose parts are its slices or the pool itself.
fn pool_usage<'p>(pool: &Pool, parts: impl IntoIterator<Item = &'p Pool>) -> PoolUsage {
    let peak = PoolUsage { used_max: Bytes::new(pool.highest()), ..PoolUsage::default() };
    parts.into_iter().fold(peak, |sum, part| {
        let level = part.level();
        let (capacity, used) = (sum.capacity + Bytes::new(level.capacity), sum.used + Bytes::new(level.used));
        PoolUsage { capacity, used, ..sum }
    })
}
