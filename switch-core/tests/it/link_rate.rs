//! Links that change their speed in the midst of a run, below ports with a rate and without.

use proptest::prelude::*;
use weir_config::{LcoreLayout, SwitchConfig};
use weir_flowctl::{CatchUp, Quantum};
use weir_switch_core::RateChange;
use weir_switch_core::counters::DropReason;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_switch_core::{DriverConfig, PortInfo, Switch};
use weir_units::{BitRate, Bytes, Class, PortId, PortSet, Span, Time};
use weir_wire::trailer::Telemetry;

use crate::common::{Bench, LAYOUTS, STEP, World, clones, frame, introduce, pfc, station};

const CLASS: Class = Class::new(3);
const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);
const FAST: BitRate = BitRate::gbps(10);
const SLOW: BitRate = BitRate::gbps(1);
/// A frame of [`frame`] on the wire.
const WIRE: Bytes = Bytes::new(1_538);

/// Two ports without a rate.
fn toml(extra: &str) -> String {
    format!(
        "[buffer]\nsize = \"4MB\"\nheadroom = \"60KB\"\n{extra}\n\
         [[ports]]\nname = \"p0\"\nring = \"a\"\n[[ports]]\nname = \"p1\"\nring = \"b\"\n"
    )
}

fn bench(toml: &str, layout: LcoreLayout, facts: PortInfo) -> Bench {
    let mut bench = Bench::with_facts(toml, layout, DriverConfig::real_time(CatchUp::NONE), facts);
    introduce(&mut bench);
    bench
}

fn link(rate: BitRate, shaped: bool) -> PortInfo {
    PortInfo { rate: Some(rate), shaped, ..PortInfo::default() }
}

fn changed(before: BitRate) -> Option<RateChange> {
    Some(RateChange { before, policy_follows: true })
}

/// How long class 3 of the port was paused so far.
fn paused(bench: &mut Bench, port: PortId) -> Span {
    bench.report().ports[port.index()].classes[CLASS.index()].paused_rx
}

/// Frames of class 3 that leave by [`OUT`] in so long.
fn leave_in(bench: &mut Bench, span: Span) -> usize {
    let before = bench.data_sent(OUT.0).len();
    let until = bench.now + span;
    while bench.now < until {
        bench.step(Span::from_nanos(10));
    }
    bench.data_sent(OUT.0).len() - before
}

fn offer(bench: &mut Bench, class: u8, frames: u64) {
    (0..frames).for_each(|n| bench.arrive(IN.0, frame(IN.0, OUT.0, class, n)));
}

#[test]
fn a_port_without_a_rate_has_its_links() {
    let bench = bench(&toml(""), LcoreLayout::Single, PortInfo::default());
    let (shared, port) = (&bench.shared, &bench.shared.ports()[OUT.index()]);
    assert_eq!((port.rate(), port.link_rate()), (RATE_UNKNOWN, None));
    assert_eq!(shared.set_link_rate(OUT, SLOW), changed(RATE_UNKNOWN));
    assert_eq!((port.rate(), port.link_rate()), (SLOW, Some(SLOW)));
    assert_eq!(shared.set_link_rate(OUT, SLOW), None, "told before");
    assert_eq!(shared.set_link_rate(OUT, BitRate::gbps(25)), changed(SLOW));
    assert_eq!(shared.ports()[IN.index()].rate(), RATE_UNKNOWN, "the other port's link is another");
    assert_eq!(shared.set_link_rate(IN, RATE_UNKNOWN), changed(RATE_UNKNOWN), "as was assumed");
    assert_eq!(shared.set_link_rate(IN, RATE_UNKNOWN), None);
    assert_eq!(shared.ports()[IN.index()].link_rate(), Some(RATE_UNKNOWN));
}

#[test]
fn a_port_with_a_rate_keeps_it() {
    let mut bench = Bench::new(&crate::common::toml(2, ""), LcoreLayout::Single);
    introduce(&mut bench);
    assert_eq!(bench.shared.set_link_rate(OUT, SLOW), None);
    assert_eq!(bench.shared.ports()[OUT.index()].rate(), FAST);
    assert_eq!(bench.shared.ports()[OUT.index()].link_rate(), Some(SLOW));
    bench.arrive(OUT.0, pfc(CLASS.alone(), 100));
    bench.run(1_000, STEP);
    assert_eq!(paused(&mut bench, OUT), Quantum::for_rate(FAST).times(100));
    offer(&mut bench, 0, 500);
    let (frames, whole) = (leave_in(&mut bench, Span::from_micros(100)) as u64, FAST.bytes_in(Span::from_micros(100)));
    assert!((80..=whole.get() / WIRE.get() + 2).contains(&frames), "{frames} at 10 Gb/s");
}

