//! GFC toward a peer that only knows PFC: its mean rate is set by the width of pauses. No paper has this.

use weir_units::archive::{SharedState, State};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::PfcFrame;

use crate::sync::{AtomicU32, Ordering};
use crate::{Quantum, wire_bytes};

/// Makes a peer that obeys PFC send at a mean rate R: in each period P it is paused for `P·(1 − R/C)`, from the period's start.
///
/// A pause is in one frame, never longer than what is left of its period and never refreshed, so that whatever becomes of
/// this port the peer runs again within P. What a pause falls short of its length, in fractions of a quantum or because the
/// poll was late, is added to the class's next, as far as the peer runs for its least time ([`Pulse::open_at_least`]).
///
/// Rates are looked at once a period: a change takes up to P to be told, which **adds P to τ** in the bounds of
/// [`super::buffer_based_b1_max`] and its like. Within a period the peer sends a burst of `P·R/C` at line rate, and ends the
/// frame that it has begun: half a frame too much, on the average, which would be 3 % of the rate of stage 3. So what arrives is
/// counted ([`Arrivals`]), and pauses are longer by what peers sent over what they might, as a mean over some periods. No rate
/// goes below one frame a period. A longer P is more exact, a shorter one gentler.
///
/// Call [`Pulse::poll`], send what it returns, and confirm with [`Pulse::handle_sent`]; a frame that could not be sent is due
/// again, with shorter pauses.
#[derive(Debug, State)]
pub(crate) struct Pulse {
    #[state(same)]
    quantum: Quantum,
    line: BitRate,
    period: Span,
    /// Classes under GFC.
    classes: ClassSet,
    /// When the period under way ends.
    period_ends: Time,
    /// The pause that each class was not given yet.
    owed: [Span; CLASSES],
    /// When the period under way began, how long each class was paused in it, and what had arrived by then.
    began: Time,
    paused: [Span; CLASSES],
    arrived: [u32; CLASSES],
    /// The rate that each class was paused for in it, and in how many periods before.
    told: [(BitRate, u32); CLASSES],
    /// How much longer than it might each class sends in a period.
    overrun: [Span; CLASSES],
}

/// What arrived of a port's eight classes, in bytes on the wire, modulo 2^32. Counted by the one lcore that receives on the port.
#[derive(Debug, SharedState)]
pub struct Arrivals {
    bytes: [AtomicU32; CLASSES],
    #[state(same)]
    link_overhead: Bytes,
}

impl Arrivals {
    /// None yet, on a link whose frames take so much beyond their length.
    pub fn new(link_overhead: Bytes) -> Arrivals {
        Arrivals { bytes: Default::default(), link_overhead }
    }

    /// What a frame of this length (without FCS) counts.
    #[inline]
    pub(crate) fn bytes_of(&self, frame_bytes: u32) -> u32 {
        wire_bytes(frame_bytes, self.link_overhead).get() as u32
    }

