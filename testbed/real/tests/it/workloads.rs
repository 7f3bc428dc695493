//! Workloads with real frames over DPDK ring ports: messages have the connections that they have in virtual time.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_real::DpdkBackend;
use weir_results::run_dir::{Provenance, RunDir, Summary, TrafficSummary};
use weir_scenario::Scenario;
use weir_scenario::file::{self, Expectation};
use weir_sim::SimBackend;

/// A flow, an incast that starts while it runs, and small messages at random; 10 Gb/s, a hundred times slower.
const SCENARIO: &str = r#"
[scenario]
name = "workloads"
end = "40ms"
sample_every = "500us"
time_dilation = 100
warm_up = "500us"

[topology]
kind = "single"
hosts = 5
rate = "10Gbps"
delay = "1us"

[switch.classes]
preset = "roce"

[switch.pfc]
reaction = "200us"

[[flows]]
name = "F1"
from = "H0"
to = "H4"
class = 3
total = "1MB"
message = "250KB"

[[workloads]]
name = "burst"
kind = "incast"
class = 3
sizes = "100KB"
senders = ["H1", "H2", "H3"]
receivers = ["H4"]
fan_in = 3
from = "1ms"

[[workloads]]
name = "small"
kind = "poisson"
class = 3
senders = ["H0", "H1"]
receivers = ["H2", "H3"]
sizes = "8KB"
load = 0.1
seed = 7
until = "4ms"
"#;

/// The messages that were completed: of what, from whom, to whom, when they were released, and their length.
type Messages = Vec<(String, String, String, String, String)>;

