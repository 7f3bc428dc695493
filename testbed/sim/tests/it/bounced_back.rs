//! Two ToRs that bounce traffic back over two T1s, in one priority and in two.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_results::run_dir::{FlowWindow, Summary};
use weir_scenario::file;
use weir_sim::SimBackend;

use crate::run_directory;

fn run(name: &str) -> Summary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bounced-back.toml");
    let runs = file::load(&path).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let run = runs.into_iter().find(|run| run.name == name).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let directory = run_directory::made(folder.path());
    let backend = SimBackend { expects: run.expects, ..SimBackend::default() };
    backend.run(&run.scenario, directory, &mut |_| (), &AtomicBool::new(false)).unwrap()
}

/// Goodput to each server at the end, as a share of the payload of half a link: three flows have it.
fn goodput(summary: &Summary) -> [f64; 2] {
    let flows = &summary.windows[0].flows;
    let sum = |flows: &[FlowWindow]| flows.iter().map(|flow| flow.throughput_bps).sum::<u64>() as f64;
    [&flows[..3], &flows[3..]].map(|flows| sum(flows) / (5e9 * 1_024.0 / 1_106.0))
}

#[test]
fn bounced_traffic_deadlocks_in_one_priority_and_flows_in_two() {
    let one = run("one priority");
    let deadlock = one.deadlock.as_ref().expect("a deadlock");
    assert_eq!(deadlock.cycle, "T1A.ta -> TA.t1b -> T1B.tb -> TB.t1a -> T1A.ta, class 3");
    assert_eq!((deadlock.dissolved_ns, goodput(&one), one.lossless), (None, [0.0; 2], true), "{:?}", one.failures);
    let two = run("two priorities");
    assert!(two.failures.is_empty() && two.deadlock.is_none() && two.lossless, "{:?}", two.failures);
    assert!(goodput(&two).iter().all(|share| (share - 1.0).abs() < 0.02), "{:?}", goodput(&two));
    let pauses = |summary: &Summary| summary.flow_control.as_ref().map(|of| of.pauses_sent);
    assert!(pauses(&two) > Some(100), "{:?}", pauses(&two));
}
