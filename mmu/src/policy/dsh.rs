//! DSH: dynamic and shared headroom (dsh IV).

use std::str::FromStr;
use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Problem, Table};
use weir_units::{Alpha, BitRate, Bytes, CLASSES, Class, PortId, QueueId, Span, Time, UnitError};

use super::gradient::{EstimatorForm, HeadroomEstimator};
use super::{
    ALPHA, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, DynamicThreshold, Gauge, Gauges,
    HEADROOM_ESTIMATE, HeadroomRequirement, LayoutRequirements, OverloadCase, PolicyError, PoolLevel,
    PortLevelFlowControl, PortRate, PortRegisters, PortWriter, QueueView, SteadyState, Threshold,
};
use crate::layout::{BufferLayout, Headroom, PortLayout};

/// DSH policy. Headroom is part of the shared segment, and only congested queues get any. The separate insurance headroom, Φ once per port,
/// keeps DSH lossless under any load.
///
/// - Queue level: PAUSE at `X_qoff = T − τ`, where τ is φ̂, the estimated headroom of the queue. τ is 0 when all packets of the port in a
///   window were of one queue (Algorithm 4): its insurance is then sufficient.
/// - Port level: PAUSE of all classes at `X_poff = N_q·T`, by the shared bytes of all queues of the port. A queue may use shared bytes that
///   the port's other queues leave; beyond X_poff packets go to the insurance.
#[derive(Debug)]
pub struct Dsh {
    threshold: DynamicThreshold,
    parameters: DshParameters,
    estimator: HeadroomEstimator,
    /// N_q of each port.
    queues: Box<[u64]>,
    activity: PortRegisters<3>,
    insurance: Headroom,
}

/// Parameters of DSH.
#[derive(Clone, Debug)]
pub struct DshParameters {
    /// Factor α of DT.
    pub alpha: Alpha,
    /// Arithmetic of φ̂.
    pub form: EstimatorForm,
    /// Time for which a queue must have been its port's only one for τ to be 0; 10 ms.
    pub window: Span,
    /// Hysteresis δ_p of ports, in bytes.
    pub port_xon_offset: Bytes,
    /// N_q of all ports; `None`: number of a port's lossless classes.
    pub port_queues: Option<u64>,
    /// Whether headroom comes out of the shared segment. If false, the paper's ablation, τ is 0 and a queue stays within T. Every packet in
    /// flight at a PAUSE then takes insurance, and so pauses the whole port.
    pub shared_headroom: bool,
}

/// Counters of a port: class of the last arrival, start of its sole activity, and whether that exceeds the window.
const CLASS: usize = 0;
const SINCE: usize = 1;
const ALONE: usize = 2;
/// Value of `CLASS` before the first arrival.
const NO_CLASS: u64 = u64::MAX;

impl Dsh {
    /// Creates the policy for a partition; `rates` are the rates at which the ports' links fill the buffer.
    pub fn new(parameters: DshParameters, layout: &BufferLayout, rates: &[BitRate]) -> Dsh {
        let links: Vec<_> = rates.iter().zip(layout.ports()).map(|(rate, port)| (*rate, port.headroom_max())).collect();
        let queues = |port: &PortLayout| parameters.port_queues.unwrap_or(port.lossless.len() as u64);
        Dsh {
            threshold: DynamicThreshold::new(parameters.alpha),
            estimator: HeadroomEstimator::new(parameters.form.clone(), &links),
            queues: layout.ports().iter().map(queues).collect(),
            activity: PortRegisters::new(rates.len(), [NO_CLASS, 0, 0]),
            insurance: layout.headroom_from(),
            parameters,
        }
    }

    /// Algorithm 4: updates whether all packets of the port have been of one queue for a window.
    #[inline]
    fn note_activity(&self, writer: &mut PortWriter, class: Class, now: Time) {
        let port = writer.port();
        let class = class.index() as u64;
        if self.activity.get(port, CLASS) != class {
            self.activity.set(writer, CLASS, class);
            self.activity.set(writer, SINCE, now.as_picos());
            self.activity.set(writer, ALONE, 0);
        } else if now.since(Time::from_picos(self.activity.get(port, SINCE))) > self.parameters.window {
            self.activity.set(writer, ALONE, 1);
        }
    }

    /// Margin τ of the queue-level Xoff, in bytes.
    #[inline]
    fn margin(&self, queue: QueueId) -> u64 {
        if !self.parameters.shared_headroom || self.activity.get(queue.port(), ALONE) != 0 {
            0
        } else {
            self.estimator.estimate(queue)
        }
    }
}

