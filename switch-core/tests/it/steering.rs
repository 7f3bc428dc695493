//! Changes of the configuration by a control thread take effect between two bursts, and frames are conserved.

use proptest::prelude::*;
use weir_config::{EcnConfig, LcoreLayout, PortState, QueueConfig, SwitchConfig};
use weir_flowctl::{CatchUp, MessageKind};
use weir_switch_core::DriverConfig;
use weir_switch_core::counters::DropReason;
use weir_switch_core::fdb::Destination;
use weir_units::{BitRate, Bytes, Class, ClassSet, PortId, Span, Time};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::ControlFrame;

use crate::common::{Bench, LAYOUTS, STEP, Senders, TestFrame, clones, frame, introduce, pfc, station, toml};

const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);
/// A frame of [`frame`] on the wire.
const WIRE: Bytes = Bytes::new(1_538);
/// Frames of DSCP 0 are of class 1.
/// Lossy classes may fill the buffer.
const LARGE: &str = "[buffer]\nsize = \"8MB\"\nlossy_alpha = 64\n[classes]\nlossless = [3]\n";

fn config(toml: &str) -> SwitchConfig {
    weir_config::parse("bench.toml", toml).unwrap()
}

fn bench(toml: &str, layout: LcoreLayout) -> Bench {
    let mut bench = Bench::with(toml, layout, DriverConfig::real_time(CatchUp::NONE));
    introduce(&mut bench);
    bench
}

/// Queues of this switch with more configuration of classes.
fn queues(toml: &str, more: &str) -> [QueueConfig; 8] {
    config(&format!("{toml}{more}")).classes.queues
}

fn offer(bench: &mut Bench, class: u8, frames: u64) {
    (0..frames).for_each(|n| bench.arrive(IN.0, frame(IN.0, OUT.0, class, u64::from(class) << 32 | n)));
}

/// Frames that leave by [`OUT`] in so long, by class.
fn leave_in(bench: &mut Bench, span: Span) -> [u64; 8] {
    let before = bench.data_sent(OUT.0).len();
    let until = bench.now + span;
    while bench.now < until {
        bench.step(Span::from_nanos(100));
    }
    let mut by_class = [0; 8];
    bench.data_sent(OUT.0)[before..].iter().for_each(|number| by_class[(number >> 32) as usize] += 1);
    by_class
}

/// A poll comes up to 100 ns late, and nothing is made up.
fn is_near(frames: u64, expected: u64) -> bool {
    (expected - expected / 12 - 2..=expected + 2).contains(&frames)
}

fn whole(rate: BitRate, span: Span) -> u64 {
    rate.bytes_in(span).get() / WIRE.get()
}

#[track_caller]
fn assert_lossless(bench: &mut Bench) {
    let report = bench.report();
    assert!(report.conservation.holds, "{:?}", report.conservation);
    assert_eq!(report.conservation.dropped, report.dropped(DropReason::SamePort), "{:?}", report.conservation);
}

#[test]
fn a_ports_rate_changes_while_frames_wait() {
    let span = Span::from_micros(400);
    for layout in LAYOUTS {
        let mut bench = bench(&toml(2, LARGE), layout);
        offer(&mut bench, 0, 3_000);
        for rate in [BitRate::gbps(10), BitRate::gbps(1), BitRate::gbps(4)] {
            let change = bench.shared.set_rate(OUT, Some(rate));
            assert!(change.policy_follows);
            let (frames, expected) = (leave_in(&mut bench, span)[0], whole(rate, span));
            assert!(is_near(frames, expected), "{layout:?}: {frames} at {rate}, not {expected}");
        }
        // Without a configured rate, on a link of unknown speed, the port is not shaped.
        bench.shared.set_rate(OUT, None);
        assert!(leave_in(&mut bench, Span::from_nanos(400))[0] > 200, "{layout:?}");
        bench.shared.set_rate(OUT, Some(BitRate::gbps(1)));
        let frames = leave_in(&mut bench, span)[0];
        assert!((31..=35).contains(&frames), "{layout:?}: {frames} at 1 Gb/s again");
        assert_lossless(&mut bench);
    }
}

