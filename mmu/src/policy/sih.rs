//! SIH: static and independent headroom (dsh II), what switch chips ship.

use weir_units::Alpha;

use super::{DynamicThreshold, Load, Policy, QueueView, SteadyState, Threshold};

/// DT over what is left when **every** lossless ingress queue has its worst-case headroom Φ reserved, whether it
/// is in use or not. The reservation is the layout's; the threshold is DT's.
#[derive(Clone, Copy, Debug)]
pub struct Sih {
    threshold: DynamicThreshold,
}

impl Sih {
    /// SIH with this α.
    pub fn new(alpha: Alpha) -> Sih {
        Sih { threshold: DynamicThreshold::new(alpha) }
    }
}

impl Policy for Sih {
    fn name(&self) -> &'static str {
        "sih"
    }

    fn listens(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        self.threshold.threshold(queue)
    }

    fn steady_state(&self, load: &Load) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        vec![format!(
            "SIH (dsh II): DT with α = {}, and Φ set aside for every lossless ingress queue",
            self.threshold.alpha()
        )]
    }
}
