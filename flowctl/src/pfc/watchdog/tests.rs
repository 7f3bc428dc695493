use proptest::prelude::*;
use weir_units::{BitRate, CLASSES, Class};
use weir_wire::mac_control::PfcFrame;

use super::WatchdogEvent::{StormDetected, StormRestored};
use super::*;
use crate::Quantum;
use crate::pfc::PauseTimers;

const CLASS: Class = Class::new(3);
const POLL: Span = Span::from_millis(100);
/// The longest pause at 10 Gb/s, 3.36 ms.
const LONGEST: u16 = u16::MAX;
const MS: u64 = 1_000_000;

const CONDITIONS: [StormCondition; 2] = [StormCondition::PfcReceived, StormCondition::QueueStalled];

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * MS)
}

fn config(condition: StormCondition) -> WatchdogConfig {
    WatchdogConfig {
        detection_time: Span::from_millis(400),
        restoration_time: Span::from_millis(400),
        poll_interval: POLL,
        condition,
        action: WatchdogAction::Drop,
    }
}

/// A class at a 10 Gb/s port: pause timers, a queue, and the counters.
struct Queue {
    gate: PauseTimers,
    observation: QueueObservation,
    /// Instant of the last frame, and the end of the pause without a gap that frames make.
    paused: Option<(Time, Time)>,
}

impl Queue {
    fn new(queued: u64) -> Queue {
        let observation = QueueObservation { queued: Bytes::new(queued), ..Default::default() };
        Queue { gate: PauseTimers::new(Quantum::for_rate(BitRate::gbps(10))), observation, paused: None }
    }

    fn receive(&mut self, now: Time, quanta: u16) {
        self.gate.handle_pfc(now, &PfcFrame { enabled: CLASS.alone(), times: [quanta; CLASSES] });
        let frames = if quanta > 0 { &mut self.observation.xoff_frames } else { &mut self.observation.xon_frames };
        *frames += 1;
        let end = now + Quantum::for_rate(BitRate::gbps(10)).times(quanta);
        self.paused = match self.paused {
            _ if quanta == 0 => None,
            Some((from, until)) if now < until => Some((from, end)),
            _ => Some((now, end)),
        };
    }

    /// Receives a PAUSE each millisecond.
    fn storm(&mut self, from: u64, to: u64) {
        (from..to).for_each(|ms| self.receive(at(ms), LONGEST));
    }

    fn observe(&self, now: Time) -> QueueObservation {
        let (paused_for, pauses) = self.gate.pause_time(now, CLASS);
        let paused = self.gate.paused(now).contains(CLASS);
        QueueObservation { paused, pauses, paused_for, ..self.observation }
    }

    /// Returns the time for which the class has been paused without a gap.
    fn held(&self, now: Time) -> Span {
        self.paused.filter(|(_, until)| now < *until).map_or(Span::ZERO, |(from, _)| now.since(from))
    }
}

/// A watchdog and its queue, up to an instant.
struct Bench {
    watchdog: Watchdog,
    queue: Queue,
    events: Vec<(u64, WatchdogEvent)>,
}

impl Bench {
    fn new(config: WatchdogConfig, queued: u64) -> Bench {
        Bench { watchdog: Watchdog::new(config), queue: Queue::new(queued), events: Vec::new() }
    }

    fn of(condition: StormCondition) -> Bench {
        Bench::new(config(condition), 1_000)
    }

    fn poll(&mut self, ms: u64) -> Option<WatchdogEvent> {
        let event = self.watchdog.poll(at(ms), &self.queue.observe(at(ms)));
        self.events.extend(event.map(|event| (ms, event)));
        event
    }

    /// Runs from `from` to `to`, in milliseconds: calls `each` every millisecond, then polls if due.
    fn run(&mut self, from: u64, to: u64, mut each: impl FnMut(&mut Queue, u64)) -> &mut Bench {
        for ms in from..to {
            each(&mut self.queue, ms);
            if self.watchdog.is_due(at(ms)) {
                self.poll(ms);
            }
        }
        self
    }
}

fn pause(queue: &mut Queue, ms: u64) {
    queue.receive(at(ms), LONGEST);
}

fn nothing(_: &mut Queue, _: u64) {}

#[test]
fn a_storm_is_detected_and_restored_on_time() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.run(0, 130, nothing).run(130, 1_000, pause).run(1_000, 2_000, nothing);
        // Begun at 130, seen at 200, 400 ms old at 530. The last frame of 999 is seen at 1,000.
        assert_eq!(bench.events, [(600, StormDetected), (1_400, StormRestored)], "{condition:?}");
        assert!(!bench.watchdog.in_storm());
        assert_eq!((bench.watchdog.detected(), bench.watchdog.restored()), (1, 1));
    }
}

