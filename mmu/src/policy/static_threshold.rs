//! ST: a constant threshold (spfc III, where it is the buffer over the number of ports).

use weir_units::{Bytes, QueueId};

use super::Policy;

/// T is the same constant for each ingress queue, whatever the others hold.
#[derive(Clone, Copy, Debug)]
pub struct StaticThreshold {
    threshold: Bytes,
}

impl StaticThreshold {
    /// The same `threshold` for every ingress queue.
    pub fn new(threshold: Bytes) -> StaticThreshold {
        StaticThreshold { threshold }
    }

    /// The shared segment divided evenly over the ports: B_s / N_p.
    pub fn even(shared: Bytes, ports: usize) -> StaticThreshold {
        StaticThreshold { threshold: shared.divided_by(ports.max(1) as u64) }
    }
}

impl Policy for StaticThreshold {
    fn name(&self) -> &'static str {
        "static"
    }

    fn threshold(&self, _queue: QueueId, _pool_used: u64) -> u64 {
        self.threshold.get()
    }

    fn steady_state(&self, _n: u64) -> Bytes {
        self.threshold
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn constant_whatever_the_pool_holds() {
        let st = StaticThreshold::even(Bytes::mb(16), 32);
        assert_eq!(st.threshold(QueueId::default(), 0), 500_000);
        assert_eq!(st.threshold(QueueId::default(), 16_000_000), 500_000);
    }
}
