//! DT: a threshold in proportion to the free buffer (spfc eq. 1, dsh eq. 2).

use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Table, rates};
use weir_units::{Alpha, BitRate, Bytes};

use super::{
    ALPHA, AtomicAlpha, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, LayoutRequirements,
    OverloadCase, PolicyError, PoolLevel, QueueView, SteadyState, Threshold,
};
use crate::layout::BufferLayout;

/// DT policy: `T = α·(B_s − Σ w_s)`, the sum over all ingress queues.
#[derive(Debug)]
pub struct DynamicThreshold {
    alpha: AtomicAlpha,
    /// Factor of each port; `None` if all ports have the common α.
    port_alphas: Option<Box<[PortAlpha]>>,
}

/// Factor of one port's T.
#[derive(Clone, Copy, Debug)]
enum PortAlpha {
    /// Multiple of the common T, in units of 2^-16.
    Times(u64),
    /// Own α of the port.
    Own(Alpha),
}

impl DynamicThreshold {
    /// Creates DT with a common α.
    pub fn new(alpha: Alpha) -> DynamicThreshold {
        DynamicThreshold { alpha: AtomicAlpha::new(alpha), port_alphas: None }
    }

    /// Creates DT with this α up to ports of `at_rate`, and an α in proportion to the rate above.
    pub fn at_rate(alpha: Alpha, at_rate: BitRate, rates: &[BitRate]) -> DynamicThreshold {
        let port_alpha = |rate: &BitRate| {
            let times = (u128::from(rate.as_bps()) << 16) / u128::from(at_rate.as_bps().max(1));
            PortAlpha::Times(times.clamp(1 << 16, 1 << 32) as u64)
        };
        DynamicThreshold { port_alphas: Some(rates.iter().map(port_alpha).collect()), ..DynamicThreshold::new(alpha) }
    }

    /// Sets α per port; `None` keeps the common α.
    pub(crate) fn with_alphas(self, alphas: &[Option<Alpha>]) -> DynamicThreshold {
        if alphas.iter().all(Option::is_none) {
            return self;
        }
        let port_alpha = |(port, own): (usize, &Option<Alpha>)| match (own, &self.port_alphas) {
            (Some(own), _) => PortAlpha::Own(*own),
            (None, Some(port_alphas)) => port_alphas[port],
            (None, None) => PortAlpha::Times(1 << 16),
        };
        let port_alphas = Some(alphas.iter().enumerate().map(port_alpha).collect());
        DynamicThreshold { port_alphas, ..self }
    }

    pub(super) fn alpha(&self) -> Alpha {
        self.alpha.get()
    }

    pub(super) fn set_alpha(&self, alpha: Alpha) {
        self.alpha.set(alpha);
    }

    #[inline]
    pub(super) fn pool_threshold(&self, pool: PoolLevel) -> u64 {
        self.alpha().scale(Bytes::new(pool.free())).get()
    }
}

impl BufferPolicy for DynamicThreshold {
    fn name(&self) -> &'static str {
        DynamicThresholdKind.id()
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    fn observes_packets(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let of_all = self.pool_threshold(queue.shared_pool);
        let Some(port_alphas) = &self.port_alphas else { return Threshold::new(of_all) };
        Threshold::new(match port_alphas[queue.queue.port().index()] {
            // T is below 2^45.
            PortAlpha::Times(times) => ((u128::from(of_all) * u128::from(times)) >> 16) as u64,
            PortAlpha::Own(alpha) => alpha.scale(Bytes::new(queue.shared_pool.free())).get(),
        })
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(DynamicThresholdConfig { alpha, .. }) = config.downcast() {
            self.set_alpha(*alpha);
        }
    }

    /// Steady state: n queues get `α·B_s / (1 + n·α)` each.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        load.shared_by_weight(
            load.lossless as f64 * self.alpha().as_f64(),
            load.lossy as f64 * load.lossy_alpha.as_f64(),
        )
    }

    fn describe(&self) -> Vec<String> {
        let port_alphas = self.port_alphas.as_deref().unwrap_or_default();
        let more = match port_alphas.iter().any(|port_alpha| matches!(port_alpha, PortAlpha::Own(_))) {
            true => ", others at ports that have their own",
            false if !port_alphas.is_empty() => ", more at ports above `alpha_at_rate`",
            false => "",
        };
        vec![format!("DT, dynamic threshold (spfc eq. 1, dsh eq. 2): T = α (B_s − Σ w_s), α = {}{more}", self.alpha())]
    }
}

