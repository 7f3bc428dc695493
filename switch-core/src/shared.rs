//! What all halves of one switch share: read by every lcore, changed only through atomics.

mod link_rate;
mod sighting;
mod steering;

pub(crate) use link_rate::LinkRate;
pub use link_rate::RateChange;
pub use sighting::Sighting;
pub(crate) use steering::Tuning;

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use prefetch_index::prefetch_index;
use weir_flowctl::pfc::StormCounters;
use weir_flowctl::{Arrived, Mechanism, Regulator, Tells};
use weir_mmu::{Charge, Mmu};
use weir_units::archive::SharedState;
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, PortId, Time};

use crate::classify::Classifier;
use crate::fdb::ForwardingTable;
use crate::line_time::{LineTally, LineTime};
use crate::storm_tally::StormTally;
use crate::utilisation::Digester;

/// The switch's common parts.
#[derive(Debug, SharedState)]
pub struct Shared {
    /// Who may keep a packet, who must pause.
    pub mmu: Mmu,
    /// Which station is behind which port.
    pub fdb: ForwardingTable,
    #[state(same)]
    pub(crate) classifier: Classifier,
    #[state(same)]
    pub(crate) charge: Charge,
    /// Classes whose frames are charged nothing, in virtual time.
    #[state(same)]
    pub(crate) unbuffered: ClassSet,
    /// The longest frame that is forwarded, without FCS.
    #[state(same)]
    pub(crate) frame_bytes_max: u32,
    /// Classes that a peer's PFC pauses.
    #[state(same)]
    pub(crate) obeyed: ClassSet,
    /// What a frame takes on a link beyond its length without FCS.
    #[state(same)]
    pub(crate) link_overhead: Bytes,
    /// Whether frames that ask for it are stamped with what the port knows that they leave by.
    #[state(same)]
    pub(crate) stamps: bool,
    /// By what ports digest frames that ask for it.
    #[state(same)]
    pub(crate) digester: Option<Digester>,
    /// Whether stations are learned from what they send.
    #[state(same)]
    pub(crate) learns: bool,
    /// By which the switch chooses among ports of equal cost otherwise than its neighbours.
    #[state(same)]
    pub(crate) hash_seed: u32,
    /// The ports that were ever closed to anything, one bit each, which is also that of the 64th port after it. Mostly none was, and
    /// frames need not look at their ports.
    pub(crate) ever_closed: AtomicU64,
    pub(crate) ports: Box<[PortState]>,
    /// How queues are served, for transmitters to take over.
    pub(crate) tuning: Tuning,
}

/// One port, as all lcores see it. Fields that are read for each frame come first, and those that are written stand apart.
#[derive(Debug, SharedState)]
#[repr(C)]
pub struct PortState {
    /// One word for all that keeps frames from coming in or going out: [`DROPPING`], [`IN_STORM`], [`LINK_DOWN`], [`ADMIN_DOWN`] and
    /// [`BLOCKED`]; and for what the port's transmitter has not taken up: [`LINK_CHANGED`], [`NEW_RATE`], [`NEW_TUNING`],
    /// [`RATE_SET`] and [`NEW_LANGUAGE`].
    closed: AtomicU32,
    /// The port whose ingress this one copies; itself where this is no clone.
    #[state(same)]
    pub real_port: PortId,
    /// Whether each arrival may make a message due: [`Protocol::goes_by_length`](weir_flowctl::Protocol::goes_by_length).
    #[state(same)]
    pub(crate) by_length: bool,
    /// Whether `admitted_at` is kept.
    #[state(same)]
    notes_admitted: bool,
    /// Source address of control frames.
    #[state(same)]
    pub mac: MacAddr,
    /// C, for quanta and the shaper, and the speed of its link.
    pub(crate) rate: LinkRate,
    /// The port's name in the configuration.
    #[state(same)]
    pub name: String,
    /// The flow controls that it may speak, as configured first.
    #[state(same)]
    mechanisms: Vec<Mechanism>,
    /// Which of them it speaks.
    spoken: AtomicUsize,
    /// What its peer lets it send.
    pub regulator: CachePadded<Regulator>,
    /// What came from its peer, where flow control counts that.
    arrived: Option<Box<CachePadded<Arrived>>>,
    /// Storm counters of a port whose PFC is watched.
    storms: Option<Box<CachePadded<StormTally>>>,
    /// Line time of a shaped port that polls may come late to.
    line: Option<Box<LineTally>>,
    /// When packets of this port last came to be admitted, in picoseconds: kept under GFC by stages.
    admitted_at: AtomicU64,
    feedback: Feedback,
    /// When the peer had last been heard as the link last went, in picoseconds.
    parted_after: AtomicU64,
    /// The classes that the peer is to pause whatever the buffer holds, one bit each.
    forced: AtomicU8,
}

