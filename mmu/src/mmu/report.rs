//! Occupancy, as reports have it. Not consistent as a whole while lcores run.

use weir_units::{Bytes, QueueId, Time};

use super::Mmu;
use crate::layout::BufferLayout;
use crate::policy::{Gauges, Policy};
use crate::pool::Pool;

/// Occupancy of one ingress queue.
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
    /// Whether that is so because the whole port is OFF.
    pub port_off: bool,
    /// Xoff now: T(t), or what the policy compares instead.
    pub threshold: Bytes,
    /// Φ now, in charges ([`BufferLayout::charged_by`]).
    pub headroom_limit: Bytes,
    /// How often the queue went OFF.
    pub pauses: u64,
    /// Highest total, since the start.
    pub held_max: Bytes,
    /// Highest w_s, since the start.
    pub shared_max: Bytes,
    /// Highest w_h, since the start.
    pub headroom_max: Bytes,
    /// What the policy shows of the queue.
    pub gauges: Gauges,
}

/// Occupancy of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Its size.
    pub capacity: Bytes,
    /// In use, and what is reserved for bursts being admitted.
    pub used: Bytes,
    /// The most that was in use, since the start.
    pub used_max: Bytes,
}

/// Highest levels of a queue on either side since [`Mmu::restart_watermarks`], or since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueWatermarks {
    /// Highest w_s of the ingress queue.
    pub shared: Bytes,
    /// Highest w_h of the ingress queue.
    pub headroom: Bytes,
    /// Highest length of the egress queue.
    pub egress: Bytes,
}

/// Highest levels of the pools since [`Mmu::restart_watermarks`], or since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWatermarks {
    /// The shared segment.
    pub shared: Bytes,
    /// The headroom pool, where headroom is one.
    pub headroom: Option<Bytes>,
    /// The egress lossy pool, in the four-pool model.
    pub egress_lossy: Option<Bytes>,
}

/// What an ingress queue holds at an instant, and nothing that takes a policy to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLevels {
    /// Bytes of its private buffer.
    pub private: u32,
    /// w_s.
    pub shared: u32,
    /// w_h.
    pub headroom: u32,
    /// Whether its sender is to pause.
    pub off: bool,
}

impl Mmu {
    /// What an ingress queue holds: two loads.
    pub fn queue_levels(&self, id: QueueId) -> QueueLevels {
        let queue = &self.ingress[id.index()];
        let levels = queue.levels.load();
        QueueLevels { private: queue.private(), shared: levels.shared, headroom: levels.headroom, off: levels.off }
    }

    /// The used part of the shared segment: a load.
    pub fn shared_used(&self) -> u64 {
        self.shared.level().used
    }

    /// An ingress queue as it stands.
    pub fn ingress_use(&self, id: QueueId, now: Time) -> QueueUse {
        let queue = &*self.ingress[id.index()];
        let levels = queue.levels.load();
        let view = self.ingress_view(&self.rules, id, levels, self.shared.level(), now);
        let port_off = self.rules.port_xon_offset.is_some()
            && queue.limits.lossless
            && self.ports[id.port().index()].levels.load().off;
        let [held_max, shared_max, headroom_max] = queue.highest().map(Bytes::new);
        QueueUse {
            private: Bytes::new(u64::from(queue.private())),
            shared: Bytes::new(u64::from(levels.shared)),
            headroom: Bytes::new(u64::from(levels.headroom)),
            off: levels.off || port_off,
            port_off,
            threshold: Bytes::new(self.policy.threshold_shown(&view)),
            headroom_limit: Bytes::new(u64::from(queue.headroom_limit())),
            pauses: queue.pauses(),
            held_max,
            shared_max,
            headroom_max,
            gauges: if queue.limits.lossless { self.policy.observe(&view) } else { Gauges::NONE },
        }
    }

    /// The longest that a lossy egress queue may get now, with a packet that arrives.
    pub fn lossy_threshold(&self, id: QueueId, now: Time) -> Bytes {
        let length = self.egress[id.index()].length();
        let view = self.egress_view(&self.terms(), id, length, self.shared.level(), now);
        Bytes::new(self.policy.lossy_threshold(&view, self.lossy_alpha.get()))
    }

    /// All that an ingress queue holds: what flow control by the queue's length goes by.
    #[inline]
    pub fn held(&self, queue: QueueId) -> Bytes {
        let queue = &self.ingress[queue.index()];
        let levels = queue.levels.load();
        Bytes::new(u64::from(levels.shared) + u64::from(levels.headroom) + u64::from(queue.private()))
    }

    /// Bytes waiting for a port and class: what ECN marking goes by.
    #[inline]
    pub fn egress_length(&self, queue: QueueId) -> u64 {
        self.egress[queue.index()].length()
    }

    /// The highest that an egress queue's length was, since the start.
    pub fn egress_length_max(&self, queue: QueueId) -> Bytes {
        Bytes::new(self.egress[queue.index()].highest())
    }

    /// Highest levels of a port's and class's queues since they were last restarted.
    pub fn queue_watermarks(&self, id: QueueId) -> QueueWatermarks {
        let (ingress, egress) = (&self.ingress[id.index()], &self.egress[id.index()]);
        QueueWatermarks {
            shared: Bytes::new(ingress.shared_max.get()),
            headroom: Bytes::new(ingress.headroom_max.get()),
            egress: Bytes::new(egress.watermark().get()),
        }
    }

    /// Highest levels of the pools since they were last restarted.
    pub fn pool_watermarks(&self) -> PoolWatermarks {
        let of = |pool: &Pool| Bytes::new(pool.watermark().get());
        PoolWatermarks {
            shared: of(&self.shared),
            headroom: self.headroom.as_deref().map(of),
            egress_lossy: self.egress_lossy.as_deref().map(of),
        }
    }

    /// Has the watermarks of [`Mmu::queue_watermarks`] and [`Mmu::pool_watermarks`] begin anew, from the levels of now, while
    /// packets come and go. Highest levels since the start, as in [`QueueUse`] and [`PoolUse`], go on. From one thread.
    pub fn restart_watermarks(&self) {
        self.ingress.iter().for_each(|queue| queue.restart_watermarks());
        self.egress.iter().for_each(|queue| queue.restart_watermark());
        let pools = [Some(&self.shared), self.headroom.as_ref(), self.egress_lossy.as_ref()];
        pools.into_iter().flatten().for_each(|pool| pool.restart_watermark());
    }

    /// The shared segment as it stands: Σ w_s of B_s.
    pub fn pool_use(&self) -> PoolUse {
        pool_use(&self.shared)
    }

    /// The headroom pool, where headroom is one.
    pub fn headroom_pool_use(&self) -> Option<PoolUse> {
        self.headroom.as_deref().map(pool_use)
    }

    /// The egress lossy pool, in the four-pool model.
    pub fn egress_lossy_pool_use(&self) -> Option<PoolUse> {
        self.egress_lossy.as_deref().map(pool_use)
    }

    /// The partition that the MMU was made with.
    pub fn layout(&self) -> &BufferLayout {
        &self.layout
    }

    /// The policy that the MMU was made with.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }
}

fn pool_use(pool: &Pool) -> PoolUse {
    let level = pool.level();
    PoolUse { capacity: Bytes::new(level.capacity), used: Bytes::new(level.used), used_max: Bytes::new(pool.highest()) }
}
