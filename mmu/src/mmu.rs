//! Lock-free memory management unit. [`placement`] holds the placement rule, [`admission`] charges packets, [`departure`] releases them and
//! [`passage`] does both at once. [`report`] reads occupancy, [`intake`] sums a burst by queue pair, [`whole`] admits several packets of a
//! queue in one step, and [`prefetch`] prefetches the cache lines involved.

mod admission;
mod departure;
mod intake;
mod passage;
mod placement;
mod prefetch;
mod report;
mod whole;

use std::fmt;

use crossbeam_utils::CachePadded;
use weir_units::archive::{SharedState, Value};
use weir_units::{Alpha, Bytes, CLASSES, Class, ClassSet, PortId, QueueId, Time};

use crate::egress_queue::EgressQueue;
use crate::ingress_queue::{IngressQueue, Limits};
use crate::layout::{BufferLayout, Headroom};
use crate::levels::{AtomicLevels, Levels};
use crate::low_pass::{Average, LowPass, whole_bytes};
use crate::one_writer::PortWriter;
use crate::policy::{LiveAlpha, Policy, PolicySettings, PortRate, QueueView};
use crate::pool::{Pool, PoolLevel};
use crate::rows::Rows;
use crate::signal::{Changed, Instant, OffQueues};
use crate::sync::{AtomicBool, Ordering};
use crate::xon::{LiveXon, Xon};

pub use departure::{DepartureRow, Gone, Leaving};
pub use intake::{Bundle, Group, INTAKE_MAX, Intake};
pub use report::{PoolUse, PoolWatermarks, QueueLevels, QueueUse, QueueWatermarks};

/// Memory management unit of one switch. The crate's documentation lists the callers of each method.
#[derive(SharedState)]
pub struct Mmu {
    #[state(same)]
    layout: BufferLayout,
    policy: Box<dyn Policy>,
    #[state(same)]
    rules: Rules,
    /// Factor α° of the threshold at which lossy classes drop.
    lossy_alpha: LiveAlpha,
    /// Factor α° of unscheduled packets; `None` uses `lossy_alpha`.
    #[state(same)]
    unscheduled_alpha: Option<Alpha>,
    /// Configured Xon; the default, at which Xon is T itself, under a policy without hysteresis.
    xon: LiveXon,
    shared: CachePadded<Pool>,
    headroom: Option<CachePadded<Pool>>,
    egress_lossy: Option<CachePadded<Pool>>,
    ingress: Box<[CachePadded<IngressQueue>]>,
    egress: Rows<EgressQueue>,
    ports: Box<[CachePadded<IngressPort>]>,
}

/// Properties that are fixed at construction, read from the policy once.
#[derive(Clone, Copy, Debug)]
struct Rules {
    low_pass: Option<LowPass>,
    /// Hysteresis δ_p of ports, under a policy with port-level flow control.
    port_xon_offset: Option<Bytes>,
    adapts_headroom: bool,
    /// Whether the policy observes arrivals and departures ([`Policy::listens`]).
    policy_listens: bool,
    /// Whether only queue lengths, thresholds and per-queue headroom matter: no filter, no policy callbacks, and no pool but the shared
    /// segment.
    is_plain: bool,
    /// Whether several packets of a queue may be admitted in one step ([`whole`]).
    may_be_whole: bool,
    /// Whether [`Mmu::pass`] may let a packet bypass the buffer: a plain MMU that one lcore owns.
    passes: bool,
}

/// Context of an admission or a departure.
struct Terms<'m> {
    rules: Rules,
    headroom: Option<&'m Pool>,
    egress_lossy: Option<&'m Pool>,
}

#[derive(Debug, SharedState)]
struct IngressPort {
    changed: Changed,
    off_queues: OffQueues,
    /// Port-level flow control: shared bytes of all queues, insurance headroom, and the port's OFF state.
    levels: AtomicLevels,
    off_at: Instant,
    /// Size of the insurance headroom, in bytes.
    #[state(same)]
    insurance: u32,
    /// Lossless classes; port-level flow control pauses them together.
    #[state(same)]
    lossless: ClassSet,
    #[state(same)]
    has_writer: AtomicBool,
}