#[test]
fn a_storm_that_is_there_before_the_watchdog_counts_from_its_first_poll() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.queue.storm(0, 5_000);
        bench.run(5_000, 6_000, pause);
        assert_eq!(bench.events, [(5_400, StormDetected)], "{condition:?}");
    }
}

#[test]
fn normal_pfc_is_no_storm() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        // Paused nine tenths of the time, and at each poll.
        bench.run(0, 10_000, |queue, ms| match ms % 10 {
            9 => {
                queue.receive(at(ms), 0);
                queue.observation.frames_sent += 1;
            }
            _ => pause(queue, ms),
        });
        assert_eq!(bench.events, [], "{condition:?}");
    }
}

#[test]
fn a_resume_between_two_polls_breaks_a_storm_of_frames() {
    let mut bench = Bench::of(StormCondition::PfcReceived);
    bench.run(0, 350, pause);
    bench.queue.receive(Time::from_nanos(349 * MS + MS / 2), 0);
    bench.run(350, 1_000, pause);
    // The poll at 400 broke it. It may have seen two pauses, so the count starts there.
    assert_eq!(bench.events, [(800, StormDetected)]);
}

#[test]
fn a_pause_that_lapses_breaks_a_storm_of_frames() {
    let mut bench = Bench::of(StormCondition::PfcReceived);
    // 3.36 ms of each 4.
    bench.run(0, 5_000, |queue, ms| {
        if ms % 4 == 0 {
            pause(queue, ms)
        }
    });
    assert_eq!(bench.events, []);
    bench.run(5_000, 6_000, |queue, ms| {
        if ms % 3 == 0 {
            pause(queue, ms)
        }
    });
    assert_eq!(bench.events, [(5_500, StormDetected)]);
}

#[test]
fn a_pause_that_lapses_for_less_than_a_hundredth_leaves_a_queue_stalled() {
    // The last frame of 100 ms comes at 96, and lasts until 99.36; or at 95, until 98.36.
    for (frames, events) in [(97, &[(400, StormDetected)][..]), (96, &[])] {
        let mut bench = Bench::of(StormCondition::QueueStalled);
        bench.run(0, 5_000, |queue, ms| {
            if ms % 100 < frames {
                pause(queue, ms)
            }
        });
        assert_eq!(bench.events, events);
    }
}

#[test]
fn an_empty_queue_has_a_storm_of_frames_and_is_not_stalled() {
    for (condition, storms) in CONDITIONS.into_iter().zip([1, 0]) {
        let mut bench = Bench::new(config(condition), 0);
        bench.run(0, 3_000, pause);
        assert_eq!(bench.events.len(), storms, "{condition:?}");
    }
}

/// SONiC reads the queue's length at the end of an interval.
#[test]
fn a_queue_that_was_empty_counts_from_the_last_poll_that_found_it_so() {
    for paused_from in [0, 1_010] {
        let mut bench = Bench::new(config(StormCondition::QueueStalled), 0);
        bench.run(0, paused_from, nothing).run(paused_from, 1_150, pause);
        bench.queue.observation.queued = Bytes::new(64);
        bench.run(1_150, 2_000, pause);
        assert_eq!(bench.events, [(1_500, StormDetected)]);
    }
    let mut bench = Bench::new(config(StormCondition::QueueStalled), 0);
    bench.watchdog = Watchdog::new(WatchdogConfig { detection_time: Span::from_millis(350), ..bench.watchdog.config });
    bench.run(0, 1_010, nothing).run(1_010, 1_150, pause);
    bench.queue.observation.queued = Bytes::new(64);
    bench.run(1_150, 2_000, pause);
    assert_eq!(bench.events, [(1_500, StormDetected)], "not 1,400, 390 ms after the pause began");
}

/// As it may be read while another thread adds to it.
#[test]
fn a_pause_time_that_jumps_counts_from_no_earlier_than_the_last_poll() {
    let mut watchdog = Watchdog::new(config(StormCondition::PfcReceived));
    assert_eq!(watchdog.poll(at(900), &QueueObservation::default()), None);
    let detected = (1..10).find(|poll| {
        let paused_for = Span::from_secs(10 * poll);
        let queue = QueueObservation { paused: true, pauses: 1, paused_for, xoff_frames: *poll, ..Default::default() };
        watchdog.poll(at(900 + 100 * poll), &queue).is_some()
    });
    assert_eq!(detected, Some(4));
}

