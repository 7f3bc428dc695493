//! PFC storms at a switch whose PFC watchdog is on.

use weir_config::LcoreLayout;
use weir_flowctl::pfc::{StormCounters, StormPackets};
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::{Class, ClassSet, PortId, Span, Time};

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, clones, frame, introduce, pfc, toml};

const CLASS: Class = Class::new(3);
const DETECTION: Span = Span::from_micros(200);
const RESTORATION: Span = Span::from_micros(300);
const POLL: Span = Span::from_micros(50);
/// A peer that storms repeats its PAUSE, of 3.4 ms, this often.
const REPEAT: Span = Span::from_micros(20);

/// Four ports; p0 to p2 send, p3's peer storms.
const SICK: u16 = 3;

fn watched(action: &str, extra: &str) -> String {
    let watchdog = format!(
        "[pfc_watchdog]\naction = \"{action}\"\ndetection_time = \"{DETECTION}\"\nrestoration_time = \"{RESTORATION}\"\n\
         poll_interval = \"{POLL}\"\n"
    );
    toml(4, &format!("[buffer]\nsize = \"4MB\"\n{watchdog}{extra}"))
}

fn bench(toml: &str, layout: LcoreLayout) -> Bench {
    let mut bench = Bench::new(toml, layout);
    introduce(&mut bench);
    bench
}

/// Lets time pass; every `REPEAT` the peer of the sick port repeats its message.
fn pass(bench: &mut Bench, span: Span, said: Option<TestFrame>) {
    let end = bench.now + span;
    let mut next = bench.now;
    while bench.now < end {
        if let Some(said) = said.as_ref().filter(|_| bench.now >= next) {
            bench.arrive(SICK, said.clone());
            next += REPEAT;
        }
        bench.step(STEP);
    }
}

fn storm() -> Option<TestFrame> {
    Some(pfc(CLASS.alone(), u16::MAX))
}

/// Frames from one port to another, and the time that they take at line rate.
fn send(bench: &mut Bench, from: u16, to: u16, class: u8, frames: u64, said: Option<TestFrame>) {
    (0..frames).for_each(|n| bench.arrive(from, frame(from, to, class, n)));
    pass(bench, Span::from_nanos(1_250) * frames, said);
}

fn storms(bench: &mut Bench, port: u16) -> StormCounters {
    let report = bench.report();
    assert_balanced(&report);
    report.ports[usize::from(port)].classes[CLASS.index()].storms.expect("a class that is watched")
}

fn turns(bench: &mut Bench, port: u16) -> (u64, u64) {
    let counters = storms(bench, port);
    (counters.deadlock_detected, counters.deadlock_restored)
}

fn assert_balanced(report: &Report) {
    let balance = report.conservation;
    assert!(balance.holds, "{balance:?}");
    assert_eq!(balance.received + balance.copied, balance.sent + balance.dropped + balance.held(), "{balance:?}");
}

fn wakeup(bench: &Bench) -> Time {
    bench.lcores.iter().map(|lcore| lcore.next_wakeup(bench.now)).min().unwrap()
}

/// When a storm of the sick port is detected, or restored, seen as the control thread sees it.
fn when_turned(bench: &mut Bench, said: Option<TestFrame>, within: Span) -> Time {
    let counters = |bench: &Bench| bench.shared.ports()[usize::from(SICK)].storm_counters(CLASS).unwrap();
    let (before, end) = (counters(bench).in_storm(), bench.now + within);
    while counters(bench).in_storm() == before {
        assert!(bench.now < end, "storm: still {before} after {within}");
        pass(bench, STEP, said.clone());
    }
    bench.now
}

