//! Ports that copy another's ingress: what arrives at the real port also arrives at each of its clones.

use weir_config::LcoreLayout;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::ClassReport;
use weir_units::{Class, ClassSet, PortId, QueueId, Span};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::ControlFrame;

use crate::common::{
    Bench, LAYOUTS, STEP, Senders, TestFrame, assert_balanced, assert_empty, clones, frame, introduce, pfc, toml,
};

/// p0 to p2, and two clones of p0: c0 is port 3, c1 is port 4.
fn cloned(extra: &str) -> String {
    toml(3, extra) + &clones(0, &["c0", "c1"])
}

/// A frame without DSCP, which is in the class of the port that it arrives on.
fn unmarked(from: u16, to: u16, sequence: u64) -> TestFrame {
    let mut frame = frame(from, to, 0, sequence);
    if let Parsed::Data(headers) = &mut frame.parsed {
        headers.dscp = None;
    }
    frame
}

/// Several copies of one stream, each in order, mixed: then every number's n-th copy comes in order of the numbers too.
fn assert_ordered(sequences: &[u64], copies: usize, frames: u64) {
    let mut next = vec![0; copies];
    for sequence in sequences {
        let copy = next.iter().position(|next| next <= sequence).expect("too many copies");
        assert_eq!(next[copy], *sequence, "reordered");
        next[copy] += 1;
    }
    assert_eq!(next, vec![frames; copies]);
}

#[test]
fn a_copy_is_charged_to_its_own_queue_and_goes_where_the_frame_goes() {
    const FRAMES: u64 = 100;
    for layout in LAYOUTS {
        let mut bench = Bench::new(&cloned("[buffer]\nsize = \"4MB\"\n"), layout);
        introduce(&mut bench);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(4, STEP);
        (0..FRAMES).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
        bench.run(8, STEP);
        let report = bench.report();
        for port in [0, 3, 4] {
            let class = &report.ports[port].classes[3];
            assert_eq!((class.rx_frames, class.rx_bytes), (FRAMES, FRAMES * 1_514), "{layout:?}");
            assert_eq!(class.ingress.shared.get() + class.ingress.private.get(), FRAMES * 1_518, "{layout:?}");
        }
        assert_eq!(report.ports[1].classes[3].egress.get(), 3 * FRAMES * 1_518);
        assert_balanced(&report);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
        bench.run(1_000, STEP);
        assert_ordered(&bench.data_sent(1), 3, FRAMES);
        let report = bench.report();
        assert_empty(&report);
        // The three that introduced themselves, p0 with its copies.
        assert_eq!(
            (report.conservation.received, report.conservation.sent),
            (3 * FRAMES + 5, 3 * FRAMES),
            "{layout:?}"
        );
        for clone in &report.ports[3..] {
            assert_eq!(
                clone.classes.each_ref().map(|class| class.tx_frames + class.xoff_tx + class.egress_max.get()),
                [0; 8]
            );
        }
    }
}

#[test]
fn a_clone_has_a_class_of_its_own_for_what_has_none() {
    let text = cloned("") + "priority = 3\n";
    let mut bench = Bench::new(&text, LcoreLayout::Single);
    introduce(&mut bench);
    (0..10).for_each(|n| bench.arrive(0, unmarked(0, 1, n)));
    (10..20).for_each(|n| bench.arrive(0, frame(0, 1, 4, n)));
    bench.run(200, STEP);
    let report = bench.report();
    let sent = report.ports[1].classes.each_ref().map(|class| class.tx_frames);
    assert_eq!(sent, [20, 0, 0, 10, 30, 0, 0, 0]);
    assert_eq!([report.ports[3].classes[0].rx_frames, report.ports[4].classes[3].rx_frames], [10; 2]);
}

