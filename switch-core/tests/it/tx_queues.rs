//! Ports whose device has several transmit queues: each class has its queue, and a queue that accepts nothing stops its classes alone.

use weir_config::LcoreLayout;
use weir_switch_core::Packet;
use weir_switch_core::burst::queue_of_class;
use weir_switch_core::counters::DropReason;
use weir_units::{Class, ClassSet, PortId};

use crate::common::{Bench, LAYOUTS, STEP, frame, introduce, pfc};

const QUEUES: u8 = 4;

/// Port 0 sends, port 1 has several queues.
fn bench(layout: LcoreLayout) -> Bench {
    let mut toml = String::from("[pfc]\nreaction = \"0s\"\n[classes]\nlossless = [3]\n[classes.dscp]\n");
    (0..8).for_each(|n| toml += &format!("{n} = {n}\n"));
    toml += "[buffer]\nsize = \"4MB\"\n[[ports]]\nname = \"in\"\nring = \"r\"\nrate = \"100Gbps\"\n";
    toml += &format!(
        "[[ports]]\nname = \"vm\"\nvhost_user = {{ socket = \"/s\", queues = {QUEUES} }}\nrate = \"100Gbps\"\n"
    );
    let mut bench = Bench::new(&toml, layout);
    introduce(&mut bench);
    bench.world.by_queue.clear();
    bench
}

/// `count` frames of each of these classes, whose sequence number encodes class and number.
fn arrive(bench: &mut Bench, classes: &[u8], count: u64) {
    for number in 0..count {
        for class in classes {
            bench.arrive(0, frame(0, 1, *class, u64::from(*class) << 32 | number));
        }
    }
}

fn numbers(bench: &Bench, class: u8) -> Vec<u64> {
    let of_class = bench.world.by_queue.iter().filter(|(_, _, sequence)| sequence >> 32 == u64::from(class));
    of_class.map(|(_, _, sequence)| sequence & u64::from(u32::MAX)).collect()
}

#[test]
fn classes_leave_by_their_queue_in_order() {
    for layout in LAYOUTS {
        let mut bench = bench(layout);
        arrive(&mut bench, &[0, 1, 2, 3, 4, 5, 6, 7], 100);
        bench.run(2_000, STEP);
        for class in 0..8 {
            assert_eq!(numbers(&bench, class), (0..100).collect::<Vec<_>>(), "class {class}");
        }
        for (port, queue, sequence) in &bench.world.by_queue {
            assert_eq!((*port, u64::from(*queue)), (1, (sequence >> 32) % u64::from(QUEUES)));
        }
        assert_eq!(queue_of_class(Class::new(7), QUEUES), 3);
        let report = bench.report();
        assert!(report.conservation.holds);
        // Each station's first frame was for itself.
        assert_eq!((report.conservation.held(), report.conservation.dropped), (0, 2));
    }
}

#[test]
fn a_full_queue_holds_its_own_classes_back_and_loses_nothing() {
    for layout in LAYOUTS {
        let mut bench = bench(layout);
        bench.world.full_queues = 1 << 3;
        arrive(&mut bench, &[0, 1, 3], 200);
        bench.run(2_000, STEP);
        assert_eq!((numbers(&bench, 0).len(), numbers(&bench, 1).len(), numbers(&bench, 3).len()), (200, 200, 0));
        let report = bench.report();
        assert!(report.conservation.holds);
        assert_eq!(report.conservation.held(), 200);
        // The port has its rate for the others meanwhile, and the queue goes on where it stopped.
        arrive(&mut bench, &[0], 50);
        bench.run(500, STEP);
        assert_eq!(numbers(&bench, 0).len(), 250);
        bench.world.full_queues = 0;
        bench.run(2_000, STEP);
        assert_eq!(numbers(&bench, 3), (0..200).collect::<Vec<_>>());
        assert_eq!(bench.report().conservation.held(), 0);
    }
}