/// Two instants of a port's flow control, from which, at both ends of a link, its feedback delay τ is measured.
#[derive(Clone, Debug, Default, SharedState)]
pub struct Feedback {
    /// Downstream: when the arrival came for which the peer was last told to slow down, in picoseconds.
    pub crossed_at: Arc<AtomicU64>,
    /// Upstream: when the transmitter last noticed that a class is paused or its rate another, in picoseconds.
    pub applied_at: Arc<AtomicU64>,
}

/// What became of a port's link between two looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkChange {
    /// It is gone.
    Went,
    /// It is there; it was gone before the first look.
    Came,
    /// It was gone between the two.
    WentAndCame,
}

/// Bits of [`PortState::closed`]: the classes whose frames are dropped in a PFC storm.
const DROPPING: u32 = 0xff;
/// Bits of [`PortState::closed`]: the classes in a storm, whatever is done about it.
const IN_STORM: u32 = 0xff << IN_STORM_SHIFT;
const IN_STORM_SHIFT: u32 = 8;
const LINK_DOWN: u32 = 1 << 16;
/// The link came or went, and the port's transmitter has not taken that up.
const LINK_CHANGED: u32 = 1 << 17;
/// The link went since the transmitter last took up what became of it.
const LINK_WENT: u32 = 1 << 24;
/// The link has another speed than the transmitter goes by.
const NEW_RATE: u32 = 1 << 18;
/// Somebody has changed how queues are served, or what the peer is to pause.
const NEW_TUNING: u32 = 1 << 19;
/// Somebody has given the port another rate.
const RATE_SET: u32 = 1 << 20;
/// Somebody has given the port another flow control.
const NEW_LANGUAGE: u32 = 1 << 23;
/// Somebody has closed the port, as if its link were gone.
const ADMIN_DOWN: u32 = 1 << 21;
/// Somebody has closed the port to data.
const BLOCKED: u32 = 1 << 22;
/// What keeps frames from being sent, whatever their class.
const NO_LINK: u32 = LINK_DOWN | ADMIN_DOWN;

/// What the port's transmitter is told of a link that came or went.
const fn link_news(up: bool) -> u32 {
    if up { LINK_CHANGED } else { LINK_CHANGED | LINK_WENT }
}

impl Shared {
    /// The ports, in the order of the configuration.
    pub fn ports(&self) -> &[PortState] {
        &self.ports
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> &PortState {
        &self.ports[port.index()]
    }

    /// What a frame is charged that comes alone.
    #[inline]
    pub(crate) fn charge_alone(&self, class: Class, frame_bytes: u32) -> u32 {
        if self.unbuffered.contains(class) { 0 } else { self.charge.of(frame_bytes) }
    }

    /// Whether a port may be closed to anything.
    #[inline]
    fn may_be_closed(&self, port: PortId) -> bool {
        self.ever_closed.load(Ordering::Relaxed) >> (port.0 % u64::BITS as u16) & 1 != 0
    }

    /// Whether frames may go out by a port.
    #[inline]
    pub(crate) fn is_open(&self, port: PortId) -> bool {
        !self.may_be_closed(port) || self.port(port).is_open()
    }

    /// Whether frames of a class may go to a port's egress queue: there is a link, and no storm in which they are dropped.
    ///
    /// Relaxed, as for the link: a frame that is admitted nevertheless is dropped by the transmitter.
    #[inline]
    pub(crate) fn takes(&self, port: PortId, class: Class) -> bool {
        !self.may_be_closed(port) || self.port(port).takes(class)
    }

    /// The classes of a port of which frames that arrive are dropped, in a storm, or as the port is closed.
    #[inline]
    pub(crate) fn dropping(&self, port: PortId) -> ClassSet {
        if self.may_be_closed(port) { self.port(port).dropping() } else { ClassSet::EMPTY }
    }

    /// Sets the state of a port's link, from the control thread.
    ///
    /// The port's transmitter then ends pauses, resets stages and credit, and sends a new peer its state anew, also where a link
    /// goes and comes between two polls. Frames that arrive before the link is up here are obeyed.
    pub fn set_link_up(&self, port: PortId, up: bool) {
        if !up {
            self.note_closing(port);
            self.port(port).note_parting();
        }
        let change = |closed| (closed & LINK_DOWN == 0) != up;
        let changed = |closed| change(closed).then_some((closed ^ LINK_DOWN) | link_news(up));
        // Nothing to be done where it has not changed. Release; pairs with Acquire in `take_link_change`.
        let _ = self.port(port).closed.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
    }

    /// Tells the forwarders which classes of a port are in a storm, and of which frames are dropped. Only the transmitter that
    /// serves the port does, so that it knows the bits that it changes.
    pub(crate) fn set_storms(&self, port: PortId, in_storm: ClassSet, dropping: ClassSet) {
        let storms = u32::from(in_storm.bits()) << IN_STORM_SHIFT | u32::from(dropping.bits());
        if storms != 0 {
            self.note_closing(port);
        }
        let closed = &self.port(port).closed;
        let before = closed.load(Ordering::Relaxed) & (IN_STORM | DROPPING);
        closed.fetch_xor(before ^ storms, Ordering::Relaxed);
    }

    /// Notes that a port is to be looked at from now on, whatever becomes of it: forwarders may go by the note or by an older
    /// state of the port, as they may when they look at it.
    fn note_closing(&self, port: PortId) {
        self.ever_closed.fetch_or(1 << (port.0 % u64::BITS as u16), Ordering::Relaxed);
    }

    /// Asks for itself, ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.mmu.prefetch();
        prefetch_index(from_ref(&self.classifier), 0);
        prefetch_index(from_ref(&self.fdb), 0);
        prefetch_index(from_ref(&self.ports), 0);
    }

