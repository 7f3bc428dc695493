//! Links that go and come in mid-run: the flow-control state of both ends is reset.

use weir_config::LcoreLayout;
use weir_units::{Bytes, Class, ClassSet, PortId, Span, Time};

use crate::common::{Bench, LAYOUTS, STEP, frame, introduce, pfc, toml};

const CLASS: ClassSet = Class::new(3).alone();
/// The longest PAUSE: 3.36 ms at 10 Gb/s.
const QUANTA: u16 = u16::MAX;

/// Three ports; the station at port 1 pauses class 3.
fn paused(layout: LcoreLayout, extra: &str) -> Bench {
    let mut bench = Bench::new(&toml(3, extra), layout);
    introduce(&mut bench);
    bench.arrive(1, pfc(CLASS, QUANTA));
    bench.run(3, STEP);
    bench
}

fn set_link_up(bench: &mut Bench, port: u16, is_up: bool) {
    bench.shared.set_link_up(PortId(port), is_up);
    bench.run(3, STEP);
}

/// Sends a frame from port 0 to port 1; says whether it left within some rounds.
fn passes(bench: &mut Bench, sequence: u64) -> bool {
    bench.arrive(0, frame(0, 1, 3, sequence));
    bench.run(6, STEP);
    bench.data_sent(1).contains(&sequence)
}

#[test]
fn a_pause_ends_with_its_link() {
    for layout in LAYOUTS {
        let mut bench = paused(layout, "");
        assert!(!passes(&mut bench, 1), "{layout:?}");
        set_link_up(&mut bench, 1, false);
        set_link_up(&mut bench, 1, true);
        assert!(passes(&mut bench, 2), "{layout:?}: the peer paused the link before");
        assert_eq!(bench.data_sent(1), [2], "{layout:?}: what waited for the dead link was dropped");
        let class = bench.report().ports[1].classes[3].clone();
        assert!(class.paused_rx < Span::from_micros(20), "{layout:?}: {:?}", class.paused_rx);
    }
}

/// A peer may see the link sooner than this end does.
#[test]
fn a_pause_that_came_before_the_link_was_seen_holds() {
    for layout in LAYOUTS {
        let mut bench = paused(layout, "");
        set_link_up(&mut bench, 1, false);
        bench.arrive(1, pfc(CLASS, QUANTA));
        bench.run(3, STEP);
        set_link_up(&mut bench, 1, true);
        assert!(!passes(&mut bench, 1), "{layout:?}");
        bench.run(4_000, Span::from_micros(1));
        assert_eq!(bench.data_sent(1), [1], "{layout:?}");
    }
}

/// A link that went and came between two rounds: as if the transmitter had seen it going.
#[test]
fn a_pause_ends_with_a_link_that_nobody_saw_going() {
    for layout in LAYOUTS {
        let mut bench = paused(layout, "");
        bench.shared.set_link_up(PortId(1), false);
        bench.shared.set_link_up(PortId(1), true);
        assert!(passes(&mut bench, 1), "{layout:?}: the peer paused the link before");
    }
}

#[test]
fn a_pause_that_came_since_a_link_went_that_nobody_saw_going_holds() {
    let mut bench = paused(LcoreLayout::Single, "");
    bench.shared.set_link_up(PortId(1), false);
    bench.arrive(1, pfc(CLASS, QUANTA));
    bench.shared.set_link_up(PortId(1), true);
    assert!(!passes(&mut bench, 1));
}

/// Port 1 is paused, so that what port 0 receives for it stays, until port 0 must pause too.
fn congested(layout: LcoreLayout, extra: &str) -> Bench {
    let small =
        "[buffer]\nsize = \"400KB\"\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"15KB\"\n";
    let mut bench = paused(layout, &format!("{small}{extra}"));
    (0..12).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
    bench.run(6, STEP);
    bench
}

fn told(bench: &Bench) -> Vec<(ClassSet, u16)> {
    bench.control_sent(0).iter().map(|pfc| (pfc.paused(), pfc.times[3])).collect()
}

