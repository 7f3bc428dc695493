//! Feedback delay τ of flow control, as measured on a link.
//!
//! τ of a message is the time from the arrival that made the downstream port send it to the arrival there of the last frame that
//! the upstream port sent before the message took effect (gfc 4.1). Frames in between arrive unchecked; headroom and thresholds
//! are made for them.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use weir_units::{CLASSES, Class, Span, Time};
use weir_wire::mac_control::ControlFrame;

/// Probe of τ, for the messages that slow down one direction of a link's data.
///
/// A message counts if it is a PFC or PAUSE frame with a larger time for a class than the last one delivered: the first PAUSE
/// after a RESUME, or a rising stage of GFC. Repetitions do not count.
///
/// Call in order of time: [`FeedbackProbe::handle_data_entered`] and [`FeedbackProbe::handle_data_delivered`] for data,
/// [`FeedbackProbe::handle_message`] for control frames of the other direction when they are delivered, and
/// [`FeedbackProbe::handle_applied`] when the upstream end obeys. These calls allocate nothing.
#[derive(Debug)]
pub struct FeedbackProbe {
    delays: FeedbackDelays,
    /// Instants at which the data frames on the link entered it.
    entered: VecDeque<Time>,
    /// Data frames delivered.
    delivered: u64,
    /// Instants at which the last delivered frame entered and left.
    last: Option<(Time, Time)>,
    /// Messages delivered, not yet obeyed.
    waiting: VecDeque<DeliveredMessage>,
    /// Messages obeyed, with a last frame still on the link.
    ending: VecDeque<Ending>,
}

/// Detector of the messages that slow a direction down, with a histogram of their τ. Allocates only when created.
#[derive(Clone, Debug)]
pub struct FeedbackDelays {
    /// Last pause time or stage of each class; `advertised_link` is that of 802.3x PAUSE, for all classes.
    advertised: [u16; CLASSES],
    advertised_link: u16,
    nanos: Histogram<u64>,
    longest: Span,
    unmeasured: u64,
}

/// Statistics of a direction's feedback delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedbackStats {
    /// Messages measured.
    pub count: u64,
    /// Median, to 1 %.
    pub median: Span,
    /// 99th percentile, to 1 %.
    pub p99: Span,
    /// The longest.
    pub longest: Span,
    /// Messages not measured because too many were in flight.
    pub unmeasured: u64,
}

#[derive(Clone, Copy, Debug)]
struct DeliveredMessage {
    crossed: Time,
    delivered: Time,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    crossed: Time,
    /// Number of delivered data frames at which τ of the message ends.
    last: u64,
}

/// Most messages measured at once.
const MESSAGES_MAX: usize = 64;
/// Longest delay that the percentiles distinguish.
const NANOS_MAX: u64 = 100_000_000_000;

impl FeedbackProbe {
    /// Creates a probe of a link that holds up to `frames_max` data frames in its direction.
    pub fn new(frames_max: usize) -> FeedbackProbe {
        FeedbackProbe {
            delays: FeedbackDelays::new(),
            entered: VecDeque::with_capacity(frames_max),
            delivered: 0,
            last: None,
            waiting: VecDeque::with_capacity(MESSAGES_MAX),
            ending: VecDeque::with_capacity(MESSAGES_MAX),
        }
    }

    /// Records a data frame that enters the link.
    #[inline]
    pub fn handle_data_entered(&mut self, now: Time) {
        self.entered.push_back(now);
    }

    /// Records that the oldest data frame on the link is delivered.
    ///
    /// # Panics
    /// If no data frame is on the link.
    #[inline]
    pub fn handle_data_delivered(&mut self, now: Time) {
        let entered = self.entered.pop_front().expect("delivered frames have entered");
        self.delivered += 1;
        self.last = Some((entered, now));
        while let Some(ending) = self.ending.front()
            && ending.last <= self.delivered
        {
            let crossed = ending.crossed;
            self.ending.pop_front();
            self.delays.record(now.since(crossed));
        }
    }

    /// Records a delivered control frame of the other direction; `crossed` is the arrival for which the downstream port sent it.
    pub fn handle_message(&mut self, now: Time, crossed: Time, frame: &[u8]) {
        let Ok(frame) = ControlFrame::decode(frame) else { return };
        if !self.delays.slows_down(&frame) {
            return;
        }
        if matches!(frame, ControlFrame::Credit(_)) {
            // Each credit message may slow the sender down; one that does not is never obeyed before the next arrives.
            self.waiting.clear();
        }
        if self.waiting.len() + self.ending.len() < MESSAGES_MAX {
            self.waiting.push_back(DeliveredMessage { crossed, delivered: now });
        } else {
            self.delays.unmeasured += 1;
        }
    }

