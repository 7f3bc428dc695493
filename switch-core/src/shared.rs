//! State of a switch that every lcore reads. Changes at run time go through atomics.

mod link_rate;
mod packet_context;
mod runtime_config;

pub(crate) use link_rate::LinkRate;
pub use link_rate::RateChange;
pub use packet_context::PacketContext;
pub(crate) use runtime_config::RuntimeConfig;

use std::slice::from_ref;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use prefetch_index::prefetch_index;
use weir_config::TelemetryQueue;
use weir_flowctl::pfc::StormCounters;
use weir_flowctl::{MessageKind, PortFlowControl, ReceiveAccounting, TxRegulator};
use weir_load_balancing::PathSelectorChoice;
use weir_mmu::{Charge, Mmu};
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, PortId, QueueId, Time};

use crate::classify::Classifier;
use crate::fdb::ForwardingTable;
use crate::line_time::{LineTimeCounters, LineTimeLoss};
use crate::storm_counters::SharedStormCounters;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::utilisation::DigestEncoder;
use crate::vlans::Vlans;

/// State shared by all lcores of a switch.
#[derive(Debug)]
pub struct Shared {
    /// Shared buffer: admission, occupancy, and flow-control state of the queues.
    pub mmu: Mmu,
    /// Forwarding database (802.1Q 8.8).
    pub fdb: ForwardingTable,
    /// VLANs; `None` for a switch that carries tags unchanged.
    pub vlans: Option<Box<Vlans>>,
    pub(crate) classifier: Classifier,
    pub(crate) charge: Charge,
    /// Classes whose frames are charged 0 bytes; only in virtual time.
    pub(crate) unbuffered: ClassSet,
    /// Longest frame that is forwarded, in bytes without FCS.
    pub(crate) frame_bytes_max: u32,
    /// Classes that a peer's PFC can pause.
    pub(crate) obeyed: ClassSet,
    /// Bytes of link time per frame beyond its length without FCS.
    pub(crate) link_overhead: Bytes,
    /// True if frames that ask for it are stamped with the egress port's state.
    pub(crate) stamps: bool,
    /// Queue that stamps contain.
    pub(crate) telemetry_queue: TelemetryQueue,
    /// Encoder of ports' digests; `None` where frames get none.
    pub(crate) digest_encoder: Option<DigestEncoder>,
    /// True if source addresses are learned.
    pub(crate) learns: bool,
    /// Limit of the frames that each port may flood, in bits per second; 0 for none.
    pub(crate) storm_control: AtomicU64,
    /// Seed of the ECMP hash, so that neighbours choose differently among ports of equal cost.
    pub(crate) hash_seed: u32,
    /// Choice among ports of equal cost.
    pub(crate) load_balancing: PathSelectorChoice,
    /// Seed of the forwarders' random numbers.
    pub(crate) random_seed: u64,
    /// Bitmap of ports that were ever closed. Bit n stands for the ports n, n + 64, …. It is mostly 0, and frames then skip the look at
    /// their ports.
    pub(crate) ever_closed: AtomicU64,
    pub(crate) ports: Box<[PortState]>,
    /// Egress queue configuration that transmitters take over.
    pub(crate) runtime_config: RuntimeConfig,
}

