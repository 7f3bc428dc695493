//! DSH: dynamic and shared headroom (dsh IV).

use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};

use super::gradient::{Form, HeadroomEstimator};
use super::{
    DynamicThreshold, Load, Observation, Policy, PoolLevel, PortLevel, PortRate, PortWords, PortWriter, QueueView,
    SteadyState, Threshold,
};
use crate::layout::{BufferLayout, Headroom};

/// Headroom is part of the shared segment, and only queues that fill up get any. Beside it stands the insurance
/// headroom, Φ once for every port, which makes it lossless under any load.
///
/// - Queue level: PAUSE at `X_qoff = T − τ`, where τ is φ̂, the headroom that the queue is estimated to need, or 0 when
///   all packets of the port in a window were of one queue (Algorithm 4): then its insurance is headroom enough.
/// - Port level: PAUSE of all classes at `X_poff = N_q·T`, by the shared bytes of all queues of the port. A queue may
///   take what the port's others leave; beyond X_poff packets go to the insurance.
#[derive(Debug)]
pub struct Dsh {
    threshold: DynamicThreshold,
    parameters: DshParameters,
    estimator: HeadroomEstimator,
    /// N_q of each port.
    queues: Box<[u64]>,
    activity: PortWords<3>,
    insurance: Headroom,
}

/// What a configuration chooses of DSH.
#[derive(Clone, Debug)]
pub struct DshParameters {
    /// DT's α.
    pub threshold: DynamicThreshold,
    /// How φ̂ is computed.
    pub form: Form,
    /// For how long a queue must have been its port's only one for τ to be 0; 10 ms.
    pub window: Span,
    /// δ_p.
    pub port_xon_offset: Bytes,
    /// Whether headroom comes out of the shared segment. Without, the paper's ablation, τ is 0, a queue stays within T,
    /// and every packet that a PAUSE came too late for takes insurance, and so pauses the whole port.
    pub shared_headroom: bool,
}

/// A port's words: the class that arrived last, since when it is the only one, and whether that is long enough.
const CLASS: usize = 0;
const SINCE: usize = 1;
const ALONE: usize = 2;
/// No class arrived yet.
const NO_CLASS: u64 = u64::MAX;

impl Dsh {
    /// Over a partition; `rates` are those at which the ports' links fill the buffer.
    pub fn new(parameters: DshParameters, layout: &BufferLayout, rates: &[BitRate]) -> Dsh {
        let links: Vec<_> = rates.iter().zip(layout.ports()).map(|(rate, port)| (*rate, port.headroom_max())).collect();
        Dsh {
            threshold: parameters.threshold,
            estimator: HeadroomEstimator::new(parameters.form.clone(), &links),
            queues: layout.ports().iter().map(|port| port.lossless.len() as u64).collect(),
            activity: PortWords::new(rates.len(), [NO_CLASS, 0, 0]),
            insurance: layout.headroom_from(),
            parameters,
        }
    }

    /// Algorithm 4: whether the port's packets have all been of one queue for a window.
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

    /// τ.
    #[inline]
    fn margin(&self, queue: QueueId) -> u64 {
        if !self.parameters.shared_headroom || self.activity.get(queue.port(), ALONE) != 0 {
            0
        } else {
            self.estimator.estimate(queue)
        }
    }
}

impl Policy for Dsh {
    fn name(&self) -> &'static str {
        "dsh"
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        let threshold = self.threshold.over(queue.shared_pool);
        Threshold {
            admit: if self.parameters.shared_headroom { u64::MAX } else { threshold },
            xoff: threshold.saturating_sub(self.margin(queue.queue)),
        }
    }

    #[inline]
    fn arrive(&self, writer: &mut PortWriter, queue: &QueueView, bytes: u64) {
        self.note_activity(writer, queue.queue.class(), queue.now);
        self.estimator.arrive(writer, queue.queue, queue.now, queue.length + queue.headroom + bytes);
    }

    fn port_level(&self) -> Option<PortLevel> {
        Some(PortLevel { xon_offset: self.parameters.port_xon_offset.get() })
    }

    #[inline]
    fn port_threshold(&self, port: PortId, shared_pool: PoolLevel) -> u64 {
        self.queues[port.index()] * self.threshold.over(shared_pool)
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        self.estimator.set_rate(port, rate.fill);
        true
    }

    /// With τ = 0; each queue's share is less by about τ otherwise.
    fn steady_state(&self, load: &Load) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        let DshParameters { form, window, port_xon_offset, shared_headroom, .. } = &self.parameters;
        let form = match form {
            Form::Exact { w_g, w_v, k } => format!("exact, w_g = {w_g}, w_v = {w_v}, k = {k}"),
            Form::Table { w_g_shift, w_v_shift, k_shift, .. } => {
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

    fn observe(&self, queue: &QueueView) -> Observation {
        let estimate = self.estimator.estimate(queue.queue);
        Observation { headroom_estimate: Some(Bytes::new(estimate)), ..Observation::default() }
    }
}
