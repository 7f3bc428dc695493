//! What a policy needs of the buffer's partition, and the partition that follows.

use weir_units::Bytes;

use crate::layout::{BufferLayout, Headroom, LayoutError, PortLayout};

/// What a policy needs of the buffer's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutNeeds {
    /// Which memory headroom is taken from.
    pub headroom: HeadroomNeeds,
    /// The pools of the four-pool model, if the policy has them.
    pub pools: Option<PoolSizes>,
    /// The keys of the policy's table that all this comes from: where one of them is wrong, no size is judged.
    pub keys: &'static [&'static str],
}

/// Which memory headroom is taken from, and how much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadroomNeeds {
    /// Φ for every lossless ingress queue.
    PerQueue,
    /// One pool of a part of Σ Φ over all lossless ingress queues, rounded down.
    Part {
        /// Percent of Σ Φ.
        percent: u32,
    },
    /// One pool of the size that the policy's key `headroom_pool` gives; Σ Φ where it gives none.
    Pool(Option<Bytes>),
    /// Φ for every port: insurance headroom.
    PerPort,
    /// None.
    Uninsured,
}

/// The sizes of the four-pool model's pools; `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSizes {
    /// The ingress pool, by the key `ingress_pool`; `None` is what private buffers and headroom leave.
    pub ingress: Option<Bytes>,
    /// The egress lossy pool, by the key `egress_lossy_pool`; `None` is 80 % of the ingress pool.
    pub egress_lossy: Option<Bytes>,
}

impl LayoutNeeds {
    /// Φ for every lossless ingress queue, and one shared segment: most policies' needs.
    pub const PER_QUEUE: LayoutNeeds = LayoutNeeds { headroom: HeadroomNeeds::PerQueue, pools: None, keys: &[] };

    /// Bytes kept apart as headroom. `queues` is the sum of Φ over all lossless ingress queues, `ports` that over one such queue
    /// of each port.
    pub fn headroom_size(&self, queues: Bytes, ports: Bytes) -> Bytes {
        match self.headroom {
            HeadroomNeeds::PerQueue => queues,
            HeadroomNeeds::Part { percent } => (queues * u64::from(percent)).divided_by(100),
            HeadroomNeeds::Pool(size) => size.unwrap_or(queues),
            HeadroomNeeds::PerPort => ports,
            HeadroomNeeds::Uninsured => Bytes::ZERO,
        }
    }

    /// B_s, where private buffers and headroom leave this much: the ingress pool may be less.
    pub fn shared_size(&self, left: Bytes) -> Bytes {
        self.pools.and_then(|pools| pools.ingress).unwrap_or(left)
    }

    /// The egress lossy pool beside a shared segment, if the policy has one.
    pub fn egress_lossy_size(&self, shared: Bytes) -> Option<Bytes> {
        Some(self.pools?.egress_lossy.unwrap_or((shared * 4).divided_by(5)))
    }

    /// Cuts a buffer of `size` for ports with these segments of their own.
    ///
    /// # Errors
    /// The segments do not fit.
    pub fn cut(&self, size: Bytes, ports: Vec<PortLayout>) -> Result<BufferLayout, LayoutError> {
        let queues = ports.iter().flat_map(|port| port.headroom).sum();
        let of_ports = ports.iter().map(PortLayout::headroom_max).sum();
        let headroom = match self.headroom {
            HeadroomNeeds::PerQueue => Headroom::PerQueue,
            HeadroomNeeds::Part { .. } | HeadroomNeeds::Pool(_) => Headroom::Pool(self.headroom_size(queues, of_ports)),
            HeadroomNeeds::PerPort => Headroom::PerPort,
            HeadroomNeeds::Uninsured => Headroom::Uninsured,
        };
        let layout = BufferLayout::new(size, ports, headroom)?;
        let ingress = self.shared_size(layout.shared());
        match self.egress_lossy_size(ingress) {
            Some(egress_lossy) => layout.with_pools(ingress, egress_lossy),
            None => Ok(layout),
        }
    }
}
