//! One scenario on several threads: the run directory is the same, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_results::run_dir::Summary;
use weir_scenario::link::{ChosenFrames, FaultPlan, ReorderDelay};
use weir_scenario::{LinkRef, Outage, Scenario, file};
use weir_sim::{Sim, SimBackend, Threads};
use weir_units::{Span, Time};

use crate::run_directory;

/// Files that describe the machine rather than the run.
const OF_THE_MACHINE: [&str; 2] = ["speed.json", "provenance.json"];

fn scenario(topology: &str, rest: &str) -> Scenario {
    scenario_of("150KB", topology, rest)
}

/// With switches of this buffer.
pub(crate) fn scenario_of(size: &str, topology: &str, rest: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = '600us'\nsample_every = '7us'\nseed = 3\n[topology]\n{topology}\nrate = '25Gbps'\n\
         [switch.buffer]\nsize = '{size}'\npolicy = 'dt'\n[switch.pfc]\nreaction = '0s'\n\
         [switch.pfc_watchdog]\ndetection_time = '1us'\nrestoration_time = '1us'\npoll_interval = '1us'\ncondition = 'queue-stalled'\n\
         [switch.classes]\npreset = 'roce'\n[[switch.classes.queues]]\nclass = 3\n\
         ecn = {{ kmin = '20KB', kmax = '80KB', pmax = 0.2 }}\n[nic]\nretransmit = '100us'\n\
         [[workloads]]\nname = 'incast'\nkind = 'incast'\nclass = 3\nsizes = '80KB'\nreceivers = ['H1']\n\
         congestion_control = 'dcqcn'\n{rest}"
    );
    let runs = file::parse(Path::new("threads.toml"), &text);
    runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
}

/// Ten leaves and three spines under two workloads; links that lose, double and hold back frames, and two that are cut.
pub(crate) fn troubled_fabric() -> Scenario {
    let mut scenario = scenario(
        "kind = 'leaf-spine'\nleaves = 10\nspines = 3\nhosts = 1\ndelay = '500ns'",
        "[[workloads]]\nname = 'web'\nkind = 'poisson'\nclass = 3\nsizes = 'web-server'\nload = 0.6\n\
         congestion_control = 'hpcc'\n",
    );
    for (n, hold_back) in
        [(1, ReorderDelay::UntilNext(Span::from_micros(20))), (8, ReorderDelay::For(Span::from_micros(3)))]
    {
        for (direction, faults) in scenario.links[n].faults.iter_mut().enumerate() {
            *faults = FaultPlan {
                frames: if direction == 0 { ChosenFrames::Data } else { ChosenFrames::Control },
                loss_ppm: 3_000,
                corruption_ppm: 3_000,
                duplication_ppm: 10_000,
                reordering_ppm: 30_000,
                reorder_delay: hold_back,
                from: Time::ZERO,
                until: Time::from_nanos(300_000),
                seed: n as u64,
            };
        }
    }
    let cut = |link, at: u64, until: u64| Outage { link, at: Time::from_nanos(at), until: Time::from_nanos(until) };
    scenario.measures_feedback = true;
    scenario.outages = vec![
        cut(LinkRef::Between(4), 100_100, 220_000),
        cut(LinkRef::Between(1), 150_000, 170_000),
        cut(LinkRef::ToHost(7), 50_000, 120_000),
    ];
    scenario
}

pub(crate) fn run(scenario: &Scenario, folder: &Path, threads: Threads) -> Summary {
    let run = run_directory::made(folder);
    let backend = SimBackend { ns3_files: true, threads, ..SimBackend::default() };
    backend.run(scenario, run, &mut |_| (), &AtomicBool::new(false)).unwrap()
}

pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files.extend(self::files(&entry.path()).into_iter().map(|(of, text)| (format!("{name}/{of}"), text)));
        } else if !OF_THE_MACHINE.contains(&&*name) {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

#[test]
fn files_of_a_run_are_the_same_on_any_number_of_threads() {
    let ring = scenario("kind = 'ring'\nswitches = 5\nhosts = 2\ndelay = '700ns'", "");
    // Leaves of 68 ports, which are more than a word has bits.
    let wide = scenario_of(
        "1MB",
        "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nhosts = 66\ndelay = '500ns'",
        "[[workloads]]\nname = 'web'\nkind = 'poisson'\nclass = 3\nsizes = 'web-server'\nload = 0.3\n\
         congestion_control = 'hpcc'\n",
    );
    for (name, scenario) in [("troubled", troubled_fabric()), ("ring", ring), ("wide", wide)] {
        let folder = tempfile::tempdir().unwrap();
        let folder_of = |threads: usize| folder.path().join(threads.to_string());
        let summary = run(&scenario, &folder_of(1), Threads::exactly(1));
        let alone = files(&folder_of(1));
        assert!(alone.len() > 8, "{:?}", alone.keys());
        if name == "troubled" {
            let told = String::from_utf8_lossy(&alone["events.csv"]).into_owned();
            assert!(["pause_sent", ",drop,", ",mark,"].iter().all(|what| told.contains(what)), "{told}");
            let frames = summary.frames.unwrap();
            let befell = [frames.lost_link_down, frames.duplicated, frames.faults_lost, frames.faults_corrupted];
            assert!(befell.iter().all(|count| *count > 0), "{frames:?}");
            assert!(frames.dropped.contains_key("pfc_watchdog"), "{frames:?}");
            let measured = summary.links.iter().filter(|lane| lane.feedback.is_some()).count();
            assert!(measured > 4, "{:?}", summary.links);
            assert!(summary.traffic.iter().all(|traffic| traffic.completed > 8), "{:?}", summary.traffic);
        }
        if name == "wide" {
            let told = String::from_utf8_lossy(&alone["events.csv"]).into_owned();
            assert!(told.contains("pause_sent") && summary.traffic.iter().any(|traffic| traffic.completed > 8));
        }
        for threads in [2, 3, 8] {
            run(&scenario, &folder_of(threads), Threads::exactly(threads));
            let several = files(&folder_of(threads));
            assert!(several.keys().eq(alone.keys()));
            for (file, text) in &several {
                assert!(*text == alone[file], "{name}: {file} differs on {threads} threads");
            }
        }
    }
}

#[test]
fn a_fabric_has_no_more_threads_than_switches_with_hosts() {
    let scenario = scenario("kind = 'leaf-spine'\nleaves = 2\nspines = 3\nhosts = 4\ndelay = '500ns'", "");
    let mut sim = Sim::new(&scenario).unwrap();
    sim.set_threads(Threads::exactly(8));
    sim.run_until(scenario.end);
    assert_eq!(sim.threads(), 2);
    assert!(sim.frames().is_ok());
}