#[test]
fn an_xoff_that_is_still_due_is_sent_again_at_once() {
    for layout in LAYOUTS {
        let mut bench = congested(layout, "");
        assert_eq!(told(&bench), [(CLASS, QUANTA)], "{layout:?}");
        set_link_up(&mut bench, 0, false);
        // A refresh would have been due after half of the pause, 1.68 ms.
        let before = bench.now;
        while bench.now.since(before) < Span::from_micros(1_800) {
            bench.step(Span::from_micros(10));
            bench.arrive(1, pfc(CLASS, QUANTA));
        }
        assert_eq!(told(&bench).len(), 1, "{layout:?}: nothing is told to nobody");
        let up_at = bench.now;
        set_link_up(&mut bench, 0, true);
        assert_eq!(told(&bench), [(CLASS, QUANTA); 2], "{layout:?}");
        let report = bench.report();
        let class = &report.ports[0].classes[3];
        assert_eq!(class.pauses_tx, 2, "{layout:?}: another link, another PAUSE");
        // The first one at the threshold of 15 KB or a few frames later, the second one when all twelve frames were there.
        let queue = class.ingress.private + class.ingress.shared + class.ingress.headroom;
        let at_first = class.held_at_pauses - queue;
        assert!((Bytes::kb(15)..=queue).contains(&at_first), "{layout:?}: {at_first} and {queue}");
        let (delay, reaction) = (report.message_delay, report.reaction);
        assert!(delay.max.max(reaction.max) < 20_000, "{layout:?}: {delay:?}, {reaction:?}: an outage is no delay");
        // The peer is resumed too, and both pauses count as paused time.
        bench.arrive(1, pfc(CLASS, 0));
        bench.run(40, STEP);
        assert_eq!(told(&bench).last(), Some(&(ClassSet::EMPTY, 0)), "{layout:?}");
        let paused_for = bench.report().ports[0].classes[3].paused_tx;
        assert!(paused_for < bench.now.since(up_at) + Span::from_micros(20), "{layout:?}: {paused_for:?}");
    }
}

/// A message that is not due any more is not sent: the peer of a new link has been paused by nobody.
#[test]
fn a_queue_that_drained_meanwhile_is_not_told_of() {
    for layout in LAYOUTS {
        let mut bench = congested(layout, "");
        set_link_up(&mut bench, 0, false);
        bench.arrive(1, pfc(CLASS, 0));
        bench.run(60, STEP);
        set_link_up(&mut bench, 0, true);
        assert_eq!(told(&bench).len(), 1, "{layout:?}");
        assert!(!bench.report().ports[0].classes[3].ingress.off, "{layout:?}");
    }
}

#[test]
fn a_stage_that_still_holds_is_told_again_at_once() {
    let gfc = "[buffer]\nsize = \"4MB\"\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"\n\
               [classes]\nlossless = [3]\n";
    let kind = "flow_control = { kind = \"gfc-buffer\", b_m = \"300KB\", b_1 = \"3KB\", refresh = \"50us\", ageing = \"800us\" }";
    let file = toml(3, gfc).replacen("delay", &format!("{kind}\ndelay"), 1);
    for layout in LAYOUTS {
        let mut bench = Bench::new(&file, layout);
        introduce(&mut bench);
        bench.arrive(1, pfc(CLASS, QUANTA));
        bench.run(3, STEP);
        (0..3).for_each(|n| bench.arrive(0, frame(0, 1, 3, n)));
        bench.run(3, STEP);
        let stage = told(&bench).last().expect("a stage").1;
        assert!(stage > 0, "{layout:?}");
        set_link_up(&mut bench, 0, false);
        let before = told(&bench).len();
        bench.run(300, STEP);
        assert_eq!(told(&bench).len(), before, "{layout:?}");
        bench.shared.set_link_up(PortId(0), true);
        bench.step(STEP);
        assert_eq!(told(&bench)[before..], [(CLASS, stage)], "{layout:?}");
    }
}

/// Nothing wakes a driver in virtual time for a port without a link, and the link's end itself takes no memory.
#[test]
fn a_dead_port_wants_nothing_and_links_do_not_allocate() {
    let mut bench = congested(LcoreLayout::Single, "");
    bench.world.sent.iter_mut().for_each(|sent| sent.reserve(1_000));
    let counted = allocation_counter::measure(|| {
        for port in [0, 1] {
            set_link_up(&mut bench, port, false);
        }
    });
    assert_eq!(counted.count_total, 0);
    let wakeup = bench.lcores[0].next_wakeup(bench.now);
    assert_eq!(wakeup, Time::NEVER);
    let counted = allocation_counter::measure(|| set_link_up(&mut bench, 0, true));
    assert_eq!(counted.count_total, 0);
}
