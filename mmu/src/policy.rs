//! Buffer policies: what sets T(t), the threshold on an ingress queue's shared occupancy.
//!
//! One file a policy. The packet path knows only the trait; a new policy is a new file here and a line where
//! configurations are turned into policies.

mod dynamic_threshold;
mod sih;
mod static_threshold;

use std::fmt::Debug;

use weir_units::{Bytes, QueueId};

pub use dynamic_threshold::DynamicThreshold;
pub use sih::Sih;
pub use static_threshold::StaticThreshold;

/// A buffer policy, asked once per packet that private buffer does not take, by any lcore.
pub trait Policy: Debug + Send + Sync {
    /// The name by which a configuration chooses the policy.
    fn name(&self) -> &'static str;

    /// T(t) in bytes for the shared occupancy w_s of an ingress queue, when all queues together occupy `pool_used`
    /// bytes of the shared segment. PAUSE when w_s reaches it.
    fn threshold(&self, queue: QueueId, pool_used: u64) -> u64;

    /// Where each of `n` equally overloaded ingress queues comes to rest, by the policy's closed form.
    fn steady_state(&self, n: u64) -> Bytes;
}