fn messages(run: &Path) -> Messages {
    let text = fs::read_to_string(run.join("fct.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let columns = ["flow", "from", "to", "released_us", "bytes"];
    let places =
        columns.map(|column| head.iter().position(|name| name == column).unwrap_or_else(|| panic!("{head:?}")));
    let mut messages: Messages = lines
        .map(|line| {
            let [flow, from, to, released, size] = places.map(|place| line[place].clone());
            (flow, from, to, released, size)
        })
        .collect();
    messages.sort();
    messages
}

fn run(
    scenario: &Scenario,
    folder: &Path,
    name: &str,
    with: impl FnOnce(&Scenario, RunDir) -> Summary,
) -> (Summary, Messages) {
    let run = RunDir::create(folder.join(name), &Provenance::new("test", [], UNIX_EPOCH)).unwrap();
    let summary = with(scenario, run);
    assert_eq!(
        (summary.failures.len(), summary.lossless),
        (0, true),
        "{name}: {:?} {:?}",
        summary.failures,
        summary.notes
    );
    (summary, messages(&folder.join(name)))
}

#[test]
fn messages_of_workloads_arrive_on_both_backends() {
    weir_alone::in_a_process(|| {
        let scenario = file::parse(Path::new("workloads.toml"), SCENARIO)
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let scenario = &scenario[0].scenario;
        let folder = tempfile::tempdir().unwrap();
        let dpdk = DpdkBackend::start(std::slice::from_ref(scenario)).unwrap();
        let (real, of_real) = run(scenario, folder.path(), "dpdk", |scenario, run| {
            dpdk.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap()
        });
        let (sim, of_sim) = run(scenario, folder.path(), "sim", |scenario, run| {
            let backend = SimBackend { expects: Expectation::Flow, ..SimBackend::default() };
            backend.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap()
        });

        // The flow's four messages follow each other, when they are released is the network's doing; the others' is drawn before.
        let of_workloads =
            |all: &Messages| all.iter().filter(|message| message.0 != "F1").cloned().collect::<Messages>();
        assert_eq!(of_workloads(&of_real), of_workloads(&of_sim));
        let [real_flow, sim_flow] =
            [&of_real, &of_sim].map(|all| all.iter().filter(|message| message.0 == "F1").count());
        assert_eq!((real_flow, sim_flow), (4, 4));

        for (real, sim) in real.traffic.iter().zip(&sim.traffic) {
            let told = |of: &TrafficSummary| {
                let counts: Vec<u64> = of.bins.iter().map(|bin| bin.count).collect();
                (of.name.clone(), of.class, of.started, of.completed, of.unfinished, of.warm_up, counts)
            };
            assert_eq!(told(real), told(sim));
            assert!(real.bins.iter().all(|bin| bin.slowdown_permille.is_none()));
        }
        let [burst, small] = &real.traffic[..] else { panic!("two workloads: {:?}", real.traffic) };
        assert_eq!((burst.started, burst.warm_up), (3, 0));
        assert!(small.started > 10 && small.warm_up > 0, "{small:?}");
        // 300 KB over one link of 10 Gb/s.
        let slowest = burst.bins[0].fct_ns.max;
        assert!(slowest >= Some(240_000), "{slowest:?} ns");
    });
}

/// A receiver that nearly stands still for 30 ms, and a watchdog that takes what it pauses for a storm.
const STORM: &str = r#"
[scenario]
name = "storm"
end = "40ms"
time_dilation = 100

[topology]
kind = "single"
hosts = 2
rate = "10Gbps"
delay = "1us"

[switch.classes]
preset = "roce"

[switch.pfc]
reaction = "200us"

[switch.pfc_watchdog]
action = "drop"
detection_time = "2ms"
restoration_time = "2ms"
poll_interval = "1ms"
condition = "queue-stalled"

[[slow_receivers]]
hosts = ["H1"]
rate = "1Mbps"
from = "1ms"
until = "31ms"

[[flows]]
from = "H0"
to = "H1"
class = 3
total = "3MB"
retransmit = "5ms"
"#;

#[test]
fn what_a_watchdog_drops_of_real_frames_fails_no_run() {
    weir_alone::in_a_process(|| {
        let scenario =
            file::parse(Path::new("storm.toml"), STORM).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let scenario = &scenario[0].scenario;
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run"), &Provenance::new("test", [], UNIX_EPOCH)).unwrap();
        let dpdk = DpdkBackend::start(std::slice::from_ref(scenario)).unwrap();
        let summary = dpdk.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        assert!(summary.lossless_drops() > 0, "{:?}", summary.ports);
        let note = format!(
            "{} frames of lossless classes were dropped in PFC storms, by the watchdog",
            summary.lossless_drops()
        );
        assert!(summary.notes.contains(&note), "{note}: {:?}", summary.notes);
        assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{:?}", summary.failures);
    });
}

/// Two repetitions of a collective, a schedule whose messages overtake each other's tags, and triggers of both kinds, also to other hosts.
const GRAPHS: &str = r#"
[scenario]
name = "graphs"
end = "20ms"
time_dilation = 100

[topology]
kind = "single"
hosts = 4
rate = "10Gbps"
delay = "1us"

[switch.classes]
preset = "roce"

[switch.pfc]
reaction = "200us"

[[workloads]]
name = "ring"
kind = "collective"
class = 3
collective = "ring-all-reduce"
bytes = "400KB"
times = 2
compute = "50us"

[[workloads]]
name = "schedule"
kind = "goal"
class = 3
file = "schedule.goal"
senders = ["H2", "H0", "H1"]

[[workloads]]
name = "matrix"
kind = "connection-matrix"
class = 3
file = "triggers.cm"
"#;
const SCHEDULE: &str = "num_ranks 3
rank 0 {
c: calc 30000 cpu 1
late: send 10b to 1 tag 1
late requires c
early: send 5000b to 1 tag 2
}
rank 1 {
a: recv 10b from 0 tag 1
b: recv 5000b from 0 tag 2
x: send 700b to 2 tag 1
x requires a
y: send 900b to 2 tag 2
y requires b
}
rank 2 {
recv 700b from 1 tag 1
recv 900b from 1 tag 2
}
";
const TRIGGERS: &str = "Nodes 4
Connections 5
Triggers 3
0->1 id 1 start 3 size 9000 send_done_trigger 1
2->3 id 2 trigger 1 size 5000 recv_done_trigger 2
1->0 id 3 start 0 size 4000 recv_done_trigger 2
3->0 id 4 trigger 2 size 100 send_done_trigger 3
1->2 id 5 trigger 3 size 200
trigger id 1 oneshot
trigger id 2 barrier count 2
trigger id 3 oneshot
";

/// Messages of [`GRAPHS`], by workload.
const MESSAGES: usize = 2 * 4 * 6 + 4 + 5;

#[test]
fn dependent_messages_start_when_they_may() {
    weir_alone::in_a_process(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("schedule.goal"), SCHEDULE).unwrap();
        fs::write(folder.path().join("triggers.cm"), TRIGGERS).unwrap();
        // A machine that others keep busy forwards later: it gets more time until all messages arrive.
        let scenarios = ["100", "500", "2500"].map(|dilation| {
            let text = GRAPHS.replace("time_dilation = 100", &format!("time_dilation = {dilation}"));
            let parsed = file::parse(&folder.path().join("graphs.toml"), &text);
            parsed.unwrap_or_else(|errors| panic!("{}", errors.render(false))).swap_remove(0).scenario
        });
        let dpdk = DpdkBackend::start(&scenarios).unwrap();
        let mut runs = scenarios.iter().map(|scenario| {
            let name = format!("dpdk-{}", scenario.time_dilation());
            run(scenario, folder.path(), &name, |scenario, run| {
                dpdk.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap()
            })
        });
        let (real, of_real) = runs.find(|(_, messages)| messages.len() == MESSAGES).expect("all messages of a run");
        let (sim, of_sim) = run(&scenarios[0], folder.path(), "sim", |scenario, run| {
            let backend = SimBackend { expects: Expectation::Flow, ..SimBackend::default() };
            backend.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap()
        });
        let without_times = |all: &Messages| {
            let mut all: Vec<_> =
                all.iter().map(|(flow, from, to, _, size)| [flow, from, to, size].map(String::clone)).collect();
            all.sort();
            all
        };
        assert_eq!(without_times(&of_real), without_times(&of_sim));
        assert_eq!(of_real.len(), MESSAGES);
        for (real, sim) in real.traffic.iter().zip(&sim.traffic) {
            let counts = |of: &TrafficSummary| (of.name.clone(), of.started, of.completed, of.repetitions.len());
            assert_eq!(counts(real), counts(sim));
            assert!(
                real.repetitions.iter().all(|times| times.completion_ns.is_some() && times.slowest.is_some()),
                "{real:?}"
            );
        }
        let starts = |flow: &str, from: &str| {
            let of = of_real.iter().filter(|message| (message.0.as_str(), message.1.as_str()) == (flow, from));
            let mut starts: Vec<f64> = of.map(|message| message.3.parse().unwrap()).collect();
            starts.sort_by(f64::total_cmp);
            starts
        };
        let ring = ["H0", "H1", "H2", "H3"].map(|host| starts("ring", host));
        for (host, starts) in ring.iter().enumerate() {
            let before = &ring[(host + 3) % 4];
            for repetition in [0, 6] {
                assert!(starts[repetition] >= 50.0, "after the computation");
                for step in repetition + 1..repetition + 6 {
                    // 100 KB at 10 Gb/s take 80 us.
                    assert!(starts[step] >= before[step - 1] + 80.0, "{host}, {step}: {ring:?}");
                }
            }
            assert!(starts[6] >= starts[5] + 50.0, "{ring:?}");
        }
        let ring = &real.traffic[0].repetitions[1];
        assert!(ring.completion_ns >= Some(6 * 80_000) && ring.bus_bytes_per_second.is_some(), "{ring:?}");
        // Starts and computations are by the clock, receipts by the network.
        let of_schedule = |size: &str| {
            let of = of_real.iter().find(|message| (message.0.as_str(), message.4.as_str()) == ("schedule", size));
            of.map(|message| message.3.parse::<f64>().unwrap()).unwrap()
        };
        assert_eq!(["5000", "10"].map(of_schedule), [0.0, 30.0]);
        assert!(of_schedule("900") >= 2.0 && of_schedule("700") >= 32.0);
        let matrix = ["H0", "H2", "H3", "H1"].map(|host| starts("matrix", host));
        assert_eq!(matrix[0], [3.0]);
        // An acknowledgement takes both links twice.
        assert!(
            matrix[1][0] >= 7.0 && matrix[2][0] >= matrix[1][0] + 2.0 && matrix[3] >= vec![0.0, matrix[2][0] + 4.0],
            "{matrix:?}"
        );
    });
}