#[test]
fn a_storm_is_found_and_forgiven_in_time() {
    for (layout, offset) in LAYOUTS.into_iter().zip([0, 13, 49]) {
        for action in ["drop", "forward"] {
            let mut bench = bench(&watched(action, ""), layout);
            pass(&mut bench, Span::from_micros(100 + offset), None);
            let began = bench.now;
            let detected = when_turned(&mut bench, storm(), Span::from_millis(1)).since(began);
            assert!(detected >= DETECTION && detected <= DETECTION + POLL + STEP, "{layout:?} {action}: {detected}");
            pass(&mut bench, Span::from_millis(1), storm());
            let ended = bench.now;
            let restored = when_turned(&mut bench, None, Span::from_millis(1)).since(ended);
            // The last frame came up to a repetition earlier.
            assert!(restored + REPEAT >= RESTORATION, "{layout:?} {action}: {restored}");
            assert!(restored <= RESTORATION + POLL + STEP, "{layout:?} {action}: {restored}");
            assert_eq!(turns(&mut bench, SICK), (1, 1));
        }
    }
}

#[test]
fn in_a_storm_the_queue_is_emptied_and_what_comes_is_dropped() {
    const QUEUED: u64 = 500;
    const LATER: u64 = 200;
    const ARRIVED: u64 = 30;
    for layout in LAYOUTS {
        let mut bench = bench(&watched("drop", ""), layout);
        bench.arrive(SICK, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, 0, SICK, 3, QUEUED, None);
        assert_eq!(bench.report().conservation.held(), QUEUED, "{layout:?}");
        when_turned(&mut bench, storm(), Span::from_millis(1));
        // Frames that are yet to be dropped are not sent, even if they could be.
        bench.arrive(SICK, pfc(CLASS.alone(), 0));
        bench.step(STEP);
        assert_eq!(wakeup(&bench), bench.now, "{layout:?}");
        pass(&mut bench, Span::from_micros(20), storm());
        let report = bench.report();
        assert_eq!((report.conservation.held(), report.pool.used.get()), (0, 0), "{layout:?}: emptied");
        let sick = &report.ports[usize::from(SICK)].classes[3];
        assert_eq!(sick.tx_drops[DropReason::PfcWatchdog as usize], QUEUED, "{layout:?}");

        send(&mut bench, 0, SICK, 3, LATER, storm());
        send(&mut bench, SICK, 1, 3, ARRIVED, storm());
        // Another class of the port, in both directions, and the class between other ports, are nobody's concern.
        bench.world.sent.iter_mut().for_each(Vec::clear);
        send(&mut bench, 0, SICK, 4, 50, storm());
        send(&mut bench, SICK, 1, 4, 50, storm());
        send(&mut bench, 0, 2, 3, 50, storm());
        pass(&mut bench, Span::from_micros(20), storm());
        let expected: Vec<u64> = (0..50).collect();
        for port in [SICK, 1, 2] {
            assert_eq!(bench.data_sent(port), expected, "{layout:?}: port {port}");
        }
        let counters = storms(&mut bench, SICK);
        let packets = StormPackets { tx: 0, tx_dropped: QUEUED + LATER, rx: 0, rx_dropped: ARRIVED };
        assert_eq!((counters.all, counters.last), (packets, packets), "{layout:?}");
        let report = bench.report();
        assert_eq!(report.dropped(DropReason::PfcWatchdog), QUEUED + LATER + ARRIVED);
        let arrived = |port: u16| report.ports[usize::from(port)].classes[3].rx_drops[DropReason::PfcWatchdog as usize];
        assert_eq!((arrived(0), arrived(SICK)), (LATER, ARRIVED), "{layout:?}: where they came in");
        assert_eq!(report.dropped(DropReason::HeadroomViolation), 0);

        when_turned(&mut bench, None, Span::from_millis(1));
        bench.arrive(SICK, pfc(CLASS.alone(), 0));
        bench.run(4, STEP);
        bench.world.sent.iter_mut().for_each(Vec::clear);
        send(&mut bench, 0, SICK, 3, 50, None);
        send(&mut bench, SICK, 1, 3, 50, None);
        bench.run(100, STEP);
        assert_eq!((bench.data_sent(SICK), bench.data_sent(1)), (expected.clone(), expected), "{layout:?}: as before");
        let counters = storms(&mut bench, SICK);
        assert_eq!((counters.deadlock_detected, counters.deadlock_restored), (1, 1));
        assert_eq!((counters.all, counters.last), (packets, packets), "{layout:?}: what comes after is in no storm");
    }
}

