//! The whole pipeline without a driver: packets are small values, time is an argument.

use weir_config::LcoreLayout;
use weir_flowctl::CatchUp;
use weir_switch_core::DriverConfig;
use weir_switch_core::counters::DropReason;
use weir_units::{Class, ClassSet, MacAddr, PortId, Span};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::{ControlFrame, DecodeError};

use crate::common::{Bench, LAYOUTS, STEP, Senders, TestFrame, clones, frame, introduce, pfc, toml};

#[test]
fn frames_find_their_port_and_strangers_are_flooded() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(4, ""), layout);
        bench.arrive(0, frame(0, 1, 0, 7));
        bench.run(10, STEP);
        assert_eq!([1, 2, 3].map(|port| bench.data_sent(port)), [vec![7], vec![7], vec![7]], "{layout:?}");
        bench.arrive(1, frame(1, 0, 0, 8));
        bench.run(10, STEP);
        assert_eq!(bench.data_sent(0), [8]);
        assert_eq!(bench.data_sent(2), [7], "the answer is not flooded");
        let balance = bench.report().conservation;
        assert_eq!((balance.received, balance.copied, balance.sent, balance.held()), (2, 2, 4, 0));
        assert!(balance.holds);
    }
}

#[test]
fn what_a_bridge_must_not_forward_has_a_reason() {
    let mut bench = Bench::new(&toml(3, ""), LcoreLayout::Single);
    introduce(&mut bench);
    let mut link_local = frame(0, 1, 0, 1);
    if let Parsed::Data(headers) = &mut link_local.parsed {
        headers.destination = "01:80:c2:00:00:0e".parse().unwrap();
    }
    bench.arrive(0, link_local);
    bench.arrive(0, TestFrame { parsed: Parsed::Malformed, ..frame(0, 1, 0, 2) });
    bench.arrive(0, TestFrame { frame_bytes: 1_523, ..frame(0, 1, 0, 3) });
    bench.arrive(0, frame(9, 0, 0, 4));
    bench.arrive(0, pfc(ClassSet::ALL, 100));
    bench.run(10, STEP);
    for port in 0..3 {
        assert_eq!(bench.data_sent(port), [0; 0]);
        assert_eq!(bench.control_sent(port), []);
    }
    let report = bench.report();
    for reason in [DropReason::LinkLocal, DropReason::Malformed, DropReason::Oversize] {
        assert_eq!(report.dropped(reason), 1, "{}", reason.name());
    }
    assert_eq!(report.dropped(DropReason::SamePort), 3 + 1, "three introductions and a frame to its own port");
    assert_eq!((report.ports[0].control_rx.pfc, report.conservation.holds), (1, true));
}

/// The whole reserved block, and only that (IEEE 802.1Q table 8-1).
#[test]
fn no_reserved_address_is_forwarded() {
    let mut bench = Bench::new(&toml(3, ""), LcoreLayout::Single);
    for last in 0..=0x20 {
        let mut reserved = frame(0, 1, 0, 1);
        if let Parsed::Data(headers) = &mut reserved.parsed {
            headers.destination = MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
        }
        bench.arrive(0, reserved);
        bench.step(Span::from_micros(50));
        let forwarded = bench.world.sent.iter().map(Vec::len).sum::<usize>();
        assert_eq!(forwarded, 2 * (usize::from(last) + 1).saturating_sub(16), "{last:#x}");
    }
    assert_eq!(bench.report().dropped(DropReason::LinkLocal), 16);
}

/// What would be a control frame without its tags is counted, obeyed by nobody and forwarded nowhere, in every layout.
#[test]
fn tagged_control_frames_go_nowhere() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(3, ""), layout);
        bench.arrive(0, TestFrame { parsed: Parsed::Control(Err(DecodeError::Tagged)), ..frame(0, 1, 0, 1) });
        (0..5).for_each(|_| bench.step(Span::from_micros(50)));
        let report = bench.report();
        assert_eq!((report.ports[0].control_rx.malformed, report.conservation.received), (1, 0), "{layout:?}");
        assert!(report.conservation.holds && bench.world.sent.iter().all(Vec::is_empty), "{layout:?}");
    }
}