impl BufferPolicy for Dsh {
    fn name(&self) -> &'static str {
        DshKind.id()
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let threshold = self.threshold.pool_threshold(queue.shared_pool);
        Threshold {
            admit: if self.parameters.shared_headroom { u64::MAX } else { threshold },
            xoff: threshold.saturating_sub(self.margin(queue.queue)),
        }
    }

    #[inline]
    fn on_arrival(&self, writer: &mut PortWriter, queue: &QueueView, bytes: u64) {
        self.note_activity(writer, queue.queue.class(), queue.now);
        self.estimator.on_arrival(writer, queue.queue, queue.now, queue.length + queue.headroom + bytes);
    }

    fn port_level_flow_control(&self) -> Option<PortLevelFlowControl> {
        Some(PortLevelFlowControl { xon_offset: self.parameters.port_xon_offset.get() })
    }

    #[inline]
    fn port_threshold(&self, port: PortId, shared_pool: PoolLevel) -> u64 {
        self.queues[port.index()] * self.threshold.pool_threshold(shared_pool)
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        self.estimator.set_rate(port, rate.fill);
        true
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(DshConfig { alpha, .. }) = config.downcast() {
            self.threshold.set_alpha(*alpha);
        }
    }

    /// Steady state with τ = 0; otherwise each queue's share is less by about τ.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        let DshParameters { form, window, port_xon_offset, shared_headroom, .. } = &self.parameters;
        let form = match form {
            EstimatorForm::Exact { w_g, w_v, k } => format!("exact, w_g = {w_g}, w_v = {w_v}, k = {k}"),
            EstimatorForm::Table { w_g_shift, w_v_shift, k_shift, .. } => {
                let k = k_shift.map_or(0, |shift| 1u64 << shift);
                format!("shifts and tables, w_g = 2^-{w_g_shift}, w_v = 2^-{w_v_shift}, k = {k}")
            }
        };
        let mut lines = vec![
            format!("DSH, dynamic and shared headroom (dsh IV): T by DT with α = {}", self.threshold.alpha()),
            format!(
                "queue level: X_qoff = T − τ, τ = φ̂ from 0 to Φ ({form}), or 0 for a port's only queue in {window}"
            ),
            format!("port level: X_poff = N_q T, δ_p = {port_xon_offset}"),
        ];
        if self.insurance == Headroom::Uninsured {
            lines.push("without insurance headroom (the paper's ablation): not lossless".to_owned());
        }
        if !shared_headroom {
            lines.push("without shared headroom (the paper's ablation): the insurance takes all headroom".to_owned());
        }
        lines
    }

    fn depends_on_time(&self) -> bool {
        false
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        Gauges::new([(&HEADROOM_ESTIMATE, self.estimator.estimate(queue.queue))])
    }
}

#[derive(Debug)]
pub(super) struct DshKind;

/// Settings of `[buffer.dsh]`, named as in DSH (IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DshConfig {
    /// `alpha`: α of `T(t)`.
    pub alpha: Alpha,
    /// `estimator`: arithmetic of φ̂.
    pub estimator: Estimator,
    /// `w_g`: weight of a new gradient in g_avg; at most 1, and 1/2^n for [`Estimator::Table`].
    pub w_g: Alpha,
    /// `w_v`: weight of a new variation in v_avg; at most 1, and 1/2^n for [`Estimator::Table`].
    pub w_v: Alpha,
    /// `k`: factor in `ĝ = g_avg + k·v_avg`; 0 or a power of two for [`Estimator::Table`].
    pub k: u32,
    /// `window`: τ is 0 when all packets of a port in the last window were of one queue (Algorithm 4).
    pub window: Span,
    /// `port_xon_offset`: δ_p; `None` equals `[buffer] xon_offset`.
    pub port_xon_offset: Option<Bytes>,
    /// `port_queues`: N_q; `None` equals the number of lossless classes.
    pub port_queues: Option<u32>,
    /// `insurance`: whether each port has Φ of insurance headroom. Without it, lossless frames can be dropped.
    pub insurance: bool,
    /// `shared_headroom`: whether congested queues have headroom in the shared buffer.
    pub shared_headroom: bool,
}

/// Arithmetic of DSH's headroom estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Multiplication and division.
    Exact,
    /// Shifts and a table of quotients, as in a switch chip (Algorithm 3, Fig. 12).
    Table,
}

const ESTIMATOR: Key<Estimator> = Key::choice(
    "estimator",
    &[("exact", Estimator::Exact), ("table", Estimator::Table)],
    "arithmetic of φ̂, a queue's estimated headroom: exact, or shifts and a table (dsh Algorithm 3, Fig. 12)",
)
.or("exact");
const W_G: Key<Weight> = weight("w_g", "w_g: weight of new gradients in g_avg");
const W_V: Key<Weight> = weight("w_v", "w_v: weight of new variations in v_avg");
const K: Key<u32> =
    Key::<u32>::integer("k", 0..=64, "k: factor of v_avg in the gradient ĝ = g_avg + k · v_avg").or("4");