/// A queue at the sick port that is OFF when the storm comes is resumed, and never paused during the storm.
#[test]
fn the_ingress_queue_of_a_storm_sends_no_pause() {
    let extra = "[buffer.static]\nthreshold = \"20KB\"\n";
    for layout in LAYOUTS {
        let text = watched("drop", extra).replace("size = \"4MB\"\n", "size = \"4MB\"\npolicy = \"static\"\n");
        let mut bench = bench(&text, layout);
        // What the sick port's peer sends goes to p1, whose own peer pauses it for 3.4 ms, and all of that fits.
        bench.arrive(1, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, SICK, 1, 3, 14, None);
        bench.run(10, STEP);
        let told = bench.control_sent(SICK);
        assert_eq!(told.iter().map(|frame| frame.paused()).collect::<Vec<_>>(), [CLASS.alone()], "{layout:?}");
        when_turned(&mut bench, storm(), Span::from_millis(1));
        bench.run(4, STEP);
        let told = bench.control_sent(SICK);
        assert_eq!(told.last().map(|frame| frame.resumed()), Some(CLASS.alone()), "{layout:?}: resumed");
        let frames = told.len();
        send(&mut bench, SICK, 1, 3, 100, storm());
        pass(&mut bench, Span::from_micros(500), storm());
        assert_eq!(bench.control_sent(SICK).len(), frames, "{layout:?}: no PFC in the storm");
        let report = bench.report();
        assert_balanced(&report);
        assert!(report.ports[usize::from(SICK)].classes[3].ingress.off, "{layout:?}: the test is about an OFF queue");
        let delay = report.message_delay.max;
        // When it is over, a queue that is still OFF says so at once.
        when_turned(&mut bench, None, Span::from_millis(1));
        bench.run(2, STEP);
        assert_eq!(bench.control_sent(SICK).last().map(|frame| frame.paused()), Some(CLASS.alone()), "{layout:?}");
        let again = bench.report().message_delay.max;
        assert!(again <= delay.max(1_000), "{layout:?}: {again} ns; the storm is no delay of the switch's");
    }
}

