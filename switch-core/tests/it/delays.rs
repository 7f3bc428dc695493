//! From the arrival that crosses Xoff to the PAUSE: the arrival that a delay is measured from.

use weir_units::{Class, ClassSet, PortId, QueueId, Span};

use crate::common::{Bench, LAYOUTS, STEP, frame, introduce, pfc, toml};

const IN: u16 = 0;
const OUT: u16 = 1;
const CLASSES: [Class; 2] = [Class::new(3), Class::new(4)];

/// Both classes wait for p1, whose peer has paused them.
fn waiting(layout: weir_config::LcoreLayout) -> Bench {
    let extra = "[buffer]\nsize = \"4MB\"\npolicy = \"static\"\nheadroom = \"100KB\"\n[buffer.static]\nthreshold = \"20KB\"\n\
                 [classes]\nlossless = [3, 4]\n";
    let mut bench = Bench::new(&toml(2, extra), layout);
    introduce(&mut bench);
    bench.run(1_000, STEP);
    bench.arrive(OUT, pfc(ClassSet::from_iter(CLASSES), u16::MAX));
    bench.run(4, STEP);
    bench
}

/// Frames enough to cross Xoff.
fn cross(bench: &mut Bench, class: Class) {
    (0..20).for_each(|n| bench.arrive(IN, frame(IN, OUT, class.index() as u8, n)));
    bench.run(4, STEP);
    let queue = QueueId::new(PortId(IN), class);
    assert!(bench.shared.mmu.ingress_usage(queue, bench.now).off, "the test is about queues that are OFF");
}

fn nanos(span: Span) -> u64 {
    span.as_nanos()
}

#[test]
fn each_class_is_reckoned_from_its_own_crossing() {
    for layout in LAYOUTS {
        let mut bench = waiting(layout);
        // The port takes nothing, and class 4 crosses Xoff 100 us after class 3.
        bench.world.accepts = Some(0);
        cross(&mut bench, CLASSES[0]);
        bench.run(200, STEP);
        cross(&mut bench, CLASSES[1]);
        assert_eq!(bench.report().message_delay.count, 0, "{layout:?}");
        bench.world.accepts = None;
        bench.run(4, STEP);
        let told: Vec<_> = bench.control_sent(IN).iter().map(|frame| frame.paused()).collect();
        assert_eq!(told, [ClassSet::from_iter(CLASSES)], "{layout:?}");
        let delay = bench.report().message_delay;
        let least = nanos(STEP) * 200;
        assert!(delay.count == 1 && (least..least + 10_000).contains(&delay.max), "{layout:?}: {delay:?}");
    }
}

#[test]
fn a_class_that_was_told_long_ago_is_no_delay_of_the_next() {
    for layout in LAYOUTS {
        let mut bench = waiting(layout);
        cross(&mut bench, CLASSES[0]);
        // PAUSEs are repeated for 500 us.
        bench.run(1_000, STEP);
        cross(&mut bench, CLASSES[1]);
        let delay = bench.report().message_delay;
        assert!(delay.count == 2 && delay.max <= nanos(STEP) * 4, "{layout:?}: {delay:?}");
    }
}

#[test]
fn a_time_without_a_link_is_no_delay() {
    for layout in LAYOUTS {
        let mut bench = waiting(layout);
        cross(&mut bench, CLASSES[0]);
        bench.shared.set_link_up(PortId(IN), false);
        bench.run(1_000, STEP);
        bench.shared.set_link_up(PortId(IN), true);
        bench.run(4, STEP);
        assert_eq!(bench.control_sent(IN).last().map(|frame| frame.paused()), Some(CLASSES[0].alone()), "{layout:?}");
        let delay = bench.report().message_delay;
        assert!(delay.count == 2 && delay.max <= nanos(STEP) * 4, "{layout:?}: {delay:?}");
    }
}
