//! Frames bypass the queues of their port if these are empty and the wire is free even behind all frames.

use weir_config::LcoreLayout;
use weir_flowctl::CatchUp;
use weir_switch_core::DriverConfig;
use weir_units::{ClassSet, Span};

use crate::common::{Bench, TestFrame, frame, introduce, pfc, toml};

const ROUND: Span = Span::from_micros(20);

/// Three ports, whose late polls make up what they missed. Class 5 (DSCP 46) is strict.
fn bench() -> Bench {
    let classes = "[classes]\nlossless = [3, 4]\n[[classes.queues]]\nclass = 5\nstrict = true\n";
    let text = format!("[buffer]\nsize = \"4MB\"\n{classes}");
    let catch_up = CatchUp::at_most(Span::from_micros(60));
    let mut bench = Bench::with(&toml(3, &text), LcoreLayout::Single, DriverConfig::real_time(catch_up));
    introduce(&mut bench);
    bench.step(ROUND);
    bench
}

/// Small frames for port 2 by these ports and of these classes, one after the other.
fn arrive(bench: &mut Bench, frames: &[(u16, u8)]) {
    for (sequence, (port, dscp)) in frames.iter().enumerate() {
        bench.arrive(*port, TestFrame { frame_bytes: 60, ..frame(*port, 2, *dscp, sequence as u64) });
    }
}

#[test]
fn classes_that_take_turns_leave_as_they_came() {
    let mut bench = bench();
    arrive(&mut bench, &[(0, 3), (0, 0), (0, 3), (0, 0), (0, 3), (0, 3), (0, 3), (1, 4), (1, 3)]);
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let report = bench.report();
    assert!(report.conservation.holds);
    assert_eq!(report.conservation.held(), 0);
}

#[test]
fn a_strict_class_goes_first() {
    let mut bench = bench();
    arrive(&mut bench, &[(0, 3), (0, 46), (0, 3), (1, 46)]);
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [1, 3, 0, 2]);
    bench.world.sent[2].clear();
    bench.run(20, ROUND);
    // The strict class comes in another burst than the one that it goes before.
    arrive(&mut bench, &[(0, 3), (1, 46), (1, 46)]);
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [1, 2, 0]);
}

#[test]
fn what_a_pause_holds_waits_in_its_queue_and_others_take_turns() {
    let mut bench = bench();
    bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    arrive(&mut bench, &[(0, 3), (0, 4), (0, 3)]);
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [1]);
    bench.arrive(2, pfc(ClassSet::from_bits(1 << 3), 0));
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [1, 0, 2]);
}

#[test]
fn what_the_device_does_not_take_goes_next_and_in_order() {
    let mut bench = bench();
    bench.world.accepts = Some(2);
    arrive(&mut bench, &[(0, 3), (0, 0), (0, 3), (0, 0), (0, 3), (1, 3)]);
    bench.step(ROUND);
    assert_eq!(bench.data_sent(2), [0, 1]);
    assert_eq!(bench.report().conservation.held(), 4);
    // The next frames wait behind those.
    arrive(&mut bench, &[(0, 3)]);
    bench.run(5, ROUND);
    assert_eq!(bench.data_sent(2), [0, 1, 2, 3, 4, 5, 0]);
    assert_eq!(bench.report().conservation.held(), 0);
}

#[test]
fn frames_of_more_bursts_than_a_port_sends_at_once_wait_in_their_queues() {
    let mut bench = bench();
    let frames: Vec<(u16, u8)> = (0..96).map(|n| (n % 3, if n % 2 == 0 { 3 } else { 0 })).collect();
    let to_others: Vec<(u16, u8)> = frames.iter().copied().filter(|(port, _)| *port != 2).collect();
    arrive(&mut bench, &to_others);
    bench.arrive(0, TestFrame { frame_bytes: 60, ..frame(0, 2, 4, 64) });
    bench.run(3, ROUND);
    let mut sent = bench.data_sent(2);
    sent.sort_unstable();
    assert_eq!(sent, (0..=64).collect::<Vec<_>>());
    let report = bench.report();
    assert!(report.conservation.holds);
    assert_eq!(report.conservation.held(), 0);
}
