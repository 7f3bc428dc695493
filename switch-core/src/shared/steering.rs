//! What a control thread may change of a running switch, beside links: how queues are served, limited and marked, the PFC
//! watchdog's times, a port's rate and state, and classes that its peer is to pause whatever the buffer holds.
//!
//! New values are put into atomics first; then a bit is set in the word that each transmitter looks at anyway when it serves a
//! port ([`PortState::has_known_link`]). The transmitter takes them over there, between two bursts: it takes no lock and no memory,
//! and no frame is touched. One that takes values over while others are being written sees a mixture, and the bit again, so that
//! its next poll has them all.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use weir_config::{EcnConfig, QueueConfig, StormCondition, WatchdogAction, WatchdogConfig};
use weir_flowctl::{Mechanism, Tells};
use weir_mmu::EcnMarker;
use weir_mmu::policy::PortRate;
use weir_units::archive::SharedState;
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, PortId, Span};

use super::{ADMIN_DOWN, BLOCKED, NEW_LANGUAGE, NEW_TUNING, PortState, RATE_SET, link_news};
use crate::{RateChange, Shared};

/// How egress queues are served, and storms watched for. Relaxed throughout: the bit in the port's word publishes it.
#[derive(Debug, SharedState)]
pub(crate) struct Tuning {
    quanta: [AtomicU32; CLASSES],
    strict: AtomicU8,
    /// In b/s; 0 for none.
    rates: [AtomicU64; CLASSES],
    ecn: [EcnWords; CLASSES],
    watchdog: WatchdogWords,
}

#[derive(Debug, Default, SharedState)]
struct EcnWords {
    kmin: AtomicU64,
    /// 0 where the class is not marked.
    kmax: AtomicU64,
    pmax_ppm: AtomicU32,
    /// In b/s; 0 where the thresholds do not follow the port's rate.
    at_rate: AtomicU64,
    on_arrival: AtomicBool,
}

/// Times in picoseconds.
#[derive(Debug, Default, SharedState)]
struct WatchdogWords {
    detection: AtomicU64,
    restoration: AtomicU64,
    /// 0 where nothing is watched.
    poll: AtomicU64,
    action: AtomicU8,
    condition: AtomicU8,
}

const ACTIONS: [WatchdogAction; 3] = [WatchdogAction::Drop, WatchdogAction::Forward, WatchdogAction::Alert];
const CONDITIONS: [StormCondition; 2] = [StormCondition::PfcReceived, StormCondition::QueueStalled];

impl Tuning {
    pub(crate) fn new(queues: &[QueueConfig; CLASSES], watchdog: Option<&WatchdogConfig>) -> Tuning {
        let tuning = Tuning {
            quanta: Default::default(),
            strict: AtomicU8::default(),
            rates: Default::default(),
            ecn: Default::default(),
            watchdog: WatchdogWords::default(),
        };
        tuning.set_queues(queues);
        if let Some(watchdog) = watchdog {
            tuning.set_watchdog(watchdog);
        }
        tuning
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
        let words = &self.watchdog;
        words.detection.store(config.detection_time.as_picos(), Ordering::Relaxed);
        words.restoration.store(config.restoration_time.as_picos(), Ordering::Relaxed);
        words.poll.store(config.poll_interval.as_picos(), Ordering::Relaxed);
        words.action.store(config.action as u8, Ordering::Relaxed);
        words.condition.store(config.condition as u8, Ordering::Relaxed);
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
        self.ecn.each_ref().map(|words| {
            let kmax = words.kmax.load(Ordering::Relaxed);
            // In a mixture of old and new ones the lower threshold may be above the upper one.
            let kmin = words.kmin.load(Ordering::Relaxed).min(kmax);
            let (pmax_ppm, bps) = (words.pmax_ppm.load(Ordering::Relaxed), words.at_rate.load(Ordering::Relaxed));
            let [kmin, kmax] = [kmin, kmax].map(Bytes::new);
            let at_rate = (bps > 0).then(|| BitRate::bps(bps));
            let on_arrival = words.on_arrival.load(Ordering::Relaxed);
            (kmax > Bytes::ZERO).then(|| EcnConfig { kmin, kmax, pmax_ppm, at_rate, on_arrival }.marker())
        })
    }