#[test]
fn a_paused_class_stops_alone_and_for_its_time() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(2, ""), layout);
        introduce(&mut bench);
        // 1,000 quanta at 10 Gb/s are 51.2 us.
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 1_000));
        bench.run(4, STEP);
        let paused_at = bench.now;
        for n in 0..4 {
            bench.arrive(0, frame(0, 1, 3, 300 + n));
            bench.arrive(0, frame(0, 1, 46, 460 + n));
        }
        bench.run(90, STEP);
        assert_eq!(bench.data_sent(1), [460, 461, 462, 463], "{layout:?}: class 5 goes on");
        while bench.data_sent(1).len() < 8 {
            bench.step(STEP);
            assert!(bench.now.since(paused_at) < Span::from_micros(70), "{layout:?}: never resumed");
        }
        let report = bench.report();
        let class = &report.ports[1].classes[3];
        assert_eq!((class.xoff_rx, class.pauses_rx, class.paused_rx), (1, 1, Span::from_nanos(51_200)));
        assert_eq!(class.last_pause_rx.map(|last| last.lasted), Some(class.paused_rx));
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(4, STEP);
        bench.arrive(0, frame(0, 1, 3, 999));
        bench.run(10, STEP);
        assert_eq!(bench.data_sent(1).len(), 8);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
        bench.run(4, STEP);
        assert_eq!(bench.data_sent(1).last(), Some(&999), "{layout:?}: time 0 resumes early");
    }
}

#[test]
fn pfc_for_a_lossy_class_is_counted_and_ignored() {
    for (keys, sent, ignored) in [("", &[460][..], 1), ("[pfc]\nobey = \"all\"\n", &[], 0)] {
        let mut bench = Bench::new(&toml(2, keys), LcoreLayout::Single);
        introduce(&mut bench);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3 | 1 << 5), u16::MAX));
        bench.run(4, STEP);
        bench.arrive(0, frame(0, 1, 3, 300));
        bench.arrive(0, frame(0, 1, 46, 460));
        bench.run(10, STEP);
        assert_eq!(bench.data_sent(1), sent, "class 3 is paused, class 5 is lossy");
        let control = bench.report().ports[1].control_rx;
        assert_eq!((control.pfc, control.lossy_pauses, control.ignored), (1, ignored, 0));
    }
}

/// Two tags at the full MTU are no longer than the switch forwards.
#[test]
fn frames_with_two_tags_pass_at_the_full_mtu() {
    let mut bench = Bench::new(&toml(2, ""), LcoreLayout::Single);
    introduce(&mut bench);
    for (number, frame_bytes) in [(1, 1_500 + 14 + 8), (2, 1_500 + 14 + 8 + 1)] {
        bench.arrive(0, TestFrame { frame_bytes, ..frame(0, 1, 3, number) });
        bench.run(10, STEP);
    }
    assert_eq!(bench.data_sent(1), [1]);
    assert_eq!(bench.report().dropped(DropReason::Oversize), 1);
}

#[test]
fn global_pause_is_ignored_on_a_pfc_port() {
    let mut bench = Bench::new(&toml(2, ""), LcoreLayout::Single);
    introduce(&mut bench);
    bench
        .arrive(1, TestFrame { parsed: Parsed::Control(Ok(ControlFrame::Pause(u16::MAX))), ..pfc(ClassSet::EMPTY, 0) });
    bench.arrive(0, frame(0, 1, 3, 1));
    bench.run(10, STEP);
    assert_eq!(bench.data_sent(1), [1]);
    let control = bench.report().ports[1].control_rx;
    assert_eq!((control.pause, control.ignored), (1, 1));
}