#[test]
fn weights_change_what_classes_get_of_a_full_port() {
    let span = Span::from_millis(1);
    for layout in LAYOUTS {
        let toml = toml(2, LARGE);
        let mut bench = bench(&toml, layout);
        offer(&mut bench, 0, 2_500);
        (0..2_500).for_each(|n| bench.arrive(IN.0, frame(IN.0, OUT.0, 5, 1 << 32 | n)));
        leave_in(&mut bench, Span::from_micros(20));
        // DSCP 5 is class 2, at index 1.
        for (weight, share) in [(1, 1.0), (4, 4.0), (2, 2.0)] {
            let more = format!("[[classes.queues]]\nclass = 2\nweight = {weight}\n");
            bench.shared.set_queues(&queues(&toml, &more));
            let sent = leave_in(&mut bench, span);
            let measured = sent[1] as f64 / sent[0] as f64;
            assert!((measured / share - 1.0).abs() < 0.05, "{layout:?}: weight {weight}, {sent:?}");
        }
        bench.shared.set_queues(&queues(&toml, "[[classes.queues]]\nclass = 2\nstrict = true\n"));
        bench.run(4, STEP);
        assert_eq!(leave_in(&mut bench, Span::from_micros(100))[0], 0, "{layout:?}: a strict class goes first");
        assert_lossless(&mut bench);
    }
}

#[test]
fn a_class_gets_a_rate_and_loses_it_again() {
    let span = Span::from_micros(500);
    for layout in LAYOUTS {
        let toml = toml(2, LARGE);
        let mut bench = bench(&toml, layout);
        offer(&mut bench, 0, 3_000);
        leave_in(&mut bench, Span::from_micros(20));
        for rate in [Some(BitRate::gbps(1)), Some(BitRate::gbps(5)), None, Some(BitRate::gbps(2))] {
            let more = rate.map_or(String::new(), |rate| format!("[[classes.queues]]\nclass = 1\nrate = \"{rate}\"\n"));
            bench.shared.set_queues(&queues(&toml, &more));
            let (frames, expected) = (leave_in(&mut bench, span)[0], whole(rate.unwrap_or(BitRate::gbps(10)), span));
            assert!(is_near(frames, expected), "{layout:?}: {frames} at {rate:?}, not {expected}");
        }
        assert_lossless(&mut bench);
    }
}

#[test]
fn frames_are_marked_from_the_change_on() {
    for layout in LAYOUTS {
        let toml = toml(2, LARGE);
        let mut bench = bench(&toml, layout);
        offer(&mut bench, 0, 1_000);
        let marked = |bench: &Bench| bench.world.sent[OUT.index()].iter().filter(|frame| frame.ce).count();
        let sent = leave_in(&mut bench, Span::from_micros(100))[0];
        assert_eq!((marked(&bench), sent > 50), (0, true), "{layout:?}");
        let mut more = queues(&toml, "");
        more[1].ecn = Some(EcnConfig {
            kmin: Bytes::kb(30),
            kmax: Bytes::kb(30),
            pmax_ppm: 1_000_000,
            at_rate: None,
            on_arrival: false,
        });
        bench.shared.set_queues(&more);
        let sent = leave_in(&mut bench, Span::from_micros(100))[0];
        assert!(marked(&bench) as u64 >= sent - 2, "{layout:?}: {} of {sent}", marked(&bench));
        bench.shared.set_queues(&queues(&toml, ""));
        bench.run(4, STEP);
        let before = marked(&bench);
        leave_in(&mut bench, Span::from_micros(100));
        assert_eq!(marked(&bench), before, "{layout:?}: no more");
        assert_lossless(&mut bench);
    }
}

