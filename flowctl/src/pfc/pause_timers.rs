//! Pause timers of a port's classes, which the receiver of PFC and PAUSE sets.

use weir_units::{CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::PfcFrame;

use crate::Quantum;
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Pause timers of a port's eight classes.
///
/// Written by the one lcore that receives on the port, read by the transmitting lcore. A class is paused until its
/// timer expires; a new frame replaces the timer. Relaxed throughout: timers are independent, and the transmitter
/// may see a timer a poll late, as it may see a frame a poll late.
#[derive(Debug)]
#[repr(C)]
pub struct PauseTimers {
    /// Classes whose timer may still run: the transmitter checks all eight with one load.
    maybe_paused: AtomicU8,
    /// Pause quantum, as [`Quantum::to_bits`]. Relaxed: a pause that arrives while the rate changes uses either quantum.
    quantum: AtomicU64,
    classes: [PauseTimer; CLASSES],
}

/// Pause timer of one class, with its total paused time.
#[derive(Debug, Default)]
struct PauseTimer {
    /// End of the pause, in picoseconds.
    until: AtomicU64,
    /// Instant up to which `paused_for` is complete.
    counted_to: AtomicU64,
    /// Time spent paused, up to `counted_to`.
    paused_for: AtomicU64,
    /// Changes from running to paused.
    pauses: AtomicU64,
    /// Instant of the last change from running to paused, in picoseconds.
    began: AtomicU64,
}

/// Most recent pause of a class, current or past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPause {
    /// Instant at which the class went from running to paused.
    pub began: Time,
    /// Duration of the pause so far.
    pub lasted: Span,
}

impl PauseTimers {
    /// Creates expired timers; pause times count in `quantum`, that of the port's rate.
    pub fn new(quantum: Quantum) -> PauseTimers {
        PauseTimers {
            maybe_paused: AtomicU8::new(0),
            quantum: AtomicU64::new(quantum.to_bits()),
            classes: Default::default(),
        }
    }

    /// Sets the quantum of later pauses; a pause under way keeps its end. Callable from any thread.
    pub fn set_quantum(&self, quantum: Quantum) {
        self.quantum.store(quantum.to_bits(), Ordering::Relaxed);
    }

    /// Obeys a PFC frame received at `now`.
    pub fn handle_pfc(&self, now: Time, frame: &PfcFrame) {
        for class in frame.enabled.iter() {
            self.set(now, class, frame.times[class.index()]);
        }
    }

    /// Obeys an 802.3x PAUSE received at `now`, for all classes.
    pub fn handle_pause(&self, now: Time, quanta: u16) {
        for class in Class::ALL {
            self.set(now, class, quanta);
        }
    }

    fn set(&self, now: Time, class: Class, quanta: u16) {
        let pause = Quantum::from_bits(self.quantum.load(Ordering::Relaxed)).times(quanta);
        self.hold(now, class, now.saturating_add(pause));
    }

