//! Rings drawn at random.
//!
//! What holds of GFC in any of them, and what does not:
//! - No queue grows beyond B_m by more than a frame and what its sender's least rate brings, as long as the thresholds keep to the
//!   theorems; so nothing is lost while the run is short against the time that the least rate takes to bring a frame.
//!   Where its sender stops at B_m, that takes no time: but then a ring may come to hold and wait.
//! - No queue ever stops: the next frame leaves after its time at the peer's rate.
//! - Where no flow goes on over the link that closes the ring, all is delivered soon after the senders stop.
//! - Where flows do, a ring may be overloaded in a circle: each queue gets more than it gives until the rates told make
//!   that little, and they fall without end, to the least. What then drains takes its time at such rates, minutes for a few
//!   frames. Hold and wait never occurs, and yet little goes on. So there the test asks for all the rest, and that the rates do
//!   tell.

use std::env;

use weir_flowctl::RATE_MIN;
use weir_flowctl::kinds::{GfcBuffer, GfcTime};
use weir_results::deadlock::Detector;
use weir_sim::Sim;
use weir_switch_core::counters::DropReason;
use weir_switch_core::flow_control::port_flow_control;
use weir_units::{BitRate, Bytes, Span, Time};

use super::checks::{Progress, conserves_frames, dropped, gave_all_back, is_at_rest, lost_nothing, sent_and_arrived};
use super::draw::{Drawn, Speaks, draw};
use super::fabric::CLASS;

/// The seeds to draw from: so many, `PROPTEST_CASES` or these, or `RINGS_SEED` alone.
fn seeds(by_default: u64) -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().map(|text: String| text.parse::<u64>().expect(name));
    match number("RINGS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROPTEST_CASES").unwrap_or(by_default),
    }
}

fn context(seed: u64, test: &str) -> String {
    format!("seed {seed} (again: RINGS_SEED={seed} cargo test -p weir-sim --test it {test})")
}

#[test]
fn gfc_loses_nothing_and_never_stops() {
    let (mut crawling, mut runs) = (0, 0);
    for seed in seeds(40) {
        let context = context(seed, "gfc_loses");
        let drawn = draw(seed, Speaks::Gfc);
        let mut sim = drawn.fabric.sim();
        let mut watched = Watch::new(&sim, &drawn);
        while sim.now() < drawn.stop {
            watched.step(&mut sim, &drawn, &context);
        }
        // All of it, one frame behind the other over the slowest link, and four times that for rates that have to rise first.
        let work = drawn.slowest.time_for(drawn.frame * sent_and_arrived(&sim).0);
        let horizon = Time::from_picos(drawn.stop.as_picos() * 10).max(drawn.stop + work * 5);
        while !is_at_rest(&mut sim) && sim.now() < horizon {
            watched.step(&mut sim, &drawn, &context);
        }
        let since_start = sim.now().since(Time::ZERO);
        queues_keep_to_b_m(&mut sim, &drawn, since_start, &context);
        lost_nothing(&mut sim, &context);
        runs += 1;
        if is_at_rest(&mut sim) {
            gave_all_back(&mut sim, &context);
        } else {
            let (slowest, line) = slowest_rate(&mut sim, &drawn);
            assert!(drawn.is_cyclic, "{context}: not at rest at {:?}, with {slowest} at least", sim.now());
            assert!(slowest < line, "{context}: not at rest at {:?}, and nobody is slowed down", sim.now());
            crawling += 1;
        }
    }
    println!("{crawling} of {runs} rings are not at rest long after");
    assert!(runs == 1 || crawling * 3 <= runs, "{crawling} of {runs} rings crawl");
}

/// Though the senders stopped long ago: at the least rate by stages a frame takes up to 60 ms.
#[test]
fn gfc_that_stops_at_b_m_never_passes_it() {
    for seed in seeds(12) {
        let context = context(seed, "gfc_that_stops");
        let drawn = draw(seed, Speaks::GfcStops);
        let mut sim = drawn.fabric.sim();
        sim.run_until(drawn.stop + Span::from_millis(300));
        queues_keep_to_b_m(&mut sim, &drawn, Span::ZERO, &context);
        lost_nothing(&mut sim, &context);
    }
}

/// The checks find what they look for: thresholds that break the theorem lose frames.
#[test]
fn thresholds_above_the_bound_lose_frames() {
    let mut lossy = 0;
    for seed in seeds(6) {
        let drawn = draw(seed, Speaks::GfcUnsafe);
        let mut sim = drawn.fabric.sim();
        sim.run_until(drawn.stop);
        let reports = sim.reports();
        conserves_frames(&reports, &context(seed, "thresholds_above"));
        let violations: u64 = reports.iter().map(|report| report.dropped(DropReason::HeadroomViolation)).sum();
        assert_eq!(violations, dropped(&reports), "seed {seed}");
        lossy += u64::from(violations > 0);
    }
    println!("{lossy} rings lost frames");
    assert!(lossy > 0);
}

