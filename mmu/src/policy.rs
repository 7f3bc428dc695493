//! Buffer policies: what sets the thresholds of ingress queues, and of lossy egress queues.
//!
//! One file a policy: its name, keys, rules, layout needs, thresholds, closed form, and gauges. The packet path knows only
//! [`Policy`], whoever reads files only [`PolicyKind`] and [`PolicySettings`]. A new policy is a new file here and its line in
//! the list of `registry.rs`; one of a program of someone else's is added to [`POLICIES`]. `docs/POLICIES.md` shows how.
//!
//! Beside the policies stand the instruments that several of them read: [`congestion`] counts congested queues,
//! [`departures`] measures drain rates, [`gradient`] estimates how much headroom a queue will need.

mod abm;
mod adaptive_headroom;
mod dsh;
mod dynamic_threshold;
mod kind;
mod live;
mod needs;
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

use weir_units::archive::{Archive, SharedState};
use weir_units::{Alpha, BitRate, Bytes, PortId, QueueId, Time};

use crate::layout::BufferLayout;
pub use crate::low_pass::LowPass;
pub use crate::one_writer::{PortWords, PortWriter, QueueWords};
pub use crate::pool::PoolLevel;
pub use abm::{Abm, AbmSettings, DrainOf, DrainPorts};
pub use adaptive_headroom::{AdaptiveHeadroom, AdaptiveSettings};
pub use dsh::{Dsh, DshParameters, DshSettings, Estimator};
pub use dynamic_threshold::{DtSettings, DynamicThreshold};
pub use kind::{
    ALPHA, BuildContext, CongestedAt, ConstantThreshold, FileFacts, HEADROOM_ESTIMATE, PolicyError, PolicyKind,
    PolicySettings, PortSizes, Sizes, longest_window,
};
pub use live::{LiveAlpha, LiveBytes};
pub use needs::{HeadroomNeeds, LayoutNeeds, PoolSizes};
pub use oversubscription::OversubscribedSettings;
pub use pools::Pools;
pub use registry::{DEFAULT, POLICIES, known_tables, settings};
pub use reverie::{FilterAt, Reverie, ReverieSettings};
pub use sih::SihSettings;
pub use sonic::{Sonic, SonicSettings};
pub use spfc::{Spfc, SpfcSettings, VICTIM, VictimAt, k_spfc_bounds};
pub use static_threshold::{StaticSettings, StaticThreshold};
pub use weir_reader::{Gauge, Gauges, Unit};

