//! HyStart: Cubic's slow start ends before the queue overflows (Ha and Rhee, 2011), as in Linux's `tcp_cubic.c`.
//!
//! Each round is checked for two signs. A train of closely spaced acknowledgements that lasts longer than half of the shortest
//! round trip indicates a full path. A round whose shortest round trip is well above the shortest of all indicates a
//! growing queue. Either sign sets the threshold to the window: slow start ends without a cut.

use std::ops::RangeInclusive;

use weir_reader::{AnyKey, Key};
use weir_units::{Bytes, Span, Time};

use super::RoundTrip;
use crate::parameters::{Millionths, Parameters, millionths};

/// Parameters of HyStart, keys of Cubic's table. Defaults are Linux's (6.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HyStartConfig {
    /// Enabled signs.
    detect: Detectors,
    /// Smallest window in segments in which signs are checked.
    low_window: u32,
    /// Longest gap between acknowledgements of a train.
    ack_delta: Span,
    /// Longest allowed train, in millionths of the shortest round trip and the bursts.
    train_ppm: u32,
    /// Largest burst that a sender hands to its NIC at once; lengthens the allowed train.
    burst: Bytes,
    /// Lower limit of the allowed growth of round trips, which is an eighth of the shortest.
    delay_min: Span,
    /// Upper limit of the allowed growth of round trips.
    delay_max: Span,
    /// Whether the smoothed round trips of data count, as in ns-3, instead of each measurement.
    is_smoothed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Detectors {
    train: bool,
    delay: bool,
}

/// HyStart state of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    config: HyStartConfig,
    /// Shortest round trip; `None` before the first measurement and after a timeout.
    shortest: Option<Span>,
    /// Whether HyStart has ended slow start, which happens once until a timeout.
    has_ended: bool,
    round: Round,
}

/// Round: from an acknowledgement until the data sent by then is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    /// Instant of the last acknowledgement of the train.
    train: Time,
    /// Offset beyond which an acknowledgement starts the next round.
    end: u64,
    /// Shortest round trip of the round.
    shortest: Span,
    samples: u32,
}

/// Round trips of a round that are not yet compared.
const SAMPLES: u32 = 8;
/// Longest extension of a train by bursts.
const BURSTS_MAX: Span = Span::from_millis(1);
/// Pacing rate of slow start in windows per round trip, for the duration of a burst.
const PACE: f64 = 2.0;
/// Number of bursts by which a train may be longer.
const BURSTS: f64 = 4.0;

/// Valid times of its keys.
const HYSTART_TIMES: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(10);

const HYSTART: Key<bool> =
    Key::boolean("hystart", "whether HyStart ends slow start early (Linux: `hystart`)").or("true");
const DETECT: Key<Detectors> = Key::choice(
    "hystart_detect",
    &[
        ("both", Detectors { train: true, delay: true }),
        ("train", Detectors { train: true, delay: false }),
        ("delay", Detectors { train: false, delay: true }),
    ],
    "signs that end slow start: long trains of acknowledgements, growing delay, or both (Linux: `hystart_detect`)",
)
.or("both");
const LOW_WINDOW: Key<u32> = Key::<u32>::integer(
    "hystart_low_window",
    0..=1_000_000,
    "least window with detection, in segments (Linux: `hystart_low_window`)",
)
.or("16");
const ACK_DELTA: Key<Span> = Key::time(
    "hystart_ack_delta",
    HYSTART_TIMES,
    "largest gap between acknowledgements of a train (Linux: `hystart_ack_delta_us`)",
)
.or("2ms");
const TRAIN: Key<Millionths> = millionths(
    "hystart_train",
    0..=1_000_000_000,
    "longest train without a sign, as a share of the shortest round trip plus bursts (Linux: half, without pacing)",
)
.or("1/2");
const BURST: Key<Bytes> = Key::size(
    "hystart_burst",
    Bytes::ZERO..=Bytes::mb(1_000),
    "sender's burst to its NIC; the allowed train adds the time of four at two windows per round trip, at most 1 ms \
     (Linux: `gso_max_size`)",
)
.or("64KiB");
const DELAY_MIN: Key<Span> = Key::time(
    "hystart_delay_min",
    HYSTART_TIMES,
    "lower limit of the delay sign, growth of a round's shortest RTT by an eighth of the shortest of all; at most \
     `hystart_delay_max` (Linux: `HYSTART_DELAY_MIN`)",
)
.or("4ms");
const DELAY_MAX: Key<Span> =
    Key::time("hystart_delay_max", HYSTART_TIMES, "upper limit of the delay sign (Linux: `HYSTART_DELAY_MAX`)")
        .or("16ms");
