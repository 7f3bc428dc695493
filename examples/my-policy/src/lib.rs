//! A buffer policy of two steps: generous while the buffer is mostly free, and strict from then on.
//!
//! This file has a whole policy: its name, its keys with their defaults, its rules, its needs of the buffer's partition, its threshold,
//! its closed form, and a gauge.

use std::sync::Arc;

use weir_mmu::policy::{
    BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, ConfigContext, Gauge, Gauges, LayoutRequirements,
    OverloadCase, PolicyError, PoolLevel, QueueView, SteadyState, Threshold, Unit,
};
use weir_reader::{Key, Plugin, Problem, Table};
use weir_units::archive::Archive;
use weir_units::{Alpha, Bytes};

/// `policy = "two-steps"`.
#[derive(Debug)]
pub struct TwoStepsKind;

/// `T = α·free`, with one α while more than half of the shared segment is free, and another, that is no greater, from then on.
/// These are the settings, `[buffer.two-steps]`, and, as the policy needs nothing else, the policy too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoStepsConfig {
    plenty: Alpha,
    scarce: Alpha,
}

const PLENTY: Key = Key::new("plenty", "2", "α while more than half of the shared segment is free");
const SCARCE: Key = Key::new("scarce", "1/4", "α from then on");

/// Gauge, 1 in the second step and else 0: a column of `series.csv`, figures of `summary.json`, a section of the report.
const IS_SCARCE: Gauge = Gauge::new(
    "scarce",
    Unit::State { on: "scarce", off: "plenty" },
    "step",
    "Two steps: green while half of the shared segment or less is free.",
);

impl Plugin for TwoStepsKind {
    fn id(&self) -> &'static str {
        "two-steps"
    }

    fn keys(&self) -> &'static [Key] {
        &[PLENTY, SCARCE]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[IS_SCARCE]
    }
}

impl BufferPolicyKind for TwoStepsKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(TwoStepsConfig { plenty: table.alpha_or(&PLENTY), scarce: table.alpha_or(&SCARCE) })
    }
}

impl BufferPolicyConfig for TwoSteps {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &TwoStepsKind
    }

    /// Headroom for every lossless ingress queue, and one shared segment.
    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    /// Checks a rule of the policy, and reports errors with the line of the file.
    fn check(&self, file: &ConfigContext<'_>) {
        if self.scarce > self.plenty {
            let message = format!("`scarce` {} is above `plenty` {}", self.scarce, self.plenty);
            let problem = Problem::new(message, format!("write scarce = \"{}\" or less", self.plenty));
            file.doc.note(problem.with_label("buffer.two-steps.scarce", "").with_label("buffer.two-steps.plenty", "the other step"));
        }
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(*self))
    }
}

impl TwoSteps {
    fn is_scarce(pool: PoolLevel) -> bool {
        pool.free() <= pool.capacity / 2
    }

    /// Returns the length at which `n` queues with `T = α·free` settle.
    fn at_rest(alpha: Alpha, shared: Bytes, n: u64) -> u64 {
        let alpha = alpha.as_f64();
        (alpha * shared.get() as f64 / (1.0 + n as f64 * alpha)) as u64
    }
}

impl BufferPolicy for TwoSteps {
    fn name(&self) -> &'static str {
        "two-steps"
    }

    /// Saves nothing: the policy has no state that changes.
    fn checkpoint(&self, _archive: &mut Archive) {}

    /// Returns false: the policy depends on the lengths of queues alone, and on no packet.
    fn observes_packets(&self) -> bool {
        false
    }

    /// `scarce` is not above `plenty`.
    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    fn threshold(&self, queue: &QueueView) -> Threshold {
        let pool = queue.shared_pool;
        let alpha = if TwoSteps::is_scarce(pool) { self.scarce } else { self.plenty };
        Threshold::new(alpha.scale(Bytes::new(pool.free())).get())
    }

    /// Returns the lengths of n overloaded queues, which `weir check` prints: those of the first step if half of the buffer is free there,
    /// of the second if it is not, and else those where the steps meet. Lossy queues are left out.
    fn steady_state(&self, case: &OverloadCase) -> SteadyState {
        let n = case.lossless.max(1);
        let [plenty, scarce] = [self.plenty, self.scarce].map(|alpha| TwoSteps::at_rest(alpha, case.shared, n));
        let half = case.shared.get() / 2;
        let each = if plenty * n < half { plenty } else { scarce.max(half / n) };
        SteadyState { lossless: Bytes::new(each), lossy: Bytes::ZERO }
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("two steps: T = α free, α = {} while more than half is free, else {}", self.plenty, self.scarce)]
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        Gauges::new([(&IS_SCARCE, u64::from(TwoSteps::is_scarce(queue.shared_pool)))])
    }
}
