//! ST: a constant threshold (spfc III, where it is the buffer over the number of ports).

use weir_units::Bytes;

use super::{Load, Policy, QueueView, SteadyState, Threshold, each};

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

    fn listens(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, _queue: &QueueView) -> Threshold {
        Threshold::at(self.threshold.get())
    }

    fn steady_state(&self, load: &Load) -> SteadyState {
        let lossless = self.threshold * load.lossless;
        let weight = load.lossy as f64 * load.lossy_alpha.as_f64();
        let left = load.shared.saturating_sub(lossless).get() as f64;
        SteadyState {
            lossless: self.threshold.min(load.shared.divided_by(load.lossless.max(1))),
            lossy: each(left * weight / (1.0 + weight), load.lossy),
        }
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("ST, static threshold (spfc III): T = {}", self.threshold)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::{load, view};

    #[test]
    fn constant_whatever_the_pool_holds() {
        let st = StaticThreshold::even(Bytes::mb(16), 32);
        assert_eq!(st.threshold(&view(0, 16_000_000, 0)), Threshold::at(500_000));
        assert_eq!(st.threshold(&view(0, 16_000_000, 16_000_000)), Threshold::at(500_000));
        assert_eq!(st.steady_state(&load(16_000_000, 8, 0)).lossless, Bytes::new(500_000));
    }
}
