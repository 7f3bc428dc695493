//! GFC toward a peer that only knows PFC: the width of pauses sets the peer's mean rate. Not from a paper.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::PfcFrame;

use crate::sync::{AtomicU32, Ordering};
use crate::{Quantum, wire_bytes};

/// Generator of pauses that make a PFC peer send at a mean rate R: it is paused for `P·(1 − R/C)` from the start of each period
/// P.
///
/// A pause is one frame, at most as long as the rest of its period and never refreshed, so the peer runs again within P even if
/// this port fails. A pause too short by a fraction of a quantum or a late poll is made up by the class's next, except for the
/// peer's least time ([`Pulse::open_at_least`]).
///
/// Rates are read once a period, so a change takes up to P to be advertised, which **adds P to τ** in the bounds of
/// [`super::buffer_based_b1_max`] and the other bounds. Within a period the peer sends a burst of `P·R/C` at line rate, and ends
/// the frame in serialisation: half a frame too much on average, 3 % of stage 3's rate. Therefore arrivals are counted
/// ([`ArrivalCounters`]), and pauses are lengthened by the mean overrun. No rate is below one frame a period. A longer P is more exact,
/// a shorter one gentler.
///
/// Call [`Pulse::poll`], send the returned frame, and confirm with [`Pulse::handle_sent`]; a frame that could not be sent is due
/// again, with shorter pauses.
#[derive(Debug)]
pub(crate) struct Pulse {
    quantum: Quantum,
    line: BitRate,
    period: Span,
    /// Classes under GFC.
    classes: ClassSet,
    /// End of the current period.
    period_ends: Time,
    /// Pause time still owed to each class.
    owed: [Span; CLASSES],
    /// Start of the current period, each class's pause in it, and the arrivals up to its start.
    began: Time,
    paused: [Span; CLASSES],
    arrived: [u32; CLASSES],
    /// Rate of each class's last pause, and the number of earlier periods with the same rate.
    advertised: [(BitRate, u32); CLASSES],
    /// Mean overrun of each class per period, as line time.
    overrun: [Span; CLASSES],
}

/// Arrivals of a port's eight classes, in bytes on the wire, modulo 2^32. Counted by the one lcore that receives on the port.
#[derive(Debug)]
pub struct ArrivalCounters {
    bytes: [AtomicU32; CLASSES],
    link_overhead: Bytes,
}

impl ArrivalCounters {
    /// Creates empty counters for a link with this overhead per frame.
    pub fn new(link_overhead: Bytes) -> ArrivalCounters {
        ArrivalCounters { bytes: Default::default(), link_overhead }
    }

    /// Returns the wire bytes of a frame of this length (without FCS).
    #[inline]
    pub(crate) fn bytes_of(&self, frame_bytes: u32) -> u32 {
        wire_bytes(frame_bytes, self.link_overhead).get() as u32
    }

