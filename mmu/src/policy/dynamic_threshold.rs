//! DT: a threshold that follows the free buffer (spfc eq. 1, dsh eq. 2).

use weir_units::{Alpha, Bytes};

use super::{Load, Policy, PoolLevel, QueueView, SteadyState, Threshold};

/// `T = α·(B_s − Σ w_s)`, the sum over all ingress queues.
#[derive(Clone, Copy, Debug)]
pub struct DynamicThreshold {
    alpha: Alpha,
}

impl DynamicThreshold {
    /// DT with this α.
    pub fn new(alpha: Alpha) -> DynamicThreshold {
        DynamicThreshold { alpha }
    }

    /// α.
    pub(super) fn alpha(self) -> Alpha {
        self.alpha
    }

    /// T over a pool.
    #[inline]
    pub(super) fn over(self, pool: PoolLevel) -> u64 {
        self.alpha.of(Bytes::new(pool.free())).get()
    }
}

impl Policy for DynamicThreshold {
    fn name(&self) -> &'static str {
        "dt"
    }

    fn listens(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        Threshold::at(self.over(queue.shared_pool))
    }

    /// n queues get `α·B_s / (1 + n·α)` each.
    fn steady_state(&self, load: &Load) -> SteadyState {
        load.shared_by_weight(load.lossless as f64 * self.alpha.as_f64(), load.lossy as f64 * load.lossy_alpha.as_f64())
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("DT, dynamic threshold (spfc eq. 1, dsh eq. 2): T = α (B_s − Σ w_s), α = {}", self.alpha)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::{load, view};

    fn dt(alpha: &str) -> DynamicThreshold {
        DynamicThreshold::new(alpha.parse().unwrap())
    }

    #[test]
    fn worked_steady_states() {
        // 2/3 of the buffer used, 1/3 free.
        assert_eq!(dt("2").steady_state(&load(12_000_000, 1, 0)).lossless, Bytes::mb(8));
        assert_eq!(dt("1/16").steady_state(&load(12_000_000, 8, 0)).lossless, Bytes::new(500_000));
    }

    #[test]
    fn the_steady_state_is_a_fixed_point_of_the_threshold() {
        for (alpha, n) in [("2", 1), ("1/16", 8), ("1", 3), ("1/2", 30)] {
            let each = dt(alpha).steady_state(&load(12_000_000, n, 0)).lossless.get();
            let threshold = dt(alpha).threshold(&view(0, 12_000_000, n * each)).xoff;
            assert!(threshold.abs_diff(each) <= n * 2, "α {alpha}, n {n}: T {threshold}, each {each}");
        }
    }

    #[test]
    fn a_full_pool_leaves_no_threshold() {
        assert_eq!(dt("1").threshold(&view(0, 1_000_000, 1_000_000)), Threshold::at(0));
    }
}
