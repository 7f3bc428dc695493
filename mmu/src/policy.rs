//! Buffer policies: algorithms that set the thresholds of ingress queues and of lossy egress queues.
//!
//! Each policy has one file with its name, keys, rules, layout requirements, thresholds, closed form and gauges. The packet path uses only
//! [`BufferPolicy`]; readers of configuration files use only [`BufferPolicyKind`] and [`BufferPolicyConfig`]. A new policy is a new file
//! here and a line in the list of `registry.rs`; a third-party program adds its own to [`BUFFER_POLICIES`]. `docs/POLICIES.md` shows how.
//!
//! Three modules serve several policies: [`congestion`] counts congested queues, [`departures`] measures drain rates, and [`gradient`]
//! estimates the headroom that a queue will need.

mod abm;
mod adaptive_headroom;
mod dsh;
mod dynamic_threshold;
mod kind;
mod layout_requirements;
mod oversubscription;
mod pools;
mod registry;
mod reverie;
mod sih;
mod sonic;
mod spfc;
mod static_threshold;

pub mod congestion;
pub mod departures;
pub mod gradient;

use std::fmt::Debug;

use weir_units::{Alpha, BitRate, Bytes, PortId, QueueId, Span, Time};

pub use crate::atomics::{AtomicAlpha, AtomicBytes};
use crate::layout::BufferLayout;
pub use crate::low_pass::LowPass;
pub use crate::pool::PoolLevel;
pub use crate::single_writer::{PortRegisters, PortWriter, QueueRegisters};
pub use abm::{Abm, AbmConfig, DrainPorts, DrainScope};
pub use adaptive_headroom::{AdaptiveHeadroom, AdaptiveHeadroomConfig};
pub use dsh::{Dsh, DshConfig, DshParameters, Estimator};
pub use dynamic_threshold::{DynamicThreshold, DynamicThresholdConfig};
pub use kind::{
    ALPHA, BufferPolicyConfig, BufferPolicyKind, BufferSizes, BuildContext, ConfigContext, CongestedAt,
    ConstantThreshold, HEADROOM_ESTIMATE, PolicyError, PortSizes, longest_window,
};
pub use layout_requirements::{HeadroomRequirement, LayoutRequirements, PoolSizes};
pub use oversubscription::OversubscribedConfig;
pub use pools::Pools;
pub use registry::{BUFFER_POLICIES, DEFAULT, known_tables, parse_config};
pub use reverie::{FilterAt, FilterRounding, Reverie, ReverieConfig};
pub use sih::SihConfig;
pub use sonic::{Sonic, SonicConfig};
pub use spfc::{Spfc, SpfcConfig, VICTIM, VictimAt, VictimMemory, k_spfc_bounds};
pub use static_threshold::{StaticThreshold, StaticThresholdConfig};
pub use weir_reader::{Gauge, Gauges, Unit};

/// Buffer policy. Any lcore asks it about every packet that exceeds private buffer, inside a compare-and-swap loop. A decision may use only
/// the arguments and atomic state of the policy.
///
/// An implementation must provide [`name`](BufferPolicy::name), [`threshold`](BufferPolicy::threshold),
/// [`steady_state`](BufferPolicy::steady_state) and [`describe`](BufferPolicy::describe); all other methods have defaults.
pub trait BufferPolicy: Debug + Send + Sync {
    /// Name by which a configuration selects the policy.
    fn name(&self) -> &'static str;

    /// Returns T(t) for the shared occupancy w_s of a lossless ingress queue.
    fn threshold(&self, queue: &QueueView) -> Threshold;

    /// Threshold that reports show, in bytes; Xoff by default.
    fn reported_threshold(&self, queue: &QueueView) -> u64 {
        self.threshold(queue).xoff
    }

