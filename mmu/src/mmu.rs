//! Lock-free memory management unit. [`placement`] holds the placement rule, [`admission`] charges packets, [`departure`] releases them and
//! [`buffer_bypass`] does both at once. [`lending`] lends headroom of OFF queues, [`slices`] divides the pools, [`report`] reads occupancy,
//! [`burst_request`] sums a burst by route, [`bulk`] admits several packets of a queue in one step, and [`prefetch`] prefetches the cache lines
//! involved.

mod admission;
mod buffer_bypass;
mod bulk;
mod burst_request;
mod conservation;
mod departure;
pub(crate) mod lending;
mod placement;
mod prefetch;
mod report;
mod shared_budget;
mod slices;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use weir_units::{Alpha, Bytes, CLASSES, Class, ClassSet, DropReason, PortId, QueueId, Time};

use crate::egress_queue::EgressQueue;
use crate::ingress_queue::{IngressQueue, PersistentWatermarks, QueueLimits};
use crate::layout::{BufferLayout, Headroom, PortLayout};
use crate::low_pass::{Average, LowPass, bytes_ceil};
use crate::occupancy::{AtomicOccupancy, Occupancy};
use crate::padded_rows::PaddedRows;
use crate::policy::{AtomicAlpha, BufferPolicy, BufferPolicyConfig, PortRate, QueueView};
use crate::pool::{Pool, PoolLevel};
use crate::signal::{ChangedClasses, LastXoff, XoffQueues};
use crate::single_writer::PortWriter;
use crate::sync::{AtomicBool, Ordering};
use crate::xon::{AtomicXon, Xon};

pub use burst_request::{BURST_REQUEST_MAX, BurstRequest, RouteGroup, RouteTotal};
pub use departure::{DepartureBatch, PendingBytes, PendingReleases};
pub use report::{PoolUsage, PoolWatermarks, QueueOccupancy, QueueUsage, QueueWatermarks};

/// Memory management unit of one switch. The crate's documentation lists the callers of each method.
pub struct Mmu {
    layout: BufferLayout,
    policy: Box<dyn BufferPolicy>,
    flags: PolicyFlags,
    /// Factor α° of the threshold at which lossy classes drop.
    lossy_alpha: AtomicAlpha,
    /// Factor α° of unscheduled packets; `None` uses `lossy_alpha`.
    unscheduled_alpha: Option<Alpha>,
    /// Configured Xon; the default, at which Xon is T itself, under a policy without hysteresis.
    xon: AtomicXon,
    shared: CachePadded<Pool>,
    headroom: Option<Arc<CachePadded<Pool>>>,
    egress_lossy: Option<CachePadded<Pool>>,
    ingress: Arc<[CachePadded<IngressQueue>]>,
    /// Earlier peaks of each ingress queue; allocated with the first restart of watermarks.
    persistent: OnceLock<Box<[PersistentWatermarks]>>,
    egress: PaddedRows<EgressQueue>,
    ports: Arc<[CachePadded<IngressPort>]>,
    /// MMUs of the [`slices`], if there are several; the pools above then hold nothing.
    slices: Box<[Mmu]>,
}

/// Properties that are fixed at construction, read from the policy once.
#[derive(Clone, Copy, Debug)]
struct PolicyFlags {
    low_pass: Option<LowPass>,
    /// Hysteresis δ_p of ports, under a policy with port-level flow control.
    port_xon_offset: Option<Bytes>,
    /// Whether admission takes more than pools and thresholds: headroom that adapts, or [`slices`].
    is_special: bool,
    /// Whether OFF queues lend their headroom ([`lending`]).
    lends_headroom: bool,
    /// Whether the policy observes arrivals and departures ([`BufferPolicy::observes_packets`]).
    observes_packets: bool,
    /// Whether only queue lengths, thresholds and per-queue headroom matter: no filter, no policy callbacks, and no pool but the shared
    /// segment.
    is_plain: bool,
    /// Whether several packets of a queue may be admitted in one step ([`bulk`]).
    may_admit_bulk: bool,
    /// Whether [`Mmu::bypass_buffer`] may let a packet bypass the buffer: a plain MMU that one lcore owns.
    may_bypass: bool,
}

/// Context of an admission or a departure.
struct ChargeContext<'m> {
    flags: PolicyFlags,
    headroom: Option<&'m Pool>,
    egress_lossy: Option<&'m Pool>,
}

#[derive(Debug)]
struct IngressPort {
    changed: ChangedClasses,
    off_queues: XoffQueues,
    /// Port-level flow control: shared bytes of all queues, insurance headroom, and the port's OFF state.
    occupancy: AtomicOccupancy,
    off_at: LastXoff,
    /// Size of the insurance headroom, in bytes.
    insurance: u32,
    /// Lossless classes; port-level flow control pauses them together.
    lossless: ClassSet,
    has_writer: AtomicBool,
}

/// Packet that requests buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferRequest {
    /// Ingress queue: port of arrival and class.
    pub ingress: QueueId,
    /// Egress queue: port of departure and class.
    pub egress: QueueId,
    /// Charge in bytes, from [`crate::Charge::frame_charge`].
    pub bytes: u32,
}