#[test]
fn the_real_port_pauses_while_any_of_them_must() {
    let extra = "[buffer]\nsize = \"4MB\"\npolicy = \"static\"\nheadroom = \"100KB\"\n[buffer.static]\nthreshold = \"20KB\"\n\
                 [pfc]\nquanta = 500\nreaction = \"0s\"\n";
    // Frames without DSCP are in class 3 at c0 alone.
    let text = toml(3, extra) + &clones(0, &["c0"]) + "priority = 3\n" + &clones(0, &["c1"]);
    let off = |bench: &Bench| {
        [0, 3, 4].map(|port| bench.shared.mmu.ingress_usage(QueueId::new(PortId(port), Class::new(3)), bench.now).off)
    };
    for layout in LAYOUTS {
        let mut bench = Bench::new(&text, layout);
        introduce(&mut bench);
        bench.run(100, STEP);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(4, STEP);
        (0..20).for_each(|n| bench.arrive(0, unmarked(0, 2, n)));
        bench.run(4, STEP);
        assert_eq!(off(&bench), [false, true, false], "{layout:?}");
        let sent = bench.control_sent(0);
        assert_eq!(
            sent.iter().map(|frame| (frame.paused(), frame.times[3])).collect::<Vec<_>>(),
            [(Class::new(3).alone(), 500)]
        );
        let delay = bench.report().message_delay;
        assert!(delay.count == 1 && delay.max <= 1_000, "{layout:?}: {delay:?}");

        (0..20).for_each(|n| bench.arrive(0, frame(0, 1, 3, 100 + n)));
        bench.run(4, STEP);
        assert_eq!(off(&bench), [true; 3], "{layout:?}");
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
        // 500 quanta are 25.6 us; meanwhile it is repeated before they are over.
        bench.run(400, STEP);
        assert_eq!(off(&bench), [false, true, false], "{layout:?}");
        let sent = bench.control_sent(0);
        assert!(
            sent.iter()
                .all(|frame| (frame.paused(), frame.resumed()) == (ClassSet::from_bits(1 << 3), ClassSet::EMPTY)),
            "{layout:?}: {sent:?}"
        );
        assert!((8..=18).contains(&sent.len()), "{layout:?}: {} refreshes in 206 us", sent.len());

        bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), 0));
        bench.run(200, STEP);
        let resumed: Vec<_> = bench.control_sent(0)[sent.len()..].iter().map(|frame| frame.resumed()).collect();
        assert_eq!(resumed[resumed.len() - 1], ClassSet::from_bits(1 << 3), "{layout:?}");
        assert_eq!(resumed.iter().filter(|classes| !classes.is_empty()).count(), 1, "{layout:?}");
        let report = bench.report();
        assert_empty(&report);
        let pauses = [0, 3, 4].map(|port| &report.ports[port].classes[3]).map(|class| (class.pauses_tx, class.xon_tx));
        assert_eq!(pauses, [(1, 1), (0, 0), (0, 0)], "{layout:?}");
        assert!(report.ports[0].classes[3].paused_tx > Span::from_micros(200), "{layout:?}");
        assert_eq!(report.message_delay.count, 1);
        assert_eq!(report.conservation.dropped, 5, "{layout:?}: the introductions");
    }
}

#[test]
fn clones_are_neither_flooded_to_nor_learnt() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&cloned(""), layout);
        bench.arrive(0, frame(0, 77, 0, 1));
        bench.run(20, STEP);
        assert_eq!([0, 1, 2].map(|port| bench.data_sent(port)), [vec![], vec![1; 3], vec![1; 3]], "{layout:?}");
        // Two more wherever it goes.
        let balance = bench.report().conservation;
        assert_eq!((balance.received, balance.copied, balance.sent, balance.dropped), (3, 3, 6, 0), "{layout:?}");
        bench.arrive(1, frame(1, 77, 0, 2));
        bench.arrive(1, frame(1, 0, 0, 3));
        bench.run(20, STEP);
        assert_eq!((bench.data_sent(0), bench.data_sent(2)), (vec![2, 3], vec![1, 1, 1, 2]), "{layout:?}");
        let entries = bench.shared.fdb.entries(bench.now);
        assert!(entries.iter().all(|entry| entry.port.0 < 3), "{layout:?}: {entries:?}");
        // To a neighbour on the same link, and what no bridge forwards: not forwarded from any of them.
        bench.arrive(0, frame(0, 0, 0, 4));
        bench.arrive(0, TestFrame { parsed: Parsed::Malformed, ..frame(0, 1, 0, 5) });
        bench.arrive(0, TestFrame { frame_bytes: 1_523, ..frame(0, 1, 0, 6) });
        bench.run(20, STEP);
        let report = bench.report();
        for reason in [DropReason::SamePort, DropReason::Malformed, DropReason::Oversize] {
            let dropped = |class: &ClassReport| class.rx_drops[reason as usize];
            let by_port = report.ports.iter().map(|port| port.classes.iter().map(|class| dropped(class)).sum::<u64>());
            let by_port: Vec<_> = by_port.collect();
            assert_eq!(by_port, [1, 0, 0, 1, 1], "{layout:?}: {}", reason.name());
        }
        assert!([3, 4].iter().all(|clone| bench.world.sent[*clone].is_empty()), "{layout:?}");
        assert_empty(&report);
    }
}