    /// Records that the upstream end last noticed a message at `applied`. The call may be late and may be repeated.
    ///
    /// Frames that entered the link by then were sent before. τ ends with the last of these frames, or at `applied` if none is
    /// left.
    #[inline]
    pub fn handle_applied(&mut self, applied: Time) {
        while let Some(message) = self.waiting.front()
            && message.delivered <= applied
        {
            let crossed = message.crossed;
            self.waiting.pop_front();
            match self.entered.partition_point(|entered| *entered <= applied) {
                0 => self.delays.record(self.end_without_frames(applied).since(crossed)),
                before => self.ending.push_back(Ending { crossed, last: self.delivered + before as u64 }),
            }
        }
    }

    /// Returns the later of `applied` and the delivery of the last frame sent before; that frame may have left since.
    fn end_without_frames(&self, applied: Time) -> Time {
        let out_since = self.last.filter(|(entered, _)| *entered <= applied).map(|(_, out)| out);
        out_since.map_or(applied, |out| out.max(applied))
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> FeedbackStats {
        self.delays.stats()
    }
}

impl Default for FeedbackDelays {
    fn default() -> FeedbackDelays {
        FeedbackDelays::new()
    }
}

impl FeedbackDelays {
    /// Creates a detector without any earlier message.
    pub fn new() -> FeedbackDelays {
        let mut nanos = Histogram::new_with_bounds(1, NANOS_MAX, 2).expect("legal bounds");
        nanos.auto(false);
        FeedbackDelays { advertised: [0; CLASSES], advertised_link: 0, nanos, longest: Span::ZERO, unmeasured: 0 }
    }

    /// Whether a control frame has a larger pause time or stage for any class than the previous one. Stores the new values.
    pub fn slows_down(&mut self, frame: &ControlFrame) -> bool {
        let increases = |last: &mut u16, now: u16| std::mem::replace(last, now) < now;
        match frame {
            ControlFrame::Pfc(pfc) => {
                let is_increase =
                    |class: &Class| increases(&mut self.advertised[class.index()], pfc.times[class.index()]);
                pfc.enabled.iter().filter(is_increase).count() > 0
            }
            ControlFrame::Pause(quanta) => increases(&mut self.advertised_link, *quanta),
            // Its effect is computed at the other end.
            ControlFrame::Credit(_) => true,
            // Many queue lengths are in flight at once, so their effects cannot be distinguished.
            ControlFrame::Queue(_) => false,
            // A CF_Update only gives credit.
            ControlFrame::Update(_) => false,
            // Only its own flow control knows its meaning.
            ControlFrame::Raw(_) => false,
        }
    }