    /// Adds the bytes of received frames.
    #[inline]
    pub fn count(&self, class: Class, bytes: u32) {
        // One writer, so load and store need not be one operation; relaxed: one seen late counts for the next period.
        let counter = &self.bytes[class.index()];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Returns the bytes of all classes so far.
    pub fn bytes(&self) -> [u32; CLASSES] {
        self.bytes.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Inverse weight of a new overrun in the mean: a frame in serialisation at the start of a pause is random.
const OVERRUN_WEIGHT: u64 = 8;
/// Periods with one rate before arrivals are measured; earlier ones may be of the previous rate.
const PERIODS_TO_SETTLE: u32 = 2;
/// Upper bound on an overrun, as a fraction of the period: that of some frames.
const OVERRUN_PART_MAX: u64 = 8;

/// Least open time at a period's end, as a fraction of the period: long enough to begin a frame between two pauses.
const OPEN_PART_MIN: u64 = 128;

/// Pauses of a period that starts now.
struct NextPeriod {
    frame: PfcFrame,
    period_ends: Time,
    owed: [Span; CLASSES],
}

impl Pulse {
    /// Creates a generator for `classes` of a peer on a link of rate `line`, with periods of this length.
    ///
    /// # Panics
    /// If the period is shorter than a hundred quanta, which could not tell rates apart, or longer than the longest pause (65,535
    /// quanta: 3.4 ms at 10 Gb/s).
    pub(crate) fn new(line: BitRate, classes: ClassSet, period: Span) -> Pulse {
        let quantum = Quantum::for_rate(line);
        let legal = quantum.times(100)..=quantum.times(u16::MAX);
        assert!(legal.contains(&period), "a period of {period} is outside {legal:?}");
        Pulse {
            quantum,
            line,
            period,
            classes,
            period_ends: Time::ZERO,
            owed: [Span::ZERO; CLASSES],
            began: Time::ZERO,
            paused: [Span::ZERO; CLASSES],
            arrived: [0; CLASSES],
            advertised: [(line, 0); CLASSES],
            overrun: [Span::ZERO; CLASSES],
        }
    }

    /// Returns the least time for which the peer runs in each period.
    pub(crate) fn open_at_least(period: Span) -> Span {
        period.divided_by(OPEN_PART_MIN)
    }

    /// Returns the frame due at `now` for classes with these rates: at the start of a period, if any class is slower than the
    /// line. After a time at line rate a period starts at once.
    #[inline]
    pub(crate) fn poll(&self, now: Time, rates: &[BitRate; CLASSES]) -> Option<PfcFrame> {
        if now < self.period_ends { None } else { self.frame(now, rates) }
    }

    fn frame(&self, now: Time, rates: &[BitRate; CLASSES]) -> Option<PfcFrame> {
        let slow = self.classes.iter().any(|class| rates[class.index()] < self.line);
        slow.then(|| self.plan(now, rates).frame).filter(|frame| !frame.enabled.is_empty())
    }

    /// Records that the frame from [`Pulse::poll`] for these rates was sent at `now`, the instant of the poll, and the arrivals
    /// by then, if counted.
    pub(crate) fn handle_sent(&mut self, now: Time, rates: &[BitRate; CLASSES], arrived: Option<&ArrivalCounters>) {
        let plan = self.plan(now, rates);
        if let Some(arrived) = arrived {
            self.learn(now, arrived.bytes());
        }
        for ((advertised, periods), rate) in self.advertised.iter_mut().zip(rates) {
            *periods = if advertised == rate { periods.saturating_add(1) } else { 0 };
            *advertised = *rate;
        }
        let pause = |class: usize| self.quantum.times(plan.frame.times[class]);
        self.paused = std::array::from_fn(pause);
        (self.began, self.period_ends, self.owed) = (now, plan.period_ends, plan.owed);
    }

    /// Updates the overruns from the arrivals in the period that ends.
    fn learn(&mut self, now: Time, arrived: [u32; CLASSES]) {
        let length = now.since(self.began);
        for class in self.classes.iter().map(Class::index) {
            let sent = self.line.time_for(Bytes::new(u64::from(arrived[class].wrapping_sub(self.arrived[class]))));
            // A class that was not paused, or a gap at line rate, has no measurable overrun.
            let has_settled = self.advertised[class].1 >= PERIODS_TO_SETTLE && self.paused[class] > Span::ZERO;
            if has_settled && length <= self.period * 2 {
                let might = length.saturating_sub(self.paused[class]);
                let most = self.period.divided_by(OVERRUN_PART_MAX);
                let (over, under) = (sent.saturating_sub(might).min(most), might.saturating_sub(sent).min(most));
                let before = self.overrun[class] * (OVERRUN_WEIGHT - 1) + over;
                self.overrun[class] = before.saturating_sub(under).divided_by(OVERRUN_WEIGHT);
            }
        }
        self.arrived = arrived;
    }

    /// Resets the state to the start, with the first period from `at` on.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.period_ends, self.began) = (at, at);
        (self.owed, self.paused, self.overrun) = ([Span::ZERO; CLASSES], [Span::ZERO; CLASSES], [Span::ZERO; CLASSES]);
        self.advertised = [(self.line, 0); CLASSES];
    }

    /// Returns the instant at which the next period may start. Nothing is due then if all classes have the line rate.
    pub(crate) fn next_wakeup(&self) -> Time {
        self.period_ends
    }

    fn plan(&self, now: Time, rates: &[BitRate; CLASSES]) -> NextPeriod {
        // Continues from the last period, so that late polls do not lengthen periods; restarts after a gap.
        let follows = now.since(self.period_ends) < self.period;
        let period_ends = if follows { self.period_ends } else { now }.saturating_add(self.period);
        let left = period_ends.since(now);
        let mut plan = NextPeriod { frame: PfcFrame::default(), period_ends, owed: [Span::ZERO; CLASSES] };
        for class in self.classes.iter().filter(|class| rates[class.index()] < self.line) {
            let pause = self.owed[class.index()] + self.overrun[class.index()] + self.pause_at(rates[class.index()]);
            let quanta = self.quantum.in_span(pause.min(left.saturating_sub(Pulse::open_at_least(self.period))));
            if quanta > 0 {
                plan.frame.enabled.insert(class);
                plan.frame.times[class.index()] = quanta;
            }
            // The bound keeps polls that are always late from accumulating pauses.
            plan.owed[class.index()] = pause.saturating_sub(self.quantum.times(quanta)).min(self.period);
        }
        plan
    }

    /// Computes P·(1 − R/C), with one division a period.
    fn pause_at(&self, rate: BitRate) -> Span {
        let run = u128::from(self.period.as_picos()) * u128::from(rate.as_bps()) / u128::from(self.line.as_bps());
        self.period.saturating_sub(Span::from_picos(run as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use weir_units::LINK_OVERHEAD;

    use super::*;
    use crate::pfc::PauseTimers;

    const LINE: BitRate = BitRate::gbps(10);
    const PERIOD: Span = Span::from_micros(100);
    const CLASS: Class = Class::new(3);

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    /// Returns the nanoseconds for which the peer was not paused in `us` microseconds, with polls every `poll` nanoseconds.
    fn open_time(rate: BitRate, us: u64, poll: usize) -> u64 {
        let (mut pulse, gate) =
            (Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD), PauseTimers::new(Quantum::for_rate(LINE)));
        for ns in (0..us * 1_000).step_by(poll) {
            if let Some(frame) = pulse.poll(at(ns), &[rate; CLASSES]) {
                assert!(Quantum::for_rate(LINE).times(frame.times[3]) <= PERIOD);
                gate.handle_pfc(at(ns), &frame);
                pulse.handle_sent(at(ns), &[rate; CLASSES], None);
                let resumes = gate.next_wakeup(at(ns)).unwrap();
                assert!(resumes <= pulse.next_wakeup(), "the pause ends with its period");
            }
        }
        us * 1_000 - gate.pause_time(at(us * 1_000), CLASS).0.as_nanos()
    }

    #[test]
    fn the_mean_of_every_stage_is_met_over_a_millisecond() {
        for stage in 1..=6 {
            let rate = BitRate::bps(LINE.as_bps() >> stage);
            let (open, expected) = (open_time(rate, 1_000, 10), 1_000_000 >> stage);
            assert!(open.abs_diff(expected) * 50 <= expected, "stage {stage}: open for {open} ns of {expected} ns");
        }
    }

    /// A real peer ends the frame that it has begun: from the third millisecond on, later pauses compensate for that.
    #[test]
    fn a_peer_that_sends_complete_frames_has_the_mean_rate_too() {
        for (stage, frame) in [(1, 1_514), (2, 1_514), (3, 1_514), (4, 1_514), (3, 600), (1, 9_014)] {
            let rate = BitRate::bps(LINE.as_bps() >> stage);
            let (mut pulse, gate, arrivals) = (
                Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD),
                PauseTimers::new(Quantum::for_rate(LINE)),
                ArrivalCounters::new(LINK_OVERHEAD),
            );
            let (mut free_at, mut sent, mut sent_before) = (Time::ZERO, 0u64, 0);
            let bytes = arrivals.bytes_of(frame);
            for ns in (0..9_000_000).step_by(10) {
                if let Some(frame) = pulse.poll(at(ns), &[rate; CLASSES]) {
                    gate.handle_pfc(at(ns), &frame);
                    pulse.handle_sent(at(ns), &[rate; CLASSES], Some(&arrivals));
                }
                if gate.paused(at(ns)) == ClassSet::EMPTY && free_at <= at(ns) {
                    free_at = free_at.max(at(ns - ns.min(10))) + LINE.time_for(Bytes::new(u64::from(bytes)));
                    sent += u64::from(bytes);
                    arrivals.count(CLASS, bytes);
                }
                if ns == 3_000_000 {
                    sent_before = sent;
                }
            }
            let expected = rate.bytes_in(Span::from_millis(6)).get();
            let off = (sent - sent_before) as f64 / expected as f64 - 1.0;
            assert!(off.abs() < 0.02, "stage {stage}, frames of {frame} B: {:+.2} %", off * 100.0);
        }
    }

    /// An idle peer gains no credit for later periods, and loses none.
    #[test]
    fn an_idle_peer_has_no_overrun() {
        let (mut pulse, half, arrivals) = (
            Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD),
            [BitRate::gbps(5); CLASSES],
            ArrivalCounters::new(LINK_OVERHEAD),
        );
        for period in 0..20 {
            let frame = pulse.poll(at(period * 100_000), &half).unwrap();
            assert!((976..=977).contains(&frame.times[3]), "period {period}: {}", frame.times[3]);
            pulse.handle_sent(at(period * 100_000), &half, Some(&arrivals));
        }
    }

    #[test]
    fn at_line_rate_nothing_is_sent_and_the_first_pause_comes_at_once() {
        let mut pulse = Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD);
        let half = [BitRate::gbps(5); CLASSES];
        assert_eq!(pulse.poll(at(1_000), &[LINE; CLASSES]), None);
        let frame = pulse.poll(at(1_000_777), &half).unwrap();
        assert_eq!((frame.enabled, frame.times[3]), (ClassSet::from_bits(0b1000), 976), "50 us are 976.6 quanta");
        pulse.handle_sent(at(1_000_777), &half, None);
        assert_eq!(pulse.next_wakeup(), at(1_100_777));
        assert_eq!(pulse.poll(at(1_100_776), &half), None, "no refresh within the period");
        assert_eq!(pulse.poll(at(1_100_777), &half).unwrap().times[3], 977, "the fraction is not lost");
        assert_eq!(pulse.poll(at(1_100_777), &[LINE; CLASSES]), None);
    }

    #[test]
    fn a_late_frame_pauses_no_further_than_its_period() {
        let mut pulse = Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD);
        let slow = [BitRate::mbps(100); CLASSES];
        pulse.handle_sent(at(0), &slow, None);
        let frame = pulse.poll(at(140_000), &slow).unwrap();
        // 60 us are left, of which the last 0.8 are open.
        assert_eq!(frame.times[3], Quantum::for_rate(LINE).in_span(Span::from_nanos(59_218)));
        pulse.handle_sent(at(140_000), &slow, None);
        assert_eq!(pulse.next_wakeup(), at(200_000));
    }

