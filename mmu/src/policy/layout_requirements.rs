//! Requirements of a policy for the buffer's partition, and the resulting partition.

use weir_units::Bytes;

use crate::layout::{BufferLayout, Headroom, LayoutError, PortLayout};

/// Requirements of a policy for the buffer's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutRequirements {
    /// Memory that headroom is taken from.
    pub headroom: HeadroomRequirement,
    /// Pools of the four-pool model, if the policy has them.
    pub pools: Option<PoolSizes>,
    /// Keys of the policy's table that determine the sizes; no size is checked if one of them is invalid.
    pub keys: &'static [&'static str],
}

/// Memory that headroom is taken from, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadroomRequirement {
    /// Headroom Φ for every lossless ingress queue.
    PerQueue,
    /// Pool of a part of Σ Φ over all lossless ingress queues, rounded down.
    Part {
        /// Percent of Σ Φ.
        percent: u32,
    },
    /// Pool of the size in the policy's key `headroom_pool`; Σ Φ by default.
    Pool(Option<Bytes>),
    /// Insurance headroom: Φ for every port.
    PerPort,
    /// Absent headroom, as in DSH's ablation.
    Uninsured,
}

/// Sizes of the four-pool model's pools; `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSizes {
    /// Ingress pool, by the key `ingress_pool`; by default the rest after private buffers and headroom.
    pub ingress: Option<Bytes>,
    /// Egress lossy pool, by the key `egress_lossy_pool`; by default 80 % of the ingress pool.
    pub egress_lossy: Option<Bytes>,
}

impl LayoutRequirements {
    /// Headroom Φ for every lossless ingress queue, and one shared segment: the requirements of most policies.
    pub const PER_QUEUE: LayoutRequirements =
        LayoutRequirements { headroom: HeadroomRequirement::PerQueue, pools: None, keys: &[] };

    /// Bytes reserved as headroom. `queues` is Σ Φ over all lossless ingress queues, `ports` is Σ Φ over one such queue per port.
    pub fn headroom_size(&self, queues: Bytes, ports: Bytes) -> Bytes {
        match self.headroom {
            HeadroomRequirement::PerQueue => queues,
            HeadroomRequirement::Part { percent } => (queues * u64::from(percent)).divided_by(100),
            HeadroomRequirement::Pool(size) => size.unwrap_or(queues),
            HeadroomRequirement::PerPort => ports,
            HeadroomRequirement::Uninsured => Bytes::ZERO,
        }
    }

    /// B_s if private buffers and headroom leave `left` bytes; the ingress pool may be less.
    pub fn shared_size(&self, left: Bytes) -> Bytes {
        self.pools.and_then(|pools| pools.ingress).unwrap_or(left)
    }

    /// Size of the egress lossy pool for a shared segment of this size, if the policy has one.
    pub fn egress_lossy_size(&self, shared: Bytes) -> Option<Bytes> {
        Some(self.pools?.egress_lossy.unwrap_or((shared * 4).divided_by(5)))
    }

    /// Partitions a buffer of `size` for ports with these segments.
    ///
    /// # Errors
    /// The segments do not fit.
    pub fn partition(&self, size: Bytes, ports: Vec<PortLayout>) -> Result<BufferLayout, LayoutError> {
        let queues = ports.iter().flat_map(|port| port.headroom).sum();
        let of_ports = ports.iter().map(PortLayout::headroom_max).sum();
        let headroom = match self.headroom {
            HeadroomRequirement::PerQueue => Headroom::PerQueue,
            HeadroomRequirement::Part { .. } | HeadroomRequirement::Pool(_) => {
                Headroom::Pool(self.headroom_size(queues, of_ports))
            }
            HeadroomRequirement::PerPort => Headroom::PerPort,
            HeadroomRequirement::Uninsured => Headroom::Uninsured,
        };
        let layout = BufferLayout::new(size, ports, headroom)?;
        let ingress = self.shared_size(layout.shared());
        match self.egress_lossy_size(ingress) {
            Some(egress_lossy) => layout.with_pools(ingress, egress_lossy),
            None => Ok(layout),
        }
    }
}