/// Packet that was sent, with the queues and the charge of its request.
pub type BufferRelease = BufferRequest;

/// Decision of the MMU on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Admitted, and charged to this segment of the ingress queue.
    Admit(Segment),
    /// Refused, and charged to nothing. The reason is one of the first three.
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

impl Mmu {
    /// Memory of a port in an MMU for one lcore, without that of the policy.
    pub const PORT_BYTES: usize = size_of::<CachePadded<IngressPort>>()
        + CLASSES * (size_of::<CachePadded<IngressQueue>>() + PaddedRows::<EgressQueue>::ROW_BYTES)
        + size_of::<PortLayout>();

    /// Creates an empty MMU.
    ///
    /// A policy without hysteresis ignores `xon`. `lossy_alpha` is α° of lossy classes.
    pub fn new(layout: BufferLayout, policy: Box<dyn BufferPolicy>, xon: Xon, lossy_alpha: Alpha) -> Mmu {
        let limits = |port: PortId, class: Class| {
            let own = &layout.ports()[port.index()];
            QueueLimits {
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
        let goes_beyond =
            policy.low_pass().is_some() || policy.port_level_flow_control().is_some() || policy.adapts_headroom();
        assert!(
            !policy.lends_headroom() || matches!(layout.headroom_from(), Headroom::PerQueue),
            "queues lend their own headroom"
        );
        Mmu {
            shared: pool(layout.shared()),
            headroom: match layout.headroom_from() {
                Headroom::Pool(size) => Some(Arc::new(pool(layout.in_headroom(size)))),
                _ => None,
            },
            egress_lossy: layout.egress_lossy().map(pool),
            ingress: queues.map(|(port, class)| CachePadded::new(IngressQueue::new(limits(port, class)))).collect(),
            persistent: OnceLock::new(),
            egress: PaddedRows::new(layout.ports().len() * CLASSES),
            ports: (0..layout.ports().len() as u16).map(|id| CachePadded::new(port(PortId(id)))).collect(),
            flags: PolicyFlags {
                low_pass: policy.low_pass(),
                port_xon_offset: policy.port_level_flow_control().map(|level| Bytes::new(level.xon_offset)),
                is_special: policy.adapts_headroom(),
                lends_headroom: policy.lends_headroom(),
                observes_packets: policy.observes_packets(),
                may_admit_bulk: policy.has_non_increasing_thresholds(),
                is_plain: !has_pools && !goes_beyond && !policy.observes_packets() && !policy.lends_headroom(),
                may_bypass: false,
            },
            lossy_alpha: AtomicAlpha::new(lossy_alpha),
            unscheduled_alpha: None,
            xon: AtomicXon::new(if policy.has_hysteresis() { xon } else { Xon::default() }),
            slices: Box::default(),
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
        let slices = self.take_slices();
        let headroom = self.headroom.as_mut().map(exclusive);
        let pools = [Some(&mut self.shared), headroom, self.egress_lossy.as_mut()];
        pools.into_iter().flatten().for_each(|pool| pool.make_own());
        exclusive(&mut self.ingress).iter_mut().for_each(|queue| {
            queue.occupancy.make_own();
            queue.average.make_own();
        });
        self.egress = self.egress.close_together();
        self.egress.iter_mut().for_each(|queue| queue.make_own());
        exclusive(&mut self.ports).iter_mut().for_each(|port| port.occupancy.make_own());
        self.flags.may_bypass = self.flags.is_plain && self.unscheduled_alpha.is_none();
        self.with_slices(slices.into_iter().map(Mmu::for_one_lcore).collect())
    }

    /// Sets the rate of a port's link. Thresholds that depend on the rate follow; the partition and its headroom stay. Returns the result
    /// of [`BufferPolicy::set_rate`].
    pub fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        for slice in &self.slices {
            slice.policy.set_rate(port, rate);
        }
        self.policy.set_rate(port, rate)
    }

    /// Updates the policy's runtime-changeable parameters ([`BufferPolicy::update_config`]), Xon, and α° of lossy classes. Called by a
    /// control thread while lcores run.
    ///
    /// A queue above its new threshold goes OFF with its next packet. An OFF queue below its new threshold resumes when its port is served
    /// next.
    pub fn update_config(&self, config: &dyn BufferPolicyConfig, xon: Xon, lossy_alpha: Alpha) {
        for mmu in self.slices.iter().chain([self]) {
            mmu.policy.update_config(config, &self.layout);
            if mmu.policy.has_hysteresis() {
                mmu.xon.set(xon);
            }
            mmu.lossy_alpha.set(lossy_alpha);
        }
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
        let is_port_off = self.flags.port_xon_offset.is_some() && own.occupancy.load().off;
        changed.iter().fold(before, |off, class| {
            let queue = &self.ingress[QueueId::new(port, class).index()];
            if is_port_off || queue.occupancy.load().off { off | class.alone() } else { off - class.alone() }
        })
    }

    /// Arrival time of the packet that turned a class of `port` OFF, by its own queue or by port-level flow control; `None` if
    /// the class is ON.
    pub fn off_since(&self, port: PortId, class: Class) -> Option<Time> {
        let (port, queue) = (&self.ports[port.index()], &self.ingress[QueueId::new(port, class).index()]);
        let is_port_off = self.flags.port_xon_offset.is_some() && port.occupancy.load().off;
        let of_port = is_port_off.then(|| port.off_at.get());
        let of_queue = queue.occupancy.load().off.then(|| queue.off_at());
        of_queue.into_iter().chain(of_port).min()
    }

    #[inline]
    fn context(&self) -> ChargeContext<'_> {
        ChargeContext {
            flags: self.flags,
            headroom: self.headroom.as_deref().map(|pool| &**pool),
            egress_lossy: self.egress_lossy.as_deref(),
        }
    }

    /// Context of a plain MMU ([`PolicyFlags::is_plain`]) as constants, so that absent parts cost nothing.
    #[inline(always)]
    fn plain_context(&self) -> ChargeContext<'_> {
        debug_assert!(self.flags.is_plain);
        let PolicyFlags { may_admit_bulk, may_bypass, .. } = self.flags;
        let flags = PolicyFlags {
            low_pass: None,
            port_xon_offset: None,
            is_special: false,
            lends_headroom: false,
            observes_packets: false,
            is_plain: true,
            may_admit_bulk,
            may_bypass,
        };
        ChargeContext { flags, headroom: None, egress_lossy: None }
    }