const RTT: Key<bool> = Key::choice(
    "hystart_rtt",
    &[("measured", false), ("smoothed", true)],
    "round trips that the signs use: each measured one, as in Linux, or smoothed ones (RFC 6298), as in ns-3",
)
.or("measured");

/// HyStart's keys.
pub(super) const KEYS: [&dyn AnyKey; 9] =
    [&HYSTART, &DETECT, &LOW_WINDOW, &ACK_DELTA, &TRAIN, &BURST, &DELAY_MIN, &DELAY_MAX, &RTT];

impl HyStartConfig {
    /// Reads the keys; `None` if HyStart is off.
    pub(super) fn parse(parameters: &Parameters<'_>) -> Option<HyStartConfig> {
        let (delay_min, delay_max) = (parameters.time(&DELAY_MIN), parameters.time(&DELAY_MAX));
        if delay_min > delay_max {
            let message = format!("{}, {delay_min}, is above {}, {delay_max}", DELAY_MIN.name, DELAY_MAX.name);
            let help = format!("write a shorter `{}` or a longer `{}`", DELAY_MIN.name, DELAY_MAX.name);
            parameters.refuse(&DELAY_MIN, message, help);
        }
        let config = HyStartConfig {
            detect: parameters.choice(&DETECT),
            low_window: parameters.integer(&LOW_WINDOW),
            ack_delta: parameters.time(&ACK_DELTA),
            train_ppm: parameters.millionths(&TRAIN),
            burst: parameters.size(&BURST),
            delay_min,
            delay_max,
            is_smoothed: parameters.choice(&RTT),
        };
        parameters.boolean(&HYSTART).then_some(config)
    }
}

impl HyStart {
    pub(super) fn new(config: HyStartConfig) -> HyStart {
        HyStart { config, shortest: None, has_ended: false, round: Round::new(Time::ZERO, 0) }
    }

    /// Records a round trip. Returns whether slow start ends.
    pub(super) fn handle_round_trip(&mut self, trip: &RoundTrip) -> bool {
        // Smoothed round trips count from the first data on: they include the earlier measurement.
        if self.config.is_smoothed && trip.next == 0 {
            return false;
        }
        let rtt = if self.config.is_smoothed { trip.smoothed_rtt } else { trip.rtt };
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        let is_watched = trip.is_slow_start && trip.cwnd >= f64::from(self.config.low_window) * trip.mss;
        if self.has_ended || !is_watched {
            return false;
        }
        if trip.una > self.round.end {
            self.round = Round::new(trip.now, trip.next);
        }
        let (is_train, is_delay) = (self.is_train_long(trip, shortest), self.is_delay_long(rtt, shortest));
        self.has_ended = (is_train && self.config.detect.train) || (is_delay && self.config.detect.delay);
        self.has_ended
    }

    /// Resets the state after a retransmission timeout: the path may have changed.
    pub(super) fn handle_timeout(&mut self) {
        *self = HyStart::new(self.config);
    }

