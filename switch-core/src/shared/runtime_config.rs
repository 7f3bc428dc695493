//! Run-time configuration by a control thread: service, limits and marking of queues, times of the PFC watchdog, a port's rate, state and
//! flow control, and forced pauses.
//!
//! The control thread stores new values in atomics, then sets a bit in the word that each transmitter reads anyway when it serves a port
//! ([`PortState::has_known_link`]). The transmitter takes the values over between two bursts, with no lock and no allocation, and touches
//! no frame. If it reads during a write, it sees a mixture of values; but the bit is set again, so its next poll has them all.

use weir_config::{EcnConfig, QueueConfig, StormCondition, WatchdogAction, WatchdogConfig};
use weir_flowctl::{MessageKind, PortFlowControl};
use weir_mmu::EcnMarker;
use weir_mmu::policy::PortRate;
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, PortId, Span};

use super::{ADMIN_DOWN, BLOCKED, NEW_FLOW_CONTROL, NEW_RUNTIME_CONFIG, PortState, RATE_SET, link_change_bits};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::{RateChange, Shared};

/// Configuration of egress queues and of the PFC watchdog. Relaxed throughout: the bit in the port's word publishes it.
#[derive(Debug)]
pub(crate) struct RuntimeConfig {
    quanta: [AtomicU32; CLASSES],
    strict: AtomicU8,
    /// Rate limits in b/s; 0 for none.
    rates: [AtomicU64; CLASSES],
    ecn: [AtomicEcn; CLASSES],
    watchdog: AtomicWatchdog,
}

#[derive(Debug, Default)]
struct AtomicEcn {
    kmin: AtomicU64,
    /// Upper threshold in bytes; 0 if the class is not marked.
    kmax: AtomicU64,
    pmax_ppm: AtomicU32,
    /// Rate in b/s at which the thresholds hold; 0 if they do not follow the port's rate.
    at_rate: AtomicU64,
    on_arrival: AtomicBool,
}

/// Watchdog configuration; times in picoseconds.
#[derive(Debug, Default)]
struct AtomicWatchdog {
    detection: AtomicU64,
    restoration: AtomicU64,
    /// Poll interval; 0 without watchdog.
    poll: AtomicU64,
    action: AtomicU8,
    condition: AtomicU8,
}

const ACTIONS: [WatchdogAction; 3] = [WatchdogAction::Drop, WatchdogAction::Forward, WatchdogAction::Alert];
const CONDITIONS: [StormCondition; 2] = [StormCondition::PfcReceived, StormCondition::QueueStalled];

impl RuntimeConfig {
    pub(crate) fn new(queues: &[QueueConfig; CLASSES], watchdog: Option<&WatchdogConfig>) -> RuntimeConfig {
        let config = RuntimeConfig {
            quanta: Default::default(),
            strict: AtomicU8::default(),
            rates: Default::default(),
            ecn: Default::default(),
            watchdog: AtomicWatchdog::default(),
        };
        config.set_queues(queues);
        if let Some(watchdog) = watchdog {
            config.set_watchdog(watchdog);
        }
        config
    }

    fn set_queues(&self, queues: &[QueueConfig; CLASSES]) {
        for (class, queue) in queues.iter().enumerate() {
            self.quanta[class].store(queue.quantum.max(1), Ordering::Relaxed);
            self.rates[class].store(queue.rate.map_or(0, BitRate::as_bps), Ordering::Relaxed);
            let none =
                EcnConfig { kmin: Bytes::ZERO, kmax: Bytes::ZERO, pmax_ppm: 0, at_rate: None, on_arrival: false };
            let EcnConfig { kmin, kmax, pmax_ppm, at_rate, on_arrival } = queue.ecn.unwrap_or(none);
            self.ecn[class].kmin.store(kmin.get(), Ordering::Relaxed);
            self.ecn[class].kmax.store(kmax.get(), Ordering::Relaxed);
            self.ecn[class].pmax_ppm.store(pmax_ppm, Ordering::Relaxed);
            self.ecn[class].at_rate.store(at_rate.map_or(0, BitRate::as_bps), Ordering::Relaxed);
            self.ecn[class].on_arrival.store(on_arrival, Ordering::Relaxed);
        }
        let strict = Class::ALL.into_iter().filter(|class| queues[class.index()].strict);
        self.strict.store(ClassSet::from_iter(strict).bits(), Ordering::Relaxed);
    }

    fn set_watchdog(&self, config: &WatchdogConfig) {
        let watchdog = &self.watchdog;
        watchdog.detection.store(config.detection_time.as_picos(), Ordering::Relaxed);
        watchdog.restoration.store(config.restoration_time.as_picos(), Ordering::Relaxed);
        watchdog.poll.store(config.poll_interval.as_picos(), Ordering::Relaxed);
        watchdog.action.store(config.action as u8, Ordering::Relaxed);
        watchdog.condition.store(config.condition as u8, Ordering::Relaxed);
    }