#[test]
fn a_port_that_is_down_neither_sends_nor_receives() {
    for layout in LAYOUTS {
        let mut bench = bench(&toml(3, LARGE), layout);
        offer(&mut bench, 0, 200);
        leave_in(&mut bench, Span::from_micros(20));
        bench.shared.set_port_state(OUT, PortState::Down);
        assert!(bench.shared.ports()[OUT.index()].has_carrier() && !bench.shared.ports()[OUT.index()].link_up());
        bench.run(20, STEP);
        let sent = bench.world.sent[OUT.index()].len();
        let waited = bench.report().dropped(DropReason::PortDown);
        assert!(waited > 100, "{layout:?}: what waited is dropped: {waited}");
        // Neither what is for it nor what comes from it gets through, and its station is not learned there.
        bench.arrive(IN.0, frame(IN.0, OUT.0, 0, 1));
        bench.arrive(OUT.0, frame(OUT.0, 2, 0, 2));
        bench.arrive(OUT.0, frame(77, 2, 0, 2));
        // Its PAUSE is not obeyed.
        bench.arrive(OUT.0, pfc(ClassSet::ALL, u16::MAX));
        bench.run(20, STEP);
        let report = bench.report();
        assert_eq!(report.dropped(DropReason::PortDown), waited + 3, "{layout:?}");
        assert_eq!((bench.world.sent[OUT.index()].len(), bench.world.sent[2].len()), (sent, 0), "{layout:?}");
        assert_eq!(bench.shared.fdb.lookup(station(77), bench.now), None, "{layout:?}");
        assert!(!report.ports[OUT.index()].link_up && report.conservation.holds, "{layout:?}");
        // A link that comes meanwhile does not open it.
        bench.shared.set_link_up(OUT, false);
        bench.shared.set_link_up(OUT, true);
        bench.arrive(IN.0, frame(IN.0, OUT.0, 0, 1));
        bench.run(20, STEP);
        assert_eq!(bench.world.sent[OUT.index()].len(), sent, "{layout:?}");
        bench.shared.set_port_state(OUT, PortState::Up);
        bench.arrive(IN.0, frame(IN.0, OUT.0, 0, 3));
        bench.arrive(OUT.0, frame(OUT.0, 2, 0, 4));
        bench.run(20, STEP);
        assert_eq!((bench.data_sent(OUT.0).last(), bench.data_sent(2).last()), (Some(&3), Some(&4)), "{layout:?}");
        assert!(bench.report().conservation.holds);
    }
}

#[test]
fn a_blocked_port_lets_go_what_waits_and_speaks_flow_control() {
    for layout in LAYOUTS {
        let mut bench = bench(&toml(3, &format!("{LARGE}[pfc]\nreaction = \"0s\"\nobey = \"all\"\n")), layout);
        offer(&mut bench, 0, 200);
        leave_in(&mut bench, Span::from_micros(20));
        // Its PAUSE is obeyed: 1,000 quanta are 51.2 us.
        bench.shared.set_port_state(OUT, PortState::Blocked);
        bench.arrive(OUT.0, pfc(Class::new(1).alone(), 1_000));
        bench.arrive(OUT.0, frame(OUT.0, 2, 0, 2));
        bench.arrive(2, frame(2, OUT.0, 0, 2));
        bench.run(4, STEP);
        let sent = bench.data_sent(OUT.0).len();
        leave_in(&mut bench, Span::from_micros(40));
        assert_eq!(bench.data_sent(OUT.0).len(), sent, "{layout:?}");
        leave_in(&mut bench, Span::from_micros(400));
        assert_eq!(bench.data_sent(OUT.0).len(), 200, "{layout:?}: what waited has left");
        let report = bench.report();
        assert_eq!((report.dropped(DropReason::PortDown), bench.data_sent(2).len()), (2, 0), "{layout:?}");
        assert!(report.conservation.holds && report.ports[OUT.index()].link_up);
        // Flooded frames do not go there either.
        bench.arrive(2, frame(2, 99, 0, 5));
        bench.run(20, STEP);
        assert_eq!((bench.data_sent(IN.0).last(), bench.data_sent(OUT.0).len()), (Some(&5), 200), "{layout:?}");
        assert!(bench.report().conservation.holds);
    }
}

/// Copies of what a closed port receives are dropped too.
#[test]
fn a_closed_ports_clones_are_closed() {
    for layout in LAYOUTS {
        let mut bench = bench(&(toml(2, LARGE) + &clones(0, &["c0"])), layout);
        bench.shared.set_port_state(IN, PortState::Blocked);
        bench.arrive(IN.0, frame(IN.0, OUT.0, 0, 1));
        bench.run(20, STEP);
        let report = bench.report();
        assert_eq!((report.dropped(DropReason::PortDown), bench.data_sent(OUT.0).len()), (2, 0), "{layout:?}");
        assert!(report.conservation.holds);
    }
}