#[test]
fn a_pause_under_way_keeps_its_end_and_the_next_one_counts_at_the_new_rate() {
    for layout in LAYOUTS {
        let mut bench = bench(&toml(""), layout, link(FAST, false));
        let began = bench.now;
        bench.arrive(OUT.0, pfc(CLASS.alone(), 1_000));
        bench.step(STEP);
        bench.shared.set_link_rate(OUT, SLOW);
        offer(&mut bench, CLASS.index() as u8, 1);
        // 1,000 quanta are 51.2 us at 10 Gb/s.
        while bench.data_sent(OUT.0).is_empty() {
            bench.step(STEP);
        }
        let waited = bench.now.since(began);
        assert!((51_200..=53_200).contains(&waited.as_nanos()), "{layout:?}: {waited}");
        let began = bench.now;
        bench.arrive(OUT.0, pfc(CLASS.alone(), 1_000));
        bench.step(STEP);
        offer(&mut bench, CLASS.index() as u8, 1);
        while bench.data_sent(OUT.0).len() < 2 {
            bench.step(STEP);
        }
        let waited = bench.now.since(began);
        assert!((512_000..=514_000).contains(&waited.as_nanos()), "{layout:?}: {waited}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each pause lasts as many quanta as it says, of the rate that the port has when it comes, or until the next one.
    #[test]
    fn pauses_last_their_quanta(
        layout in prop::sample::select(LAYOUTS.to_vec()),
        steps in prop::collection::vec(
            (prop::sample::select(vec![100u64, 1_000, 2_500, 10_000, 25_000, 100_000]), any::<u16>(), 1..2_000u64),
            1..40,
        ),
    ) {
        let mut bench = bench(&toml(""), layout, link(FAST, true));
        let (mut expected, mut until) = (Span::ZERO, bench.now);
        for (mbps, quanta, us) in steps {
            let (rate, span) = (BitRate::mbps(mbps), Span::from_micros(us));
            bench.shared.set_link_rate(OUT, rate);
            bench.arrive(OUT.0, pfc(CLASS.alone(), quanta));
            until = bench.now + Quantum::for_rate(rate).times(quanta);
            bench.step(span);
            expected += until.min(bench.now).since(bench.now.saturating_sub(span));
            prop_assert_eq!(paused(&mut bench, OUT), expected);
        }
        let now = bench.now;
        bench.step(Span::from_secs(4));
        prop_assert_eq!(paused(&mut bench, OUT), expected + until.since(now));
    }
}

#[test]
fn a_pause_that_is_out_is_repeated_at_once_and_then_in_the_new_rates_quanta() {
    let extra = "[buffer.static]\nthreshold = \"20KB\"\n[classes]\nlossless = [3]\n[pfc]\nquanta = 1000\nrefresh_percent = 50\n";
    let toml = toml(&format!("policy = \"static\"\n{extra}"));
    for layout in LAYOUTS {
        let mut bench = bench(&toml, layout, link(FAST, false));
        bench.arrive(OUT.0, pfc(CLASS.alone(), u16::MAX));
        bench.run(4, STEP);
        offer(&mut bench, CLASS.index() as u8, 20);
        let pauses = |bench: &mut Bench, span: Span| {
            let before = bench.control_sent(IN.0).len();
            let until = bench.now + span;
            while bench.now < until {
                bench.step(STEP);
            }
            let sent = bench.control_sent(IN.0);
            assert!(sent.iter().all(|pfc| pfc.times[CLASS.index()] == 1_000), "{layout:?}: the quanta asked for stay");
            sent.len() - before
        };
        // Every 25.6 us, once the queue is OFF.
        assert!((4..=6).contains(&pauses(&mut bench, Span::from_micros(128))), "{layout:?}");
        bench.shared.set_link_rate(IN, SLOW);
        assert_eq!(pauses(&mut bench, Span::from_micros(5)), 1, "{layout:?}: repeated at once");
        assert_eq!(pauses(&mut bench, Span::from_micros(240)), 0, "{layout:?}: every 256 us now");
        assert_eq!(pauses(&mut bench, Span::from_micros(20)), 1, "{layout:?}");
        bench.shared.set_link_rate(IN, BitRate::gbps(100));
        assert!((33..=36).contains(&pauses(&mut bench, Span::from_micros(102))), "{layout:?}: polled every 3 us");
        let report = bench.report();
        assert_eq!(report.conservation.dropped, report.dropped(DropReason::SamePort), "{layout:?}");
    }
}

#[test]
fn the_shaper_gives_the_links_rate() {
    for layout in LAYOUTS {
        let mut bench = bench(&toml(""), layout, link(FAST, true));
        offer(&mut bench, 0, 2_000);
        for rate in [FAST, SLOW, BitRate::mbps(2_500), FAST] {
            bench.shared.set_link_rate(OUT, rate);
            let span = Span::from_micros(200);
            let (frames, whole) = (leave_in(&mut bench, span) as u64, rate.bytes_in(span).get() / WIRE.get());
            assert!(
                (whole - 1..=whole + 2).contains(&frames),
                "{layout:?}: {frames} frames at {rate}, {whole} expected"
            );
        }
    }
}

#[test]
fn a_link_that_comes_up_late_shapes_from_then_on() {
    let mut bench = bench(&toml(""), LcoreLayout::Single, PortInfo { shaped: true, ..PortInfo::default() });
    offer(&mut bench, 0, 500);
    assert!(leave_in(&mut bench, Span::from_nanos(30)) > 60, "nothing is known of the link");
    assert_eq!(bench.shared.set_link_rate(OUT, SLOW), changed(RATE_UNKNOWN));
    let frames = leave_in(&mut bench, Span::from_micros(123));
    assert!((10..=12).contains(&frames), "{frames}");
}

#[test]
fn a_port_that_is_not_shaped_stays_so() {
    let mut bench = bench(&toml(""), LcoreLayout::Single, link(FAST, false));
    bench.shared.set_link_rate(OUT, BitRate::mbps(100));
    offer(&mut bench, 0, 500);
    // 32 at each step, as they arrive.
    assert_eq!(leave_in(&mut bench, Span::from_nanos(200)), 500);
    assert_eq!(bench.shared.ports()[OUT.index()].line_time(), None);
}

#[test]
fn a_queues_limit_is_cut_to_the_links_rate_and_comes_back() {
    let limit = BitRate::mbps(2_500);
    let queue = format!("[[classes.queues]]\nclass = 1\nrate = \"{limit}\"\n");
    let mut bench = bench(&toml(&queue), LcoreLayout::Single, link(FAST, false));
    offer(&mut bench, 1, 1_000);
    for (link, expected) in [(FAST, limit), (SLOW, SLOW), (BitRate::gbps(25), limit)] {
        bench.shared.set_link_rate(OUT, link);
        let span = Span::from_micros(200);
        let (frames, whole) = (leave_in(&mut bench, span) as u64, expected.bytes_in(span).get() / WIRE.get());
        assert!((whole - 1..=whole + 2).contains(&frames), "{frames} frames on {link}, {whole} expected");
    }
}

#[test]
fn a_policys_count_follows_and_says_where_it_can_not() {
    let toml = toml("policy = \"spfc\"\n[buffer.spfc]\ntc = \"1ms\"\n[classes]\nlossless = [3]\n");
    let mut bench = bench(&toml, LcoreLayout::Single, link(FAST, false));
    let is_victim = |bench: &mut Bench| {
        // A twentieth of 10 Gb/s departs, from the start of a window on.
        let window = bench.now.as_nanos() / 1_000_000 + 1;
        bench.now = Time::from_nanos(window * 1_000_000);
        offer(bench, CLASS.index() as u8, 41);
        bench.run(2_000, STEP);
        bench.report().ports[IN.index()].classes[CLASS.index()].ingress.gauges.value("victim") == Some(1)
    };
    assert!(!is_victim(&mut bench), "less than a fifth of 10 Gb/s");
    assert_eq!(bench.shared.set_link_rate(IN, SLOW), changed(FAST));
    assert!(is_victim(&mut bench), "half of 1 Gb/s");
    // 50 MB a window are more than are counted.
    let told = bench.shared.set_link_rate(IN, BitRate::gbps(400));
    assert_eq!(told, Some(RateChange { before: SLOW, policy_follows: false }));
    assert!(is_victim(&mut bench), "it goes by 1 Gb/s");
    assert_eq!(bench.shared.set_link_rate(IN, FAST), changed(BitRate::gbps(400)));
    assert!(!is_victim(&mut bench));
}

#[test]
fn clones_have_their_ports_rate() {
    let mut bench = bench(&(toml("") + &clones(0, &["c"])), LcoreLayout::Single, link(FAST, true));
    assert_eq!(bench.shared.set_link_rate(IN, SLOW), changed(FAST));
    let rates: Vec<BitRate> = bench.shared.ports().iter().map(|port| port.rate()).collect();
    assert_eq!(rates, [SLOW, FAST, SLOW]);
    assert_eq!(bench.report().ports[2].link_rate, Some(SLOW));
}

#[test]
fn stamps_carry_the_new_rate() {
    let stamped = |rate: BitRate| {
        let toml = format!("[switch]\ntelemetry = true\n{}", toml(""));
        let mut bench = bench(&toml, LcoreLayout::Single, link(FAST, true));
        bench.shared.set_link_rate(OUT, rate);
        let mut asking = frame(IN.0, OUT.0, 0, 0);
        asking.stamps = Some(Vec::new());
        bench.arrive(IN.0, asking);
        bench.run(4, STEP);
        let stamps: Vec<Telemetry> = bench.world.sent[OUT.index()][0].stamps.clone().unwrap();
        stamps[0].rate
    };
    assert_eq!([SLOW, BitRate::gbps(25)].map(stamped), [SLOW, BitRate::gbps(25)]);
}

/// A port with a rate may make up what late polls missed where its device can go faster, and only there.
#[test]
fn what_is_made_up_hangs_on_the_links_speed() {
    let catch_up = CatchUp { base: Span::from_micros(200), most: Span::from_millis(20), memory: None };
    let toml = crate::common::toml(2, "[buffer]\nsize = \"8MB\"\n")
        .replacen("10Gbps", "1Gbps", 2)
        .replacen("1Gbps", "10Gbps", 1)
        .replacen("ring = \"r1\"", "pci = \"81:00.0\"", 1);
    let mut bench = Bench::with_facts(&toml, LcoreLayout::Single, DriverConfig::real_time(catch_up), link(SLOW, true));
    bench.now = Time::ZERO + Span::from_secs(1);
    introduce(&mut bench);
    let mut after_a_gap = || {
        offer(&mut bench, 0, 1_000);
        bench.run(200, STEP);
        let before = bench.data_sent(OUT.0).len();
        bench.now += Span::from_millis(8);
        bench.run(4_000, STEP);
        let sent = bench.data_sent(OUT.0).len() - before;
        bench.run(40_000, STEP);
        (sent, bench.shared.set_link_rate(OUT, FAST))
    };
    // 10 ms are 812 frames at 1 Gb/s, 2.05 ms are 166.
    let (as_fast, told) = after_a_gap();
    assert!((160..=170).contains(&as_fast), "{as_fast}");
    assert_eq!(told, None);
    let (faster, _) = after_a_gap();
    assert!((800..=820).contains(&faster), "{faster}");
}

/// `next_wakeup_of` follows the new rate, for drivers that serve ports singly.
#[test]
fn ports_that_are_served_singly_follow_too() {
    let config: SwitchConfig = weir_config::parse("single.toml", &toml("")).unwrap();
    let ports = config.ports.len();
    let surroundings = DriverConfig::real_time(CatchUp::NONE);
    let mut switch = Switch::new(&config, &vec![link(SLOW, true); ports], surroundings).unwrap();
    let ways: Vec<[u16; 1]> = (0..ports as u16).map(|port| [port]).collect();
    switch.set_routes(station(0), ways.iter().map(|way| &way[..]));
    let mut pipeline = switch.into_pipeline();
    let mut world = World { sent: vec![Vec::new(); ports], ..World::default() };
    for n in 0..3 {
        pipeline.handle(Time::ZERO, PortId(0), frame(0, OUT.0, 3, n), false, &mut world);
    }
    assert_eq!(pipeline.run_ports(Time::ZERO, PortSet::EMPTY, &mut world), OUT.alone());
    assert_eq!(world.sent[OUT.index()].len(), 1);
    let now = Time::ZERO + STEP;
    let slow = pipeline.next_wakeup_of(now, OUT);
    pipeline.shared().set_link_rate(OUT, FAST);
    assert_eq!(pipeline.run_ports(now, OUT.alone(), &mut world), OUT.alone());
    let fast = pipeline.next_wakeup_of(now, OUT);
    let (left, left_then) = (slow.since(now).as_picos(), fast.since(now).as_picos());
    assert_eq!(left.div_ceil(10), left_then, "what is left of the frame on the wire");
}
