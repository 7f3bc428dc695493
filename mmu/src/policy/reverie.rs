//! Reverie: one pool for lossless and lossy packets, with thresholds on low-pass filtered lengths (reverie 3).

use std::str::FromStr;
use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{Alpha, Bytes, QueueId, UnitError};

use super::congestion::CongestedQueues;
use super::kind::{CONGESTED, CONGESTED_AT, CONGESTED_PARTLY, CongestedAt};
use super::{
    ALPHA, AtomicAlpha, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, LayoutRequirements, LowPass,
    OverloadCase, PolicyError, PortWriter, QueueView, SteadyState, Threshold,
};
use crate::layout::BufferLayout;

/// Reverie policy. Every packet counts once in the shared pool b*: a lossless one by its ingress queue, a lossy one by its egress queue. A
/// queue admits while `q̂ ≤ Γ_p = α_p·(1/n_p)·(b* − q*)`.
///
/// A lossy packet that is not admitted is dropped. A lossless one turns its queue OFF, and later packets go to the queue's headroom until
/// that is empty and the condition holds again.
///
/// The default is the authors' public simulator, which produced the paper's figures. The text differs in the filter, in n_p, and in the
/// RESUME condition; each difference is a parameter.
#[derive(Debug)]
pub struct Reverie {
    alpha: AtomicAlpha,
    config: ReverieConfig,
    /// Counts of congested lossless ingress queues, and of congested lossy egress queues.
    congested: [CongestedQueues; 2],
}

impl Reverie {
    /// Creates the policy for `ports` ports.
    pub fn new(config: &ReverieConfig, ports: usize) -> Reverie {
        let count = || CongestedQueues::new(ports, config.congested.get()).partial(config.congested_partly);
        Reverie { alpha: AtomicAlpha::new(config.alpha), config: *config, congested: [count(), count()] }
    }

    #[inline]
    fn bound(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        let of_all = alpha.scale(Bytes::new(queue.shared_pool.free())).get();
        self.congested[usize::from(!queue.lossless)].share(queue.queue.class(), of_all)
    }

    /// Returns whether an OFF queue may resume if its headroom is empty.
    #[inline]
    fn resumes(&self, queue: &QueueView, bound: u64) -> bool {
        queue.average < self.config.resume_floor.get()
            || queue.average.saturating_add(self.config.resume_offset.get()) <= bound
    }

    #[inline]
    fn note(&self, queue: &QueueView) {
        self.congested[usize::from(!queue.lossless)].note(queue.queue, queue.average);
    }
}

impl BufferPolicy for Reverie {
    fn name(&self) -> &'static str {
        ReverieKind.id()
    }

    /// True: the admission condition can only become false as q̂ or q* grows.
    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let bound = self.bound(queue, self.alpha.get());
        if queue.off {
            // Packets of an OFF queue go to headroom even if the condition holds.
            return Threshold { admit: 0, xoff: if self.resumes(queue, bound) { u64::MAX } else { 0 } };
        }
        Threshold::new(if queue.average <= bound { u64::MAX } else { 0 })
    }

    fn depends_on_time(&self) -> bool {
        false
    }

    fn reported_threshold(&self, queue: &QueueView) -> u64 {
        self.bound(queue, self.alpha.get())
    }

    #[inline]
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        if queue.average <= self.bound(queue, alpha) { u64::MAX } else { 0 }
    }

    #[inline]
    fn on_admit(&self, _writer: &mut PortWriter, queue: &QueueView) {
        self.note(queue);
    }

    #[inline]
    fn on_release(&self, _ingress: QueueId, _bytes: u64, queue: &QueueView) {
        if self.config.congested_at.departures_of(queue) {
            self.note(queue);
        }
    }

    fn low_pass(&self) -> Option<LowPass> {
        let ReverieConfig { gamma_ppb, filter_at, filter_cut, filter_rounding, filter_headroom, .. } = self.config;
        let filter = LowPass::with_gamma_ppb(gamma_ppb).at_departures_only(filter_at == FilterAt::Departures);
        let filter = filter.cut_to_length(filter_cut).rounded_to_bytes(filter_rounding == FilterRounding::Bytes);
        Some(filter.with_headroom(filter_headroom))
    }

    /// False: in the paper, RESUME needs only the condition and an empty headroom. The offsets beyond the paper compare q̂, not w_s.
    fn has_hysteresis(&self) -> bool {
        false
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(ReverieConfig { alpha, .. }) = config.downcast() {
            self.alpha.set(*alpha);
        }
    }

    /// Steady state by theorem 1: lossless and lossy get `α·b* / (1 + α● + α°)` in total, for any number of queues.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        let weight = |queues: u64, alpha: Alpha| if queues > 0 { alpha.as_f64() } else { 0.0 };
        load.shared_by_weight(weight(load.lossless, self.alpha.get()), weight(load.lossy, load.lossy_alpha))
    }

    fn describe(&self) -> Vec<String> {
        let ReverieConfig { gamma_ppb, congested, .. } = self.config;
        let mut lines = vec![
            format!(
                "Reverie (reverie 3): q̂ ≤ Γ = α/n_p (b* − q*), α● = {}, q̂ by a low-pass filter with γ = {}",
                self.alpha.get(),
                f64::from(gamma_ppb) / 1e9
            ),
            format!("n_p counts queues whose q̂ is {congested} or more"),
        ];
        let others = self.config.deviations();
        if !others.is_empty() {
            lines.push(format!("other than in the paper: {}", others.join("; ")));
        }
        lines
    }
}