#[test]
fn a_forced_pause_is_told_repeated_and_ended() {
    let class = Class::new(3);
    for layout in LAYOUTS {
        let toml = toml(2, "[pfc]\nreaction = \"0s\"\nquanta = 1000\n");
        let mut bench = bench(&toml, layout);
        bench.shared.force_pause(IN, class.alone());
        bench.run(4, STEP);
        let sent = bench.control_sent(IN.0);
        assert_eq!((sent.len(), sent[0].paused()), (1, class.alone()), "{layout:?}");
        // 1,000 quanta at 10 Gb/s are 51.2 us, and half of that passes before each repetition.
        bench.run(200, STEP);
        assert!((4..=6).contains(&bench.control_sent(IN.0).len()), "{layout:?}: {}", bench.control_sent(IN.0).len());
        // Other arrivals cause no message.
        bench.arrive(IN.0, frame(IN.0, OUT.0, 3, 7));
        bench.run(20, STEP);
        assert_eq!(bench.data_sent(OUT.0), [7], "{layout:?}");
        bench.shared.force_pause(IN, ClassSet::EMPTY);
        bench.run(4, STEP);
        let sent = bench.control_sent(IN.0);
        assert_eq!(sent.last().unwrap().resumed(), class.alone(), "{layout:?}");
        bench.run(400, STEP);
        assert_eq!(bench.control_sent(IN.0).len(), sent.len(), "{layout:?}: and no more");
        assert!(bench.control_sent(OUT.0).is_empty(), "{layout:?}: the other port's peer is not concerned");
        assert_eq!(bench.report().message_delay.count, 0, "{layout:?}: no queue crossed its threshold");
        assert_lossless(&mut bench);
    }
}

/// PFC and PAUSE frames sent by a port, and whether each pauses.
fn told(bench: &Bench, port: PortId) -> Vec<(&'static str, bool)> {
    let frames = bench.world.sent[port.index()].iter().filter_map(|frame| match frame.parsed {
        Parsed::Control(Ok(ControlFrame::Pfc(pfc))) => Some(("pfc", !pfc.paused().is_empty())),
        Parsed::Control(Ok(ControlFrame::Pause(quanta))) => Some(("pause", quanta > 0)),
        _ => None,
    });
    frames.collect()
}

#[test]
fn a_port_turns_from_pfc_to_pause_to_nothing_and_back() {
    let class = Class::new(3);
    let global = || TestFrame { parsed: Parsed::Control(Ok(ControlFrame::Pause(u16::MAX))), ..pfc(ClassSet::EMPTY, 0) };
    for layout in LAYOUTS {
        // Refreshes are too far apart to be among the messages.
        let toml = toml(2, "[pfc]\nreaction = \"0s\"\n");
        let mut bench = bench(&toml, layout);
        bench.shared.force_pause(IN, class.alone());
        // The egress port obeys PFC, until its flow control is changed.
        bench.arrive(OUT.0, pfc(class.alone(), u16::MAX));
        bench.run(4, STEP);
        offer(&mut bench, 3, 3);
        bench.run(20, STEP);
        assert_eq!((told(&bench, IN), bench.data_sent(OUT.0).len()), (vec![("pfc", true)], 0), "{layout:?}");
        for port in [IN, OUT] {
            assert!(bench.shared.set_flow_control(port, MessageKind::Pause));
        }
        bench.run(20, STEP);
        assert_eq!(told(&bench, IN)[1..], [("pfc", false), ("pause", true)], "{layout:?}: resumed, then paused anew");
        assert_eq!(bench.data_sent(OUT.0).len(), 3, "{layout:?}: what the peer said in PFC is forgotten");
        bench.arrive(OUT.0, pfc(class.alone(), u16::MAX));
        offer(&mut bench, 3, 3);
        bench.run(20, STEP);
        assert_eq!(bench.data_sent(OUT.0).len(), 6, "{layout:?}: PFC is no language any more");
        bench.arrive(OUT.0, global());
        bench.run(4, STEP);
        offer(&mut bench, 3, 3);
        bench.run(20, STEP);
        assert_eq!(bench.data_sent(OUT.0).len(), 6, "{layout:?}: PAUSE is");
        for port in [IN, OUT] {
            assert!(bench.shared.set_flow_control(port, MessageKind::Nothing));
        }
        bench.run(20, STEP);
        assert_eq!(told(&bench, IN)[3..], [("pause", false)], "{layout:?}: and no more");
        assert_eq!(bench.data_sent(OUT.0).len(), 9, "{layout:?}");
        bench.run(400, STEP);
        assert_eq!(told(&bench, IN).len(), 4, "{layout:?}");
        assert!(
            bench.shared.set_flow_control(IN, MessageKind::Pfc)
                && !bench.shared.set_flow_control(IN, MessageKind::LengthsOrCredits)
        );
        bench.run(4, STEP);
        assert_eq!(told(&bench, IN)[4..], [("pfc", true)], "{layout:?}: what is still to pause is told");
        assert_eq!(bench.report().message_delay.count, 0, "{layout:?}");
        assert_lossless(&mut bench);
    }
}