    /// `None` where nothing is watched.
    pub(crate) fn watchdog(&self) -> Option<WatchdogConfig> {
        let words = &self.watchdog;
        let time = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (detection, restoration) = (time(&words.detection), time(&words.restoration));
        // As the thresholds of ECN, a mixture may not be legal.
        let poll = time(&words.poll).min(detection).min(restoration);
        (poll > 0).then(|| WatchdogConfig {
            detection_time: Span::from_picos(detection),
            restoration_time: Span::from_picos(restoration),
            poll_interval: Span::from_picos(poll),
            action: ACTIONS[usize::from(words.action.load(Ordering::Relaxed)) % ACTIONS.len()],
            condition: CONDITIONS[usize::from(words.condition.load(Ordering::Relaxed)) % CONDITIONS.len()],
        })
    }
}

/// What transmitters have to take over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steered {
    /// The port's rate.
    pub(crate) rate: bool,
    /// What it speaks.
    pub(crate) language: bool,
    /// All else.
    pub(crate) tuning: bool,
}

impl Shared {
    /// Has all egress queues served, limited and marked so from their ports' next polls on. `arbitration` stays as it is.
    pub fn set_queues(&self, queues: &[QueueConfig; CLASSES]) {
        self.tuning.set_queues(queues);
        self.note_tuning();
    }

    /// Has the PFC watchdogs go by these times from their next polls on; ports that are not watched stay so.
    pub fn set_watchdog(&self, config: &WatchdogConfig) {
        self.tuning.set_watchdog(config);
        self.note_tuning();
    }

    fn note_tuning(&self) {
        for (_, state) in (0..).map(PortId).zip(&self.ports).filter(|(id, state)| state.real_port == *id) {
            // Release; pairs with Acquire in `take_steered`.
            state.closed.fetch_or(NEW_TUNING, Ordering::Release);
        }
    }

    /// Gives a port, which is no clone, a rate C of its own, or with `None` that of its link, as if its configuration said so.
    /// [`Shared::set_link_rate`] tells what follows the rate; the buffer's partition and headroom stay.
    ///
    /// # Panics
    /// In debug builds, if the port's flow control [is made for a rate](weir_flowctl::Protocol::is_made_for_a_rate).
    pub fn set_rate(&self, port: PortId, rate: Option<BitRate>) -> RateChange {
        debug_assert!(!self.port(port).mechanism().is_made_for_a_rate(), "its thresholds are reckoned with C");
        let mut change = RateChange { before: self.port(port).rate.get(), policy_follows: true };
        for id in std::iter::once(port).chain(self.clones_of(port)) {
            let state = self.port(id);
            let line = state.rate.configure(rate);
            state.regulator.set_rate(line);
            let rate = PortRate { line, fill: self.charge.fill_rate(line) };
            change.policy_follows &= self.mmu.set_rate(id, rate);
        }
        // Release; pairs with Acquire in `take_steered`.
        self.port(port).closed.fetch_or(RATE_SET, Ordering::Release);
        change
    }

    /// Opens or closes a port, which is no clone, to traffic.
    ///
    /// *Down* is as if the link were gone: nothing is sent, not even PAUSE, what comes is dropped, and so is what waits for the
    /// port; reason [`PortDown`](crate::counters::DropReason::PortDown). *Blocked* leaves flow control as it is and lets go what waits;
    /// other data frames are dropped in both directions for the same reason.
    pub fn set_port_state(&self, port: PortId, state: weir_config::PortState) {
        let bits = match state {
            weir_config::PortState::Up => 0,
            weir_config::PortState::Down => ADMIN_DOWN,
            weir_config::PortState::Blocked => BLOCKED,
        };
        if bits != 0 {
            self.note_closing(port);
        }
        if bits == ADMIN_DOWN {
            self.port(port).note_parting();
        }
        let changed = |closed: u32| {
            let now = closed & !(ADMIN_DOWN | BLOCKED) | bits;
            // The transmitter starts flow control anew, as with a link that goes or comes.
            let link = if (closed ^ now) & ADMIN_DOWN != 0 { link_news(now & ADMIN_DOWN == 0) } else { 0 };
            (now != closed).then_some(now | link)
        };
        // Release; pairs with Acquire in `take_link_change`.
        let _ = self.port(port).closed.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
    }

