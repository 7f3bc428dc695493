//! DT: a threshold that follows the free buffer (spfc eq. 1, dsh eq. 2).

use weir_units::{Alpha, Bytes, QueueId};

use super::Policy;

/// `T = α·(B_s − Σ w_s)`, the sum over all ingress queues.
#[derive(Clone, Copy, Debug)]
pub struct DynamicThreshold {
    alpha: Alpha,
    shared: Bytes,
}

impl DynamicThreshold {
    /// DT over a shared segment of `shared` bytes (B_s).
    pub fn new(alpha: Alpha, shared: Bytes) -> DynamicThreshold {
        DynamicThreshold { alpha, shared }
    }
}

impl Policy for DynamicThreshold {
    fn name(&self) -> &'static str {
        "dt"
    }

    #[inline]
    fn threshold(&self, _queue: QueueId, pool_used: u64) -> u64 {
        self.alpha.of(self.shared.saturating_sub(Bytes::new(pool_used))).get()
    }

    /// `α·B_s / (1 + n·α)`.
    fn steady_state(&self, n: u64) -> Bytes {
        let alpha = self.alpha.as_f64();
        Bytes::new((alpha * self.shared.get() as f64 / (1.0 + n as f64 * alpha)) as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn worked_steady_states() {
        let dt = DynamicThreshold::new("2".parse().unwrap(), Bytes::mb(12));
        assert_eq!(dt.steady_state(1), Bytes::mb(8));
        let dt = DynamicThreshold::new("1/16".parse().unwrap(), Bytes::mb(12));
        assert_eq!(dt.steady_state(8), Bytes::new(500_000));
    }

    #[test]
    fn the_steady_state_is_a_fixed_point_of_the_threshold() {
        for (alpha, n) in [("2", 1), ("1/16", 8), ("1", 3), ("1/2", 30)] {
            let dt = DynamicThreshold::new(alpha.parse().unwrap(), Bytes::mb(12));
            let each = dt.steady_state(n).get();
            let threshold = dt.threshold(QueueId::default(), n * each);
            assert!(threshold.abs_diff(each) <= n * 2, "α {alpha}, n {n}: T {threshold}, each {each}");
        }
    }

    #[test]
    fn a_full_pool_leaves_no_threshold() {
        let dt = DynamicThreshold::new(Alpha::ONE, Bytes::mb(1));
        assert_eq!(dt.threshold(QueueId::default(), 2_000_000), 0);
    }
}