    /// Maximum length of a lossy egress queue, including the arriving packet. `alpha` is the configured α of lossy classes. The
    /// default is DT over the shared segment.
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        alpha.scale(Bytes::new(queue.shared_pool.free())).get()
    }

    /// Whether thresholds are non-increasing as packets are placed. With more bytes in the queue, its headroom and the pools, or a higher
    /// average, and all else equal, none of [`threshold`](BufferPolicy::threshold), [`lossy_threshold`](BufferPolicy::lossy_threshold) and
    /// [`port_threshold`](BufferPolicy::port_threshold) may rise. Packets of a queue are then admitted together, by few queries.
    fn has_non_increasing_thresholds(&self) -> bool {
        false
    }

    /// Whether the policy observes packets that [arrive](BufferPolicy::on_arrival), [are admitted](BufferPolicy::on_admit) and [are
    /// released](BufferPolicy::on_release). False saves the calls for a policy that uses queue lengths alone.
    fn observes_packets(&self) -> bool {
        true
    }

    /// Whether the threshold or a gauge of a queue may change with time alone, without a packet.
    fn depends_on_time(&self) -> bool {
        self.observes_packets()
    }

    /// Observes the arrival of `bytes` in total for a lossless ingress queue. `queue` is its state before them.
    fn on_arrival(&self, _writer: &mut PortWriter, _queue: &QueueView, _bytes: u64) {}

    /// Observes the queue that the policy bounds after arrivals were placed: the ingress queue of lossless packets, the egress queue of
    /// lossy ones.
    fn on_admit(&self, _writer: &mut PortWriter, _queue: &QueueView) {}

    /// Observes the departure of `bytes` in total that had arrived at `ingress`. `queue` is as in [`on_admit`](BufferPolicy::on_admit).
    fn on_release(&self, _ingress: QueueId, _bytes: u64, _queue: &QueueView) {}

    /// Filter that computes q̂ for [`QueueView::average`]; without a filter, the average is the length itself.
    fn low_pass(&self) -> Option<LowPass> {
        None
    }

    /// Whether RESUME waits until w_s is δ below Xoff. False for a policy that does not compare w_s.
    fn has_hysteresis(&self) -> bool {
        true
    }

    /// Parameters of port-level flow control, if the policy adds it to per-queue flow control.
    fn port_level_flow_control(&self) -> Option<PortLevelFlowControl> {
        None
    }

    /// Returns X_poff: the shared bytes of a port's queues at which all its classes are paused. Called only if
    /// [`port_level_flow_control`](BufferPolicy::port_level_flow_control) is `Some`.
    fn port_threshold(&self, _port: PortId, _shared_pool: PoolLevel) -> u64 {
        u64::MAX
    }

    /// Whether the MMU calls [`headroom`](BufferPolicy::headroom).
    fn adapts_headroom(&self) -> bool {
        false
    }

    /// New Φ of a lossless ingress queue, at most the layout's Φ. The difference goes to the shared segment.
    fn headroom(&self, _queue: QueueId) -> Bytes {
        Bytes::ZERO
    }

    /// Whether OFF queues lend their free headroom to the shared segment, whose [capacity](PoolLevel::capacity) then varies from the
    /// layout's to that and all headroom. For layouts with headroom per queue.
    fn lends_headroom(&self) -> bool {
        false
    }

    /// Time after a PAUSE until all frames that the peer sent before it have arrived; the queue does not lend earlier. `None` if the queue
    /// never lends. Called only if [`lends_headroom`](BufferPolicy::lends_headroom) is true.
    ///
    /// A lender that waits for its headroom waits for the egress ports of the borrowers. So only queues lend for which no other port of the
    /// network waits, those of ports to hosts: a cycle of waiting ports, a deadlock, can't pass through a lender.
    fn in_flight_time(&self, _queue: QueueId) -> Option<Span> {
        None
    }

    /// Sets the rate of a port's link and updates the values derived from it. Called by a control thread while lcores run; an lcore may see
    /// parts of the change one packet late. Returns false if the policy does not support that rate; it then keeps the previous one.
    ///
    /// Not called under adaptive headroom, whose initial headroom by the rule requires a configured rate for each port.
    fn set_rate(&self, _port: PortId, _rate: PortRate) -> bool {
        true
    }

    /// Updates the parameters of [live](weir_reader::Key::live) keys from a configuration of the policy's own kind; all others keep their
    /// values. Called by a control thread while lcores run: each decision uses either the old or the new value. Queued packets stay in
    /// their segments.
    fn update_config(&self, _config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {}

    /// Steady state of equally overloaded queues, by the policy's closed form.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState;

    /// Description for `weir check`: paper section and parameters, one line each.
    fn describe(&self) -> Vec<String>;

    /// Policy's parameters for a port of this rate and a shared segment of this size, for `weir check`. The text completes a
    /// sentence that begins "a port of 10Gbps".
    fn describe_port(&self, _rate: BitRate, _shared: Bytes) -> Option<String> {
        None
    }

    /// Policy's state of a lossless ingress queue, for reports: the [gauges](weir_reader::Plugin::gauges) of its kind.
    fn gauges(&self, _queue: &QueueView) -> Gauges {
        Gauges::NONE
    }
}