#[test]
fn a_pause_port_obeys_global_pause_and_sends_it() {
    let text = toml(2, "[buffer]\nsize = \"200KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"20KB\"\n")
        .replace("delay = \"1us\"\n", "delay = \"1us\"\nflow_control = \"pause\"\n");
    let mut bench = Bench::new(&text, LcoreLayout::Single);
    introduce(&mut bench);
    bench
        .arrive(1, TestFrame { parsed: Parsed::Control(Ok(ControlFrame::Pause(u16::MAX))), ..pfc(ClassSet::EMPTY, 0) });
    (0..20).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(20, STEP);
    assert_eq!(bench.data_sent(1), [0; 0]);
    let sent: Vec<_> = bench.world.sent[0].iter().map(|frame| frame.parsed).collect();
    assert!(matches!(sent[..], [Parsed::Control(Ok(ControlFrame::Pause(1..)))]), "{sent:?}");
}

/// Eight senders that obey PFC, one receiver: lossless, in order, balanced at every report, empty at the end.
#[test]
fn incast_is_lossless_and_ordered_in_every_layout() {
    const FRAMES: u64 = 3_000;
    let extra =
        "[buffer]\nsize = \"600KB\"\npolicy = \"dt\"\n[buffer.dt]\nalpha = 1\n[pfc]\nquanta = 500\nreaction = \"0s\"\n";
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(9, extra), layout);
        introduce(&mut bench);
        let mut senders = Senders::new(8, FRAMES);
        let mut received = 0;
        for round in 0.. {
            // A step is 1.25 us: a frame a step is line rate.
            senders.step(&mut bench);
            bench.step(Span::from_nanos(1_250));
            if round % 100 == 0 {
                let report = bench.report();
                assert!(report.conservation.holds, "{:?}", report.conservation);
                let balance = report.conservation;
                assert_eq!(balance.received + balance.copied, balance.sent + balance.dropped + balance.held());
                received = bench.world.sent[8].len() as u64;
                if received == 8 * FRAMES {
                    break;
                }
                assert!(round < 200_000, "{layout:?}: stuck at {received}: {report:?}");
            }
        }
        assert_eq!(received, 8 * FRAMES);
        let mut expected = [0; 8];
        for sequence in bench.data_sent(8) {
            let port = (sequence >> 32) as usize;
            assert_eq!(sequence & 0xffff_ffff, expected[port], "{layout:?}: reordered");
            expected[port] += 1;
        }
        bench.run(10, STEP);
        let report = bench.report();
        assert_eq!(report.dropped(DropReason::HeadroomViolation), 0);
        assert!(report.ports[0].classes[3].pauses_tx > 0, "{layout:?}: the incast never paused");
        assert!(report.message_delay.count > 0);
        assert_eq!(bench.shared.mmu.pool_usage().used.get(), 0);
        for class in report.ports.iter().flat_map(|port| &port.classes) {
            assert_eq!((class.ingress.headroom.get(), class.egress.get(), class.ingress.off), (0, 0, false));
        }
    }
}

/// A peer that ignores PAUSE overruns its headroom: counted, and nobody else is harmed.
#[test]
fn a_deaf_peer_loses_its_own_frames_only() {
    let extra = "[buffer]\nsize = \"600KB\"\n";
    let mut bench = Bench::new(&toml(4, extra), LcoreLayout::Single);
    introduce(&mut bench);
    bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    bench.step(STEP);
    for n in 0..1_000 {
        bench.arrive(0, frame(0, 2, 3, n));
        if n % 4 == 0 {
            bench.arrive(1, frame(1, 3, 4, n));
        }
        bench.step(Span::from_nanos(1_250));
    }
    let report = bench.report();
    let lost = report.ports[0].classes[3].rx_drops[DropReason::HeadroomViolation as usize];
    assert!(lost > 0);
    assert_eq!(report.dropped(DropReason::HeadroomViolation), lost);
    assert_eq!(bench.data_sent(3).len(), 250, "others go on");
    assert!(report.conservation.holds);
}