#[test]
fn what_a_full_queue_was_offered_is_not_sent_while_its_class_is_paused() {
    for layout in LAYOUTS {
        let mut bench = bench(layout);
        bench.world.full_queues = 1 << 3;
        arrive(&mut bench, &[3, 7], 100);
        bench.run(1_000, STEP);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(2, STEP);
        bench.world.full_queues = 0;
        bench.run(100, STEP);
        // The first frame that was offered is of class 3: class 7 of the same queue waits behind it.
        assert_eq!((numbers(&bench, 3).len(), numbers(&bench, 7).len()), (0, 0));
        arrive(&mut bench, &[1], 10);
        bench.run(100, STEP);
        assert_eq!(numbers(&bench, 1).len(), 10);
        bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
        bench.run(2_000, STEP);
        assert_eq!((numbers(&bench, 3).len(), numbers(&bench, 7).len()), (100, 100));
    }
}

#[test]
fn a_port_without_link_gives_up_what_a_full_queue_was_offered() {
    for layout in LAYOUTS {
        let mut bench = bench(layout);
        bench.world.full_queues = 1 << 1;
        arrive(&mut bench, &[1], 100);
        bench.run(1_000, STEP);
        bench.shared.set_link_up(PortId(1), false);
        bench.run(1_000, STEP);
        let report = bench.report();
        assert_eq!((report.dropped(DropReason::PortDown), report.conservation.held()), (100, 0));
        bench.shared.set_link_up(PortId(1), true);
        bench.world.full_queues = 0;
        arrive(&mut bench, &[1], 5);
        bench.run(100, STEP);
        assert_eq!(numbers(&bench, 1).len(), 5);
        // A shutdown also drops frames offered to a queue.
        bench.world.full_queues = 1 << 1;
        arrive(&mut bench, &[1, 0], 100);
        bench.run(1_000, STEP);
        let now = bench.now;
        for lcore in &mut bench.lcores {
            lcore.discard(now, DropReason::Shutdown);
        }
        let report = bench.report();
        assert!(report.conservation.holds);
        assert_eq!((report.dropped(DropReason::Shutdown), report.conservation.held()), (100, 0));
    }
}

/// A message may overtake data, unless it has the count of data sent before it.
#[test]
fn messages_have_a_queue_of_their_own_if_they_do_not_count_what_was_sent() {
    for (kind, has_own) in [
        ("\"pfc\"", true),
        ("\"pause\"", true),
        ("\"gfc-buffer\"", true),
        ("{ kind = \"gfc-conceptual\", b_m = \"100KB\" }", true),
        ("\"cbfc\"", false),
        ("\"gfc-time\"", false),
        ("\"uec-cbfc\"", false),
    ] {
        let cell_bytes = if kind.contains("uec") { 128 } else { 1 };
        let ports = |n: u8, rate: &str| {
            format!("[[ports]]\nname = \"{n}\"\nring = \"{n}\"\nrate = \"{rate}\"\nflow_control = {kind}\n")
        };
        let toml = format!(
            "[pfc]\nreaction = \"0s\"\n[classes]\nlossless = [3]\n[buffer]\nsize = \"4MB\"\ncell_bytes = {cell_bytes}\nheadroom = \"60KB\"\npolicy = \"static\"\n\
             [buffer.static]\nthreshold = \"60KB\"\n{}{}",
            ports(0, "10Gbps"),
            ports(1, "1Gbps")
        );
        let mut bench = Bench::new(&toml, LcoreLayout::Single);
        introduce(&mut bench);
        bench.world.sent_as_control = 0;
        for _ in 0..40 {
            arrive(&mut bench, &[3], 2);
            bench.run(10, STEP);
        }
        let sent = bench.world.sent.iter().flatten().filter(|frame| frame.is_control()).count();
        assert!(sent > 0, "{kind}");
        assert_eq!(bench.world.sent_as_control, if has_own { sent } else { 0 }, "{kind}");
    }
}