/// Packet that requests buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Value)]
pub struct Arrival {
    /// Ingress queue: port of arrival and class.
    pub ingress: QueueId,
    /// Egress queue: port of departure and class.
    pub egress: QueueId,
    /// Charge in bytes, from [`crate::Charge::of`].
    pub bytes: u32,
}

/// Packet that was sent, with the queues and the charge of its [`Arrival`].
pub type Departure = Arrival;

/// Decision of the MMU on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Admitted, and charged to this segment of the ingress queue.
    Keep(Segment),
    /// Refused, and charged to nothing.
    Drop(DropReason),
}

/// Segment of the buffer that an admitted packet is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Private buffer ρ of the ingress queue.
    Private,
    /// Shared segment, under T(t).
    Shared,
    /// Headroom, after Xoff: the queue's own Φ, a pool's, or the port's insurance.
    Headroom,
}

/// Reason why the MMU refused a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Headroom of a lossless packet was full: the peer ignored PAUSE, or the headroom is too small.
    HeadroomViolation,
    /// Egress queue of a lossy packet was at its threshold.
    EgressThreshold,
    /// Shared segment was full for a lossy packet.
    SharedFull,
}

impl Mmu {
    /// Creates an empty MMU.
    ///
    /// A policy without hysteresis ignores `xon`. `lossy_alpha` is α° of lossy classes.
    pub fn new(layout: BufferLayout, policy: Box<dyn Policy>, xon: Xon, lossy_alpha: Alpha) -> Mmu {
        let limits = |port: PortId, class: Class| {
            let own = &layout.ports()[port.index()];
            Limits {
                private: own.private[class.index()].get() as u32,
                headroom: layout.in_headroom(own.headroom[class.index()]).get() as u32,
                lossless: layout.is_lossless(port, class),
            }
        };
        let port_ids = (0..layout.ports().len() as u16).map(PortId);
        let queues = port_ids.flat_map(|port| Class::ALL.map(|class| (port, class)));
        let pool = |size: Bytes| CachePadded::new(Pool::new(size.get()));
        let port = |id: PortId| IngressPort::new(&layout, id);
        let has_pools = matches!(layout.headroom_from(), Headroom::Pool(_)) || layout.egress_lossy().is_some();
        let goes_beyond = policy.low_pass().is_some() || policy.port_level().is_some() || policy.adapts_headroom();
        Mmu {
            shared: pool(layout.shared()),
            headroom: match layout.headroom_from() {
                Headroom::Pool(size) => Some(pool(layout.in_headroom(size))),
                _ => None,
            },
            egress_lossy: layout.egress_lossy().map(pool),
            ingress: queues.map(|(port, class)| CachePadded::new(IngressQueue::new(limits(port, class)))).collect(),
            egress: Rows::new(layout.ports().len() * CLASSES),
            ports: (0..layout.ports().len() as u16).map(|id| CachePadded::new(port(PortId(id)))).collect(),
            rules: Rules {
                low_pass: policy.low_pass(),
                port_xon_offset: policy.port_level().map(|level| Bytes::new(level.xon_offset)),
                adapts_headroom: policy.adapts_headroom(),
                policy_listens: policy.listens(),
                may_be_whole: policy.thresholds_fall(),
                is_plain: !has_pools && !goes_beyond && !policy.listens(),
                passes: false,
            },
            lossy_alpha: LiveAlpha::new(lossy_alpha),
            unscheduled_alpha: None,
            xon: LiveXon::new(if policy.has_hysteresis() { xon } else { Xon::default() }),
            layout,
            policy,
        }
    }

