//! SIH: static and independent headroom (dsh II), what switch chips ship.

use weir_units::{Alpha, Bytes, QueueId};

use super::{DynamicThreshold, Policy};

/// DT over what is left when **every** lossless ingress queue has its worst-case headroom Φ reserved, whether it
/// is in use or not. The reservation is the layout's; the threshold is DT's.
#[derive(Clone, Copy, Debug)]
pub struct Sih {
    threshold: DynamicThreshold,
}

impl Sih {
    /// SIH over a shared segment of `shared` bytes, headroom already taken off.
    pub fn new(alpha: Alpha, shared: Bytes) -> Sih {
        Sih { threshold: DynamicThreshold::new(alpha, shared) }
    }
}

impl Policy for Sih {
    fn name(&self) -> &'static str {
        "sih"
    }

    #[inline]
    fn threshold(&self, queue: QueueId, pool_used: u64) -> u64 {
        self.threshold.threshold(queue, pool_used)
    }

    fn steady_state(&self, n: u64) -> Bytes {
        self.threshold.steady_state(n)
    }
}
