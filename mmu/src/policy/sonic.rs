//! Buffer model of SONiC: four pools, two of them with a dynamic threshold (reverie 2.2, eq. 1; appendix A).

use std::sync::Arc;

use weir_reader::{Keys, Plugin, Table};
use weir_units::{Alpha, Bytes};

use super::pools::{self, Pools};
use super::{
    ALPHA, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BufferSizes, BuildContext, ConfigContext,
    DynamicThreshold, LayoutRequirements, OverloadCase, PolicyError, QueueView, SteadyState, Threshold, each,
};
use crate::layout::BufferLayout;

/// SONiC policy. Every packet counts twice: in the ingress pool (or the headroom pool), and in an egress pool.
///
/// - Ingress, lossless: `Γ = α●·(b_in − q_in)`, where q_in includes lossy packets; beyond Γ, PAUSE and the headroom pool.
/// - Egress, lossy: `Γ = α°·(b° − q°)` over the egress lossy pool, where q° has only lossy packets; beyond Γ, drop.
/// - Ingress, lossy, and egress, lossless: bounded only by the pool (heuristics 2 and 3).
#[derive(Debug)]
pub struct Sonic {
    threshold: DynamicThreshold,
}

impl Sonic {
    /// Creates the policy with this α● of lossless ingress queues; the pools are the layout's.
    pub fn new(alpha: Alpha) -> Sonic {
        Sonic { threshold: DynamicThreshold::new(alpha) }
    }
}

impl BufferPolicy for Sonic {
    fn name(&self) -> &'static str {
        SonicKind.id()
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    fn observes_packets(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        self.threshold.threshold(queue)
    }

    #[inline]
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        alpha.scale(Bytes::new(queue.egress_lossy_pool.free())).get()
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(SonicConfig { alpha, .. }) = config.downcast() {
            self.threshold.set_alpha(*alpha);
        }
    }

    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        at_rest(
            load,
            load.lossless as f64 * self.threshold.alpha().as_f64(),
            load.lossy as f64 * load.lossy_alpha.as_f64(),
        )
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("SONiC's four pools (reverie 2.2): Γ = α (b − q) in each pool, α● = {}", self.threshold.alpha())]
    }
}

/// Steady state of the four-pool model. `lossless` is the sum of the lossless queues' α over the ingress pool, `lossy` that of
/// the lossy queues over the egress lossy pool (reverie eq. 2 and 3).
pub(super) fn at_rest(load: &OverloadCase, lossless: f64, lossy: f64) -> SteadyState {
    let (ingress, egress) = (load.shared.get() as f64, load.egress_lossy.unwrap_or(load.shared).get() as f64);
    let q_lossy = egress * lossy / (1.0 + lossy);
    let q_lossless = (ingress - q_lossy) * lossless / (1.0 + lossless);
    SteadyState { lossless: each(q_lossless, load.lossless), lossy: each(q_lossy, load.lossy) }
}

#[derive(Debug)]
pub(super) struct SonicKind;

/// Settings of `[buffer.sonic]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SonicConfig {
    /// `alpha`: α of the lossless ingress queues.
    pub alpha: Alpha,
    /// Sizes of the pools.
    pub pools: Pools,
}

impl Plugin for SonicKind {
    fn id(&self) -> &'static str {
        "sonic"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA, &pools::INGRESS, &pools::HEADROOM, &pools::EGRESS_LOSSY]
    }
}

impl BufferPolicyKind for SonicKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(SonicConfig { alpha: table.get(&ALPHA), pools: Pools::read(table) })
    }
}

impl BufferPolicyConfig for SonicConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &SonicKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        self.pools.layout_requirements()
    }

    fn check_sizes(&self, file: &ConfigContext<'_>, sizes: &BufferSizes<'_>) {
        self.pools.check(self, file, sizes);
    }

    fn takes_slices(&self) -> bool {
        true
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(Sonic::new(self.alpha)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::load;

    #[test]
    fn worked_steady_state() {
        let load = OverloadCase { egress_lossy: Some(Bytes::mb(14)), ..load(18_000_000, 8, 8) };
        let rest = Sonic::new(Alpha::ONE).steady_state(&load);
        assert_eq!((rest.lossy * 8).get() / 1_000, 12_444);
        assert_eq!((rest.lossless * 8).get() / 1_000, 4_938);
    }

    #[test]
    fn isolated_only_when_statically_cut() {
        // Many queues: lossless gets b_in − b° for any α (reverie, figure 4).
        let share = |ingress: u64, egress| {
            let load = OverloadCase { egress_lossy: Some(Bytes::mb(egress)), ..load(ingress * 1_000_000, 64, 64) };
            let rest = Sonic::new(Alpha::ONE).steady_state(&load);
            ((rest.lossless * 64).get(), (rest.lossy * 64).get())
        };
        let (lossless, lossy) = share(18, 14);
        assert!(lossless < lossy / 3, "{lossless} {lossy}");
        let (lossless, lossy) = share(28, 14);
        assert!(lossless >= lossy, "{lossless} {lossy}");
    }
}