impl SharedState for dyn Policy {
    fn shared_state(&self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

/// A buffer policy: asked about every packet that private buffer does not take, by any lcore, in the midst of a
/// compare-and-swap. It decides from what it is told, and from state of its own that is atomic.
///
/// Only [`name`](Policy::name), [`threshold`](Policy::threshold), [`steady_state`](Policy::steady_state) and
/// [`describe`](Policy::describe) must be written; the rest has the usual answer.
pub trait Policy: Debug + Send + Sync {
    /// The name by which a configuration chooses the policy.
    fn name(&self) -> &'static str;

    /// Goes over what the policy keeps, for a checkpoint of a run in virtual time: what changes while the run goes on, derived by
    /// [`SharedState`] where it is in atomics, and nothing of a policy that keeps nothing. One that does not say is refused by name
    /// where a checkpoint is asked for.
    fn checkpoint(&self, archive: &mut Archive) {
        archive.refuse(&format!("policy `{}`", self.name()));
    }

    /// T(t) for the shared occupancy w_s of a lossless ingress queue.
    fn threshold(&self, queue: &QueueView) -> Threshold;

    /// The threshold as reports show it, in bytes.
    fn threshold_shown(&self, queue: &QueueView) -> u64 {
        self.threshold(queue).xoff
    }

    /// The longest that a lossy egress queue may get, with the packet that arrives. `alpha` is the configured α of
    /// lossy classes; DT over the shared segment, unless a policy has another rule.
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        alpha.of(Bytes::new(queue.shared_pool.free())).get()
    }

    /// Whether thresholds fall, or stay, as packets are placed: with more bytes in the queue and in the pools, or a higher average,
    /// and all else as it was, neither [`threshold`](Policy::threshold) nor [`lossy_threshold`](Policy::lossy_threshold) nor
    /// [`port_threshold`](Policy::port_threshold) is higher. Packets of a queue are then kept together, after one question, where
    /// each of them would be kept.
    fn thresholds_fall(&self) -> bool {
        false
    }

    /// Whether the policy is to be told of what [arrives](Policy::arrive), [is admitted](Policy::admitted) and [is
    /// released](Policy::released). One that goes by the queues' lengths alone saves the MMU the telling.
    fn listens(&self) -> bool {
        true
    }

    /// Packets of `bytes` together arrive for a lossless ingress queue; the queue is as it was before them.
    fn arrive(&self, _writer: &mut PortWriter, _queue: &QueueView, _bytes: u64) {}

    /// Arrivals were placed, and this is what has become of the queue that the policy bounds: the ingress queue of
    /// lossless packets, the egress queue of lossy ones.
    fn admitted(&self, _writer: &mut PortWriter, _queue: &QueueView) {}

    /// Packets of `bytes` together left that had arrived at `ingress`; `queue` as in [`admitted`](Policy::admitted).
    fn released(&self, _ingress: QueueId, _bytes: u64, _queue: &QueueView) {}

    /// The filter whose q̂ is to stand in [`QueueView::average`]; without one, that is the length itself.
    fn low_pass(&self) -> Option<LowPass> {
        None
    }

    /// Whether RESUME waits until w_s is δ below Xoff. A policy that does not compare w_s has no use for that.
    fn has_hysteresis(&self) -> bool {
        true
    }

    /// Flow control of whole ports beside that of queues, if the policy has it.
    fn port_level(&self) -> Option<PortLevel> {
        None
    }

    /// X_poff: where all classes of a port are paused, by the shared bytes of all its queues. Asked only under
    /// [`port_level`](Policy::port_level) flow control.
    fn port_threshold(&self, _port: PortId, _shared_pool: PoolLevel) -> u64 {
        u64::MAX
    }

    /// Whether [`headroom`](Policy::headroom) is to be asked.
    fn adapts_headroom(&self) -> bool {
        false
    }

    /// Φ that a lossless ingress queue should have from now on, at most what the layout gave it; what it has less goes
    /// to the shared segment.
    fn headroom(&self, _queue: QueueId) -> Bytes {
        Bytes::ZERO
    }

    /// A port's link has another rate from now on: what the policy derives from it follows. Told by a control thread while
    /// lcores go on; they may see parts of it a packet late. False if the policy can't work at that rate, so that it goes on
    /// with the one before.
    ///
    /// Adaptive headroom is never told: it starts from the rule's, for which each port has a rate of its own.
    fn set_rate(&self, _port: PortId, _rate: PortRate) -> bool {
        true
    }

    /// Takes over the parameters of these settings, of the policy's own kind, that are among its
    /// [`live_keys`](PolicySettings::live_keys); all others are what they were. Called by a control thread while lcores go on:
    /// each decision is by the old value or by the new one. What queues hold stays where it is.
    fn retune(&self, _settings: &dyn PolicySettings, _layout: &BufferLayout) {}

    /// Where equally overloaded queues come to rest, by the policy's closed form.
    fn steady_state(&self, load: &Load) -> SteadyState;

    /// What the policy is: paper section and parameters, a line each, for `weir check`.
    fn describe(&self) -> Vec<String>;

    /// What it makes of a port of this rate beside a shared segment, if anything: the rest of a sentence that begins "a port of
    /// 10Gbps", for `weir check`.
    fn describe_port(&self, _rate: BitRate, _shared: Bytes) -> Option<String> {
        None
    }

    /// The policy's own state of a lossless ingress queue, for reports: the [gauges](weir_reader::Named::gauges) of its kind.
    fn observe(&self, _queue: &QueueView) -> Gauges {
        Gauges::NONE
    }
}

/// What a policy is told of the queue that it bounds.
#[derive(Clone, Copy, Debug)]
pub struct QueueView {
    /// A lossless ingress queue (port of arrival), or a lossy egress queue (port of departure).
    pub queue: QueueId,
    /// Which of them.
    pub lossless: bool,
    /// Bytes: w_s of a lossless ingress queue, the whole length of a lossy egress queue.
    pub length: u64,
    /// q̂ of the length, in bytes, rounded up.
    pub average: u64,
    /// w_h of a lossless ingress queue.
    pub headroom: u64,
    /// Whether the queue is OFF.
    pub off: bool,
    /// Whether any queue of the ingress port is; told to a policy that [listens](Policy::listens).
    pub port_off: bool,
    /// The shared segment.
    pub shared_pool: PoolLevel,
    /// The egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: PoolLevel,
    /// When.
    pub now: Time,
}

/// A port's rate, as policies go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRate {
    /// C, the link's.
    pub line: BitRate,
    /// At which the frames that fill the buffer most do so, charged in whole cells.
    pub fill: BitRate,
}

/// What bounds the shared occupancy w_s of a lossless ingress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// A packet goes to the shared segment if w_s, with it, is at most this.
    pub admit: u64,
    /// PAUSE when w_s reaches this; RESUME below this less δ.
    pub xoff: u64,
}

/// Flow control of whole ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLevel {
    /// δ_p: RESUME below X_poff − δ_p.
    pub xon_offset: u64,
}

/// A load for which a closed form is asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// B_s, or the ingress pool.
    pub shared: Bytes,
    /// The egress lossy pool, in the four-pool model.
    pub egress_lossy: Option<Bytes>,
    /// α of lossy classes.
    pub lossy_alpha: Alpha,
    /// n●: overloaded lossless ingress queues, of one class.
    pub lossless: u64,
    /// n°: overloaded lossy egress queues, of one class.
    pub lossy: u64,
}

/// Where a load comes to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyState {
    /// Each lossless ingress queue.
    pub lossless: Bytes,
    /// Each lossy egress queue.
    pub lossy: Bytes,
}

impl Threshold {
    /// The usual: admitted up to where it pauses.
    #[inline]
    pub fn at(threshold: u64) -> Threshold {
        Threshold { admit: threshold, xoff: threshold }
    }
}

impl Load {
    /// The steady state of dynamic thresholds over one pool, where all lossless queues together weigh `lossless` times
    /// the free buffer and all lossy ones `lossy` times: the free buffer is `B_s / (1 + lossless + lossy)`.
    fn shared_by_weight(&self, lossless: f64, lossy: f64) -> SteadyState {
        let free = self.shared.get() as f64 / (1.0 + lossless + lossy);
        SteadyState { lossless: each(lossless * free, self.lossless), lossy: each(lossy * free, self.lossy) }
    }
}

/// An even share of a total, rounded down.
fn each(total: f64, queues: u64) -> Bytes {
    Bytes::new((total.max(0.0) / queues.max(1) as f64) as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use weir_units::Class;

    /// A lossless queue of class 3 that holds nothing, in a shared segment with `used` of `capacity` bytes in use.
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

    /// A load on one shared segment, α° = 1.
    pub(super) fn load(shared: u64, lossless: u64, lossy: u64) -> Load {
        Load { shared: Bytes::new(shared), egress_lossy: None, lossy_alpha: Alpha::ONE, lossless, lossy }
    }
}