/// State of one port, shared by all lcores. Fields that are read for each frame come first; written fields have cache lines of their own.
#[derive(Debug)]
#[repr(C)]
pub struct PortState {
    /// Bitmap of conditions that stop frames ([`DROPPING`], [`IN_STORM`], [`LINK_DOWN`], [`ADMIN_DOWN`] and [`BLOCKED`]), and of changes
    /// that the port's transmitter has not taken over ([`LINK_CHANGED`], [`NEW_RATE`], [`NEW_RUNTIME_CONFIG`], [`RATE_SET`] and
    /// [`NEW_FLOW_CONTROL`]).
    flags: AtomicU32,
    /// Port whose ingress a clone copies; the port itself if it is no clone.
    pub real_port: PortId,
    /// True if each arrival may make a message due: [`FlowControl::uses_queue_length`](weir_flowctl::FlowControl::uses_queue_length).
    pub(crate) by_length: bool,
    /// True if `admitted_at` is kept.
    records_admitted: bool,
    /// Source address of control frames.
    pub mac: MacAddr,
    /// Line rate C, for quanta and the shaper, and the speed of the link.
    pub(crate) rate: LinkRate,
    /// Name of the port in the configuration.
    pub name: String,
    /// Flow controls that the port may use; the configured one comes first.
    flow_controls: Vec<PortFlowControl>,
    /// Index of the active flow control in `mechanisms`.
    active: AtomicUsize,
    /// State of the peer's flow control for this port: pauses, rates and credit.
    pub regulator: CachePadded<TxRegulator>,
    /// Counts of data received from the peer, where flow control needs them.
    receive_accounting: Option<Box<CachePadded<ReceiveAccounting>>>,
    /// Storm counters of a port whose PFC is watched.
    storms: Option<Box<CachePadded<SharedStormCounters>>>,
    /// Line time of a shaped port that may be polled late.
    line: Option<Box<LineTimeCounters>>,
    /// Instant of the port's last admission, in picoseconds; kept only under stage-based GFC.
    admitted_at: AtomicU64,
    feedback: FeedbackInstants,
    /// Instant of the last message heard from the peer when the link last went down, in picoseconds.
    heard_before_link_loss: AtomicU64,
    /// Classes that the peer is to pause regardless of the buffer, one bit each.
    forced_xoff: AtomicU8,
}

/// Two instants of a port's flow control. Both ends of a link together give the feedback delay τ.
#[derive(Clone, Debug, Default)]
pub struct FeedbackInstants {
    /// Initiator: arrival instant of the packet that last made the peer slow down, in picoseconds.
    pub crossed_at: Arc<AtomicU64>,
    /// Receiver: instant when the transmitter last noticed a paused class or a changed rate, in picoseconds.
    pub applied_at: Arc<AtomicU64>,
}

/// Change of a port's link between two polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkChange {
    /// The link is down.
    Down,
    /// The link is up, and was down at the previous poll.
    Up,
    /// The link is up, but was down in between.
    Flapped,
}

/// Bits of [`PortState::flags`]: classes whose frames a PFC storm drops.
const DROPPING: u32 = 0xff;
/// Bits of [`PortState::flags`]: classes in a storm, under any action.
const IN_STORM: u32 = 0xff << IN_STORM_SHIFT;
const IN_STORM_SHIFT: u32 = 8;
const LINK_DOWN: u32 = 1 << 16;
/// The link changed state, and the port's transmitter has not taken that over.
const LINK_CHANGED: u32 = 1 << 17;
/// The link went down since the transmitter last took over its state.
const LINK_WENT_DOWN: u32 = 1 << 24;
/// The link speed differs from the transmitter's.
const NEW_RATE: u32 = 1 << 18;
/// The queue configuration or the forced pauses changed.
const NEW_RUNTIME_CONFIG: u32 = 1 << 19;
/// The configured rate changed.
const RATE_SET: u32 = 1 << 20;
/// The flow control changed.
const NEW_FLOW_CONTROL: u32 = 1 << 23;
/// The port is administratively down, as if it had no link.
const ADMIN_DOWN: u32 = 1 << 21;
/// The port is closed to data frames.
const BLOCKED: u32 = 1 << 22;
/// Bits that stop all transmission, in every class.
const NO_LINK: u32 = LINK_DOWN | ADMIN_DOWN;

/// Returns the bits of a link change that the port's transmitter takes over.
const fn link_change_bits(up: bool) -> u32 {
    if up { LINK_CHANGED } else { LINK_CHANGED | LINK_WENT_DOWN }
}

impl Shared {
    /// Returns the ports, in configuration order.
    pub fn ports(&self) -> &[PortState] {
        &self.ports
    }