/// And the detector finds what GFC is to avoid: PFC in the same rings deadlocks, and loses nothing.
#[test]
fn pfc_deadlocks() {
    let mut deadlocks = 0;
    for seed in seeds(6) {
        let drawn = draw(seed, Speaks::Pfc);
        let mut sim = drawn.fabric.sim();
        let mut detector = Detector::new(sim.links().clone(), Span::from_picos(drawn.stop.as_picos() / 10));
        let tick = Span::from_picos(drawn.stop.as_picos() / 40);
        let mut found = false;
        while sim.now() < drawn.stop && !found {
            sim.run_for(tick);
            let snapshot = sim.snapshot();
            found = detector.observe(sim.now(), &snapshot).is_some();
        }
        lost_nothing(&mut sim, &context(seed, "pfc_deadlocks"));
        deadlocks += u64::from(found);
    }
    println!("{deadlocks} rings deadlocked");
    assert!(deadlocks > 0);
}

/// Checks made after every fortieth of the load's time.
struct Watch {
    tick: Span,
    progress: Progress,
    detector: Detector,
}

impl Watch {
    fn new(sim: &Sim, drawn: &Drawn) -> Watch {
        let tick = Span::from_picos(drawn.stop.as_picos() / 40);
        let detector = Detector::new(sim.links().clone(), tick * 2);
        Watch { tick, progress: Progress::default(), detector }
    }

    fn step(&mut self, sim: &mut Sim, drawn: &Drawn, context: &str) {
        sim.run_for(self.tick);
        self.progress.observe(&sim.reports(), drawn.frame, self.tick * 3, context);
        let snapshot = sim.snapshot();
        assert_eq!(self.detector.observe(sim.now(), &snapshot), None, "{context}");
    }
}

/// B_m, and the least rate, of each port that speaks GFC.
fn limits(drawn: &Drawn) -> Vec<Vec<(Bytes, BitRate)>> {
    let switches = drawn.fabric.scenario().switches;
    let of_port = |switch: usize, port: usize| {
        let config = &switches[switch];
        let flow_control = port_flow_control(config, port, config.ports[port].rate.unwrap()).unwrap();
        match (flow_control.downcast::<GfcBuffer>(), flow_control.downcast::<GfcTime>()) {
            (Some(GfcBuffer { stages, .. }), _) => (stages.b_m(), stages.rate(stages.stages())),
            (_, Some(GfcTime { mapping, .. })) => (mapping.b_m(), RATE_MIN),
            _ => panic!("{flow_control:?}"),
        }
    };
    let of_switch = |switch: usize| (0..switches[switch].ports.len()).map(|port| of_port(switch, port)).collect();
    (0..switches.len()).map(of_switch).collect()
}

/// But for a frame and what the least rate brings in `creeping`.
fn queues_keep_to_b_m(sim: &mut Sim, drawn: &Drawn, creeping: Span, context: &str) {
    let cell = u64::from(drawn.fabric.cell_bytes);
    let frame = drawn.frame.get().div_ceil(cell) * cell;
    for (switch, (report, limits)) in sim.reports().iter().zip(limits(drawn)).enumerate() {
        for (number, (port, (b_m, least))) in report.ports.iter().zip(limits).enumerate() {
            let held_max = port.classes[CLASS.index()].ingress.held_max.get();
            let crept = least.bytes_in(creeping).get() * frame / drawn.frame.get() + frame / 2;
            assert!(
                held_max <= b_m.get() + frame + crept,
                "{context}: S{}.p{number} held {held_max} B with B_m {b_m}, a frame of {frame} B, least {least}",
                switch + 1
            );
        }
    }
}

/// Returns the slowest rate that any peer sets now, and the line rate of that port.
fn slowest_rate(sim: &mut Sim, drawn: &Drawn) -> (BitRate, BitRate) {
    let reports = sim.reports();
    let scenario = drawn.fabric.scenario();
    let rates = reports.iter().zip(scenario.switches.iter()).flat_map(|(report, config)| {
        let told = report.ports.iter().map(|port| port.classes[CLASS.index()].rate_rx.unwrap());
        told.zip(config.ports.iter().map(|port| port.rate.unwrap())).collect::<Vec<_>>()
    });
    rates.min_by_key(|(told, line)| told.as_bps() * 1_000 / (line.as_bps() / 1_000_000)).expect("a port")
}