    /// Pauses a class until `until`, on a message received at `now`; replaces an earlier pause. An `until` not later than `now`
    /// resumes the class. Called by the lcore that receives on the port.
    pub fn hold(&self, now: Time, class: Class, until: Time) {
        let timer = &self.classes[class.index()];
        let is_paused = until > now;
        let was_paused = timer.count_to(now) > Span::ZERO;
        if is_paused && !was_paused {
            timer.began.store(now.as_picos(), Ordering::Relaxed);
            timer.pauses.store(timer.pauses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        // A pause that expired keeps its own end, earlier than the message that resumes the class.
        if is_paused || was_paused {
            timer.until.store(until.as_picos(), Ordering::Relaxed);
        }
        // Only this side writes the mask: a transmitter that cleared expired classes could clear a new pause.
        if is_paused {
            self.maybe_paused.fetch_or(class.alone().bits(), Ordering::Relaxed);
        } else {
            self.maybe_paused.fetch_and(!class.alone().bits(), Ordering::Relaxed);
        }
    }

    /// Ends all pauses at `now`. Callable from any lcore. A pause from a concurrently handled frame may remain.
    pub(crate) fn end_pauses(&self, now: Time) {
        for timer in &self.classes {
            timer.until.fetch_min(now.as_picos(), Ordering::Relaxed);
        }
    }

    /// Returns the classes that may not send at `now`.
    #[inline]
    pub fn paused(&self, now: Time) -> ClassSet {
        let candidates = ClassSet::from_bits(self.maybe_paused.load(Ordering::Relaxed));
        if candidates.is_empty() { ClassSet::EMPTY } else { self.paused_among(now, candidates) }
    }

    fn paused_among(&self, now: Time, candidates: ClassSet) -> ClassSet {
        let is_paused = |class: &Class| now.as_picos() < self.classes[class.index()].until.load(Ordering::Relaxed);
        ClassSet::from_iter(candidates.iter().filter(is_paused))
    }

    /// Returns the earliest instant after `now` at which a paused class may send again; `None` if none is paused.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        let untils = self.classes.iter().map(|timer| Time::from_picos(timer.until.load(Ordering::Relaxed)));
        untils.filter(|until| *until > now).min()
    }

    /// Returns the total paused time of a class until `now`, and its number of changes from running to paused.
    pub fn pause_time(&self, now: Time, class: Class) -> (Span, u64) {
        let timer = &self.classes[class.index()];
        let counted_to = Time::from_picos(timer.counted_to.load(Ordering::Relaxed));
        let until = Time::from_picos(timer.until.load(Ordering::Relaxed)).min(now);
        let before = Span::from_picos(timer.paused_for.load(Ordering::Relaxed));
        (before + until.since(counted_to), timer.pauses.load(Ordering::Relaxed))
    }

    /// Returns the last pause of a class as of `now`; `None` if there was none. Returns either pause if one begins concurrently.
    pub fn last_pause(&self, now: Time, class: Class) -> Option<LastPause> {
        let timer = &self.classes[class.index()];
        let began = Time::from_picos(timer.began.load(Ordering::Relaxed));
        let until = Time::from_picos(timer.until.load(Ordering::Relaxed)).min(now);
        (timer.pauses.load(Ordering::Relaxed) > 0).then(|| LastPause { began, lasted: until.since(began) })
    }
}

impl PauseTimer {
    /// Adds the pause up to `now` to the total; returns the remaining pause.
    fn count_to(&self, now: Time) -> Span {
        let until = Time::from_picos(self.until.load(Ordering::Relaxed));
        let counted_to = Time::from_picos(self.counted_to.load(Ordering::Relaxed));
        let more = until.min(now).since(counted_to).as_picos();
        self.paused_for.store(self.paused_for.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        self.counted_to.store(now.as_picos(), Ordering::Relaxed);
        until.since(now)
    }
}

#[cfg(test)]
mod tests {
    use weir_units::BitRate;

    use super::*;

    /// Duration of 100 quanta at 10 Gb/s.
    const PAUSE: Span = Span::from_nanos(5_120);

    fn gate() -> PauseTimers {
        PauseTimers::new(Quantum::for_rate(BitRate::gbps(10)))
    }

    fn frame(enabled: u8, quanta: u16) -> PfcFrame {
        PfcFrame { enabled: ClassSet::from_bits(enabled), times: [quanta; CLASSES] }
    }

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn exactly_the_named_classes_stop_for_exactly_the_time() {
        let gate = gate();
        gate.handle_pfc(at(1_000), &frame(0b1000, 100));
        assert_eq!(gate.paused(at(1_000)), ClassSet::from_bits(0b1000));
        let end = at(1_000) + PAUSE;
        assert_eq!(gate.paused(end.saturating_sub(Span::from_picos(1))), ClassSet::from_bits(0b1000));
        assert_eq!(gate.paused(end), ClassSet::EMPTY);
        assert_eq!(gate.next_wakeup(at(1_000)), Some(end));
        assert_eq!(gate.next_wakeup(end), None);
    }

    #[test]
    fn time_zero_resumes_early_and_only_the_named_class() {
        let gate = gate();
        gate.handle_pfc(at(0), &frame(0b1100, 100));
        gate.handle_pfc(at(2_000), &frame(0b0100, 0));
        assert_eq!(gate.paused(at(2_000)), ClassSet::from_bits(0b1000));
        assert_eq!(gate.pause_time(at(9_000), Class::new(2)), (Span::from_nanos(2_000), 1));
        assert_eq!(gate.pause_time(at(9_000), Class::new(3)), (PAUSE, 1));
    }