/// What the sick port receives for queues of the storm's number is dropped, in whatever priority group; the group of that number is kept, and
/// paused.
#[test]
fn a_storm_drops_the_frames_of_its_queue_and_not_of_the_group_of_its_number() {
    const ARRIVED: u64 = 30;
    let extra = "[buffer.static]\nthreshold = \"20KB\"\n";
    let text = watched("drop", extra).replace("size = \"4MB\"\n", "size = \"4MB\"\npolicy = \"static\"\n");
    let text = text + "tc_to_pg = { 3 = 4, 4 = 3 }\n";
    for layout in LAYOUTS {
        let mut bench = bench(&text, layout);
        when_turned(&mut bench, storm(), Span::from_millis(1));
        let told = bench.control_sent(SICK).len();
        send(&mut bench, SICK, 1, 3, ARRIVED, storm());
        pass(&mut bench, Span::from_micros(20), storm());
        assert_eq!(bench.data_sent(1), [0; 0], "{layout:?}");
        bench.arrive(1, pfc(Class::new(4).alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, SICK, 1, 4, 14, storm());
        pass(&mut bench, Span::from_micros(20), storm());
        let paused: Vec<ClassSet> = bench.control_sent(SICK)[told..].iter().map(|frame| frame.paused()).collect();
        assert_eq!(paused, [CLASS.alone()], "{layout:?}");
        bench.arrive(1, pfc(Class::new(4).alone(), 0));
        pass(&mut bench, Span::from_micros(50), storm());
        assert_eq!(bench.data_sent(1), (0..14).collect::<Vec<_>>(), "{layout:?}");
        let packets = StormPackets { tx: 0, tx_dropped: 0, rx: 0, rx_dropped: ARRIVED };
        assert_eq!(storms(&mut bench, SICK).last, packets, "{layout:?}");
        let report = bench.report();
        let dropped = [3, 4]
            .map(|group| report.ports[usize::from(SICK)].classes[group].rx_drops[DropReason::PfcWatchdog as usize]);
        assert_eq!(dropped, [0, ARRIVED], "{layout:?}");
    }
}

/// A GFC port with a PFC peer is watched, and pulses no more during a storm.
#[test]
fn the_pulses_of_gfc_stop_in_a_storm() {
    let flow_control = "flow_control = { kind = \"gfc-buffer\", b_m = \"400KB\", peer = \"pfc\" }\n";
    let mut bench = bench(&(watched("drop", "") + flow_control), LcoreLayout::Single);
    bench.arrive(1, pfc(CLASS.alone(), u16::MAX));
    send(&mut bench, SICK, 1, 3, 250, None);
    let told = bench.control_sent(SICK).len();
    assert!(told > 0, "the queue holds enough for pulses");
    when_turned(&mut bench, storm(), Span::from_millis(1));
    assert!(bench.control_sent(SICK).len() > told, "they go on until the storm is detected");
    let told = bench.control_sent(SICK).len();
    pass(&mut bench, Span::from_micros(500), storm());
    assert_eq!(bench.control_sent(SICK).len(), told);
    when_turned(&mut bench, None, Span::from_millis(1));
    pass(&mut bench, Span::from_micros(200), None);
    assert!(bench.control_sent(SICK).len() > told, "and again after it");
    assert_balanced(&bench.report());
}

#[test]
fn clones_of_a_port_in_a_storm_receive_nothing_either() {
    let mut bench = bench(&(watched("drop", "") + &clones(SICK, &["c0"])), LcoreLayout::Single);
    when_turned(&mut bench, storm(), Span::from_millis(1));
    send(&mut bench, SICK, 1, 3, 20, storm());
    pass(&mut bench, Span::from_micros(20), storm());
    assert_eq!(bench.data_sent(1), [0; 0]);
    let report = bench.report();
    assert_balanced(&report);
    let dropped = [3, 4].map(|port| report.ports[port].classes[3].rx_drops[DropReason::PfcWatchdog as usize]);
    assert_eq!(dropped, [20, 20]);
    assert_eq!(report.ports[4].classes[3].storms, None, "a clone has no queue to watch");
    when_turned(&mut bench, None, Span::from_millis(1));
    send(&mut bench, SICK, 1, 3, 20, None);
    bench.run(100, STEP);
    assert_eq!(bench.data_sent(1).len(), 40);
}

#[test]
fn a_flooded_frame_is_lost_only_where_the_storm_is() {
    let mut bench = bench(&watched("drop", ""), LcoreLayout::Single);
    when_turned(&mut bench, storm(), Span::from_millis(1));
    bench.arrive(0, frame(0, 77, 3, 5));
    bench.run(10, STEP);
    assert_eq!([1, 2, SICK].map(|port| bench.data_sent(port)), [vec![5], vec![5], vec![]]);
    assert_eq!(storms(&mut bench, SICK).last.tx_dropped, 1);
    assert_eq!(bench.report().dropped(DropReason::PfcWatchdog), 1);
}

#[test]
fn forward_sends_through_the_storm_and_obeys_again_after_it() {
    for layout in LAYOUTS {
        let mut bench = bench(&watched("forward", ""), layout);
        bench.arrive(SICK, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, 0, SICK, 3, 50, None);
        assert_eq!(bench.data_sent(SICK), [0; 0], "{layout:?}: paused");
        when_turned(&mut bench, storm(), Span::from_millis(1));
        pass(&mut bench, Span::from_micros(100), storm());
        assert_eq!(bench.data_sent(SICK), (0..50).collect::<Vec<_>>(), "{layout:?}: the gate is by-passed");
        send(&mut bench, SICK, 1, 3, 20, storm());
        pass(&mut bench, Span::from_micros(20), storm());
        let counters = storms(&mut bench, SICK);
        assert_eq!(counters.last, StormPackets { tx: 50, tx_dropped: 0, rx: 20, rx_dropped: 0 }, "{layout:?}");
        assert_eq!(bench.report().conservation.dropped, 4, "{layout:?}: the introductions");
        when_turned(&mut bench, None, Span::from_millis(1));
        send(&mut bench, 0, SICK, 3, 50, None);
        assert_eq!(bench.data_sent(SICK).len(), 50, "{layout:?}: the last pause of 3.4 ms still runs");
        assert!(wakeup(&bench) <= bench.now + POLL, "{layout:?}");
    }
}

#[test]
fn alert_only_tells() {
    for layout in LAYOUTS {
        let mut bench = bench(&watched("alert", ""), layout);
        bench.arrive(SICK, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, 0, SICK, 3, 50, None);
        when_turned(&mut bench, storm(), Span::from_millis(1));
        send(&mut bench, SICK, 1, 3, 20, storm());
        pass(&mut bench, Span::from_micros(500), storm());
        assert_eq!(bench.data_sent(SICK), [0; 0], "{layout:?}: paused as it was");
        assert_eq!(bench.data_sent(1).len(), 20);
        assert_eq!(storms(&mut bench, SICK).last, StormPackets { rx: 20, ..StormPackets::default() }, "{layout:?}");
        bench.arrive(SICK, pfc(CLASS.alone(), 0));
        when_turned(&mut bench, None, Span::from_millis(1));
        bench.run(200, STEP);
        assert_eq!(bench.data_sent(SICK).len(), 50, "{layout:?}: nothing was lost");
        assert_eq!(bench.report().dropped(DropReason::PfcWatchdog), 0);
    }
}

/// One condition takes a queue without frames, the other takes a pause that is not repeated.
#[test]
fn conditions_differ_in_what_they_take_for_a_storm() {
    let stalled = "condition = \"queue-stalled\"\n";
    for (condition, queued, repeated, expected) in [
        ("", 0, true, 1),
        ("", 5, false, 0),
        (stalled, 0, true, 0),
        (stalled, 5, false, 1),
        ("", 5, true, 1),
        (stalled, 5, true, 1),
    ] {
        let mut bench = bench(&watched("drop", condition), LcoreLayout::Single);
        bench.arrive(SICK, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        send(&mut bench, 0, SICK, 3, queued, None);
        pass(&mut bench, Span::from_micros(500), if repeated { storm() } else { None });
        let what = format!("{condition:?}, {queued} frames, repeated: {repeated}");
        assert_eq!(storms(&mut bench, SICK).deadlock_detected, expected, "{what}");
    }
}

/// A peer that lets the queue go in between is a slow one, no storm; one that comes back is a storm again.
#[test]
fn a_flapping_peer() {
    let mut bench = bench(&watched("drop", ""), LcoreLayout::Single);
    for _ in 0..20 {
        pass(&mut bench, Span::from_micros(80), storm());
        pass(&mut bench, Span::from_micros(20), Some(pfc(CLASS.alone(), 0)));
    }
    assert_eq!(turns(&mut bench, SICK), (0, 0), "it runs now and then");
    for n in 1..=3 {
        when_turned(&mut bench, storm(), Span::from_millis(1));
        send(&mut bench, 0, SICK, 3, 10 * n, storm());
        // Shorter than the restoration time: the same storm.
        pass(&mut bench, Span::from_micros(200), None);
        pass(&mut bench, Span::from_micros(50), storm());
        assert_eq!(turns(&mut bench, SICK), (n, n - 1));
        when_turned(&mut bench, None, Span::from_millis(1));
        let counters = storms(&mut bench, SICK);
        assert_eq!((counters.deadlock_detected, counters.deadlock_restored), (n, n));
        assert_eq!((counters.last.tx_dropped, counters.all.tx_dropped), (10 * n, 5 * n * (n + 1)));
        // The pause that its last frame asked for runs out.
        pass(&mut bench, Span::from_millis(4), None);
    }
}

/// Classes and ports storm apart; what is not lossless, and what speaks no PFC, is not watched.
#[test]
fn each_watched_queue_has_storms_of_its_own() {
    let mut bench =
        bench(&watched("drop", "").replacen("delay", "flow_control = \"pause\"\ndelay", 1), LcoreLayout::Single);
    let both = Some(pfc(ClassSet::from_members(&[1, 3, 4].map(Class::new)), u16::MAX));
    pass(&mut bench, Span::from_micros(400), both);
    let report = bench.report();
    let watched =
        |port: usize| report.ports[port].classes.each_ref().map(|class| class.storms.map(|storms| storms.in_storm()));
    let none = [None; 8];
    assert_eq!(watched(0), none);
    let mut expected = none;
    (expected[3], expected[4]) = (Some(false), Some(false));
    assert_eq!((watched(1), watched(2)), (expected, expected));
    (expected[3], expected[4]) = (Some(true), Some(true));
    assert_eq!(watched(3), expected);
    send(&mut bench, 0, SICK, 4, 7, None);
    assert_eq!(bench.report().ports[3].classes[4].storms.unwrap().last.tx_dropped, 7);
}

#[test]
fn nothing_is_watched_unless_configured() {
    let mut bench = bench(&toml(4, ""), LcoreLayout::Single);
    pass(&mut bench, Span::from_millis(2), storm());
    assert_eq!(wakeup(&bench), Time::NEVER);
    let report = bench.report();
    assert!(report.ports.iter().flat_map(|port| &port.classes).all(|class| class.storms.is_none()));
}

/// A port that takes nothing keeps what it was offered; a link that goes has its own reason.
#[test]
fn a_storm_on_a_dead_link_is_a_dead_link() {
    let mut bench = bench(&watched("drop", ""), LcoreLayout::Single);
    when_turned(&mut bench, storm(), Span::from_millis(1));
    let shared = bench.shared.clone();
    let port = &shared.ports()[usize::from(SICK)];
    shared.set_link_up(PortId(SICK), false);
    send(&mut bench, 0, SICK, 3, 10, storm());
    assert_eq!(bench.report().dropped(DropReason::PortDown), 10);
    shared.set_link_up(PortId(SICK), true);
    assert!(port.link_up() && port.storm_counters(CLASS).unwrap().in_storm());
    send(&mut bench, 0, SICK, 3, 10, storm());
    assert_eq!(bench.report().dropped(DropReason::PfcWatchdog), 10);
    shared.set_link_up(PortId(SICK), false);
    when_turned(&mut bench, None, Span::from_millis(1));
    assert!(!port.link_up());
    shared.set_link_up(PortId(SICK), true);
    bench.run(10, STEP);
    assert!(port.link_up());
}

/// Polls, storms and drops allocate nothing.
#[test]
fn storms_do_not_allocate() {
    for layout in LAYOUTS {
        let mut bench = bench(&watched("drop", ""), layout);
        bench.world.sent.iter_mut().for_each(|sent| sent.reserve(10_000));
        for queue in &mut bench.arriving {
            queue.reserve(10_000);
        }
        let counted = allocation_counter::measure(|| {
            pass(&mut bench, Span::from_micros(100), storm());
            send(&mut bench, 0, SICK, 3, 100, None);
            when_turned(&mut bench, storm(), Span::from_millis(1));
            send(&mut bench, SICK, 1, 3, 100, storm());
            when_turned(&mut bench, None, Span::from_millis(1));
        });
        assert_eq!(counted.count_total, 0, "{layout:?}");
        assert_eq!(turns(&mut bench, SICK), (1, 1));
    }
}