/// After the first frames nothing is allocated: not in the pipeline, whatever happens to a frame. What the test's own
/// world keeps has room from the start.
#[test]
fn the_packet_path_does_not_allocate() {
    const FRAMES: usize = 2_000;
    let extra = "[buffer]\nsize = \"600KB\"\n";
    for layout in LAYOUTS {
        let text = toml(4, extra) + &clones(0, &["c0", "c1"]) + &clones(2, &["c2"]);
        let mut bench = Bench::new(&text, layout);
        introduce(&mut bench);
        bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        for n in 0..FRAMES as u64 {
            // Kept, copied, forwarded, flooded, paused, violating, malformed, and for the switch itself.
            bench.arrive(0, frame(0, 1, 3, n));
            bench.arrive(1, frame(1, 2, 3, n));
            bench.arrive(2, frame(2, 77, 0, n));
            bench.arrive(3, TestFrame { parsed: Parsed::Malformed, ..frame(3, 0, 0, n) });
            bench.arrive(3, pfc(ClassSet::from_bits(1 << 4), 10));
        }
        bench.world.sent.iter_mut().for_each(|sent| sent.reserve(20 * FRAMES));
        let counted = allocation_counter::measure(|| bench.run(2 * FRAMES, Span::from_nanos(1_250)));
        assert_eq!(counted.count_total, 0, "{layout:?}");
        let report = bench.report();
        assert!(report.conservation.copied > 0 && report.dropped(DropReason::HeadroomViolation) > 0, "{layout:?}");
        assert_eq!([4, 5, 6].map(|clone| report.ports[clone].classes[3].tx_frames), [0; 3]);
        assert!([4, 5].iter().all(|clone| report.ports[*clone].classes[3].rx_frames >= FRAMES as u64), "{layout:?}");
    }
}

#[test]
fn a_port_that_accepts_little_loses_and_reorders_nothing() {
    let mut bench = Bench::new(&toml(2, ""), LcoreLayout::Single);
    introduce(&mut bench);
    bench.world.accepts = Some(1);
    (0..500).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(2_000, Span::from_nanos(1_250));
    assert_eq!(bench.data_sent(1), (0..500).collect::<Vec<_>>());
}

/// Ports leave frames of runs of three classes.
#[test]
fn ports_that_accept_little_keep_the_order_of_each_class() {
    const CLASSES: [u8; 3] = [0, 3, 4];
    for accepts in [1, 5, 30, 63] {
        let late = DriverConfig::real_time(CatchUp::at_most(Span::from_micros(60)));
        let mut bench = Bench::with(&toml(3, ""), LcoreLayout::Single, late);
        introduce(&mut bench);
        bench.world.accepts = Some(accepts);
        for n in 0..900 {
            let port = (n % 3) as u16;
            let class = CLASSES[(n / 3 % 3) as usize];
            bench.arrive(port, TestFrame { frame_bytes: 60, ..frame(port, (port + 1) % 3, class, n) });
        }
        bench.run(1_000, Span::from_micros(20));
        for port in 0..3 {
            let sent = bench.data_sent(port);
            assert_eq!(sent.len(), 300, "{accepts}");
            for turn in 0..3 {
                let of_class: Vec<u64> = sent.iter().copied().filter(|n| n / 3 % 3 == turn).collect();
                assert!(of_class.is_sorted() && of_class.len() == 100, "{accepts}: {of_class:?}");
            }
        }
        assert_eq!(bench.report().conservation.held(), 0);
    }
}