    /// Sets another α for unscheduled packets of lossy classes: those of a flow's first round trip, before the sender has any feedback
    /// (ABM, SIGCOMM 2022). `None` uses the α of lossy packets.
    pub fn with_unscheduled_alpha(mut self, alpha: Option<Alpha>) -> Mmu {
        self.unscheduled_alpha = alpha;
        self
    }

    /// Prepares the MMU for one lcore that receives and transmits on all ports, as in virtual time. Counters are then updated without
    /// atomic read-modify-write.
    pub fn for_one_lcore(mut self) -> Mmu {
        let pools = [Some(&mut self.shared), self.headroom.as_mut(), self.egress_lossy.as_mut()];
        pools.into_iter().flatten().for_each(|pool| pool.make_own());
        self.ingress.iter_mut().for_each(|queue| {
            queue.levels.make_own();
            queue.average.make_own();
        });
        self.egress = self.egress.close_together();
        self.egress.iter_mut().for_each(|queue| queue.make_own());
        self.ports.iter_mut().for_each(|port| port.levels.make_own());
        self.rules.passes = self.rules.is_plain && self.unscheduled_alpha.is_none();
        self
    }

    /// Sets the rate of a port's link. Thresholds that depend on the rate follow; the partition and its headroom stay. Returns the result
    /// of [`Policy::set_rate`].
    pub fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        self.policy.set_rate(port, rate)
    }

    /// Updates the policy's runtime-changeable parameters ([`Policy::retune`]), Xon, and α° of lossy classes. Called by a control thread
    /// while lcores run.
    ///
    /// A queue above its new threshold goes OFF with its next packet. An OFF queue below its new threshold resumes when its port is served
    /// next.
    pub fn retune(&self, settings: &dyn PolicySettings, xon: Xon, lossy_alpha: Alpha) {
        self.policy.retune(settings, &self.layout);
        if self.policy.has_hysteresis() {
            self.xon.set(xon);
        }
        self.lossy_alpha.set(lossy_alpha);
    }

    /// Current α° of lossy classes.
    pub fn lossy_alpha(&self) -> Alpha {
        self.lossy_alpha.get()
    }

    /// Right to admit packets of an ingress port; `None` after the first call.
    pub fn writer(&self, port: PortId) -> Option<PortWriter> {
        let taken = self.ports[port.index()].has_writer.swap(true, Ordering::Relaxed);
        (!taken).then(|| PortWriter::new(port))
    }

    /// Classes that the peer of `port` should pause. `before` is the previous answer, returned unchanged if nothing has changed
    /// since.
    #[inline]
    pub fn off_classes(&self, port: PortId, before: ClassSet) -> ClassSet {
        let changed = self.ports[port.index()].changed.take();
        if changed.is_empty() { before } else { self.off_classes_now(port, before, changed) }
    }

    #[inline(never)]
    fn off_classes_now(&self, port: PortId, before: ClassSet, changed: ClassSet) -> ClassSet {
        let own = &self.ports[port.index()];
        let whole_port = self.rules.port_xon_offset.is_some() && own.levels.load().off;
        changed.iter().fold(before, |off, class| {
            let queue = &self.ingress[QueueId::new(port, class).index()];
            if whole_port || queue.levels.load().off { off | class.alone() } else { off - class.alone() }
        })
    }

    /// Arrival time of the packet that turned a class of `port` OFF, by its own queue or by port-level flow control; `None` if
    /// the class is ON.
    pub fn off_since(&self, port: PortId, class: Class) -> Option<Time> {
        let (port, queue) = (&self.ports[port.index()], &self.ingress[QueueId::new(port, class).index()]);
        let whole_port = self.rules.port_xon_offset.is_some() && port.levels.load().off;
        let of_port = whole_port.then(|| port.off_at.get());
        let of_queue = queue.levels.load().off.then(|| queue.off_at());
        of_queue.into_iter().chain(of_port).min()
    }

    #[inline]
    fn terms(&self) -> Terms<'_> {
        Terms { rules: self.rules, headroom: self.headroom.as_deref(), egress_lossy: self.egress_lossy.as_deref() }
    }

    /// Terms of a plain MMU ([`Rules::is_plain`]) as constants, so that absent parts cost nothing.
    #[inline(always)]
    fn plain_terms(&self) -> Terms<'_> {
        debug_assert!(self.rules.is_plain);
        let Rules { may_be_whole, passes, .. } = self.rules;
        let rules = Rules {
            low_pass: None,
            port_xon_offset: None,
            adapts_headroom: false,
            policy_listens: false,
            is_plain: true,
            may_be_whole,
            passes,
        };
        Terms { rules, headroom: None, egress_lossy: None }
    }

    #[inline]
    fn ingress_view(&self, rules: &Rules, id: QueueId, levels: Levels, pool: PoolLevel, now: Time) -> QueueView {
        let length = u64::from(levels.shared);
        QueueView {
            queue: id,
            lossless: true,
            length,
            average: rules.compared(rules.filtered(&self.ingress[id.index()].average), length),
            headroom: u64::from(levels.headroom),
            off: levels.off,
            port_off: rules.policy_listens && self.ports[id.port().index()].off_queues.any(),
            shared_pool: pool,
            egress_lossy_pool: PoolLevel::default(),
            now,
        }
    }

    #[inline]
    fn egress_view(&self, terms: &Terms<'_>, id: QueueId, length: u64, pool: PoolLevel, now: Time) -> QueueView {
        let rules = &terms.rules;
        QueueView {
            queue: id,
            lossless: false,
            length,
            average: rules.compared(rules.filtered(&self.egress[id.index()].average), length),
            headroom: 0,
            off: false,
            port_off: false,
            shared_pool: pool,
            egress_lossy_pool: terms.egress_lossy.map_or(PoolLevel::default(), |pool| pool.level()),
            now,
        }
    }

    /// Splits packets into runs of neighbours that belong to one queue.
    #[inline]
    fn runs<'p>(&self, packets: &'p [Arrival]) -> impl Iterator<Item = &'p [Arrival]> {
        packets.chunk_by(|one, next| {
            one.ingress == next.ingress
                && (one.egress == next.egress || self.ingress[one.ingress.index()].limits.lossless)
        })
    }

    /// Records that a queue went OFF or ON, for its port and for the next [`Mmu::off_classes`].
    #[inline]
    fn note_turn(&self, id: QueueId, off: bool, now: Time) {
        let port = &self.ports[id.port().index()];
        port.off_queues.note(off);
        if off {
            self.ingress[id.index()].note_off(now);
        }
        port.changed.mark(id.class().alone());
    }
}