/// DT thresholds under another name: a policy that differs from DT in its headroom alone.
#[derive(Debug)]
pub(super) struct DtWithHeadroom {
    pub(super) threshold: DynamicThreshold,
    pub(super) name: &'static str,
    /// Description for a configuration and an α.
    pub(super) description: fn(&dyn BufferPolicyConfig, Alpha) -> Vec<String>,
    pub(super) alpha_of: fn(&dyn BufferPolicyConfig) -> Option<Alpha>,
    pub(super) config: Arc<dyn BufferPolicyConfig>,
}

impl BufferPolicy for DtWithHeadroom {
    fn name(&self) -> &'static str {
        self.name
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

    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(alpha) = (self.alpha_of)(config) {
            self.threshold.set_alpha(alpha);
        }
    }

    fn describe(&self) -> Vec<String> {
        (self.description)(&*self.config, self.threshold.alpha())
    }
}

#[derive(Debug)]
pub(super) struct DynamicThresholdKind;

/// Settings of `[buffer.dt]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicThresholdConfig {
    /// `alpha`: common α.
    pub alpha: Alpha,
    /// `alpha_at_rate`: port rate above which α grows in proportion.
    pub alpha_at_rate: Option<BitRate>,
}

const ALPHA_AT_RATE: Key<BitRate> =
    Key::rate("alpha_at_rate", rates(), "rate above which ports have α in proportion: with 100 Gb/s, 4 α at 400 Gb/s");

impl Plugin for DynamicThresholdKind {
    fn id(&self) -> &'static str {
        "dt"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA, &ALPHA_AT_RATE]
    }
}

impl BufferPolicyKind for DynamicThresholdKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        let alpha_at_rate = table.given(&ALPHA_AT_RATE);
        Arc::new(DynamicThresholdConfig { alpha: table.get(&ALPHA), alpha_at_rate })
    }
}

impl BufferPolicyConfig for DynamicThresholdConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &DynamicThresholdKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn takes_slices(&self) -> bool {
        true
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let dt = match self.alpha_at_rate {
            Some(at_rate) => DynamicThreshold::at_rate(self.alpha, at_rate, context.rates),
            None => DynamicThreshold::new(self.alpha),
        };
        Ok(Box::new(dt.with_alphas(context.alphas)))
    }

    fn takes_alphas_of_ports(&self) -> bool {
        true
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
    fn faster_ports_may_have_more() {
        let rates = [10, 100, 400].map(BitRate::gbps);
        let dt = DynamicThreshold::at_rate("1/8".parse().unwrap(), BitRate::gbps(100), &rates);
        let at = |port| dt.threshold(&view(port, 8_000_000, 0)).xoff;
        assert_eq!([at(0), at(1), at(2)], [1_000_000, 1_000_000, 4_000_000]);
    }

    #[test]
    fn a_port_may_have_an_alpha_of_its_own() {
        let rates = [100, 400, 400].map(BitRate::gbps);
        let own = [None, None, Some("1/16".parse().unwrap())];
        let at = |dt: &DynamicThreshold, port| dt.threshold(&view(port, 8_000_000, 0)).xoff;
        let by_rate = DynamicThreshold::at_rate("1/8".parse().unwrap(), rates[0], &rates).with_alphas(&own);
        assert_eq!([0, 1, 2].map(|port| at(&by_rate, port)), [1_000_000, 4_000_000, 500_000]);
        let one = dt("1/8").with_alphas(&own);
        assert_eq!([0, 1, 2].map(|port| at(&one, port)), [1_000_000, 1_000_000, 500_000]);
        // The policy's α does not change that of the port.
        one.set_alpha("1/4".parse().unwrap());
        assert_eq!([0, 1, 2].map(|port| at(&one, port)), [2_000_000, 2_000_000, 500_000]);
        assert!(dt("1/8").with_alphas(&[None; 3]).port_alphas.is_none());
    }

    #[test]
    fn a_full_pool_leaves_no_threshold() {
        assert_eq!(dt("1").threshold(&view(0, 1_000_000, 1_000_000)), Threshold::new(0));
    }
}