/// State of the queue that a policy bounds.
#[derive(Clone, Copy, Debug)]
pub struct QueueView {
    /// Queue: a lossless ingress queue (port of arrival), or a lossy egress queue (port of departure).
    pub queue: QueueId,
    /// True for a lossless ingress queue, false for a lossy egress queue.
    pub lossless: bool,
    /// Length in bytes: w_s of a lossless ingress queue, the whole length of a lossy egress queue.
    pub length: u64,
    /// Average q̂ of the length, in bytes, rounded up.
    pub average: u64,
    /// Headroom occupancy w_h of a lossless ingress queue, in bytes.
    pub headroom: u64,
    /// Whether the queue is OFF.
    pub off: bool,
    /// Whether any queue of the ingress port is OFF; set only for a policy that [observes packets](BufferPolicy::observes_packets).
    pub port_off: bool,
    /// Occupancy of the shared segment.
    pub shared_pool: PoolLevel,
    /// Occupancy of the egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: PoolLevel,
    /// Instant of the decision.
    pub now: Time,
}

/// Rate of a port, for policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRate {
    /// C, the line rate of the link.
    pub line: BitRate,
    /// Rate of charges, in whole cells, under the frame length that fills the buffer fastest.
    pub fill: BitRate,
}

/// Bounds on the shared occupancy w_s of a lossless ingress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Admission bound: a packet goes to the shared segment if w_s, including the packet, is at most this, in bytes.
    pub admit: u64,
    /// Xoff in bytes: PAUSE when w_s reaches Xoff, RESUME below Xoff − δ.
    pub xoff: u64,
}

/// Parameters of port-level flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLevelFlowControl {
    /// Hysteresis δ_p in bytes: RESUME below X_poff − δ_p.
    pub xon_offset: u64,
}

/// Overload for which a closed form is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct OverloadCase {
    /// B_s, or the ingress pool, in bytes.
    pub shared: Bytes,
    /// Size of the egress lossy pool, in the four-pool model.
    pub egress_lossy: Option<Bytes>,
    /// Factor α of lossy classes.
    pub lossy_alpha: Alpha,
    /// Number n● of overloaded lossless ingress queues, of one class.
    pub lossless: u64,
    /// Number n° of overloaded lossy egress queues, of one class.
    pub lossy: u64,
}

/// Queue lengths of an overload in equilibrium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyState {
    /// Length of each lossless ingress queue.
    pub lossless: Bytes,
    /// Length of each lossy egress queue.
    pub lossy: Bytes,
}

impl Threshold {
    /// Creates the usual threshold, whose admission bound equals Xoff.
    #[inline]
    pub fn new(threshold: u64) -> Threshold {
        Threshold { admit: threshold, xoff: threshold }
    }
}

impl OverloadCase {
    /// Steady state of dynamic thresholds over one pool. `lossless` and `lossy` are the sums of the queues' α, so the free
    /// buffer is `B_s / (1 + lossless + lossy)`.
    fn shared_by_weight(&self, lossless: f64, lossy: f64) -> SteadyState {
        let free = self.shared.get() as f64 / (1.0 + lossless + lossy);
        SteadyState { lossless: each(lossless * free, self.lossless), lossy: each(lossy * free, self.lossy) }
    }
}

fn each(total: f64, queues: u64) -> Bytes {
    Bytes::new((total.max(0.0) / queues.max(1) as f64) as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use weir_units::Class;

    /// Empty lossless queue of class 3 in a shared segment with `used` of `capacity` bytes in use.
    pub(super) fn view(port: u16, capacity: u64, used: u64) -> QueueView {
        QueueView {
            queue: QueueId::new(PortId(port), Class::new(3)),
            lossless: true,
            length: 0,
            average: 0,
            headroom: 0,
            off: false,
            port_off: false,
            shared_pool: PoolLevel { capacity, used },
            egress_lossy_pool: PoolLevel::default(),
            now: Time::ZERO,
        }
    }

    /// Overload of one shared segment, α° = 1.
    pub(super) fn load(shared: u64, lossless: u64, lossy: u64) -> OverloadCase {
        OverloadCase { shared: Bytes::new(shared), egress_lossy: None, lossy_alpha: Alpha::ONE, lossless, lossy }
    }
}