    /// Returns the port with this address of its own.
    #[cold]
    pub(crate) fn port_of_mac(&self, mac: MacAddr) -> Option<PortId> {
        self.ports.iter().position(|port| port.mac == mac).map(|port| PortId(port as u16))
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> &PortState {
        &self.ports[port.index()]
    }

    /// Adds a static address from a control thread, in all VLANs of its port ([`ForwardingTable::enter_static`]); `false` if it finds no
    /// room.
    pub fn enter_static(&self, address: MacAddr, port: PortId) -> bool {
        let Some(vlans) = &self.vlans else { return self.fdb.enter_static(address, port) };
        vlans.iter().all(|vlan| {
            let enters = vlan.contains(port);
            if !enters {
                self.fdb.remove_static(vlan.key(address));
            }
            !enters || self.fdb.enter_static(vlan.key(address), port)
        })
    }

    /// Whether an address is static behind this port, in all its VLANs.
    pub fn has_static(&self, address: MacAddr, port: PortId) -> bool {
        let Some(vlans) = &self.vlans else { return self.fdb.has_static(address, port) };
        vlans.iter().filter(|vlan| vlan.contains(port)).all(|vlan| self.fdb.has_static(vlan.key(address), port))
    }

    /// Removes a static address, from a control thread ([`ForwardingTable::remove_static`]).
    pub fn remove_static(&self, address: MacAddr) {
        let Some(vlans) = &self.vlans else {
            self.fdb.remove_static(address);
            return;
        };
        for vlan in vlans.iter() {
            self.fdb.remove_static(vlan.key(address));
        }
    }

    /// Returns the queue that a stamp on a frame of `queue` contains, with the frame.
    #[inline]
    pub(crate) fn stamped_length(&self, queue: QueueId) -> u64 {
        match self.telemetry_queue {
            TelemetryQueue::Class => self.mmu.egress_length(queue),
            TelemetryQueue::Port => {
                Class::ALL.into_iter().map(|class| self.mmu.egress_length(QueueId::new(queue.port(), class))).sum()
            }
        }
    }

    /// Returns the charge of a single frame, in bytes.
    #[inline]
    pub(crate) fn charge_alone(&self, class: Class, frame_bytes: u32) -> u32 {
        if self.unbuffered.contains(class) { 0 } else { self.charge.frame_charge(frame_bytes) }
    }

    /// Sets the limit of the frames that each port may flood, or none.
    pub fn set_storm_control(&self, rate: Option<BitRate>) {
        self.storm_control.store(rate.map_or(0, BitRate::as_bps), Ordering::Relaxed);
    }

    /// Returns the limit of the frames that each port may flood.
    #[inline]
    pub(crate) fn storm_control(&self) -> Option<BitRate> {
        match self.storm_control.load(Ordering::Relaxed) {
            0 => None,
            bps => Some(BitRate::bps(bps)),
        }
    }

    /// Returns whether a port may be closed in any respect.
    #[inline]
    fn may_be_closed(&self, port: PortId) -> bool {
        self.ever_closed.load(Ordering::Relaxed) >> (port.0 % u64::BITS as u16) & 1 != 0
    }

    /// Returns the ingress queues, in ascending order, of frames that came by these ports in these priority groups and have the queue `queue`
    /// at their egress port.
    pub(crate) fn ingress_queues(
        &self,
        ports: impl IntoIterator<Item = PortId>,
        groups: ClassSet,
        queue: Class,
    ) -> Box<[QueueId]> {
        let of_port = |port| (self.classifier.groups_of(port, queue) & groups).iter();
        let queues = |port| of_port(port).map(move |group| QueueId::new(port, group));
        ports.into_iter().flat_map(queues).collect()
    }

    /// Returns the priority groups of frames that come by a port and have one of these queues at their egress port.
    pub(crate) fn groups_of(&self, port: PortId, queues: ClassSet) -> ClassSet {
        queues.iter().fold(ClassSet::EMPTY, |groups, queue| groups | self.classifier.groups_of(port, queue))
    }

    /// Returns whether data frames may leave by a port.
    #[inline]
    pub(crate) fn is_open(&self, port: PortId) -> bool {
        !self.may_be_closed(port) || self.port(port).is_open()
    }

    /// Returns whether frames may enter a port's egress queue of a class: the link is up, and no storm drops them.
    ///
    /// Relaxed, as for the link: the transmitter drops a frame that is admitted nevertheless.
    #[inline]
    pub(crate) fn accepts(&self, port: PortId, queue: Class) -> bool {
        !self.may_be_closed(port) || self.port(port).accepts(queue)
    }

    /// Returns whether frames may enter all of these egress queues.
    #[inline]
    pub(crate) fn accepts_all(&self, mut queues: impl Iterator<Item = QueueId>) -> bool {
        self.ever_closed.load(Ordering::Relaxed) == 0 || queues.all(|queue| self.accepts(queue.port(), queue.class()))
    }

    /// Returns the egress queues whose frames are dropped when they arrive at a port, because of a storm or because the port is closed.
    #[inline]
    pub(crate) fn dropping(&self, port: PortId) -> ClassSet {
        if self.may_be_closed(port) { self.port(port).dropping() } else { ClassSet::EMPTY }
    }

    /// Sets the state of a port's link, from the control thread.
    ///
    /// The port's transmitter then ends pauses, resets stages and credit, and sends its state anew. It does so even if the link goes down
    /// and comes up between two polls. Control frames that arrive before the link is up here are obeyed.
    pub fn set_link_up(&self, port: PortId, up: bool) {
        if !up {
            self.mark_ever_closed(port);
            self.port(port).record_link_loss();
        }
        let change = |closed| (closed & LINK_DOWN == 0) != up;
        let changed = |closed| change(closed).then_some((closed ^ LINK_DOWN) | link_change_bits(up));
        // Release; pairs with Acquire in `take_link_change`.
        let _ = self.port(port).flags.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
    }

    /// Sets the queues of a port that are in a storm, and those whose frames are dropped. Only the transmitter that serves the port calls
    /// it, so it knows the bits that it changes.
    pub(crate) fn set_storms(&self, port: PortId, in_storm: ClassSet, dropping: ClassSet) {
        let storms = u32::from(in_storm.bits()) << IN_STORM_SHIFT | u32::from(dropping.bits());
        if storms != 0 {
            self.mark_ever_closed(port);
        }
        let closed = &self.port(port).flags;
        let before = closed.load(Ordering::Relaxed) & (IN_STORM | DROPPING);
        closed.fetch_xor(before ^ storms, Ordering::Relaxed);
    }

    /// Marks a port as ever closed, so that forwarders check its state from now on. A forwarder may see the mark or the port's state late,
    /// as with any check.
    fn mark_ever_closed(&self, port: PortId) {
        self.ever_closed.fetch_or(1 << (port.0 % u64::BITS as u16), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn prefetch(&self) {
        self.mmu.prefetch();
        prefetch_index(from_ref(&self.classifier), 0);
        prefetch_index(from_ref(&self.fdb), 0);
        prefetch_index(from_ref(&self.ports), 0);
    }

    /// Prefetches the fields of a port that frames of these classes touch.
    #[inline]
    pub(crate) fn prefetch_port(&self, port: PortId, classes: ClassSet) {
        prefetch_index(from_ref(&self.port(port).flags), 0);
        prefetch_index(from_ref(&self.port(port).regulator), 0);
        self.mmu.prefetch_port(port, classes);
    }

    pub(crate) fn clones_of(&self, port: PortId) -> impl Iterator<Item = PortId> {
        let ports = self.ports.iter().zip(0..).map(|(state, id)| (state.real_port, PortId(id)));
        ports.filter(move |(real, id)| *real == port && *id != port).map(|(_, id)| id)
    }
}

impl PortState {
    pub(crate) fn new(
        name: &str,
        real_port: PortId,
        mac: MacAddr,
        rate: LinkRate,
        flow_control: PortFlowControl,
        classes: ClassSet,
        link_overhead: Bytes,
    ) -> PortState {
        PortState {
            name: name.to_owned(),
            real_port,
            mac,
            regulator: CachePadded::new(TxRegulator::new(&flow_control, rate.get(), classes)),
            rate,
            receive_accounting: Some(flow_control.receive_accounting(link_overhead))
                .filter(ReceiveAccounting::is_counted)
                .map(|arrived| Box::new(CachePadded::new(arrived))),
            by_length: flow_control.uses_queue_length(),
            records_admitted: flow_control.message_kind() == MessageKind::Stages,
            flow_controls: vec![flow_control],
            active: AtomicUsize::new(0),
            flags: AtomicU32::new(0),
            storms: None,
            line: None,
            admitted_at: AtomicU64::new(0),
            feedback: FeedbackInstants::default(),
            heard_before_link_loss: AtomicU64::new(0),
            forced_xoff: AtomicU8::new(0),
        }
    }

    /// Returns the counts of data received from the peer.
    #[inline]
    pub fn receive_accounting(&self) -> &ReceiveAccounting {
        static UNCOUNTED: ReceiveAccounting = ReceiveAccounting::Uncounted;
        self.receive_accounting.as_deref().map_or(&UNCOUNTED, |arrived| arrived)
    }

    /// Returns the active flow control.
    pub fn flow_control(&self) -> &PortFlowControl {
        // Acquire; pairs with Release in `activate`.
        &self.flow_controls[self.active.load(Ordering::Acquire)]
    }

    /// Returns whether the port has a link and is not administratively down. Frames for a port without link are dropped, since a lossless
    /// queue that can't drain would pause the whole network.
    #[inline]
    pub fn link_up(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & NO_LINK == 0
    }

    /// Whether the driver reports a link, even if the port is administratively down.
    pub fn has_carrier(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LINK_DOWN == 0
    }

    /// Returns whether data frames may leave.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (NO_LINK | BLOCKED) == 0
    }

    /// Whether the port is closed to received data frames.
    pub(crate) fn is_shut(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (ADMIN_DOWN | BLOCKED) != 0
    }

    /// Whether the port is administratively down, which stops flow control too.
    pub(crate) fn is_admin_down(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & ADMIN_DOWN != 0
    }

    /// Returns the rate C: the configured one, or the link's last reported one.
    pub fn rate(&self) -> BitRate {
        self.rate.get()
    }

    /// Returns the link's speed if the driver reported one; kept while the link is down.
    pub fn link_rate(&self) -> Option<BitRate> {
        self.rate.link_speed()
    }

    /// Marks the link's speed as changed, for the transmitter.
    pub(crate) fn mark_new_rate(&self) {
        // Release; pairs with Acquire in `take_new_rate`.
        self.flags.fetch_or(NEW_RATE, Ordering::Release);
    }

    /// Takes the mark that the link's speed changed, and returns whether it was set. Only the transmitter that serves the port calls it.
    pub(crate) fn take_new_rate(&self) -> bool {
        // Cleared before the speed is read, so that a later one is not missed. Acquire; pairs with Release in `mark_new_rate`: a reader
        // that sees the bit sees the speed.
        self.flags.fetch_and(!NEW_RATE, Ordering::Acquire) & NEW_RATE != 0
    }

    /// Returns whether the port has a link and its transmitter has taken over all changes.
    #[inline]
    pub(crate) fn has_known_link(&self) -> bool {
        self.flags.load(Ordering::Relaxed)
            & (NO_LINK | LINK_CHANGED | NEW_RATE | NEW_RUNTIME_CONFIG | RATE_SET | NEW_FLOW_CONTROL)
            == 0
    }

    /// Takes the link's change since the last call. Only the transmitter that serves the port calls it.
    pub(crate) fn take_link_change(&self) -> Option<LinkChange> {
        // Acquire; pairs with Release in `set_link_up` and `set_port_state`: a reader that sees the change sees the messages heard before
        // it.
        let closed = self.flags.fetch_and(!(LINK_CHANGED | LINK_WENT_DOWN), Ordering::Acquire);
        match (closed & LINK_CHANGED != 0, closed & NO_LINK == 0, closed & LINK_WENT_DOWN != 0) {
            (false, ..) => None,
            (true, false, _) => Some(LinkChange::Down),
            (true, true, false) => Some(LinkChange::Up),
            (true, true, true) => Some(LinkChange::Flapped),
        }
    }

    /// Records the last message heard when the link goes down or the port is closed. Call it before the transmitter sees the change.
    fn record_link_loss(&self) {
        self.heard_before_link_loss.store(self.regulator.last_message_at().as_picos(), Ordering::Relaxed);
    }

    /// Whether a message of the peer was obeyed since the link last went down.
    pub(crate) fn has_heard_since_link_loss(&self) -> bool {
        self.regulator.last_message_at().as_picos() != self.heard_before_link_loss.load(Ordering::Relaxed)
    }

    #[inline]
    fn accepts(&self, class: Class) -> bool {
        self.flags.load(Ordering::Relaxed) & (NO_LINK | BLOCKED | u32::from(class.alone().bits())) == 0
    }

    #[inline]
    fn dropping(&self) -> ClassSet {
        let closed = self.flags.load(Ordering::Relaxed);
        if closed & (ADMIN_DOWN | BLOCKED) != 0 {
            ClassSet::ALL
        } else {
            ClassSet::from_bits((closed & DROPPING) as u8)
        }
    }

    #[inline]
    pub(crate) fn in_storm(&self) -> ClassSet {
        ClassSet::from_bits(((self.flags.load(Ordering::Relaxed) & IN_STORM) >> IN_STORM_SHIFT) as u8)
    }

    /// Enables storm counters for these classes.
    pub(crate) fn watch(&mut self, classes: ClassSet) {
        self.storms = Some(Box::new(CachePadded::new(SharedStormCounters::new(classes))));
    }

    /// Whether the port's queues are watched for PFC storms.
    pub fn is_watched(&self) -> bool {
        self.storms.is_some()
    }

    /// Returns the storm counters; `None` if the port is not watched.
    #[inline]
    pub(crate) fn storms(&self) -> Option<&SharedStormCounters> {
        self.storms.as_ref().map(|storms| &***storms)
    }

    /// Returns the counters of a class's PFC watchdog as of its last poll, for the control thread; `None` if it is not watched.
    pub fn storm_counters(&self, class: Class) -> Option<StormCounters> {
        self.storms()?.counters(class)
    }

    /// Enables the counters of the port's line time.
    pub(crate) fn count_line_time(&mut self) {
        self.line = Some(Box::default());
    }

    #[inline]
    pub(crate) fn line_time_counters(&self) -> Option<&LineTimeCounters> {
        self.line.as_deref()
    }

    /// Returns the port's use of its line time, as of its last poll; `None` for a port that is not shaped, or never polled late.
    pub fn line_time(&self) -> Option<LineTimeLoss> {
        Some(self.line_time_counters()?.read())
    }

    /// Records the arrival instant `crossed` of the packet that made the peer slow down.
    pub(crate) fn record_slowed(&self, crossed: Time) {
        self.feedback.crossed_at.store(crossed.as_picos(), Ordering::Relaxed);
    }

    /// Records that the transmitter obeys the peer's latest message from `now` on.
    pub(crate) fn record_obeyed(&self, now: Time) {
        self.feedback.applied_at.store(now.as_picos(), Ordering::Relaxed);
    }

    /// Records that packets of this port are about to be admitted. Call it before the admission, as the transmitter may see their occupancy
    /// at once. Relaxed: the occupancy orders nothing, so at worst a delay is measured from the packets before.
    #[inline]
    pub(crate) fn record_admitted(&self, now: Time) {
        if self.records_admitted {
            self.admitted_at.store(now.as_picos(), Ordering::Relaxed);
        }
    }

    /// Returns the instant of the last admission; [`Time::ZERO`] except under stage-based GFC.
    pub(crate) fn admitted_at(&self) -> Time {
        Time::from_picos(self.admitted_at.load(Ordering::Relaxed))
    }

    /// Returns the instants from which the feedback delay is measured.
    pub fn feedback(&self) -> &FeedbackInstants {
        &self.feedback
    }
}
