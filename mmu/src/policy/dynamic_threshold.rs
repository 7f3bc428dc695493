//! DT: a threshold in proportion to the free buffer (spfc eq. 1, dsh eq. 2).

use std::sync::Arc;

use weir_reader::{Key, Named, RATE, Table, rates};
use weir_units::archive::{Archive, SharedState};
use weir_units::{Alpha, BitRate, Bytes};

use super::{
    ALPHA, BuildContext, LayoutNeeds, LiveAlpha, Load, Policy, PolicyError, PolicyKind, PolicySettings, PoolLevel,
    QueueView, SteadyState, Threshold,
};
use crate::layout::BufferLayout;

/// DT policy: `T = α·(B_s − Σ w_s)`, the sum over all ingress queues.
#[derive(Debug, SharedState)]
pub struct DynamicThreshold {
    alpha: LiveAlpha,
    /// Factor of each port; `None` if all ports have the common α.
    #[state(same)]
    of_ports: Option<Box<[OfPort]>>,
}

/// Factor of one port's T.
#[derive(Clone, Copy, Debug)]
enum OfPort {
    /// Multiple of the common T, in units of 2^-16.
    Times(u64),
    /// Own α of the port.
    Own(Alpha),
}

impl DynamicThreshold {
    /// Creates DT with a common α.
    pub fn new(alpha: Alpha) -> DynamicThreshold {
        DynamicThreshold { alpha: LiveAlpha::new(alpha), of_ports: None }
    }

    /// Creates DT with this α up to ports of `at_rate`, and an α in proportion to the rate above.
    pub fn at_rate(alpha: Alpha, at_rate: BitRate, rates: &[BitRate]) -> DynamicThreshold {
        let of_port = |rate: &BitRate| {
            let times = (u128::from(rate.as_bps()) << 16) / u128::from(at_rate.as_bps().max(1));
            OfPort::Times(times.clamp(1 << 16, 1 << 32) as u64)
        };
        DynamicThreshold { of_ports: Some(rates.iter().map(of_port).collect()), ..DynamicThreshold::new(alpha) }
    }

    /// Sets α per port; `None` keeps the common α.
    pub(crate) fn with_alphas(self, alphas: &[Option<Alpha>]) -> DynamicThreshold {
        if alphas.iter().all(Option::is_none) {
            return self;
        }
        let of_port = |(port, own): (usize, &Option<Alpha>)| match (own, &self.of_ports) {
            (Some(own), _) => OfPort::Own(*own),
            (None, Some(of_ports)) => of_ports[port],
            (None, None) => OfPort::Times(1 << 16),
        };
        let of_ports = Some(alphas.iter().enumerate().map(of_port).collect());
        DynamicThreshold { of_ports, ..self }
    }

    pub(super) fn alpha(&self) -> Alpha {
        self.alpha.get()
    }

    pub(super) fn set_alpha(&self, alpha: Alpha) {
        self.alpha.set(alpha);
    }

    #[inline]
    pub(super) fn over(&self, pool: PoolLevel) -> u64 {
        self.alpha().of(Bytes::new(pool.free())).get()
    }
}

impl Policy for DynamicThreshold {
    fn name(&self) -> &'static str {
        Kind.name()
    }

    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    fn thresholds_fall(&self) -> bool {
        true
    }

    fn listens(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let of_all = self.over(queue.shared_pool);
        let Some(of_ports) = &self.of_ports else { return Threshold::at(of_all) };
        Threshold::at(match of_ports[queue.queue.port().index()] {
            // T is below 2^45.
            OfPort::Times(times) => ((u128::from(of_all) * u128::from(times)) >> 16) as u64,
            OfPort::Own(alpha) => alpha.of(Bytes::new(queue.shared_pool.free())).get(),
        })
    }

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(DtSettings { alpha, .. }) = settings.downcast() {
            self.set_alpha(*alpha);
        }
    }

    /// Steady state: n queues get `α·B_s / (1 + n·α)` each.
    fn steady_state(&self, load: &Load) -> SteadyState {
        load.shared_by_weight(
            load.lossless as f64 * self.alpha().as_f64(),
            load.lossy as f64 * load.lossy_alpha.as_f64(),
        )
    }

    fn describe(&self) -> Vec<String> {
        let of_ports = self.of_ports.as_deref().unwrap_or_default();
        let more = match of_ports.iter().any(|of| matches!(of, OfPort::Own(_))) {
            true => ", others at ports that have their own",
            false if !of_ports.is_empty() => ", more at ports above `alpha_at_rate`",
            false => "",
        };
        vec![format!("DT, dynamic threshold (spfc eq. 1, dsh eq. 2): T = α (B_s − Σ w_s), α = {}{more}", self.alpha())]
    }
}

/// DT thresholds under another name: a policy that differs from DT in its headroom alone.
#[derive(Debug, SharedState)]
pub(super) struct WithOtherHeadroom {
    pub(super) threshold: DynamicThreshold,
    #[state(same)]
    pub(super) name: &'static str,
    /// Description for settings and an α.
    #[state(same)]
    pub(super) description: fn(&dyn PolicySettings, Alpha) -> Vec<String>,
    #[state(same)]
    pub(super) alpha_of: fn(&dyn PolicySettings) -> Option<Alpha>,
    #[state(same)]
    pub(super) settings: Arc<dyn PolicySettings>,
}

impl Policy for WithOtherHeadroom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    fn thresholds_fall(&self) -> bool {
        true
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

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(alpha) = (self.alpha_of)(settings) {
            self.threshold.set_alpha(alpha);
        }
    }

    fn describe(&self) -> Vec<String> {
        (self.description)(&*self.settings, self.threshold.alpha())
    }
}

#[derive(Debug)]
pub(super) struct Kind;

/// Settings of `[buffer.dt]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtSettings {
    /// `alpha`: common α.
    pub alpha: Alpha,
    /// `alpha_at_rate`: port rate above which α grows in proportion.
    pub alpha_at_rate: Option<BitRate>,
}

const ALPHA_AT_RATE: Key =
    Key::without_default("alpha_at_rate", "none", "ports of a higher rate have α in proportion to it");

impl Named for Kind {
    fn name(&self) -> &'static str {
        "dt"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA, ALPHA_AT_RATE]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        let alpha_at_rate = table.quantity(ALPHA_AT_RATE.name, &RATE, rates());
        Arc::new(DtSettings { alpha: table.alpha_or(&ALPHA), alpha_at_rate })
    }
}

impl PolicySettings for DtSettings {
    fn kind(&self) -> &'static dyn PolicyKind {
        &Kind
    }

    fn needs(&self) -> LayoutNeeds {
        LayoutNeeds::PER_QUEUE
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &[ALPHA.name]
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
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
        assert!(dt("1/8").with_alphas(&[None; 3]).of_ports.is_none());
    }

    #[test]
    fn a_full_pool_leaves_no_threshold() {
        assert_eq!(dt("1").threshold(&view(0, 1_000_000, 1_000_000)), Threshold::at(0));
    }
}
