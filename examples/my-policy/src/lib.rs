//! Buffer policy `two-steps`: a large α while most of the buffer is free, and a smaller one otherwise.
//!
//! A plug-in has three types. [`TwoStepsKind`] has the name and the keys, and parses the table. [`TwoStepsConfig`] has the validated values,
//! and builds the policy. [`TwoSteps`] is the policy, with its threshold, its closed form and a gauge.

use std::sync::Arc;

use weir_mmu::policy::{
    BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, ConfigContext, Gauge, Gauges, LayoutRequirements,
    OverloadCase, PolicyError, PoolLevel, QueueView, SteadyState, Threshold, Unit,
};
use weir_reader::{Key, Keys, Plugin, Problem, Table};
use weir_units::{Alpha, Bytes};

/// Kind of the policy, selected by `policy = "two-steps"`.
#[derive(Debug)]
pub struct TwoStepsKind;

/// Values of `[buffer.two-steps]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoStepsConfig {
    plenty: Alpha,
    /// Factor α of the second step; at most `plenty`.
    scarce: Alpha,
}

/// Policy of a switch: `T = α·free`, with α = `plenty` while more than half of the shared segment is free, and else `scarce`.
#[derive(Debug)]
pub struct TwoSteps {
    config: TwoStepsConfig,
}

const PLENTY: Key<Alpha> = Key::alpha("plenty", "α while more than half of the shared segment is free").or("2");
const SCARCE: Key<Alpha> = Key::alpha("scarce", "α while half of it or less is free").or("1/4");

/// Gauge: 1 while half of the shared segment or less is free, else 0. A column of `series.csv`, figures of `summary.json` and a section of
/// the report.
const IS_SCARCE: Gauge = Gauge::new(
    "scarce",
    Unit::State { on: "scarce", off: "plenty" },
    "step",
    "Green while half of the shared segment or less is free.",
);

impl Plugin for TwoStepsKind {
    fn id(&self) -> &'static str {
        "two-steps"
    }

    fn keys(&self) -> Keys {
        &[&PLENTY, &SCARCE]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[IS_SCARCE]
    }
}

impl BufferPolicyKind for TwoStepsKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(TwoStepsConfig { plenty: table.get(&PLENTY), scarce: table.get(&SCARCE) })
    }
}

impl BufferPolicyConfig for TwoStepsConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &TwoStepsKind
    }

    /// Returns headroom for every lossless ingress queue, and one shared segment.
    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    /// Checks that `scarce` is at most `plenty`. An error is reported with the lines of both.
    fn check(&self, file: &ConfigContext<'_>) {
        if self.scarce > self.plenty {
            let message = format!("`scarce` {} is above `plenty` {}", self.scarce, self.plenty);
            let problem = Problem::new(message, format!("write scarce = \"{}\" or less", self.plenty));
            let problem = problem.with_label("buffer.two-steps.scarce", "");
            file.doc.note(problem.with_label("buffer.two-steps.plenty", "the other step"));
        }
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(TwoSteps { config: *self }))
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

    /// Returns false, as the threshold depends on no packet.
    fn observes_packets(&self) -> bool {
        false
    }

    /// Returns true, as `scarce` is at most `plenty`.
    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    fn threshold(&self, queue: &QueueView) -> Threshold {
        let pool = queue.shared_pool;
        let alpha = if TwoSteps::is_scarce(pool) { self.config.scarce } else { self.config.plenty };
        Threshold::new(alpha.scale(Bytes::new(pool.free())).get())
    }

    /// Returns the lengths at which n overloaded lossless queues settle: with α = `plenty` if half of the buffer is free there, with
    /// `scarce` if not, and else those that leave half of it free. `weir check` prints them. Lossy queues are left out.
    fn steady_state(&self, case: &OverloadCase) -> SteadyState {
        let n = case.lossless.max(1);
        let [plenty, scarce] =
            [self.config.plenty, self.config.scarce].map(|alpha| TwoSteps::at_rest(alpha, case.shared, n));
        let half = case.shared.get() / 2;
        let each = if plenty * n < half { plenty } else { scarce.max(half / n) };
        SteadyState { lossless: Bytes::new(each), lossy: Bytes::ZERO }
    }

    fn describe(&self) -> Vec<String> {
        let TwoStepsConfig { plenty, scarce } = self.config;
        vec![format!("two-steps: T = α free, α = {plenty} while more than half is free, else {scarce}")]
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        Gauges::new([(&IS_SCARCE, u64::from(TwoSteps::is_scarce(queue.shared_pool)))])
    }
}
