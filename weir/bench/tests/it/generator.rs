//! Measurements with the generator on a CPU of its own. Machines with one CPU have none for it.

use std::ops::ControlFlow;

use weir_alone::in_a_process;
use weir_bench::{idle, pause, rfc2544};
use weir_dpdk_io::cpu;
use weir_units::{BitRate, Span};

fn is_alone() -> bool {
    let is_alone = cpu::allowed().len() < 2;
    if is_alone {
        eprintln!("skipped: there is one CPU");
    }
    is_alone
}

#[test]
fn frames_between_two_rings_are_told_apart_and_counted() {
    in_a_process(|| {
        if is_alone() {
            return;
        }
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n");
        let text = format!("[buffer]\nsize = \"1MB\"\n{}{}", port("in"), port("out"));
        let plan = rfc2544::Rfc2544Plan {
            switch: weir_config::parse("test.toml", &text).unwrap(),
            from: "in".to_owned(),
            to: "out".to_owned(),
            devices: [None, None],
            frame_bytes: vec![64, 1_518],
            dscp: 0,
            // So slow that a busy machine carries it too.
            rate_max: Some(BitRate::mbps(10)),
            duration: Span::from_millis(50),
            wait: Span::from_millis(100),
            trials: 5,
            resolution: 0.05,
            loss: 0.0,
            shares: vec![10, 90],
            bursts: 1,
        };
        let report = rfc2544::run(&plan, &[], &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.sizes.len(), 2);
        for size in &report.sizes {
            assert!(size.generator_fps > size.line_fps && size.trials > 0, "{size:?}");
            // A machine that is taken away in each trial carries nothing, which is no defect.
            let Some(found) = size.throughput else { continue };
            assert!(found.fps <= size.line_fps && found.line_percent <= 100.0, "{found:?}");
            assert_eq!(size.latency.iter().map(|at| at.percent).collect::<Vec<_>>(), [10, 90]);
            for at in &size.latency {
                assert_eq!(at.through.count + at.untimed + at.lost, at.sent, "{at:?}");
                assert_eq!((at.reordered, at.duplicated), (0, 0), "{at:?}");
                let timed: u64 = at.through.histogram.iter().map(|bucket| bucket.count).sum();
                assert_eq!(timed, at.through.count);
            }
        }
        let dropped: u64 = report.drops.values().sum();
        assert_eq!(report.received, report.sent + dropped, "{:?}", report.drops);
    });
}

#[test]
fn pauses_are_sent_obeyed_and_ended() {
    in_a_process(|| {
        if is_alone() {
            return;
        }
        let plan = pause::PausePlan {
            layouts: vec!["single".to_owned(), "rx-tx".to_owned()],
            rate: BitRate::gbps(1),
            load_percent: 50,
            frame_bytes: 64,
            rounds: 1,
            duration: Span::from_millis(500),
        };
        let mut told = Vec::new();
        let report = pause::run(&plan, &[], &mut |next| {
            told.push((next.done, next.planned));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(told, (0..told.len()).map(|done| (done, told.len())).collect::<Vec<_>>());
        for layout in &report.layouts {
            let [round] = &layout.rounds[..] else { panic!("one round") };
            assert_eq!(round.dropped, 0, "{round:?}");
            assert!(round.sent >= round.received && round.received > 0, "{round:?}");
            assert!(round.pause_to_obeyed.count > 0, "{round:?}");
        }
    });
}

#[test]
fn idle_modes_pass_lone_frames_on() {
    in_a_process(|| {
        if is_alone() {
            return;
        }
        let plan = idle::IdlePlan {
            modes: idle::MODES.to_vec(),
            rounds: 1,
            duration: Span::from_millis(200),
            interval: Span::from_millis(2),
            frame_bytes: 128,
        };
        let report = idle::run(&plan, &[], &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((report.modes.len(), report.direct.len()), (3, 1));
        for mode in &report.modes {
            let [sent, came] = mode.frames;
            assert!(came <= sent && sent <= 100 && mode.latency[0].count <= came, "{mode:?}");
            assert!(mode.cpu_percent.median >= 0.0);
        }
    });
}