#[test]
fn a_queue_that_sends_is_not_stalled() {
    let mut bench = Bench::of(StormCondition::QueueStalled);
    bench.run(0, 2_000, |queue, ms| {
        pause(queue, ms);
        queue.observation.frames_sent += u64::from(ms % 300 == 250);
    });
    assert_eq!(bench.events, []);
}

#[test]
fn a_long_pause_without_a_refresh_stalls_a_queue_and_is_no_storm_of_frames() {
    let poll_interval = Span::from_micros(500);
    let detection_time = Span::from_millis(2);
    for (condition, storms) in CONDITIONS.into_iter().zip([0, 1]) {
        let config = WatchdogConfig { poll_interval, detection_time, ..config(condition) };
        let (mut watchdog, mut queue) = (Watchdog::new(config), Queue::new(1));
        for half_ms in 0..200 {
            let now = Time::from_nanos(half_ms * MS / 2);
            if half_ms >= 10 && half_ms % 6 == 4 {
                queue.receive(now, LONGEST);
            }
            watchdog.poll(now, &queue.observe(now));
        }
        assert_eq!(watchdog.detected(), storms, "{condition:?}: refreshed each 3 ms");
    }
}

#[test]
fn late_polls_count_the_time_that_has_passed() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        assert_eq!(bench.poll(0), None);
        bench.queue.storm(50, 150);
        assert_eq!(bench.poll(150), None);
        bench.queue.storm(150, 500);
        assert_eq!(bench.poll(500), Some(StormDetected), "{condition:?}: after three polls");
        bench.queue.storm(500, 600);
        assert_eq!(bench.poll(3_000), None, "the frames may have come until just now");
        assert_eq!(bench.poll(3_399), None);
        assert_eq!(bench.poll(3_499), Some(StormRestored));
    }
}

/// Had it asked for the condition at polls only, a stop of the switch itself would be a storm.
#[test]
fn two_short_pauses_at_polls_far_apart_are_no_storm() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        assert_eq!(bench.poll(0), None);
        bench.queue.storm(199, 200);
        assert_eq!(bench.poll(200), None);
        bench.queue.storm(1_999, 2_000);
        assert_eq!(bench.poll(2_000), None, "{condition:?}");
    }
}

#[test]
fn a_poll_that_is_not_due_is_ignored() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        for ms in 0..1_000 {
            pause(&mut bench.queue, ms);
            bench.poll(ms);
            // No frame came since: taken for an interval, this would break the storm.
            let again = at(ms) + Span::from_micros(1);
            assert_eq!(bench.watchdog.poll(again, &bench.queue.observe(again)), None);
        }
        assert_eq!(bench.events, [(400, StormDetected)], "{condition:?}");
    }
}

#[test]
fn polls_are_due_after_an_interval_and_when_the_restoration_time_is_over() {
    let restoration_time = Span::from_millis(250);
    let mut bench = Bench::of(StormCondition::PfcReceived);
    bench.watchdog = Watchdog::new(WatchdogConfig { restoration_time, ..config(StormCondition::PfcReceived) });
    assert_eq!(bench.watchdog.next_wakeup(), Time::ZERO);
    bench.run(7, 408, pause);
    assert_eq!(bench.events, [(407, StormDetected)]);
    assert_eq!(bench.watchdog.next_wakeup(), at(507));
    bench.run(408, 700, nothing);
    assert_eq!(bench.events[1..], [(657, StormRestored)]);
    assert_eq!(bench.watchdog.next_wakeup(), at(757));
}

#[test]
fn a_restored_queue_is_watched_as_before() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.run(0, 600, pause).run(600, 1_250, nothing).run(1_250, 2_000, pause).run(2_000, 2_500, nothing);
        let expected = [(400, StormDetected), (1_000, StormRestored), (1_700, StormDetected), (2_400, StormRestored)];
        assert_eq!(bench.events, expected, "{condition:?}");
        assert_eq!((bench.watchdog.detected(), bench.watchdog.restored()), (2, 2));
    }
}

/// An interval is stalled if 99 % of it is; its storm is not reported early for that.
#[test]
fn a_storm_that_begins_right_after_a_poll_counts_from_there() {
    for condition in CONDITIONS {
        let mut bench = Bench::new(WatchdogConfig { poll_interval: Span::from_millis(200), ..config(condition) }, 1);
        bench.run(0, 201, nothing).run(201, 1_000, pause);
        assert_eq!(bench.events, [(800, StormDetected)], "{condition:?}: not 600, after 399 ms");
    }
}

