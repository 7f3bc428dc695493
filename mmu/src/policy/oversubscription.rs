//! Headroom oversubscription (dsh V-B; what Microsoft and SONiC do): less headroom than the worst case asks for.

use weir_units::Alpha;

use super::{DynamicThreshold, Load, Policy, QueueView, SteadyState, Threshold};

/// SIH whose headroom is one pool of a part of Σ Φ, from which each queue takes at most its Φ. When more queues than
/// it was sized for are OFF at once it runs dry, and lossless packets are lost. The pool is the layout's; the threshold
/// is DT's.
#[derive(Clone, Copy, Debug)]
pub struct Oversubscription {
    threshold: DynamicThreshold,
    headroom_percent: u32,
}

impl Oversubscription {
    /// With this α; `headroom_percent` of Σ Φ (80 in dsh V-B) is only told, the layout has it.
    pub fn new(alpha: Alpha, headroom_percent: u32) -> Oversubscription {
        Oversubscription { threshold: DynamicThreshold::new(alpha), headroom_percent }
    }
}

impl Policy for Oversubscription {
    fn name(&self) -> &'static str {
        "oversubscribed"
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
        vec![
            format!(
                "headroom oversubscription (dsh V-B): DT with α = {}, headroom is one pool of {} % of Σ Φ",
                self.threshold.alpha(),
                self.headroom_percent
            ),
            "not lossless: with enough queues OFF at once the headroom pool runs dry".to_owned(),
        ]
    }
}