    /// Counts frames of so many bytes together.
    #[inline]
    pub fn count(&self, class: Class, bytes: u32) {
        // One writer, so load and store need not be one operation; relaxed: one seen late counts for the next period.
        let counter = &self.bytes[class.index()];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// All so far.
    pub fn bytes(&self) -> [u32; CLASSES] {
        self.bytes.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// An eighth of a new overrun counts: whether a frame is under way when a pause begins is a matter of luck.
const OVERRUN_WEIGHT: u64 = 8;
/// While a rate is told this often, what arrives may still be of the one before.
const PERIODS_TO_SETTLE: u32 = 2;
/// An overrun counts up to this part of the period: that of some frames.
const OVERRUN_PART_MAX: u64 = 8;

/// At the end of each period the peer runs for this part of it at least, whatever its rate: long enough to begin a frame, so that
/// pauses never follow each other without one.
const OPEN_PART_MIN: u64 = 128;

/// The pauses of a period that starts now.
struct NextPeriod {
    frame: PfcFrame,
    period_ends: Time,
    owed: [Span; CLASSES],
}

impl Pulse {
    /// For `classes` of a peer behind a link of the rate `line`, in periods of this length.
    ///
    /// # Panics
    /// If the period is shorter than a hundred quanta, which could not tell rates apart, or longer than the longest pause (65,535
    /// quanta: 3.4 ms at 10 Gb/s).
    pub(crate) fn new(line: BitRate, classes: ClassSet, period: Span) -> Pulse {
        let quantum = Quantum::at(line);
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
            told: [(line, 0); CLASSES],
            overrun: [Span::ZERO; CLASSES],
        }
    }

    /// How long the peer runs in each period of this length at least, whatever its rate.
    pub(crate) fn open_at_least(period: Span) -> Span {
        period.divided_by(OPEN_PART_MIN)
    }

    /// The frame due at `now` for classes that should send at these rates: at the start of a period, if any class should
    /// send slower than the line. After a while at line rate a period starts at once.
    #[inline]
    pub(crate) fn poll(&self, now: Time, rates: &[BitRate; CLASSES]) -> Option<PfcFrame> {
        if now < self.period_ends { None } else { self.frame(now, rates) }
    }

    fn frame(&self, now: Time, rates: &[BitRate; CLASSES]) -> Option<PfcFrame> {
        let slow = self.classes.iter().any(|class| rates[class.index()] < self.line);
        slow.then(|| self.plan(now, rates).frame).filter(|frame| !frame.enabled.is_empty())
    }

    /// Notes that the frame that [`Pulse::poll`] returned for these rates has been sent at `now`, the instant of the poll, and
    /// what has arrived by then, where that is counted.
    pub(crate) fn handle_sent(&mut self, now: Time, rates: &[BitRate; CLASSES], arrived: Option<&Arrivals>) {
        let plan = self.plan(now, rates);
        if let Some(arrived) = arrived {
            self.learn(now, arrived.bytes());
        }
        for ((told, periods), rate) in self.told.iter_mut().zip(rates) {
            *periods = if told == rate { periods.saturating_add(1) } else { 0 };
            *told = *rate;
        }
        let pause = |class: usize| self.quantum.times(plan.frame.times[class]);
        self.paused = std::array::from_fn(pause);
        (self.began, self.period_ends, self.owed) = (now, plan.period_ends, plan.owed);
    }

    /// Takes over what arrived in the period that ends.
    fn learn(&mut self, now: Time, arrived: [u32; CLASSES]) {
        let length = now.since(self.began);
        for class in self.classes.iter().map(Class::index) {
            let sent = self.line.time_for(Bytes::new(u64::from(arrived[class].wrapping_sub(self.arrived[class]))));
            // Nothing is to be learnt of a class that was not paused, nor where a while at line rate lies between.
            let has_settled = self.told[class].1 >= PERIODS_TO_SETTLE && self.paused[class] > Span::ZERO;
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

    /// As at the start, with the first period from `at` on.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.period_ends, self.began) = (at, at);
        (self.owed, self.paused, self.overrun) = ([Span::ZERO; CLASSES], [Span::ZERO; CLASSES], [Span::ZERO; CLASSES]);
        self.told = [(self.line, 0); CLASSES];
    }

    /// When the next period may start. Without a class slower than the line nothing is due then.
    pub(crate) fn next_wakeup(&self) -> Time {
        self.period_ends
    }

    fn plan(&self, now: Time, rates: &[BitRate; CLASSES]) -> NextPeriod {
        // On from the last period, so that late polls make no period longer; anew after a gap.
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
            // Polls that are always late must not pile up pauses for a faster time.
            plan.owed[class.index()] = pause.saturating_sub(self.quantum.times(quanta)).min(self.period);
        }
        plan
    }

    /// P·(1 − R/C). A division, once a period.
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
    use crate::pfc::Gate;

    const LINE: BitRate = BitRate::gbps(10);
    const PERIOD: Span = Span::from_micros(100);
    const CLASS: Class = Class::new(3);

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    /// How long the peer's gate was open in `us` microseconds, in nanoseconds; polls come `poll` nanoseconds apart.
    fn open_time(rate: BitRate, us: u64, poll: usize) -> u64 {
        let (mut pulse, gate) = (Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD), Gate::new(Quantum::at(LINE)));
        for ns in (0..us * 1_000).step_by(poll) {
            if let Some(frame) = pulse.poll(at(ns), &[rate; CLASSES]) {
                assert!(Quantum::at(LINE).times(frame.times[3]) <= PERIOD);
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

    /// A real peer ends the frame that it has begun: from the third millisecond on that is made up for.
    #[test]
    fn a_peer_that_sends_whole_frames_has_the_mean_rate_too() {
        for (stage, frame) in [(1, 1_514), (2, 1_514), (3, 1_514), (4, 1_514), (3, 600), (1, 9_014)] {
            let rate = BitRate::bps(LINE.as_bps() >> stage);
            let (mut pulse, gate, arrivals) = (
                Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD),
                Gate::new(Quantum::at(LINE)),
                Arrivals::new(LINK_OVERHEAD),
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

    /// A peer with nothing to send earns nothing by that, and takes nothing from the next.
    #[test]
    fn an_idle_peer_has_no_overrun() {
        let (mut pulse, half, arrivals) = (
            Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD),
            [BitRate::gbps(5); CLASSES],
            Arrivals::new(LINK_OVERHEAD),
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
        assert_eq!(frame.times[3], Quantum::at(LINE).in_span(Span::from_nanos(59_218)));
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

    /// A rate in Mb/s, and how far apart polls are, in ns.
    fn rate_and_poll() -> impl Strategy<Value = (u64, usize)> {
        let least = Pulse::open_at_least(PERIOD).as_nanos();
        (100..9_900u64).prop_flat_map(move |mbps| {
            let open = PERIOD.as_nanos() * mbps / 10_000;
            (Just(mbps), 1..(open - least).clamp(2, 1_000) as usize)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Any rate that a hundred nanoseconds in a period can tell, with polls up to a microsecond apart: the mean over ten
        /// milliseconds is the rate to 2 %, and one poll's delay. A pause that came late is made up for by a longer one, which leaves
        /// the peer its least time: so that must be shorter than the rate's by a poll.
        #[test]
        fn the_mean_is_met_at_any_rate_and_pace((mbps, poll) in rate_and_poll()) {
            let (open, expected) = (open_time(BitRate::mbps(mbps), 10_000, poll), mbps * 1_000);
            prop_assert!(open.abs_diff(expected) <= expected / 50 + poll as u64, "open for {} ns of {} ns", open, expected);
        }

        /// Whatever the rates do and however late the polls are, the peer runs again within a period of the last frame.
        #[test]
        fn no_pause_is_longer_than_a_period(steps in prop::collection::vec((0..60_000u64, 1..10_001u64), 1..200)) {
            let (mut pulse, gate) = (Pulse::new(LINE, ClassSet::from_bits(0b1000), PERIOD), Gate::new(Quantum::at(LINE)));
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
