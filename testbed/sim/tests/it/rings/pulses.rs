//! GFC toward peers that only know PFC, at every port: pauses whose length makes the rate.

use weir_flowctl::gfc::StageTable;
use weir_results::deadlock::Detector;
use weir_sim::Sim;
use weir_units::{BitRate, Bytes, Span, Time};

use super::checks::{conserves_frames, held, lost_nothing};
use super::fabric::{CLASS, Fabric, Flow, Joint};

const RATE: BitRate = BitRate::gbps(10);
const PERIOD: Span = Span::from_micros(100);
const PULSES: &str = "{ kind = \"gfc-buffer\", peer = \"pfc\", tau = \"90us\", b_m = \"1MB\" }";
/// The period adds to τ: 1 MB less twice 190 us at 10 Gb/s.
const B_1: Bytes = Bytes::kb(525);

/// How long each sender has been paused without a break.
struct Pauses {
    since: Vec<Option<Time>>,
    longest: Span,
}

impl Pauses {
    fn observe(&mut self, sim: &Sim, fabric: &Fabric) {
        let at_ports = (0..fabric.switches).flat_map(|switch| sim.shared(switch).ports());
        let at_ports = at_ports.map(|port| port.regulator.paused(sim.now()));
        let paused = at_ports.chain(sim.hosts().map(|host| host.paused(sim.now())));
        for (n, paused) in paused.map(|classes| classes.contains(CLASS)).enumerate() {
            if n == self.since.len() {
                self.since.push(None);
            }
            self.since[n] = self.since[n].filter(|_| paused).or(paused.then_some(sim.now()));
            self.longest = self.since[n].map_or(self.longest, |since| self.longest.max(sim.now().since(since)));
        }
    }
}

/// The ring of the GFC paper, which deadlocks with PFC.
#[test]
fn a_ring_of_peers_that_only_know_pfc_does_not_deadlock() {
    const STEP: Span = Span::from_micros(1);
    for arbitration in ["arrival", "round-robin"] {
        let mut fabric = Fabric::ring(3, RATE, Span::from_micros(40), PULSES);
        fabric.queue = format!("arbitration = \"{arbitration}\"");
        let flow =
            |from| Flow { from, to: (from + 2) % 3, start: Time::from_nanos(from as u64 * 300_000), stop: Time::NEVER };
        fabric.flows = (0..3).map(flow).collect();
        let mut sim = fabric.sim();
        let mut detector = Detector::new(sim.links().clone(), Span::from_micros(500));
        let mut pauses = Pauses { since: Vec::new(), longest: Span::ZERO };
        let sent = |sim: &mut Sim| {
            let out = |switch: usize| fabric.port_of_link(switch, 0);
            [0, 1, 2].map(|switch| sim.report(switch).ports[out(switch)].classes[CLASS.index()].tx_frames)
        };
        let mut before = [0; 3];
        for ms in 1..=8 {
            for step in 1..=1_000 {
                sim.run_for(STEP);
                pauses.observe(&sim, &fabric);
                if step % 50 == 0 {
                    let snapshot = sim.snapshot();
                    assert_eq!(detector.observe(sim.now(), &snapshot), None, "{arbitration}");
                }
            }
            let now = sent(&mut sim);
            assert!(ms == 1 || now.iter().zip(before).all(|(now, before)| *now > before), "{arbitration}: {ms} ms");
            println!("{arbitration} {ms} ms: {:?}", [0, 1, 2].map(|n| now[n] - before[n]));
            before = now;
        }
        let reports = sim.reports();
        conserves_frames(&reports, arbitration);
        lost_nothing(&mut sim, arbitration);
        let held_max = reports.iter().flat_map(|report| &report.ports);
        let held_max = held_max.map(|port| port.classes[CLASS.index()].ingress.held_max).max().unwrap();
        println!("{arbitration}: longest pause {}, longest queue {held_max}", pauses.longest);
        assert!(pauses.longest <= PERIOD + STEP, "{arbitration}: {}", pauses.longest);
        assert!(held_max < Bytes::mb(1), "{arbitration}: {held_max}");
    }
}

/// One sender, and a way out that is a little faster or slower than a stage, so that the queue stays in it for a while: then the
/// peer sends at that stage's rate, whatever leaves.
#[test]
fn a_peers_mean_rate_is_its_stages() {
    let stages = StageTable::without_guarantee(Bytes::mb(1), B_1, RATE).unwrap();
    let mut seen = [0; 4];
    for out in [5_100, 4_800, 2_550, 2_400, 1_270] {
        let mut fabric = Fabric::ring(1, RATE, Span::from_micros(1), PULSES);
        fabric.links.clear();
        fabric.hosts.push((0, Joint::new([0, 0], BitRate::mbps(out), Span::from_micros(1), "\"pfc\"")));
        fabric.flows = vec![Flow { from: 0, to: 1, start: Time::ZERO, stop: Time::NEVER }];
        let mut sim = fabric.sim();
        // Samples in a row that found the queue in one stage.
        let (mut last, mut in_row) = (0, 0);
        for _ in 0..24 {
            let before = sim.host(0).sender_stats(0).wire;
            let mut told = Vec::new();
            for _ in 0..500 {
                told.push(stages.stage_of(held(&sim, 0, 0)));
                sim.run_for(Span::from_micros(2));
            }
            told.push(stages.stage_of(held(&sim, 0, 0)));
            let stage = told[0];
            for told in &told {
                in_row = if *told == last { in_row + 1 } else { 0 };
                last = *told;
            }
            // Half a millisecond before it too: the current period is that of the stage before, and so is its
            // measurement.
            if stage == 0 || in_row < 750 {
                continue;
            }
            let rate = BitRate::average(sim.host(0).sender_stats(0).wire - before, Span::from_millis(1)).unwrap();
            let expected = stages.rate(stage).as_bps();
            let off = rate.as_bps() as f64 / expected as f64 - 1.0;
            println!("out {out} Mb/s, stage {stage}: {rate} ({:+.2} %)", off * 100.0);
            assert!(off.abs() < 0.02, "out {out} Mb/s, stage {stage}: {rate}");
            seen[usize::from(stage)] += 1;
        }
        lost_nothing(&mut sim, "pulses");
    }
    assert!(seen[1] > 3 && seen[2] > 3 && seen[3] > 1, "windows in one stage: {seen:?}");
}
