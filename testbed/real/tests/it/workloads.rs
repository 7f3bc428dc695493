//! Workloads with real frames over DPDK ring ports: each message has a connection of its own, as it has in virtual time.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_real::DpdkBackend;
use weir_results::run_dir::{Provenance, RunDir, Summary};
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
            let told = |of: &weir_results::run_dir::TrafficSummary| {
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
