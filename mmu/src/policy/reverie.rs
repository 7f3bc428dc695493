//! Reverie: one pool for lossless and lossy, thresholds on low-pass filtered lengths (reverie 3).

use std::str::FromStr;
use std::sync::Arc;

use weir_reader::{Key, Named, Table};
use weir_units::{Alpha, Bytes, QueueId, UnitError};

use super::congestion::CongestedQueues;
use super::kind::{CONGESTED, size_or};
use super::{
    ALPHA, BuildContext, LayoutNeeds, LiveAlpha, Load, LowPass, Policy, PolicyError, PolicyKind, PolicySettings,
    PortWriter, QueueView, SteadyState, Threshold,
};
use crate::layout::BufferLayout;

/// Every packet is counted once in the shared pool b*: a lossless one by its ingress queue, a lossy one by its egress
/// queue. A queue admits while `q̂ ≤ Γ_p = α_p·(1/n_p)·(b* − q*)`.
///
/// A lossy packet that is not admitted is dropped. A lossless one turns its queue OFF, and all that follow go to the
/// queue's headroom until that is empty and the condition holds again.
#[derive(Debug)]
pub struct Reverie {
    alpha: LiveAlpha,
    gamma_ppb: u32,
    /// The counts of congested lossless ingress queues, and of congested lossy egress queues.
    congested: [CongestedQueues; 2],
    congested_from: Bytes,
}

impl Reverie {
    /// With α of lossless queues and γ in parts per billion (0.999 is 999_000_000), for `ports` ports; queues from
    /// `congested` bytes on are counted in n_p.
    pub fn new(alpha: Alpha, gamma_ppb: u32, congested: Bytes, ports: usize) -> Reverie {
        let count = || CongestedQueues::new(ports, congested.get());
        Reverie { alpha: LiveAlpha::new(alpha), gamma_ppb, congested: [count(), count()], congested_from: congested }
    }

    /// Γ.
    #[inline]
    fn bound(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        let n = self.congested[usize::from(!queue.lossless)].count(queue.queue.class());
        alpha.of(Bytes::new(queue.shared_pool.free())).get() / n
    }

    #[inline]
    fn note(&self, queue: &QueueView) {
        self.congested[usize::from(!queue.lossless)].note(queue.queue, queue.average);
    }
}

impl Policy for Reverie {
    fn name(&self) -> &'static str {
        Kind.name()
    }

    /// The condition that does not hold any more as q̂ or q* grows.
    fn thresholds_fall(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let holds = queue.average <= self.bound(queue, self.alpha.get());
        Threshold {
            // An OFF queue's packets go to headroom even if the condition holds.
            admit: if holds && !queue.off { u64::MAX } else { 0 },
            xoff: if holds { u64::MAX } else { 0 },
        }
    }

    fn threshold_shown(&self, queue: &QueueView) -> u64 {
        self.bound(queue, self.alpha.get())
    }

    #[inline]
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        if queue.average <= self.bound(queue, alpha) { u64::MAX } else { 0 }
    }

    #[inline]
    fn admitted(&self, _writer: &mut PortWriter, queue: &QueueView) {
        self.note(queue);
    }

    #[inline]
    fn released(&self, _ingress: QueueId, _bytes: u64, queue: &QueueView) {
        self.note(queue);
    }

    fn low_pass(&self) -> Option<LowPass> {
        Some(LowPass::with_gamma_ppb(self.gamma_ppb))
    }

    /// RESUME when the condition holds again and the headroom is empty, says the paper; no more.
    fn has_hysteresis(&self) -> bool {
        false
    }

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(ReverieSettings { alpha, .. }) = settings.downcast() {
            self.alpha.set(*alpha);
        }
    }

    /// Theorem 1: lossless and lossy get in all `α·b* / (1 + α● + α°)`, however many queues they are.
    fn steady_state(&self, load: &Load) -> SteadyState {
        let weight = |queues: u64, alpha: Alpha| if queues > 0 { alpha.as_f64() } else { 0.0 };
        load.shared_by_weight(weight(load.lossless, self.alpha.get()), weight(load.lossy, load.lossy_alpha))
    }

    fn describe(&self) -> Vec<String> {
        vec![
            format!(
                "Reverie (reverie 3): q̂ ≤ Γ = α/n_p (b* − q*), α● = {}, q̂ by a low-pass filter with γ = {}",
                self.alpha.get(),
                f64::from(self.gamma_ppb) / 1e9
            ),
            format!("n_p counts queues whose q̂ is {} or more", self.congested_from),
        ]
    }
}

/// `policy = "reverie"`.
#[derive(Debug)]
pub(super) struct Kind;

/// `[buffer.reverie]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverieSettings {
    /// `alpha`: α● of the lossless ingress queues.
    pub alpha: Alpha,
    /// `gamma`: γ, the weight of a queue's past, in parts per billion; below 1.
    pub gamma_ppb: u32,
    /// `congested`: a queue counts in n_p from this length on.
    pub congested: Bytes,
}