#[test]
fn static_addresses_come_and_go() {
    let bench = bench(&toml(3, ""), LcoreLayout::Single);
    let (fdb, now) = (&bench.shared.fdb, bench.now);
    let known = |n: u16| fdb.lookup(station(n), now);
    // One that was learned behind another port.
    assert_eq!(known(1), Some(Destination::Port(PortId(1))));
    assert!(fdb.enter_static(station(1), PortId(2)) && fdb.has_static(station(1), PortId(2)));
    assert_eq!(known(1), Some(Destination::Port(PortId(2))));
    fdb.learn(station(1), PortId(0), now);
    assert_eq!(known(1), Some(Destination::Port(PortId(2))), "it stays");
    // To another port, and away.
    assert!(fdb.enter_static(station(1), PortId(0)) && !fdb.has_static(station(1), PortId(2)));
    assert_eq!(fdb.entries(now).iter().filter(|entry| entry.address == station(1)).count(), 1);
    assert!(fdb.remove_static(station(1)) && !fdb.remove_static(station(1)));
    assert_eq!(known(1), None);
    fdb.learn(station(1), PortId(1), now);
    assert_eq!(known(1), Some(Destination::Port(PortId(1))), "it is learned as any other");
    assert!(!fdb.remove_static(station(1)), "a learned one is not touched");
}

/// One step.
#[derive(Clone, Debug)]
enum Turn {
    Rate(u16, u64),
    Quanta(u8, u32),
    QueueRate(u8, Option<u64>),
    Ecn(u8, Option<u64>),
    Alpha(u32),
    Blocked(u16, bool),
    Pause(u16, u8),
}