#[test]
fn frames_for_a_port_without_a_link_are_dropped_with_their_reason() {
    let mut bench = Bench::new(&toml(3, ""), LcoreLayout::Single);
    introduce(&mut bench);
    bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    bench.step(STEP);
    (0..10).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(5, STEP);
    bench.shared.set_link_up(PortId(1), false);
    bench.run(5, STEP);
    bench.arrive(0, frame(0, 1, 3, 99));
    bench.run(5, STEP);
    let report = bench.report();
    assert_eq!(report.dropped(DropReason::PortDown), 11);
    assert_eq!(report.conservation.held(), 0);
    assert_eq!(bench.shared.mmu.pool_usage().used.get(), 0);
}

#[test]
fn a_copy_without_memory_is_a_counted_fault() {
    let mut bench = Bench::new(&toml(4, ""), LcoreLayout::Single);
    bench.world.copies_fail = true;
    bench.arrive(0, frame(0, 1, 0, 1));
    bench.run(10, STEP);
    let report = bench.report();
    assert_eq!(report.dropped(DropReason::NoMemory), 2);
    assert_eq!(report.conservation.sent, 1);
    assert!(report.conservation.holds);
}

#[test]
fn departing_frames_are_marked_above_kmin_equals_kmax() {
    let extra = "[[classes.queues]]\nclass = 3\necn = { kmin = \"15180B\", kmax = \"15180B\", pmax = 1.0 }\n";
    let mut bench = Bench::new(&toml(2, extra), LcoreLayout::Single);
    introduce(&mut bench);
    bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 1_000));
    bench.step(STEP);
    // K is ten frames; of twenty in the queue the first ten leave from above it.
    (0..20).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(200, STEP);
    let marked: Vec<bool> = bench.world.sent[1].iter().map(|frame| frame.ce).collect();
    assert_eq!(marked, [[true; 10], [false; 10]].concat());
    assert_eq!(bench.report().ports[1].classes[3].ce_marked, 10);
}

/// A queue that was long when a frame came is what marks it, and not what is left of it when it leaves; frame by frame in every layout.
#[test]
fn arriving_frames_are_marked_above_kmin_equals_kmax() {
    let extra = "[[classes.queues]]\nclass = 3\n\
                 ecn = { kmin = \"15180B\", kmax = \"15180B\", pmax = 1.0, mark_on = \"arrival\" }\n";
    for layout in [LcoreLayout::Single, LcoreLayout::RxTx, LcoreLayout::RxFwdTx] {
        let mut bench = Bench::new(&toml(2, extra), layout);
        introduce(&mut bench);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 1_000));
        bench.step(STEP);
        // K is ten frames: of twenty that come one after the other the last ten find as many there.
        for n in 0..20 {
            bench.arrive(0, frame(0, 1, 3, n));
            bench.run(3, STEP);
        }
        bench.run(200, STEP);
        let marked: Vec<bool> = bench.world.sent[1].iter().map(|frame| frame.ce).collect();
        assert_eq!(marked, [[false; 10], [true; 10]].concat(), "{layout:?}");
        assert_eq!(bench.report().ports[1].classes[3].ce_marked, 10, "{layout:?}");
    }
}

/// How many frames of each class port 1 sent; all of 1,538 bytes on the wire.
fn sent_by_class(bench: &mut Bench) -> [u64; 8] {
    bench.report().ports[1].classes.each_ref().map(|class| class.tx_frames)
}

#[test]
fn a_limited_queue_leaves_the_rest_of_the_line_to_others() {
    // A strict queue at 1 Gb/s would without its limit take all; two of equal weight share what it leaves.
    let extra = "[[classes.queues]]\nclass = 4\nstrict = true\nrate = \"1Gbps\"\n\
                 [[classes.queues]]\nclass = 3\nrate = \"2Gbps\"\n";
    let mut bench = Bench::new(&toml(2, extra), LcoreLayout::Single);
    introduce(&mut bench);
    let before = sent_by_class(&mut bench);
    for n in 0..400 {
        [1, 3, 4].into_iter().for_each(|class| bench.arrive(0, frame(0, 1, class, n)));
    }
    bench.run(20_000, Span::from_nanos(10));
    // 200 us at 10 Gb/s are 162 frames, 200 us at 1 Gb/s are 16, at 2 Gb/s 32.
    let sent = sent_by_class(&mut bench);
    let frames = [1, 3, 4].map(|class| sent[class] - before[class]);
    assert!((16..=18).contains(&frames[2]) && (32..=34).contains(&frames[1]), "{frames:?}");
    assert!((162..=164).contains(&frames.iter().sum::<u64>()), "{frames:?}");
}