/// The queue's pauses during the storm do not shorten the next detection.
#[test]
fn a_storm_that_goes_on_where_it_was_restored_takes_the_whole_time_again() {
    let mut bench = Bench::of(StormCondition::QueueStalled);
    // A pause that is never refreshed, as no Ethernet has it: no frames, so the queue is restored while it is stalled.
    let stalled = |ms: u64| QueueObservation {
        paused: true,
        pauses: 1,
        paused_for: Span::from_millis(ms),
        xoff_frames: 1,
        queued: Bytes::new(1),
        ..Default::default()
    };
    let events = (0..1_300).step_by(100).filter_map(|ms| {
        let event = bench.watchdog.poll(at(ms), &stalled(ms));
        event.map(|event| (ms, event))
    });
    assert!(events.eq([(400, StormDetected), (800, StormRestored), (1_200, StormDetected)]));
}

#[test]
fn a_storm_that_flaps_faster_than_the_detection_time_is_none() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.run(0, 20_000, |queue, ms| {
            if ms % 500 < 390 {
                pause(queue, ms)
            }
        });
        assert_eq!(bench.events, [], "{condition:?}");
    }
}

#[test]
fn a_storm_that_flaps_faster_than_the_restoration_time_is_one() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.run(0, 500, pause).run(500, 20_000, |queue, ms| {
            if ms % 350 == 0 {
                pause(queue, ms)
            }
        });
        assert_eq!(bench.events, [(400, StormDetected)], "{condition:?}");
        assert!(bench.watchdog.in_storm());
    }
}

#[test]
fn resumes_keep_a_queue_in_its_storm_and_start_none() {
    let mut bench = Bench::of(StormCondition::PfcReceived);
    bench.run(0, 500, pause).run(500, 3_000, |queue, ms| queue.receive(at(ms), 0));
    assert_eq!(bench.events, [(400, StormDetected)]);
    bench.run(3_000, 4_000, nothing).run(4_000, 8_000, |queue, ms| queue.receive(at(ms), 0));
    assert_eq!(bench.events[1..], [(3_400, StormRestored)]);
}

#[test]
fn an_alert_is_over_when_its_condition_is() {
    for condition in CONDITIONS {
        let mut bench = Bench::of(condition);
        bench.watchdog = Watchdog::new(WatchdogConfig { action: WatchdogAction::Alert, ..config(condition) });
        bench.run(0, 640, pause).run(640, 1_000, nothing);
        assert_eq!(bench.events, [(400, StormDetected), (700, StormRestored)], "{condition:?}");
    }
}

#[test]
fn a_queue_may_never_be_restored() {
    let mut bench = Bench::of(StormCondition::PfcReceived);
    let never = Span::from_picos(u64::MAX);
    bench.watchdog = Watchdog::new(WatchdogConfig { restoration_time: never, ..config(StormCondition::PfcReceived) });
    bench.run(0, 500, pause).run(500, 100_000, nothing);
    assert_eq!(bench.events, [(400, StormDetected)]);
}

#[test]
#[should_panic(expected = "polls every 401ms cannot tell 400ms")]
fn polls_are_no_further_apart_than_the_times() {
    Watchdog::new(WatchdogConfig { poll_interval: Span::from_millis(401), ..config(StormCondition::PfcReceived) });
}

#[test]
fn packets_count_during_storms_and_the_last_anew() {
    let mut bench = Bench::of(StormCondition::PfcReceived);
    let packets = StormPackets { tx: 1, tx_dropped: 2, rx: 3, rx_dropped: 4 };
    bench.watchdog.count_packets(&packets);
    assert_eq!(*bench.watchdog.counters(), StormCounters::default());
    bench.run(0, 500, pause);
    (0..10).for_each(|_| bench.watchdog.count_packets(&packets));
    bench.run(500, 1_000, nothing);
    bench.watchdog.count_packets(&packets);
    let of_first = StormPackets { tx: 10, tx_dropped: 20, rx: 30, rx_dropped: 40 };
    let counters = StormCounters { deadlock_detected: 1, deadlock_restored: 1, all: of_first, last: of_first };
    assert_eq!(*bench.watchdog.counters(), counters);
    bench.run(1_000, 1_500, pause);
    bench.watchdog.count_packets(&packets);
    let numbers = bench.watchdog.counters().named().map(|(_, number)| number);
    assert_eq!(numbers, [2, 1, 11, 22, 33, 44, 1, 2, 3, 4]);
}