    pub(crate) fn quanta(&self) -> [u32; CLASSES] {
        self.quanta.each_ref().map(|quantum| quantum.load(Ordering::Relaxed))
    }

    pub(crate) fn strict(&self) -> ClassSet {
        ClassSet::from_bits(self.strict.load(Ordering::Relaxed))
    }

    pub(crate) fn rates(&self) -> [Option<BitRate>; CLASSES] {
        self.rates.each_ref().map(|rate| match rate.load(Ordering::Relaxed) {
            0 => None,
            bps => Some(BitRate::bps(bps)),
        })
    }

    pub(crate) fn markers(&self) -> [Option<EcnMarker>; CLASSES] {
        self.ecn.each_ref().map(|ecn| {
            let kmax = ecn.kmax.load(Ordering::Relaxed);
            // A mixture of old and new values may have the lower threshold above the upper one.
            let kmin = ecn.kmin.load(Ordering::Relaxed).min(kmax);
            let (pmax_ppm, bps) = (ecn.pmax_ppm.load(Ordering::Relaxed), ecn.at_rate.load(Ordering::Relaxed));
            let [kmin, kmax] = [kmin, kmax].map(Bytes::new);
            let at_rate = (bps > 0).then(|| BitRate::bps(bps));
            let on_arrival = ecn.on_arrival.load(Ordering::Relaxed);
            (kmax > Bytes::ZERO).then(|| EcnConfig { kmin, kmax, pmax_ppm, at_rate, on_arrival }.marker())
        })
    }

    /// Returns the watchdog's configuration; `None` without watchdog.
    pub(crate) fn watchdog(&self) -> Option<WatchdogConfig> {
        let watchdog = &self.watchdog;
        let time = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (detection, restoration) = (time(&watchdog.detection), time(&watchdog.restoration));
        // As with ECN thresholds, a mixture may be invalid.
        let poll = time(&watchdog.poll).min(detection).min(restoration);
        (poll > 0).then(|| WatchdogConfig {
            detection_time: Span::from_picos(detection),
            restoration_time: Span::from_picos(restoration),
            poll_interval: Span::from_picos(poll),
            action: ACTIONS[usize::from(watchdog.action.load(Ordering::Relaxed)) % ACTIONS.len()],
            condition: CONDITIONS[usize::from(watchdog.condition.load(Ordering::Relaxed)) % CONDITIONS.len()],
        })
    }
}

/// Changes that a transmitter has to take over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingChanges {
    /// The rate of the port.
    pub(crate) rate: bool,
    /// The flow control of the port.
    pub(crate) flow_control: bool,
    /// The queue configuration and the forced pauses.
    pub(crate) runtime_config: bool,
}

impl Shared {
    /// Sets service, limits and marking of all egress queues, from their ports' next polls on. `arbitration` stays as it is.
    pub fn set_queues(&self, queues: &[QueueConfig; CLASSES]) {
        self.runtime_config.set_queues(queues);
        self.mark_config_changed();
    }

    /// Sets the times of the PFC watchdogs from their next polls on. Ports without watchdog stay so.
    pub fn set_watchdog(&self, config: &WatchdogConfig) {
        self.runtime_config.set_watchdog(config);
        self.mark_config_changed();
    }

    fn mark_config_changed(&self) {
        for (_, state) in (0..).map(PortId).zip(&self.ports).filter(|(id, state)| state.real_port == *id) {
            // Release; pairs with Acquire in `take_pending_changes`.
            state.flags.fetch_or(NEW_RUNTIME_CONFIG, Ordering::Release);
        }
    }

    /// Sets a rate C for a port that is no clone; `None` follows the link's rate. Effect: as if the configuration had it.
    /// [`Shared::set_link_rate`] has the same effects; the buffer's partition and headroom stay.
    ///
    /// # Panics
    /// In debug builds, if the port's flow control [depends on the rate](weir_flowctl::FlowControl::depends_on_rate).
    pub fn set_rate(&self, port: PortId, rate: Option<BitRate>) -> RateChange {
        debug_assert!(!self.port(port).flow_control().depends_on_rate(), "the flow control's thresholds depend on C");
        let mut change = RateChange { before: self.port(port).rate.get(), policy_follows: true };
        for id in std::iter::once(port).chain(self.clones_of(port)) {
            let state = self.port(id);
            let line = state.rate.configure(rate);
            state.regulator.set_rate(line);
            let rate = PortRate { line, fill: self.charge.fill_rate(line) };
            change.policy_follows &= self.mmu.set_rate(id, rate);
        }
        // Release; pairs with Acquire in `take_pending_changes`.
        self.port(port).flags.fetch_or(RATE_SET, Ordering::Release);
        change
    }