    /// Has the peer of a port, which is no clone, pause these classes from the port's next poll on, whatever the buffer holds, until
    /// this says otherwise: PAUSEs are repeated as for a queue that does not drain. Under global PAUSE any class pauses all. A port
    /// that does not [pause](weir_flowctl::Tells::off_classes) ignores it.
    pub fn force_pause(&self, port: PortId, classes: ClassSet) {
        self.port(port).forced.store(classes.bits(), Ordering::Relaxed);
        // Release; pairs with Acquire in `take_steered`.
        self.port(port).closed.fetch_or(NEW_TUNING, Ordering::Release);
    }
}

impl Shared {
    /// Has a port, which is no clone, speak PFC, PAUSE or nothing from its next polls on; returns whether it can, which a port does that
    /// [speaks one of these](weir_flowctl::Tells::may_change).
    ///
    /// Its peer is told first, as it was told before, that all classes may go on; then, in the new way, which are to pause. What the peer
    /// has said before is forgotten. Frames that wait stay where they are.
    pub fn set_flow_control(&self, port: PortId, tells: Tells) -> bool {
        let can = std::iter::once(port).chain(self.clones_of(port)).all(|id| self.port(id).speak(tells));
        if can {
            // Release; pairs with Acquire in `take_steered`.
            self.port(port).closed.fetch_or(NEW_LANGUAGE, Ordering::Release);
        }
        can
    }
}

impl PortState {
    /// What the port may turn to while it runs, besides what it speaks.
    pub(crate) fn may_speak(&mut self, others: Vec<Mechanism>) {
        self.mechanisms.extend(others);
    }

    fn speak(&self, tells: Tells) -> bool {
        let Some(spoken) = self.mechanisms.iter().position(|mechanism| mechanism.tells() == tells) else {
            return false;
        };
        // Release; pairs with Acquire in `mechanism`.
        self.spoken.store(spoken, Ordering::Release);
        self.regulator.obey(tells);
        true
    }

    /// Has the transmitter look again at what the port speaks.
    pub(crate) fn put_off_language(&self) {
        self.closed.fetch_or(NEW_LANGUAGE, Ordering::Release);
    }

    /// The classes that its peer is to pause whatever the buffer holds.
    pub fn forced_pause(&self) -> ClassSet {
        ClassSet::from_bits(self.forced.load(Ordering::Relaxed))
    }

    /// Whether somebody has opened or closed the port.
    pub fn admin_state(&self) -> weir_config::PortState {
        match self.closed.load(Ordering::Relaxed) {
            closed if closed & ADMIN_DOWN != 0 => weir_config::PortState::Down,
            closed if closed & BLOCKED != 0 => weir_config::PortState::Blocked,
            _ => weir_config::PortState::Up,
        }
    }

    /// What was set since the last call: for the transmitter that serves the port.
    pub(crate) fn take_steered(&self) -> Steered {
        // Cleared before the values are read, so that later ones are not missed. Acquire; pairs with Release in who sets a bit: who
        // sees it sees the values.
        let closed = self.closed.fetch_and(!(NEW_TUNING | RATE_SET | NEW_LANGUAGE), Ordering::Acquire);
        let is_set = |bit| closed & bit != 0;
        Steered { rate: is_set(RATE_SET), language: is_set(NEW_LANGUAGE), tuning: is_set(NEW_TUNING) }
    }
}