#[derive(Debug)]
pub(super) struct ReverieKind;

/// Settings of `[buffer.reverie]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverieConfig {
    /// `alpha`: α● of the lossless ingress queues.
    pub alpha: Alpha,
    /// `gamma`: γ, the weight of a queue's past, in parts per billion; below 1.
    pub gamma_ppb: u32,
    /// `congested`: length from which a queue counts in n_p.
    pub congested: Bytes,
    /// `congested_partly`: whether a shorter queue counts in proportion to its length.
    pub congested_partly: bool,
    /// `congested_at`: events at which a queue's share of n_p is updated.
    pub congested_at: CongestedAt,
    /// `filter_at`: events that are steps of the filter.
    pub filter_at: FilterAt,
    /// `filter_cut`: whether a departure caps q̂ at q.
    pub filter_cut: bool,
    /// `filter_rounding`: unit to which a step rounds q̂ down.
    pub filter_rounding: FilterRounding,
    /// `filter_headroom`: whether headroom counts in q of a lossless queue.
    pub filter_headroom: bool,
    /// `resume_offset`: an OFF queue resumes with q̂ this far below Γ.
    pub resume_offset: Bytes,
    /// `resume_floor`: an OFF queue resumes with q̂ below this, regardless of Γ.
    pub resume_floor: Bytes,
}

/// Events of a queue that are steps of its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAt {
    /// Arrivals and departures (reverie 3.2).
    Events,
    /// Departures.
    Departures,
}

/// Unit of q̂, to which each step of the filter rounds down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRounding {
    /// Exact to 2^-20 bytes.
    None,
    /// Whole bytes.
    Bytes,
}

const GAMMA: Key<PartsPerBillion> = Key::number(
    "gamma",
    "number, 0 to below 1, at most 9 decimals",
    "γ: weight of the past in the filter q̂ = γ · q̂ + (1 − γ) · q; 0 filters nothing",
)
.or("0.999");
const FILTER_AT: Key<FilterAt> = Key::choice(
    "filter_at",
    &[("events", FilterAt::Events), ("departures", FilterAt::Departures)],
    "events at which the filter steps: arrivals and departures, as in the paper, or departures",
)
.or("departures");
const FILTER_CUT: Key<bool> = Key::boolean(
    "filter_cut",
    "whether a departure cuts q̂ to q. False is the paper's filter: q̂ stays above q after a burst, so that a queue that has nearly \
     drained pauses at its next packets, or drops them if lossy. In both cases q̂ of an empty queue is 0",
)
.or("true");
const FILTER_ROUNDING: Key<FilterRounding> = Key::choice(
    "filter_rounding",
    &[("none", FilterRounding::None), ("bytes", FilterRounding::Bytes)],
    "rounding of q̂ at each step: none, or down to whole bytes, as in the authors' simulator, where q̂ rises only if q exceeds it by \
     1 / (1 − γ) bytes: 1 KB at γ = 0.999, 1 MB at 0.999999",
)
.or("none");
const FILTER_HEADROOM: Key<bool> =
    Key::boolean("filter_headroom", "whether headroom counts in q of lossless queues").or("true");