#[test]
fn control_frames_are_not_copied() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&cloned(""), layout);
        introduce(&mut bench);
        let before = bench.report().conservation;
        bench.arrive(0, pfc(ClassSet::from_bits(1 << 3), 1_000));
        bench.arrive(0, TestFrame { parsed: Parsed::Control(Ok(ControlFrame::Pause(7))), ..pfc(ClassSet::EMPTY, 0) });
        bench.run(4, STEP);
        let report = bench.report();
        assert_eq!(report.conservation, before, "{layout:?}");
        let control: Vec<_> = report.ports.iter().map(|port| (port.control_rx.pfc, port.control_rx.pause)).collect();
        assert_eq!(control, [(1, 1), (0, 0), (0, 0), (0, 0), (0, 0)], "{layout:?}");
        let paused: Vec<ClassSet> = bench.shared.ports().iter().map(|port| port.regulator.paused(bench.now)).collect();
        let none = ClassSet::EMPTY;
        assert_eq!(paused, [Class::new(3).alone(), none, none, none, none], "{layout:?}");
    }
}

/// The SPFC paper's testbed: a burst port with five clones and a victim, into one receiver; senders obey PFC.
#[test]
fn an_incast_of_clones_is_lossless_and_balanced() {
    const FRAMES: u64 = 1_000;
    const COPIES: usize = 6;
    let extra =
        "[buffer]\nsize = \"600KB\"\npolicy = \"dt\"\n[buffer.dt]\nalpha = 1\n[pfc]\nquanta = 500\nreaction = \"0s\"\n";
    let text = toml(3, extra) + &clones(0, &["c0", "c1", "c2", "c3", "c4"]);
    for layout in LAYOUTS {
        let mut bench = Bench::new(&text, layout);
        introduce(&mut bench);
        let mut senders = Senders::new(2, FRAMES);
        for round in 0.. {
            senders.step(&mut bench);
            bench.step(Span::from_nanos(1_250));
            if round % 50 == 0 {
                assert_balanced(&bench.report());
                if bench.world.sent[2].len() as u64 == (COPIES as u64 + 1) * FRAMES {
                    break;
                }
                assert!(round < 100_000, "{layout:?}: stuck at {}", bench.world.sent[2].len());
            }
        }
        bench.run(10, STEP);
        let sent = bench.data_sent(2);
        let from = |port: u64| sent.iter().filter(move |n| **n >> 32 == port).map(|n| n & 0xffff_ffff);
        assert_ordered(&from(0).collect::<Vec<_>>(), COPIES, FRAMES);
        assert_ordered(&from(1).collect::<Vec<_>>(), 1, FRAMES);
        let report = bench.report();
        assert_empty(&report);
        assert_eq!(report.dropped(DropReason::HeadroomViolation), 0, "{layout:?}");
        assert!(report.ports[0].classes[3].pauses_tx > 0, "{layout:?}: the incast never paused");
        assert_eq!(report.ports[3].classes[3].rx_frames, FRAMES);
    }
}

#[test]
fn a_copy_without_memory_is_counted_where_it_was_to_arrive() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&cloned(""), layout);
        introduce(&mut bench);
        bench.world.copies_fail = true;
        (0..7).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
        bench.run(40, STEP);
        assert_eq!(bench.data_sent(1), (0..7).collect::<Vec<_>>(), "{layout:?}");
        let report = bench.report();
        for (port, lost) in [(0, 0), (3, 7), (4, 7)] {
            let class = &report.ports[port].classes[3];
            assert_eq!((class.rx_frames, class.rx_drops[DropReason::NoMemory as usize]), (7, lost), "{layout:?}");
        }
        assert_empty(&report);
    }
}

#[test]
fn stopping_counts_the_copies_too() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&cloned("[buffer]\nsize = \"4MB\"\n"), layout);
        introduce(&mut bench);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(4, STEP);
        (0..100).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
        bench.run(3, STEP);
        // Left in the ring to the forwarder, where there is one.
        let receiver = &mut bench.lcores[0];
        if receiver.role.forwards.is_empty() {
            let mut burst = (0..32).map(|n| frame(0, 1, 3, n)).collect();
            receiver.handle_burst(bench.now, PortId(0), &mut burst, &mut bench.world);
        }
        let now = bench.now;
        for lcore in &mut bench.lcores {
            lcore.discard(now, DropReason::Shutdown);
        }
        let report = bench.report();
        assert_empty(&report);
        let received =
            [0, 3, 4].map(|port| report.ports[port].classes.iter().map(|class| class.rx_frames).sum::<u64>());
        assert_eq!(received, [received[0]; 3], "{layout:?}");
        assert_eq!(report.dropped(DropReason::Shutdown) % 3, 0, "{layout:?}");
        assert!(received[0] > 90, "{layout:?}");
    }
}

#[test]
fn a_clone_has_a_link_while_its_port_has() {
    let mut bench = Bench::new(&cloned(""), LcoreLayout::Single);
    bench.shared.set_link_up(PortId(0), false);
    let report = bench.report();
    assert_eq!(report.ports.iter().map(|port| port.link_up).collect::<Vec<_>>(), [false, true, true, false, false]);
}