    fn is_train_long(&mut self, trip: &RoundTrip, shortest: Span) -> bool {
        if trip.now.since(self.round.train) > self.config.ack_delta {
            return false;
        }
        self.round.train = trip.now;
        let pace = PACE * trip.cwnd / trip.smoothed_rtt.max(Span::from_picos(1)).as_picos() as f64;
        let bursts = (BURSTS * self.config.burst.get() as f64 / pace).min(BURSTS_MAX.as_picos() as f64);
        let allowed = (shortest.as_picos() as f64 + bursts) * f64::from(self.config.train_ppm) / 1e6;
        trip.now.since(self.round.began).as_picos() as f64 > allowed
    }

    fn is_delay_long(&mut self, rtt: Span, shortest: Span) -> bool {
        let round = &mut self.round;
        round.shortest = round.shortest.min(rtt);
        if round.samples < SAMPLES {
            round.samples += 1;
            return false;
        }
        let growth = shortest.divided_by(8).max(self.config.delay_min).min(self.config.delay_max);
        round.shortest > shortest + growth
    }
}

impl Round {
    fn new(now: Time, end: u64) -> Round {
        Round { began: now, train: now, end, shortest: Span::from_secs(1_000_000), samples: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1_000.0;

    fn us(us: u64) -> Span {
        Span::from_micros(us)
    }

    fn instant(micros: u64) -> Time {
        Time::ZERO + us(micros)
    }

    fn hystart(given: &[(&str, &str)]) -> HyStart {
        HyStart::new(HyStartConfig::parse(&Parameters::defaults_over(given, &[])).unwrap())
    }

    /// Returns the measurement of segment n in a window of `segments`.
    fn trip(now: u64, rtt: u64, segments: u64, n: u64) -> RoundTrip {
        let (una, next) = (n * 1_000, (n + segments) * 1_000);
        let cwnd = segments as f64 * MSS;
        RoundTrip {
            now: instant(now),
            rtt: us(rtt),
            smoothed_rtt: us(rtt),
            is_slow_start: true,
            cwnd,
            mss: MSS,
            una,
            next,
        }
    }

    /// Returns the acknowledgement, of 100 at intervals of 10 us, that ends slow start.
    fn ends_at(mut hystart: HyStart, rtt: impl Fn(u64) -> u64) -> Option<u64> {
        (1..=100).find(|n| hystart.handle_round_trip(&trip(10_000 + 10 * n, rtt(*n), 100, *n)))
    }

    #[test]
    fn a_train_longer_than_half_of_the_shortest_round_trip_ends_it() {
        // Without bursts: more than 500 us after the first of the round, which is acknowledgement 1.
        let no_bursts = [("hystart_burst", "0B")];
        assert_eq!(ends_at(hystart(&no_bursts), |_| 1_000), Some(52));
        let full_train = [("hystart_burst", "0B"), ("hystart_train", "1")];
        assert_eq!(ends_at(hystart(&full_train), |_| 1_000), None, "990 us");
        // 4 bursts of 16 KiB at 200 KB a millisecond: 327.68 us, half of which is 163.84.
        assert_eq!(ends_at(hystart(&[("hystart_burst", "16KiB")]), |_| 1_000), Some(68), "663.84 us after the first");
        // 64 KiB: 1 ms at most, so that 1,000 us are allowed.
        assert_eq!(ends_at(hystart(&[]), |_| 1_000), None);
        assert_eq!(ends_at(hystart(&[("hystart_burst", "0B"), ("hystart_detect", "delay")]), |_| 1_000), None);
        // Gaps of more than 2 ms break it.
        let mut gaps = hystart(&no_bursts);
        assert!((1..=100).all(|n| !gaps.handle_round_trip(&trip(10_000 + 3_000 * n, 1_000, 100, n))));
    }

    #[test]
    fn a_round_of_longer_round_trips_ends_it_after_eight_of_them() {
        let only = |given: &[(&'static str, &'static str)]| {
            let mut all = vec![("hystart_detect", "delay")];
            all.extend(given);
            hystart(&all)
        };
        // The first round, whose round trips are 40 ms; then they are 40 ms and an eighth, and more.
        let second = |mut hystart: HyStart, rtt: u64| {
            (1..=20).for_each(|n| assert!(!hystart.handle_round_trip(&trip(100 * n, 40_000, 20, n))));
            (1..=20).find(|n| hystart.handle_round_trip(&trip(40_000 + 100 * n, rtt, 40, 21 + n)))
        };
        assert_eq!(second(only(&[]), 45_001), Some(9), "eight say nothing alone");
        assert_eq!(second(only(&[]), 45_000), None);
        assert_eq!(second(only(&[("hystart_delay_max", "4ms")]), 44_001), Some(9));
        // A short path: 4 ms at least.
        let short = |hystart: HyStart, rtt| ends_at(hystart, move |n| if n == 1 { 100 } else { rtt });
        assert_eq!(short(only(&[]), 4_000), None);
        assert_eq!(short(only(&[("hystart_delay_min", "0us")]), 100), None);
    }

    #[test]
    fn round_trips_may_be_smoothed() {
        let ends_at = |given: &[(&str, &str)]| {
            let mut hystart = hystart(&[given, &[("hystart_burst", "0B"), ("hystart_train", "1")]].concat());
            // Before any data; then 1,000 us as measured, which 125 us before smooth to less.
            hystart.handle_round_trip(&RoundTrip { next: 0, ..trip(0, 125, 100, 0) });
            let smoothed = |n: u64| RoundTrip { smoothed_rtt: us(300), ..trip(10_000 + 10 * n, 1_000, 100, n) };
            (1..=100).find(|n| hystart.handle_round_trip(&smoothed(*n)))
        };
        assert_eq!(ends_at(&[]), Some(14), "the train is longer than 125 us");
        assert_eq!(ends_at(&[("hystart_rtt", "smoothed")]), Some(32), "than 300 us");
    }

    #[test]
    fn it_watches_slow_start_from_16_segments_on_and_ends_it_once() {
        let mut hystart = hystart(&[("hystart_burst", "0B")]);
        assert!((1..=100).all(|n| !hystart.handle_round_trip(&trip(10 * n, 100, 15, n))));
        let mut later = trip(2_000, 100, 100, 101);
        later.is_slow_start = false;
        assert!(!hystart.handle_round_trip(&later));
        assert!((1..=5).all(|n| !hystart.handle_round_trip(&trip(3_000 + 10 * n, 100, 100, 101 + n))));
        assert!(hystart.handle_round_trip(&trip(3_061, 100, 100, 107)));
        assert!(!hystart.handle_round_trip(&trip(3_070, 100, 100, 108)), "once");
        hystart.handle_timeout();
        assert!((1..=5).all(|n| !hystart.handle_round_trip(&trip(9_000 + 10 * n, 100, 100, 201 + n))));
        assert!(hystart.handle_round_trip(&trip(9_061, 100, 100, 207)), "again after a timeout");
    }

    #[test]
    fn linux_has_it_and_it_can_be_off() {
        let read = |given: &[(&str, &str)]| HyStartConfig::parse(&Parameters::defaults_over(given, &[]));
        assert!(read(&[]).is_some() && read(&[("hystart", "false")]).is_none());
        let parameters = Parameters::defaults_over(&[("hystart_delay_min", "20ms")], &[]);
        HyStartConfig::parse(&parameters);
        assert_eq!(parameters.into_wrong()[0].message, "hystart_delay_min, 20ms, is above hystart_delay_max, 16ms");
        let parameters = Parameters::defaults_over(&[("hystart_detect", "rtt")], &[]);
        HyStartConfig::parse(&parameters);
        assert_eq!(parameters.into_wrong()[0].message, "\"rtt\" is none of \"both\", \"train\", \"delay\"");
    }
}