    #[inline]
    fn ingress_view(
        &self,
        flags: &PolicyFlags,
        id: QueueId,
        occupancy: Occupancy,
        pool: PoolLevel,
        now: Time,
    ) -> QueueView {
        let length = u64::from(occupancy.shared);
        QueueView {
            queue: id,
            lossless: true,
            length,
            average: flags.compared(flags.filtered(&self.ingress[id.index()].average), length),
            headroom: u64::from(occupancy.headroom),
            off: occupancy.off,
            port_off: flags.observes_packets && self.ports[id.port().index()].off_queues.any(),
            shared_pool: pool,
            egress_lossy_pool: PoolLevel::default(),
            now,
        }
    }

    #[inline]
    fn egress_view(
        &self,
        context: &ChargeContext<'_>,
        id: QueueId,
        length: u64,
        pool: PoolLevel,
        now: Time,
    ) -> QueueView {
        let flags = &context.flags;
        QueueView {
            queue: id,
            lossless: false,
            length,
            average: flags.compared(flags.filtered(&self.egress[id.index()].average), length),
            headroom: 0,
            off: false,
            port_off: false,
            shared_pool: pool,
            egress_lossy_pool: context.egress_lossy.map_or(PoolLevel::default(), |pool| pool.level()),
            now,
        }
    }

    /// Splits packets into runs of neighbours that belong to one queue.
    #[inline]
    fn runs<'p>(&self, packets: &'p [BufferRequest]) -> impl Iterator<Item = &'p [BufferRequest]> {
        packets.chunk_by(|one, next| {
            one.ingress == next.ingress
                && (one.egress == next.egress || self.ingress[one.ingress.index()].limits.lossless)
        })
    }

    /// Records that a queue went OFF or ON, for its port and for the next [`Mmu::off_classes`].
    #[inline]
    fn note_transition(&self, id: QueueId, off: bool, now: Time) {
        let port = &self.ports[id.port().index()];
        port.off_queues.note(off);
        if off {
            self.ingress[id.index()].note_off(now);
        }
        port.changed.mark(id.class().alone());
    }
}

impl PolicyFlags {
    /// Returns q̂ under a policy that filters; otherwise 0, without a load.
    #[inline]
    fn filtered(&self, average: &Average) -> u64 {
        if self.low_pass.is_some() { average.load() } else { 0 }
    }

    /// Length that thresholds are compared with: q̂ in whole bytes under a policy that filters, otherwise the length itself.
    #[inline]
    fn compared(&self, average: u64, length: u64) -> u64 {
        if self.low_pass.is_some() { bytes_ceil(average) } else { length }
    }
}

impl IngressPort {
    fn new(layout: &BufferLayout, id: PortId) -> IngressPort {
        let port = &layout.ports()[id.index()];
        IngressPort {
            changed: ChangedClasses::default(),
            off_queues: XoffQueues::default(),
            occupancy: AtomicOccupancy::default(),
            off_at: LastXoff::default(),
            insurance: match layout.headroom_from() {
                Headroom::PerPort => layout.in_headroom(port.headroom_max()).get() as u32,
                _ => 0,
            },
            lossless: port.lossless,
            has_writer: AtomicBool::new(false),
        }
    }
}

/// The value of an MMU that is not shared yet.
fn exclusive<T: ?Sized>(value: &mut Arc<T>) -> &mut T {
    Arc::get_mut(value).expect("an MMU alone")
}

impl fmt::Debug for Mmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmu").field("policy", &self.policy).field("pool", &self.pool_usage()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