#[test]
fn a_limited_queue_obeys_pause_and_shares_by_weight_below_its_limit() {
    let extra = "[[classes.queues]]\nclass = 3\nrate = \"8Gbps\"\n";
    let mut bench = Bench::new(&toml(2, extra), LcoreLayout::Single);
    introduce(&mut bench);
    let before = sent_by_class(&mut bench);
    for n in 0..400 {
        [1, 3].into_iter().for_each(|class| bench.arrive(0, frame(0, 1, class, n)));
    }
    bench.run(10_000, Span::from_nanos(10));
    let sent = sent_by_class(&mut bench);
    // Two frames of a turn may not follow each other at line rate, which costs the limited queue one now and then.
    let shares = [1, 3].map(|class| sent[class] - before[class]);
    assert!(shares[0].abs_diff(shares[1]) <= 4, "a limit above its share: {shares:?}");
    bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    bench.run(4, STEP);
    let paused = sent_by_class(&mut bench)[3];
    bench.run(10_000, Span::from_nanos(10));
    let after = sent_by_class(&mut bench);
    assert_eq!(after[3], paused);
    assert!(after[1] - sent[1] > 80, "the other class has the line");
}

#[test]
fn the_transmitter_wakes_when_a_limit_ends() {
    let extra = "[[classes.queues]]\nclass = 1\nrate = \"1Gbps\"\n";
    let mut bench = Bench::new(&toml(2, extra), LcoreLayout::Single);
    introduce(&mut bench);
    (0..2).for_each(|n| bench.arrive(0, frame(0, 1, 1, n)));
    bench.run(2, Span::from_nanos(10));
    let sent = bench.data_sent(1).len();
    let now = bench.now;
    let wakeup = bench.lcores.iter().map(|lcore| lcore.next_wakeup(now)).min();
    // The second waits for 12.304 us from the start of the first.
    let wait = wakeup.unwrap().since(now).as_nanos();
    assert!(sent == 1 && (12_200..=12_304).contains(&wait), "{sent} sent, {wait} ns to wait");
}

#[test]
fn the_line_rate_is_kept_and_control_goes_first() {
    let mut bench = Bench::new(&toml(2, ""), LcoreLayout::Single);
    introduce(&mut bench);
    (0..1_000).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(10_000, Span::from_nanos(10));
    // 100 us at 10 Gb/s are 81 frames of 1,538 bytes on the wire.
    let sent = bench.data_sent(1).len();
    assert!((81..=83).contains(&sent), "{sent}");
}

#[test]
fn stopping_gives_everything_back() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(2, ""), layout);
        introduce(&mut bench);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(4, STEP);
        (0..100).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
        bench.run(3, STEP);
        let now = bench.now;
        let discarded: usize = bench.lcores.iter_mut().map(|lcore| lcore.discard(now, DropReason::Shutdown)).sum();
        let report = bench.report();
        let dropped = report.dropped(DropReason::Shutdown);
        // Frames in rings between lcores count once.
        assert!(dropped > 0 && dropped == discarded as u64, "{layout:?}: {discarded} discarded, {dropped} counted");
        assert_eq!(report.conservation.held(), 0, "{layout:?}");
        assert!(report.conservation.holds);
        assert_eq!(
            bench.shared.mmu.ingress_usage(weir_units::QueueId::new(PortId(0), Class::new(3)), now).shared.get(),
            0
        );
    }
}