    /// Records τ of a message.
    pub fn record(&mut self, delay: Span) {
        self.nanos.saturating_record(delay.as_nanos());
        self.longest = self.longest.max(delay);
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> FeedbackStats {
        let percentile = |percent| Span::from_nanos(self.nanos.value_at_percentile(percent)).min(self.longest);
        FeedbackStats {
            count: self.nanos.len(),
            median: percentile(50.0),
            p99: percentile(99.0),
            longest: self.longest,
            unmeasured: self.unmeasured,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_units::MacAddr;
    use weir_wire::mac_control::PfcFrame;

    use super::*;

    fn time_at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn pfc(class: usize, time: u16) -> [u8; 60] {
        let mut times = [0; CLASSES];
        times[class] = time;
        ControlFrame::Pfc(PfcFrame { enabled: Class::new(class as u8).alone(), times }).encode(MacAddr::default())
    }

    /// Creates a probe with data frames that entered at these instants.
    fn probe(entered: &[u64]) -> FeedbackProbe {
        let mut probe = FeedbackProbe::new(1_000);
        entered.iter().for_each(|ns| probe.handle_data_entered(time_at(*ns)));
        probe
    }

    fn count_and_longest(probe: &FeedbackProbe) -> (u64, u64) {
        let stats = probe.stats();
        (stats.count, stats.longest.as_nanos())
    }

    #[test]
    fn it_ends_with_the_last_frame_that_was_sent_before() {
        // Crossed at 1,000, delivered at 2,100, obeyed at 2,150; one frame enters at that instant, one after.
        let mut probe = probe(&[2_000, 2_150, 2_300]);
        probe.handle_message(time_at(2_100), time_at(1_000), &pfc(3, 65_535));
        probe.handle_applied(time_at(2_150));
        probe.handle_data_delivered(time_at(3_000));
        assert_eq!(count_and_longest(&probe), (0, 0), "the frame of 2,150 is on its way");
        probe.handle_data_delivered(time_at(3_150));
        assert_eq!(count_and_longest(&probe), (1, 2_150));
        probe.handle_data_delivered(time_at(3_300));
        assert_eq!(count_and_longest(&probe), (1, 2_150));
    }

    #[test]
    fn it_ends_at_once_where_nothing_is_on_the_link() {
        let mut probe = probe(&[]);
        probe.handle_message(time_at(2_100), time_at(1_000), &pfc(3, 9));
        probe.handle_applied(time_at(2_099));
        assert_eq!(count_and_longest(&probe), (0, 0), "that was another message");
        probe.handle_data_entered(time_at(2_500));
        probe.handle_applied(time_at(2_300));
        assert_eq!(count_and_longest(&probe), (1, 1_300), "what entered after it does not count");
    }

    #[test]
    fn it_counts_frames_delivered_before_the_call() {
        let mut probe = probe(&[2_000, 2_100]);
        probe.handle_message(time_at(2_050), time_at(1_000), &pfc(3, 9));
        probe.handle_data_delivered(time_at(2_900));
        probe.handle_data_delivered(time_at(3_000));
        probe.handle_applied(time_at(2_200));
        assert_eq!(count_and_longest(&probe), (1, 2_000));
    }

    #[test]
    fn only_what_slows_a_class_down_counts() {
        let mut probe = probe(&[]);
        let mut now = 1_000;
        let mut counts = |class, time| {
            now += 1_000;
            let before = count_and_longest(&probe).0;
            probe.handle_message(time_at(now), time_at(now - 500), &pfc(class, time));
            probe.handle_applied(time_at(now));
            count_and_longest(&probe).0 > before
        };
        // PFC: the first PAUSE, a refresh, the RESUME, the next PAUSE; other classes are independent.
        assert_eq!([65_535, 65_535, 0, 65_535].map(|time| counts(3, time)), [true, false, false, true]);
        assert!(counts(4, 65_535));
        // GFC: stages rise, stay and fall.
        assert_eq!([1, 2, 2, 1, 3, 0].map(|stage| counts(5, stage)), [true, true, false, false, true, false]);
    }

    #[test]
    fn a_link_pause_counts_and_other_frames_do_not() {
        let mut probe = probe(&[]);
        let pause = |quanta| ControlFrame::Pause(quanta).encode(MacAddr::default());
        for (frame, count) in [(pause(7), 1), (pause(7), 1), (pause(0), 1), (pause(7), 2), ([0; 60], 2)] {
            probe.handle_message(time_at(10), time_at(10), &frame);
            probe.handle_applied(time_at(10));
            assert_eq!(probe.stats().count, count);
        }
    }

    #[test]
    fn several_messages_at_once_have_each_its_own() {
        let mut probe = probe(&[900]);
        probe.handle_message(time_at(1_000), time_at(500), &pfc(3, 1));
        probe.handle_message(time_at(1_100), time_at(800), &pfc(3, 2));
        probe.handle_applied(time_at(1_050));
        probe.handle_data_entered(time_at(1_080));
        probe.handle_applied(time_at(1_100));
        probe.handle_data_delivered(time_at(1_900));
        assert_eq!(count_and_longest(&probe), (1, 1_400));
        probe.handle_data_delivered(time_at(2_080));
        assert_eq!(
            (count_and_longest(&probe), probe.stats().median),
            ((2, 1_400), Span::from_nanos(1_287)),
            "1,280 to 1 %"
        );
    }

    #[test]
    fn too_many_messages_are_counted_and_not_measured() {
        let mut probe = probe(&[]);
        (1..=MESSAGES_MAX as u16 + 3).for_each(|stage| probe.handle_message(time_at(10), time_at(5), &pfc(3, stage)));
        probe.handle_applied(time_at(20));
        let stats = probe.stats();
        assert_eq!((stats.count, stats.unmeasured), (MESSAGES_MAX as u64, 3));
        assert_eq!((stats.p99, stats.longest), (Span::from_nanos(15), Span::from_nanos(15)));
    }
}