fn turns() -> impl Strategy<Value = Turn> {
    prop_oneof![
        (0..3u16, 500..20_000u64).prop_map(|(port, mbps)| Turn::Rate(port, mbps)),
        (0..8u8, 1_600..20_000u32).prop_map(|(class, quantum)| Turn::Quanta(class, quantum)),
        (0..8u8, prop::option::of(500..10_000u64)).prop_map(|(class, mbps)| Turn::QueueRate(class, mbps)),
        (0..8u8, prop::option::of(1..400u64)).prop_map(|(class, kb)| Turn::Ecn(class, kb)),
        (1..64u32).prop_map(Turn::Alpha),
        (0..2u16, any::<bool>()).prop_map(|(port, is)| Turn::Blocked(port, is)),
        (0..2u16, any::<u8>()).prop_map(|(port, classes)| Turn::Pause(port, classes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever is changed and when, no lossless frame of a peer that obeys PFC is lost, and all leave in the end.
    #[test]
    fn nothing_lossless_is_lost_whatever_changes(
        layout in prop::sample::select(LAYOUTS.to_vec()),
        changes in prop::collection::vec((turns(), 1..200usize), 1..30),
    ) {
        const FRAMES: u64 = 800;
        let toml = toml(3, "[buffer]\nsize = \"400KB\"\npolicy = \"dt\"\n[classes]\nlossless = [3]\n[pfc]\nreaction = \"0s\"\n");
        let config = config(&toml);
        let mut bench = Bench::new(&toml, layout);
        introduce(&mut bench);
        let (mut senders, mut queues, mut blocked) = (Senders::new(2, FRAMES), config.classes.queues.clone(), false);
        for (turn, steps) in changes {
            let shared = &bench.shared;
            match turn {
                Turn::Rate(port, mbps) => drop(shared.set_rate(PortId(port), Some(BitRate::mbps(mbps)))),
                Turn::Quanta(class, quantum) => queues[usize::from(class)].quantum = quantum,
                Turn::QueueRate(class, mbps) => queues[usize::from(class)].rate = mbps.map(BitRate::mbps),
                Turn::Ecn(class, kb) => {
                    queues[usize::from(class)].ecn =
                        kb.map(|kb| EcnConfig { kmin: Bytes::kb(kb), kmax: Bytes::kb(2 * kb), pmax_ppm: 500_000, at_rate: None, on_arrival: kb % 2 == 0 });
                }
                Turn::Alpha(n) => {
                    let policy = weir_mmu::policy::parse_config("dt", &format!("alpha = \"{n}/16\"")).unwrap();
                    shared.mmu.update_config(&*policy, config.xon(), config.buffer.lossy_alpha);
                }
                Turn::Blocked(port, is) => {
                    blocked |= is;
                    shared.set_port_state(PortId(port), if is { PortState::Blocked } else { PortState::Up });
                }
                Turn::Pause(port, classes) => shared.force_pause(PortId(port), ClassSet::from_bits(classes)),
            }
            shared.set_queues(&queues);
            for _ in 0..steps {
                senders.step(&mut bench);
                bench.step(STEP);
            }
        }
        for port in [IN, OUT] {
            bench.shared.set_port_state(port, PortState::Up);
            bench.shared.force_pause(port, ClassSet::EMPTY);
        }
        let end = bench.now + Span::from_millis(100);
        let gone = |bench: &mut Bench| bench.data_sent(2).len() as u64 + bench.report().dropped(DropReason::PortDown);
        while bench.now < end && gone(&mut bench) < 2 * FRAMES {
            // Both numbers take longer than a step.
            for _ in 0..100 {
                senders.step(&mut bench);
                bench.step(STEP);
            }
        }
        bench.run(2_000, STEP);
        let report = bench.report();
        prop_assert!(report.conservation.holds, "{:?}", report.conservation);
        let closed = report.dropped(DropReason::PortDown);
        prop_assert_eq!(report.conservation.dropped, report.dropped(DropReason::SamePort) + closed);
        prop_assert!(blocked || closed == 0);
        prop_assert_eq!(bench.data_sent(2).len() as u64 + closed, 2 * FRAMES);
        prop_assert_eq!(report.conservation.held(), 0);
        prop_assert_eq!(bench.shared.mmu.pool_usage().used, Bytes::ZERO);
    }
}

/// A watchdog's times count from its next poll on.
#[test]
fn a_watchdog_goes_by_new_times() {
    let toml = toml(
        2,
        "[pfc_watchdog]\ndetection_time = \"100ms\"\nrestoration_time = \"100ms\"\npoll_interval = \"100us\"\n",
    );
    let mut bench = bench(&toml, LcoreLayout::Single);
    let storms = |bench: &Bench| {
        let counters = bench.shared.ports()[OUT.index()].storm_counters(Class::new(3)).unwrap();
        (counters.deadlock_detected, counters.deadlock_restored)
    };
    let until = |bench: &mut Bench, end: Time, is_storm: bool| {
        while bench.now < end {
            if is_storm {
                bench.arrive(OUT.0, pfc(Class::new(3).alone(), u16::MAX));
            }
            bench.step(Span::from_micros(50));
        }
    };
    let start = bench.now;
    until(&mut bench, start + Span::from_millis(20), true);
    assert_eq!(storms(&bench), (0, 0), "100 ms have not passed");
    let mut config = config(&toml).pfc_watchdog.unwrap();
    (config.detection_time, config.restoration_time) = (Span::from_millis(10), Span::from_millis(5));
    bench.shared.set_watchdog(&config);
    until(&mut bench, start + Span::from_millis(21), true);
    assert_eq!(storms(&bench), (1, 0), "it has held for 20 ms");
    until(&mut bench, start + Span::from_millis(30), false);
    assert_eq!(storms(&bench), (1, 1), "5 ms without a frame");
    assert!(bench.report().conservation.holds);
}