    #[test]
    fn a_new_frame_replaces_the_timer_and_is_no_new_pause() {
        let gate = gate();
        gate.handle_pfc(at(0), &frame(1, 100));
        gate.handle_pfc(at(4_000), &frame(1, 100));
        assert_eq!(gate.paused(at(9_119)), ClassSet::from_bits(1));
        assert_eq!(gate.paused(at(9_120)), ClassSet::EMPTY);
        gate.handle_pfc(at(20_000), &frame(1, 1));
        assert_eq!(gate.pause_time(at(30_000), Class::new(0)), (Span::from_picos(9_120_000 + 51_200), 2));
    }

    #[test]
    fn a_shorter_time_shortens_the_pause() {
        let gate = gate();
        gate.handle_pfc(at(0), &frame(1, u16::MAX));
        gate.handle_pfc(at(100), &frame(1, 100));
        assert_eq!(gate.paused(at(100) + PAUSE), ClassSet::EMPTY);
    }

    #[test]
    fn a_new_quantum_counts_for_the_next_pause() {
        let gate = gate();
        gate.handle_pfc(at(0), &frame(0b01, 100));
        gate.set_quantum(Quantum::for_rate(BitRate::gbps(1)));
        assert_eq!(gate.next_wakeup(at(1)), Some(at(0) + PAUSE), "one under way keeps its end");
        gate.handle_pfc(at(2_000), &frame(0b10, 100));
        assert_eq!(gate.paused(at(5_119)), ClassSet::from_bits(0b11));
        assert_eq!(gate.paused(at(5_120)), ClassSet::from_bits(0b10));
        assert_eq!(gate.next_wakeup(at(5_120)), Some(at(2_000) + PAUSE * 10));
        gate.handle_pfc(at(6_000), &frame(0b10, 100));
        assert_eq!(gate.next_wakeup(at(6_000)), Some(at(6_000) + PAUSE * 10), "replaced, in new quanta");
    }

    #[test]
    fn pauses_that_are_ended_count_up_to_then_and_are_over() {
        let gate = gate();
        gate.handle_pfc(at(0), &frame(0b11, 100));
        gate.end_pauses(at(2_000));
        assert_eq!((gate.paused(at(2_000)), gate.next_wakeup(at(2_000))), (ClassSet::EMPTY, None));
        assert_eq!(gate.pause_time(at(9_000), Class::new(1)), (Span::from_nanos(2_000), 1));
        gate.handle_pfc(at(3_000), &frame(0b10, 100));
        assert_eq!(gate.paused(at(3_001)), ClassSet::from_bits(0b10));
        gate.end_pauses(at(99_000));
        assert_eq!(gate.pause_time(at(99_000), Class::new(1)), (Span::from_nanos(7_120), 2), "over before");
    }

    #[test]
    fn global_pause_stops_all_classes() {
        let gate = gate();
        gate.handle_pause(at(0), 100);
        assert_eq!(gate.paused(at(1)), ClassSet::ALL);
        gate.handle_pause(at(2), 0);
        assert_eq!(gate.paused(at(2)), ClassSet::EMPTY);
    }

    #[test]
    fn the_last_pause_is_reported_with_its_length() {
        let (gate, class) = (gate(), Class::new(3));
        let last = |gate: &PauseTimers, ns| {
            gate.last_pause(at(ns), class).map(|last| (last.began.as_nanos(), last.lasted.as_nanos()))
        };
        assert_eq!(last(&gate, 500), None);
        gate.handle_pfc(at(1_000), &frame(0b1000, 100));
        assert_eq!(last(&gate, 3_000), Some((1_000, 2_000)), "under way");
        gate.handle_pfc(at(4_000), &frame(0b1000, 100));
        assert_eq!(last(&gate, 50_000), Some((1_000, 8_120)), "a refresh is no new pause, and it ran out by itself");
        gate.handle_pfc(at(60_000), &frame(0b1000, 0));
        assert_eq!(last(&gate, 70_000), Some((1_000, 8_120)), "a RESUME later does not make it longer");
        gate.handle_pfc(at(80_000), &frame(0b1000, 100));
        gate.handle_pfc(at(81_000), &frame(0b1000, 0));
        assert_eq!(last(&gate, 90_000), Some((80_000, 1_000)));
        assert_eq!(gate.last_pause(at(90_000), Class::new(2)), None);
    }
}