const RESUME_OFFSET: Key<Bytes> = Key::size(
    "resume_offset",
    Bytes::ZERO..=BufferLayout::CONFIGURED_MAX,
    "how far below Γ q̂ of an OFF queue is when it resumes",
)
.or("2496B");
const RESUME_FLOOR: Key<Bytes> = Key::size(
    "resume_floor",
    Bytes::ZERO..=BufferLayout::CONFIGURED_MAX,
    "length of q̂ below which an OFF queue resumes, whatever Γ is",
)
.or("1248B");
const PARTLY: Key<bool> = CONGESTED_PARTLY.or("true");
const AT: Key<CongestedAt> = CONGESTED_AT.or("arrivals");

impl Plugin for ReverieKind {
    fn id(&self) -> &'static str {
        "reverie"
    }

    fn keys(&self) -> Keys {
        &[
            &ALPHA,
            &GAMMA,
            &CONGESTED,
            &PARTLY,
            &AT,
            &FILTER_AT,
            &FILTER_CUT,
            &FILTER_ROUNDING,
            &FILTER_HEADROOM,
            &RESUME_OFFSET,
            &RESUME_FLOOR,
        ]
    }
}

impl BufferPolicyKind for ReverieKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        let PartsPerBillion(gamma_ppb) = table.get(&GAMMA);
        Arc::new(ReverieConfig {
            alpha: table.get(&ALPHA),
            gamma_ppb,
            congested: table.get(&CONGESTED),
            congested_partly: table.get(&PARTLY),
            congested_at: table.get(&AT),
            filter_at: table.get(&FILTER_AT),
            filter_cut: table.get(&FILTER_CUT),
            filter_rounding: table.get(&FILTER_ROUNDING),
            filter_headroom: table.get(&FILTER_HEADROOM),
            resume_offset: table.get(&RESUME_OFFSET),
            resume_floor: table.get(&RESUME_FLOOR),
        })
    }
}

impl BufferPolicyConfig for ReverieConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &ReverieKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let ports = context.layout.ports().len();
        Ok(Box::new(Reverie::new(self, ports)))
    }
}

impl ReverieConfig {
    /// Creates the default settings, those of the authors' public simulator, with these parameters.
    pub fn simulator(alpha: Alpha, gamma_ppb: u32, congested: Bytes) -> ReverieConfig {
        ReverieConfig {
            congested_partly: true,
            congested_at: CongestedAt::Arrivals,
            filter_at: FilterAt::Departures,
            filter_cut: true,
            filter_headroom: true,
            resume_offset: Bytes::new(2_496),
            resume_floor: Bytes::new(1_248),
            ..ReverieConfig::paper(alpha, gamma_ppb, congested)
        }
    }

    /// Creates the settings of the paper's text with these parameters.
    pub fn paper(alpha: Alpha, gamma_ppb: u32, congested: Bytes) -> ReverieConfig {
        ReverieConfig {
            alpha,
            gamma_ppb,
            congested,
            congested_partly: false,
            congested_at: CongestedAt::Events,
            filter_at: FilterAt::Events,
            filter_cut: false,
            filter_rounding: FilterRounding::None,
            filter_headroom: false,
            resume_offset: Bytes::ZERO,
            resume_floor: Bytes::ZERO,
        }
    }