    /// Opens or closes a port, which is no clone, to traffic.
    ///
    /// *Down* acts like a lost link: nothing is sent, not even PAUSE; arriving and waiting frames are dropped with reason
    /// [`PortDown`](crate::counters::DropReason::PortDown). *Blocked* keeps flow control and sends the waiting frames; other data frames
    /// are dropped in both directions for the same reason.
    pub fn set_port_state(&self, port: PortId, state: weir_config::PortState) {
        let bits = match state {
            weir_config::PortState::Up => 0,
            weir_config::PortState::Down => ADMIN_DOWN,
            weir_config::PortState::Blocked => BLOCKED,
        };
        if bits != 0 {
            self.mark_ever_closed(port);
        }
        if bits == ADMIN_DOWN {
            self.port(port).record_link_loss();
        }
        let changed = |closed: u32| {
            let now = closed & !(ADMIN_DOWN | BLOCKED) | bits;
            // The transmitter restarts flow control, as after a change of the link.
            let link = if (closed ^ now) & ADMIN_DOWN != 0 { link_change_bits(now & ADMIN_DOWN == 0) } else { 0 };
            (now != closed).then_some(now | link)
        };
        // Release; pairs with Acquire in `take_link_change`.
        let _ = self.port(port).flags.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
    }

    /// Makes the peer of a port, which is no clone, pause these classes from the port's next poll on, regardless of the buffer. The pauses
    /// last until the next call, and are refreshed as for a queue that does not drain. Under global PAUSE any class pauses all. A port that
    /// does not [advertise XOFF](weir_flowctl::MessageKind::advertises_xoff) ignores it.
    pub fn force_pause(&self, port: PortId, classes: ClassSet) {
        self.port(port).forced_xoff.store(classes.bits(), Ordering::Relaxed);
        // Release; pairs with Acquire in `take_pending_changes`.
        self.port(port).flags.fetch_or(NEW_RUNTIME_CONFIG, Ordering::Release);
    }
}

impl Shared {
    /// Sets the flow control of a port, which is no clone, to PFC, PAUSE or none, from its next polls on. Returns whether the port supports
    /// the change, which holds for a port that [uses one of these](weir_flowctl::MessageKind::is_switchable).
    ///
    /// The transmitter first resumes all classes of the peer by the old flow control, then sends the current pauses by the new one. The
    /// peer's earlier messages are discarded. Waiting frames stay queued.
    pub fn set_flow_control(&self, port: PortId, message_kind: MessageKind) -> bool {
        let can = std::iter::once(port).chain(self.clones_of(port)).all(|id| self.port(id).activate(message_kind));
        if can {
            // Release; pairs with Acquire in `take_pending_changes`.
            self.port(port).flags.fetch_or(NEW_FLOW_CONTROL, Ordering::Release);
        }
        can
    }
}

impl PortState {
    /// Adds flow controls to which the port can switch at run time.
    pub(crate) fn add_flow_controls(&mut self, others: Vec<PortFlowControl>) {
        self.flow_controls.extend(others);
    }

    fn activate(&self, message_kind: MessageKind) -> bool {
        let Some(active) = self.flow_controls.iter().position(|mechanism| mechanism.message_kind() == message_kind)
        else {
            return false;
        };
        // Release; pairs with Acquire in `mechanism`.
        self.active.store(active, Ordering::Release);
        self.regulator.set_message_kind(message_kind);
        true
    }

    /// Makes the transmitter check the port's flow control again.
    pub(crate) fn defer_flow_control(&self) {
        self.flags.fetch_or(NEW_FLOW_CONTROL, Ordering::Release);
    }

    /// Returns the classes that the peer is to pause regardless of the buffer.
    pub fn forced_pause(&self) -> ClassSet {
        ClassSet::from_bits(self.forced_xoff.load(Ordering::Relaxed))
    }

    /// Returns the administrative state of the port.
    pub fn admin_state(&self) -> weir_config::PortState {
        match self.flags.load(Ordering::Relaxed) {
            closed if closed & ADMIN_DOWN != 0 => weir_config::PortState::Down,
            closed if closed & BLOCKED != 0 => weir_config::PortState::Blocked,
            _ => weir_config::PortState::Up,
        }
    }

    /// Takes the changes since the last call. Only the transmitter that serves the port calls it.
    pub(crate) fn take_pending_changes(&self) -> PendingChanges {
        // Cleared before the values are read, so that later ones are not missed. Acquire; pairs with the Release that sets a bit: a reader
        // that sees the bit sees the values.
        let closed = self.flags.fetch_and(!(NEW_RUNTIME_CONFIG | RATE_SET | NEW_FLOW_CONTROL), Ordering::Acquire);
        let is_set = |bit| closed & bit != 0;
        PendingChanges {
            rate: is_set(RATE_SET),
            flow_control: is_set(NEW_FLOW_CONTROL),
            runtime_config: is_set(NEW_RUNTIME_CONFIG),
        }
    }
}
