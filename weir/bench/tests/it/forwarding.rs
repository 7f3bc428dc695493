//! Short rounds of the forwarding measurement.

use std::ops::ControlFlow;

use weir_alone::in_a_process;
use weir_bench::forwarding::{CASES, Case, ForwardingPlan, OF_TWO_PORTS, RoundEnd, run};

const FRAMES: u64 = 20_000;

#[test]
fn all_frames_of_all_cases_are_accounted_for() {
    in_a_process(|| run_all(&CASES, &[64]));
}

#[test]
fn long_frames_are_accounted_for() {
    in_a_process(|| run_all(&CASES[..OF_TWO_PORTS], &[64, 9_000]));
}

fn run_all(cases: &[Case], frame_bytes: &[u16]) {
    let plan = ForwardingPlan {
        lcores: vec![1],
        frame_bytes: frame_bytes.to_vec(),
        cases: cases.to_vec(),
        policy: "dt".to_owned(),
        flow_control: "pfc".to_owned(),
        across: false,
        rounds: 2,
        until: RoundEnd::Sent(FRAMES),
    };
    let mut told = Vec::new();
    let report = run(&plan, &[], &mut |next| {
        told.push((next.done, next.planned));
        ControlFlow::Continue(())
    })
    .unwrap();
    let rows = cases.len() * frame_bytes.len();
    assert_eq!(report.rows.len(), rows);
    assert_eq!(told, (0..2 * rows).map(|done| (done, 2 * rows)).collect::<Vec<_>>());
    for row in &report.rows {
        assert!(row.sent >= 2 * FRAMES, "{row:?}");
        assert_eq!(row.received + row.copied, row.sent + row.dropped, "{row:?}");
        assert!(row.case != "overload" || row.pfc_frames > 0 && row.dropped == 0, "{row:?}");
        assert!(row.mpps.min > 0.0 && row.mpps.min <= row.mpps.median && row.mpps.median <= row.mpps.max);
        assert_eq!(row.efficiency.map(|efficiency| (efficiency.min, efficiency.max)), Some((1.0, 1.0)));
        assert!(row.relative.is_some_and(|rate| rate.min > 0.0 && rate.min <= rate.median), "{row:?}");
    }
}

#[test]
fn several_lcores_forward_their_own_ports_and_across() {
    in_a_process(|| {
        if weir_dpdk_io::cpu::allowed().len() < 2 {
            return eprintln!("skipped: there is one CPU");
        }
        let plan = ForwardingPlan {
            lcores: vec![1, 2],
            frame_bytes: vec![64],
            cases: vec![CASES[1], CASES[4]],
            policy: "sonic".to_owned(),
            flow_control: "none".to_owned(),
            across: true,
            rounds: 1,
            until: RoundEnd::Sent(FRAMES),
        };
        let report = run(&plan, &[], &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows.iter().map(|row| row.lcores).collect::<Vec<_>>(), [1, 2, 1, 2]);
        for row in &report.rows {
            assert_eq!(row.received + row.copied, row.sent + row.dropped, "{row:?}");
        }
        assert!(report.rows.iter().all(|row| row.efficiency.is_some()));
    });
}