    fn deviations(&self) -> Vec<String> {
        let parts = [
            self.congested_partly.then(|| "shorter queues count in n_p in proportion to their length".to_owned()),
            (self.congested_at == CongestedAt::Arrivals)
                .then(|| "a queue counts as it did at its last arrival".to_owned()),
            (self.filter_at == FilterAt::Departures).then(|| "q̂ steps at departures only".to_owned()),
            self.filter_cut.then(|| "q̂ is cut to the queue's length".to_owned()),
            (self.filter_rounding == FilterRounding::Bytes).then(|| "q̂ is rounded down to whole bytes".to_owned()),
            self.filter_headroom.then(|| "headroom counts in q".to_owned()),
            (self.resume_offset > Bytes::ZERO).then(|| format!("RESUME with q̂ {} below Γ", self.resume_offset)),
            (self.resume_floor > Bytes::ZERO).then(|| format!("RESUME with q̂ below {}", self.resume_floor)),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// Decimal number below 1, exact where a float would round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartsPerBillion(u32);

impl FromStr for PartsPerBillion {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<PartsPerBillion, UnitError> {
        let wrong = || UnitError::new(text, "a number from 0 to below 1 with at most 9 decimals", "0.999");
        let (integer, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let decimals = decimals.trim_end_matches('0');
        let digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        if integer != "0" || decimals.len() > 9 || !digits {
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
        Reverie::new(&ReverieConfig::paper("2".parse().unwrap(), 999_000_000, Bytes::new(20_480)), 4)
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
            reverie.on_admit(&mut writer, &queue(port));
        }
        assert_eq!(reverie.bound(&queue(0), Alpha::ONE), 150_000);
        reverie.on_admit(&mut writer, &QueueView { average: 100, ..queue(3) });
        assert_eq!(reverie.bound(&queue(0), Alpha::ONE), 200_000);
        // Lossy egress queues have their own n_p.
        assert_eq!(reverie.bound(&QueueView { lossless: false, ..queue(0) }, Alpha::ONE), 600_000);
    }

    #[test]
    fn a_queue_may_count_as_at_its_last_arrival() {
        let paper = ReverieConfig::paper(Alpha::ONE, 999_000_000, Bytes::new(20_480));
        let bound_after_leaving = |congested_at| {
            let reverie = Reverie::new(&ReverieConfig { congested_at, ..paper }, 4);
            let mut writer = PortWriter::new(weir_units::PortId(0));
            let queue = |port| QueueView { average: 30_000, ..view(port, 1_000_000, 400_000) };
            (0..4).for_each(|port| reverie.on_admit(&mut writer, &queue(port)));
            reverie.on_release(queue(3).queue, 1_000, &QueueView { average: 100, ..queue(3) });
            reverie.bound(&queue(0), Alpha::ONE)
        };
        assert_eq!(bound_after_leaving(CongestedAt::Events), 200_000);
        assert_eq!(bound_after_leaving(CongestedAt::Arrivals), 150_000);
    }

    #[test]
    fn the_public_simulator_resumes_further_below() {
        let paper = ReverieConfig::paper(Alpha::ONE, 999_000_000, Bytes::new(20_480));
        let resume_offset = Bytes::new(2_496);
        let theirs = Reverie::new(&ReverieConfig { resume_offset, resume_floor: Bytes::new(1_248), ..paper }, 4);
        // Γ = 500,000: OFF until q̂ is 497,504.
        let off = |average, used| QueueView { off: true, average, ..view(0, 1_000_000, used) };
        let resumes = |queue: QueueView| theirs.threshold(&queue).xoff == u64::MAX;
        assert!(!resumes(off(497_505, 500_000)) && resumes(off(497_504, 500_000)));
        assert_eq!(theirs.threshold(&QueueView { off: false, ..off(500_000, 500_000) }).admit, u64::MAX);
        // Γ = 0.
        assert!(!resumes(off(1_248, 1_000_000)) && resumes(off(1_247, 1_000_000)));
        assert!(theirs.describe()[2].ends_with("RESUME with q̂ 2496B below Γ; RESUME with q̂ below 1248B"));
        assert_eq!(Reverie::new(&paper, 4).describe().len(), 2);
    }
}