impl Rules {
    /// Returns q̂ under a policy that filters; otherwise 0, without a load.
    #[inline]
    fn filtered(&self, average: &Average) -> u64 {
        if self.low_pass.is_some() { average.load() } else { 0 }
    }

    /// Length that thresholds are compared with: q̂ in whole bytes under a policy that filters, otherwise the length itself.
    #[inline]
    fn compared(&self, average: u64, length: u64) -> u64 {
        if self.low_pass.is_some() { whole_bytes(average) } else { length }
    }
}

#[inline]
fn total(packets: &[Arrival]) -> u64 {
    if let [packet] = packets {
        return u64::from(packet.bytes);
    }
    packets.iter().map(|packet| u64::from(packet.bytes)).sum()
}

impl IngressPort {
    fn new(layout: &BufferLayout, id: PortId) -> IngressPort {
        let port = &layout.ports()[id.index()];
        IngressPort {
            changed: Changed::default(),
            off_queues: OffQueues::default(),
            levels: AtomicLevels::default(),
            off_at: Instant::default(),
            insurance: match layout.headroom_from() {
                Headroom::PerPort => layout.in_headroom(port.headroom_max()).get() as u32,
                _ => 0,
            },
            lossless: port.lossless,
            has_writer: AtomicBool::new(false),
        }
    }
}

impl fmt::Debug for Mmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmu").field("policy", &self.policy).field("pool", &self.pool_use()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
