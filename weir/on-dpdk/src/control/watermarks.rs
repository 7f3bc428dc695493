//! Watermarks of a switch, as users, persistent readers and metrics have them: each since its own last clear.

use weir_mmu::{Mmu, PoolWatermarks, QueueWatermarks};
use weir_units::QueueId;

/// Peaks until the MMU's watermarks were last restarted; the MMU has those since then.
#[derive(Default)]
pub(crate) struct WatermarkPeaks {
    /// Peaks since `weir clear watermarks`.
    pub(crate) user: Peaks,
    /// Peaks since SONiC's persistent watermarks were cleared.
    pub(crate) persistent: Peaks,
    /// Peaks since the start, for metrics.
    pub(crate) since_start: Peaks,
}

/// Peaks of queues, by [`QueueId::index`], and of pools.
#[derive(Default)]
pub(crate) struct Peaks {
    queues: Vec<QueueWatermarks>,
    pools: PoolWatermarks,
}

impl WatermarkPeaks {
    /// Clears the persistent watermarks, or those of users.
    pub(crate) fn clear(&mut self, is_persistent: bool, mmu: &Mmu) {
        let (queues, pools) = mmu.restart_watermarks();
        let (cleared, other) = match is_persistent {
            true => (&mut self.persistent, &mut self.user),
            false => (&mut self.user, &mut self.persistent),
        };
        *cleared = Peaks::default();
        other.raise(&queues, pools);
        self.since_start.raise(&queues, pools);
    }
}

impl Peaks {
    /// Watermarks of a port's and class's queues.
    pub(crate) fn queue(&self, mmu: &Mmu, id: QueueId) -> QueueWatermarks {
        mmu.queue_watermarks(id).highest(self.queues.get(id.index()).copied().unwrap_or_default())
    }

    /// Watermarks of the pools.
    pub(crate) fn pools(&self, mmu: &Mmu) -> PoolWatermarks {
        mmu.pool_watermarks().highest(self.pools)
    }

    fn raise(&mut self, queues: &[QueueWatermarks], pools: PoolWatermarks) {
        self.queues.resize_with(queues.len(), QueueWatermarks::default);
        self.queues.iter_mut().zip(queues).for_each(|(peak, before)| *peak = peak.highest(*before));
        self.pools = self.pools.highest(pools);
    }
}