const WINDOW: Key<Span> = Key::time(
    "window",
    Span::from_micros(1)..=Span::from_secs(10),
    "window of Algorithm 4 of dsh: τ is 0 for a queue that had all of its port's frames in the last one",
)
.or("10ms");
const PORT_XON_OFFSET: Key<Bytes> = Key::size(
    "port_xon_offset",
    Bytes::ZERO..=BufferLayout::CONFIGURED_MAX,
    "δ_p: a paused port resumes this far below its threshold",
)
.or_else("as `xon_offset`");
const PORT_QUEUES: Key<u32> = Key::<u32>::integer(
    "port_queues",
    1..=CLASSES as u32,
    "N_q: a port pauses at N_q · T; the paper's ports have 8 queues, of which one is not lossless",
)
.or_else("number of lossless classes");
const INSURANCE: Key<bool> = Key::boolean(
    "insurance",
    "whether each port has Φ of insurance headroom; without it (ablation, dsh Fig. 21) lossless frames are lost",
)
.or("true");
const SHARED_HEADROOM: Key<bool> = Key::boolean(
    "shared_headroom",
    "whether congested queues have headroom in the shared buffer; without it: ablation, dsh Fig. 25",
)
.or("true");

const fn weight(name: &'static str, help: &'static str) -> Key<Weight> {
    Key::number(name, "number or fraction, 1/65536 to 1", help).or("1/4")
}

impl Plugin for DshKind {
    fn id(&self) -> &'static str {
        "dsh"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA, &ESTIMATOR, &W_G, &W_V, &K, &WINDOW, &PORT_XON_OFFSET, &PORT_QUEUES, &INSURANCE, &SHARED_HEADROOM]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[HEADROOM_ESTIMATE]
    }
}

impl BufferPolicyKind for DshKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        let config = DshConfig {
            alpha: table.get(&ALPHA),
            estimator: table.get(&ESTIMATOR),
            w_g: table.get(&W_G).0,
            w_v: table.get(&W_V).0,
            k: table.get(&K),
            window: table.get(&WINDOW),
            port_xon_offset: table.given(&PORT_XON_OFFSET),
            port_queues: table.given(&PORT_QUEUES),
            insurance: table.get(&INSURANCE),
            shared_headroom: table.get(&SHARED_HEADROOM),
        };
        if config.estimator == Estimator::Table {
            config.refuse_unshiftable(table);
        }
        Arc::new(config)
    }
}

impl BufferPolicyConfig for DshConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &DshKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        let headroom = if self.insurance { HeadroomRequirement::PerPort } else { HeadroomRequirement::Uninsured };
        LayoutRequirements { headroom, pools: None, keys: &[INSURANCE.name] }
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let form = match self.estimator {
            Estimator::Exact => EstimatorForm::exact(self.w_g, self.w_v, self.k),
            Estimator::Table => EstimatorForm::table(self.w_g, self.w_v, self.k)
                .expect("a checked configuration has powers of two here"),
        };
        let parameters = DshParameters {
            alpha: self.alpha,
            form,
            window: self.window,
            port_xon_offset: self.port_xon_offset.unwrap_or(context.xon_offset),
            port_queues: self.port_queues.map(u64::from),
            shared_headroom: self.shared_headroom,
        };
        Ok(Box::new(Dsh::new(parameters, context.layout, context.fill_rates)))
    }
}

impl DshConfig {
    /// Records an error for parameters that the table estimator can't express as shifts.
    fn refuse_unshiftable(&self, table: &Table<'_>) {
        let refuse = |key: &str, wrong: &str, instead: &str| {
            let message = format!("`{key}` is {wrong}, but `estimator` \"table\" shifts where \"exact\" multiplies");
            let problem = Problem::new(message, format!("write {key} = {instead}, or estimator = \"exact\""));
            table.doc().note(
                problem.with_label(table.key_path(key), "").with_label(table.key_path("estimator"), "the estimator"),
            );
        };
        for (key, weight) in [("w_g", self.w_g), ("w_v", self.w_v)] {
            // `Alpha::scale` on 2^16 bytes yields the numerator of α over 2^16.
            if !weight.scale(Bytes::new(1 << 16)).get().is_power_of_two() {
                refuse(key, "not 1/2^n", "\"1/4\"");
            }
        }
        if self.k != 0 && !self.k.is_power_of_two() {
            refuse("k", "neither 0 nor a power of two", "4");
        }
    }
}

/// Weight of a new sample in an average.
#[derive(Clone, Copy, Debug)]
struct Weight(Alpha);

impl FromStr for Weight {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Weight, UnitError> {
        match text.parse() {
            Ok(weight) if weight <= Alpha::ONE => Ok(Weight(weight)),
            // An α has 16 fractional bits.
            _ => Err(UnitError::new(text, "a number or fraction from 1/65536 to 1", "1/4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_at_most_one() {
        let read = |text: &str| text.parse().map(|Weight(weight)| weight).ok();
        assert_eq!(read("1/4"), Alpha::ratio(1, 4).ok());
        assert_eq!(read("0.25"), Alpha::ratio(1, 4).ok());
        assert_eq!(read("1"), Some(Alpha::ONE));
        for text in ["0", "5/4", "2", "-1", "1e-9", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