    #[test]
    fn classes_have_their_own_rates() {
        let pulse = Pulse::new(LINE, ClassSet::from_bits(0b1110), PERIOD);
        let mut rates = [LINE; CLASSES];
        (rates[0], rates[1], rates[3]) = (BitRate::gbps(1), BitRate::gbps(5), BitRate::mbps(2_500));
        let frame = pulse.poll(at(0), &rates).unwrap();
        assert_eq!((frame.enabled, frame.times[1], frame.times[3]), (ClassSet::from_bits(0b1010), 976, 1_464));
    }

    /// Rate in Mb/s, and intervals between polls in ns.
    fn rate_and_poll() -> impl Strategy<Value = (u64, usize)> {
        let least = Pulse::open_at_least(PERIOD).as_nanos();
        (100..9_900u64).prop_flat_map(move |mbps| {
            let open = PERIOD.as_nanos() * mbps / 10_000;
            (Just(mbps), 1..(open - least).clamp(2, 1_000) as usize)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The mean over ten milliseconds is the rate, to 2 % and one poll's delay, with polls up to a microsecond apart. A late
        /// pause is compensated by a longer one, which leaves the peer its minimum open time. That must be shorter than the
        /// rate's open time by a poll.
        #[test]
        fn the_mean_is_met_at_any_rate_and_pace((mbps, poll) in rate_and_poll()) {
            let (open, expected) = (open_time(BitRate::mbps(mbps), 10_000, poll), mbps * 1_000);
            prop_assert!(open.abs_diff(expected) <= expected / 50 + poll as u64, "open for {} ns of {} ns", open, expected);
        }

        /// The peer runs again within a period of the last frame, for any sequence of rates and late polls.
        #[test]
        fn no_pause_is_longer_than_a_period(steps in prop::collection::vec((0..60_000u64, 1..10_001u64), 1..200)) {
            let (mut pulse, gate) = (Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD), PauseTimers::new(Quantum::for_rate(LINE)));
            let mut now = at(0);
            for (ns, mbps) in steps {
                now += Span::from_nanos(ns);
                let rates = [BitRate::mbps(mbps); CLASSES];
                if let Some(frame) = pulse.poll(now, &rates) {
                    prop_assert!(frame.paused() == frame.enabled && frame.enabled == CLASS.alone());
                    prop_assert_eq!(gate.paused(now), ClassSet::EMPTY, "a pause is over before the next");
                    gate.handle_pfc(now, &frame);
                    pulse.handle_sent(now, &rates, None);
                    let paused_for = gate.next_wakeup(now).unwrap().since(now);
                    prop_assert!(paused_for <= PERIOD);
                }
            }
        }
    }
}