    /// Asks for what frames of these classes touch of a port, ahead of its use.
    #[inline]
    pub(crate) fn prefetch_port(&self, port: PortId, classes: ClassSet) {
        prefetch_index(from_ref(&self.port(port).closed), 0);
        prefetch_index(from_ref(&self.port(port).regulator), 0);
        self.mmu.prefetch_port(port, classes);
    }

    /// The ports that copy this one's ingress.
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
        mechanism: Mechanism,
        classes: ClassSet,
        link_overhead: Bytes,
    ) -> PortState {
        PortState {
            name: name.to_owned(),
            real_port,
            mac,
            regulator: CachePadded::new(Regulator::new(&mechanism, rate.get(), classes)),
            rate,
            arrived: Some(mechanism.arrived(link_overhead))
                .filter(Arrived::is_counted)
                .map(|arrived| Box::new(CachePadded::new(arrived))),
            by_length: mechanism.goes_by_length(),
            notes_admitted: mechanism.tells() == Tells::Stages,
            mechanisms: vec![mechanism],
            spoken: AtomicUsize::new(0),
            closed: AtomicU32::new(0),
            storms: None,
            line: None,
            admitted_at: AtomicU64::new(0),
            feedback: Feedback::default(),
            parted_after: AtomicU64::new(0),
            forced: AtomicU8::new(0),
        }
    }

    /// What came from its peer.
    #[inline]
    pub(crate) fn arrived(&self) -> &Arrived {
        static UNCOUNTED: Arrived = Arrived::Uncounted;
        self.arrived.as_deref().map_or(&UNCOUNTED, |arrived| arrived)
    }

    /// Which flow control it speaks.
    pub fn mechanism(&self) -> &Mechanism {
        // Acquire; pairs with Release in `speak`.
        &self.mechanisms[self.spoken.load(Ordering::Acquire)]
    }

    /// Whether the port has a link, and nobody has closed it. Frames for a port without one are dropped, since a lossless queue
    /// that can't drain would pause the whole network.
    #[inline]
    pub fn link_up(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & NO_LINK == 0
    }

    /// Whether the driver says that there is a link, even if somebody has closed the port.
    pub fn has_carrier(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & LINK_DOWN == 0
    }

    /// Whether frames may go out.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & (NO_LINK | BLOCKED) == 0
    }

    /// Whether somebody has closed the port to what comes in.
    pub(crate) fn is_shut(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & (ADMIN_DOWN | BLOCKED) != 0
    }

    /// Whether somebody has closed the port to flow control too.
    pub(crate) fn is_admin_down(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & ADMIN_DOWN != 0
    }

    /// C: as configured, or as its link last told.
    pub fn rate(&self) -> BitRate {
        self.rate.get()
    }

    /// The speed of the link, if the driver told; kept while the link is down.
    pub fn link_rate(&self) -> Option<BitRate> {
        self.rate.of_link()
    }

    /// Tells the transmitter that the link has another speed.
    pub(crate) fn note_new_rate(&self) {
        // Release; pairs with Acquire in `take_new_rate`.
        self.closed.fetch_or(NEW_RATE, Ordering::Release);
    }

    /// Whether the link has another speed than when this last said so: for the transmitter that serves the port.
    pub(crate) fn take_new_rate(&self) -> bool {
        // Cleared before the speed is read, so that a later one is not missed. Acquire; pairs with Release in
        // `note_new_rate`: who sees the bit sees the speed.
        self.closed.fetch_and(!NEW_RATE, Ordering::Acquire) & NEW_RATE != 0
    }

    /// Whether the port has a link, and its transmitter knows that and its speed.
    #[inline]
    pub(crate) fn has_known_link(&self) -> bool {
        self.closed.load(Ordering::Relaxed) & (NO_LINK | LINK_CHANGED | NEW_RATE | NEW_TUNING | RATE_SET | NEW_LANGUAGE)
            == 0
    }

    /// What became of the link since the last call: for the transmitter that serves the port.
    pub(crate) fn take_link_change(&self) -> Option<LinkChange> {
        // Acquire; pairs with Release in `set_link_up` and `set_port_state`: who sees the change sees what was heard before it.
        let closed = self.closed.fetch_and(!(LINK_CHANGED | LINK_WENT), Ordering::Acquire);
        match (closed & LINK_CHANGED != 0, closed & NO_LINK == 0, closed & LINK_WENT != 0) {
            (false, ..) => None,
            (true, false, _) => Some(LinkChange::Went),
            (true, true, false) => Some(LinkChange::Came),
            (true, true, true) => Some(LinkChange::WentAndCame),
        }
    }

    /// Notes that the link goes now, or the port is closed: before the transmitter is told so.
    fn note_parting(&self) {
        self.parted_after.store(self.regulator.heard_at().as_picos(), Ordering::Relaxed);
    }

    /// Whether the peer has said something that was obeyed since its link last went.
    pub(crate) fn has_heard_since_parting(&self) -> bool {
        self.regulator.heard_at().as_picos() != self.parted_after.load(Ordering::Relaxed)
    }

    #[inline]
    fn takes(&self, class: Class) -> bool {
        self.closed.load(Ordering::Relaxed) & (NO_LINK | BLOCKED | u32::from(class.alone().bits())) == 0
    }

    #[inline]
    fn dropping(&self) -> ClassSet {
        let closed = self.closed.load(Ordering::Relaxed);
        if closed & (ADMIN_DOWN | BLOCKED) != 0 {
            ClassSet::ALL
        } else {
            ClassSet::from_bits((closed & DROPPING) as u8)
        }
    }

    /// The classes in a storm.
    #[inline]
    pub(crate) fn in_storm(&self) -> ClassSet {
        ClassSet::from_bits(((self.closed.load(Ordering::Relaxed) & IN_STORM) >> IN_STORM_SHIFT) as u8)
    }

    /// Has the storms of these classes counted.
    pub(crate) fn watch(&mut self, classes: ClassSet) {
        self.storms = Some(Box::new(CachePadded::new(StormTally::new(classes))));
    }

    /// Whether its queues are watched for PFC storms.
    pub fn is_watched(&self) -> bool {
        self.storms.is_some()
    }

    /// Counters of storms, if they are watched for.
    #[inline]
    pub(crate) fn storms(&self) -> Option<&StormTally> {
        self.storms.as_ref().map(|tally| &***tally)
    }

    /// The counters of a class's PFC watchdog as of its last poll, for the control thread; `None` if it is not watched.
    pub fn storm_counters(&self, class: Class) -> Option<StormCounters> {
        self.storms()?.counters(class)
    }

    /// Has the port's line time counted.
    pub(crate) fn count_line_time(&mut self) {
        self.line = Some(Box::default());
    }

    #[inline]
    pub(crate) fn line_tally(&self) -> Option<&LineTally> {
        self.line.as_deref()
    }

    /// How the port used its wire, as of its last poll; `None` of a port that is not shaped, or never polled late.
    pub fn line_time(&self) -> Option<LineTime> {
        Some(self.line_tally()?.read())
    }

    /// Notes that the peer is told to slow down for what arrived at `crossed`.
    pub(crate) fn note_slowed(&self, crossed: Time) {
        self.feedback.crossed_at.store(crossed.as_picos(), Ordering::Relaxed);
    }

    /// Notes that the transmitter does from `now` on what the peer said.
    pub(crate) fn note_obeyed(&self, now: Time) {
        self.feedback.applied_at.store(now.as_picos(), Ordering::Relaxed);
    }

    /// Notes that packets of this port are about to be admitted: before it, as the transmitter may see at once what they are
    /// counted in. Relaxed: that counting orders nothing, so at worst a delay is measured from the packets before.
    #[inline]
    pub(crate) fn note_admitted(&self, now: Time) {
        if self.notes_admitted {
            self.admitted_at.store(now.as_picos(), Ordering::Relaxed);
        }
    }

    /// When that last was; [`Time::ZERO`] but under GFC by stages.
    pub(crate) fn admitted_at(&self) -> Time {
        Time::from_picos(self.admitted_at.load(Ordering::Relaxed))
    }

    /// The instants that its feedback delay is measured from.
    pub fn feedback(&self) -> &Feedback {
        &self.feedback
    }
}