const GAMMA: Key = Key::new("gamma", "0.999", "γ: the weight of a queue's past in its average");

impl Named for Kind {
    fn name(&self) -> &'static str {
        "reverie"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA, GAMMA, CONGESTED]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        let PartsPerBillion(gamma_ppb) = table.number_or(&GAMMA);
        let congested = size_or(table, &CONGESTED);
        Arc::new(ReverieSettings { alpha: table.alpha_or(&ALPHA), gamma_ppb, congested })
    }
}

impl PolicySettings for ReverieSettings {
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
        let ports = context.layout.ports().len();
        Ok(Box::new(Reverie::new(self.alpha, self.gamma_ppb, self.congested, ports)))
    }
}

/// A number below 1 by its decimals, which a float would round.
#[derive(Debug, PartialEq, Eq)]
struct PartsPerBillion(u32);

impl FromStr for PartsPerBillion {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<PartsPerBillion, UnitError> {
        let wrong = || UnitError::new(text, "a number from 0 to below 1 with at most 9 decimals", "0.999");
        let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let decimals = decimals.trim_end_matches('0');
        let digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        if whole != "0" || decimals.len() > 9 || !digits {
            return Err(wrong());
        }
        format!("{decimals:0<9}").parse().map(PartsPerBillion).map_err(|_| wrong())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn gamma_is_read_to_its_last_decimal() {
        let read = |text: &str| text.parse().map(|PartsPerBillion(ppb)| ppb).ok();
        for (text, ppb) in [
            ("0", 0),
            ("0.0", 0),
            ("0.5", 500_000_000),
            (" 0.999 ", 999_000_000),
            ("0.999999", 999_999_000),
            ("0.999999999", 999_999_999),
            ("0.000000001", 1),
            ("0.123456789", 123_456_789),
            ("0.9990000000000", 999_000_000),
        ] {
            assert_eq!(read(text), Some(ppb), "{text}");
        }
        for text in
            ["", ".", "1", "1.0", "-0.5", "0.0000000001", "0.9999999999", "9e-1", "0.9e-1", "nan", "0.9.9", "0.+5"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    use crate::policy::tests::{load, view};

    fn reverie() -> Reverie {
        Reverie::new("2".parse().unwrap(), 999_000_000, Bytes::new(20_480), 4)
    }

    #[test]
    fn theorem_1() {
        let rest = reverie().steady_state(&load(12_000_000, 4, 8));
        assert_eq!((rest.lossless * 4, rest.lossy * 8), (Bytes::mb(6), Bytes::mb(3)));
    }

    #[test]
    fn theorem_2() {
        // The idle part of the buffer lies between b* / (1 + α● + α°) and b* / (1 + min α).
        let idle = |lossless, lossy| {
            let rest = reverie().steady_state(&load(12_000_000, lossless, lossy));
            12_000_000 - (rest.lossless * lossless + rest.lossy * lossy).get()
        };
        assert_eq!(idle(4, 8), 3_000_000);
        assert_eq!(idle(0, 8), 6_000_000);
        assert!((3_000_000..=6_000_000).contains(&idle(4, 0)));
    }

    #[test]
    fn the_average_decides_and_not_the_length() {
        let burst = QueueView { length: 900_000, average: 10_000, ..view(0, 1_000_000, 900_000) };
        assert_eq!(reverie().threshold(&burst).admit, u64::MAX);
        let congested = QueueView { length: 0, average: 200_001, ..burst };
        assert_eq!(reverie().threshold(&congested), Threshold { admit: 0, xoff: 0 });
    }

    #[test]
    fn an_off_queue_uses_headroom_until_it_resumes() {
        let off = QueueView { off: true, average: 10_000, ..view(0, 1_000_000, 500_000) };
        assert_eq!(reverie().threshold(&off), Threshold { admit: 0, xoff: u64::MAX });
    }

    #[test]
    fn the_bound_is_shared_by_the_congested_queues() {
        let reverie = reverie();
        let mut writer = PortWriter::new(weir_units::PortId(0));
        let queue = |port| QueueView { average: 30_000, ..view(port, 1_000_000, 400_000) };
        for port in 0..4 {
            reverie.admitted(&mut writer, &queue(port));
        }
        assert_eq!(reverie.bound(&queue(0), Alpha::ONE), 150_000);
        reverie.admitted(&mut writer, &QueueView { average: 100, ..queue(3) });
        assert_eq!(reverie.bound(&queue(0), Alpha::ONE), 200_000);
        // Lossy egress queues are counted apart.
        assert_eq!(reverie.bound(&QueueView { lossless: false, ..queue(0) }, Alpha::ONE), 600_000);
    }
}
