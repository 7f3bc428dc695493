//! Two ToRs that bounce traffic back over two T1s, in one priority and in two; and classes with queues of other numbers.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_results::run_dir::{FlowWindow, Summary};
use weir_scenario::file;
use weir_sim::SimBackend;

use crate::run_directory;

/// Runs the scenario's run of this name, with more tables.
fn run(name: &str, more: &str) -> Summary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bounced-back.toml");
    run_text(&path, &(std::fs::read_to_string(&path).unwrap() + more), name)
}

fn run_text(path: &Path, text: &str, name: &str) -> Summary {
    let runs = file::parse(path, text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
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
    let one = run("one priority", "");
    let deadlock = one.deadlock.as_ref().expect("a deadlock");
    assert_eq!(deadlock.cycle, "T1A.ta -> TA.t1b -> T1B.tb -> TB.t1a -> T1A.ta, class 3");
    assert_eq!((deadlock.dissolved_ns, goodput(&one), one.lossless), (None, [0.0; 2], true), "{:?}", one.failures);
    let two = run("two priorities", "");
    assert!(two.failures.is_empty() && two.deadlock.is_none() && two.lossless, "{:?}", two.failures);
    assert!(goodput(&two).iter().all(|share| (share - 1.0).abs() < 0.02), "{:?}", goodput(&two));
    let pauses = |summary: &Summary| summary.flow_control.as_ref().map(|of| of.pauses_sent);
    assert!(pauses(&two) > Some(100), "{:?}", pauses(&two));
}

/// Links up wait in queue 2 with frames of priority group 3. The ToRs' map would let others, of which there are none, go from group 2 to
/// queue 2, and group 2 has frames for the servers: no circle.
#[test]
fn servers_that_hardly_receive_are_no_deadlock() {
    let slow = "[[slow_receivers]]\nhosts = [\"SA\", \"SB\"]\nrate = \"1Mbps\"\nbuffer = \"256KB\"\nxoff = \"128KB\"\nxon = \"64KB\"\n";
    let summary = run("two priorities", slow);
    assert!(summary.deadlock.is_none() && summary.lossless, "{:?}", summary.deadlock);
}

/// A host pauses the queue by which frames come, and not the class that its own frames would have.
#[test]
fn a_host_pauses_the_queue_that_its_frames_come_by() {
    let text = r#"
[scenario]
name = "moved"
end = "3ms"
sample_every = "20us"

[topology]
kind = "single"
hosts = 2
rate = "40Gbps"
delay = "1us"

[[slow_receivers]]
hosts = ["H1"]
rate = "10Gbps"
buffer = "256KB"
xoff = "128KB"

[switch.buffer]
size = "3MB"
policy = "static"
headroom = "100KB"

[switch.buffer.static]
threshold = "100KB"

[switch.classes]
lossless = [2, 3]
dscp = { 26 = 3 }
tc_to_queue = { 3 = 2 }

[[flows]]
name = "F"
from = "H0"
to = "H1"
class = 3
"#;
    let summary = run_text(Path::new("moved.toml"), text, "moved");
    assert!(summary.lossless && summary.failures.is_empty(), "{:?}", summary.failures);
}