/// Times, polls and a storm, in microseconds.
#[derive(Clone, Debug)]
struct Scenario {
    config: WatchdogConfig,
    late_max: u64,
    late: Vec<u64>,
    begins: u64,
    lasts: u64,
}

impl Scenario {
    /// The `n`th poll's delay.
    fn late(&self, n: usize) -> Span {
        Span::from_micros(self.late[n % self.late.len()] % (self.late_max + 1))
    }
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let times = (5_000..50_000u64, 0..200_000u64, 0..200_000u64, prop::bool::ANY, prop::bool::ANY);
    let storm = (100_000..200_000u64, 0..500_000u64);
    let late = (0..20_000u64, prop::collection::vec(any::<u64>(), 1..40));
    (times, storm, late).prop_map(|((poll, more, more_restoration, stalled, multiples), (begins, rest), late)| {
        let up = |more: u64| if multiples { poll + more / poll * poll } else { poll + more };
        let (late_max, late) = late;
        let config = WatchdogConfig {
            detection_time: Span::from_micros(up(more)),
            restoration_time: Span::from_micros(up(more_restoration)),
            poll_interval: Span::from_micros(poll),
            condition: CONDITIONS[usize::from(stalled)],
            action: WatchdogAction::Drop,
        };
        // Long enough to be found.
        let lasts = up(more) + poll + 2 * late_max + rest;
        Scenario { config, late_max, late, begins, lasts }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// As sonic-mgmt measures it, and with no more than the polls' own delay beyond that.
    #[test]
    fn both_times_are_met_to_a_poll_interval(scenario in scenarios()) {
        let Scenario { config, late_max, begins, lasts, .. } = scenario.clone();
        let (mut watchdog, mut queue) = (Watchdog::new(config), Queue::new(1));
        let mut frames = (0..=lasts / 1_000).map(|ms| Time::from_nanos((begins + ms * 1_000) * 1_000)).peekable();
        let (begin, end) = (*frames.peek().unwrap(), frames.clone().last().unwrap());
        let (mut now, mut polls, mut events) = (Time::ZERO, 0, Vec::new());
        while now < end + Span::from_millis(500) {
            while let Some(frame) = frames.next_if(|frame| *frame <= now) {
                queue.receive(frame, LONGEST);
            }
            events.extend(watchdog.poll(now, &queue.observe(now)).map(|event| (event, now)));
            polls += 1;
            now = watchdog.next_wakeup() + scenario.late(polls);
        }
        prop_assert_eq!(events.len(), 2, "{:?}", events);
        let more = config.poll_interval + Span::from_micros(2 * late_max);
        for ((event, at), (kind, since, time)) in events.into_iter().zip([
            (StormDetected, begin, config.detection_time),
            (StormRestored, end, config.restoration_time),
        ]) {
            let measured = at.since(since);
            prop_assert_eq!(event, kind);
            prop_assert!(time <= measured && measured < time + more, "{:?}: {} for {}", kind, measured, time);
        }
    }

    /// Whatever is received and however late the polls are: a storm of frames is a pause that has held without a gap for the
    /// detection time; and no queue is restored before it was free of frames for the restoration time.
    #[test]
    fn no_storm_is_told_or_forgiven_early(
        steps in prop::collection::vec((1..4_000u64, prop::sample::select(vec![0, 100, LONGEST, LONGEST, LONGEST])), 1..400),
        late in prop::collection::vec(0..3_000u64, 1..40),
    ) {
        let config = WatchdogConfig {
            detection_time: Span::from_millis(10),
            restoration_time: Span::from_millis(6),
            poll_interval: Span::from_millis(4),
            ..config(StormCondition::PfcReceived)
        };
        let (mut watchdog, mut queue) = (Watchdog::new(config), Queue::new(0));
        let (mut now, mut last_frame, mut polls) = (Time::ZERO, Time::ZERO, 0);
        let mut due = Time::ZERO;
        for (us, quanta) in steps {
            let next = now + Span::from_micros(us);
            while due < next {
                match watchdog.poll(due, &queue.observe(due)) {
                    Some(StormDetected) => prop_assert!(queue.held(due) >= config.detection_time),
                    Some(StormRestored) => prop_assert!(due.since(last_frame) >= config.restoration_time),
                    None => {}
                }
                polls += 1;
                due = watchdog.next_wakeup() + Span::from_micros(late[polls % late.len()]);
            }
            (now, last_frame) = (next, next);
            queue.receive(now, quanta);
        }
        let open = u64::from(watchdog.in_storm());
        prop_assert_eq!(watchdog.detected(), watchdog.restored() + open);
    }
}
