//! `weir demo`: the SPFC paper's victim experiment on this machine, with emulated RDMA hosts, with real frames or in virtual time.

mod comparison;
mod conclusion;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use weir_config::ConfigErrors;
use weir_experiments::Failure;
use weir_experiments::experiment::{self, Backend};
use weir_experiments::files::{json_text, quoted};
use weir_experiments::real_frames;
use weir_nic::host::CongestionControlChoice;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, RunDirError, Summary};
use weir_scenario::Scenario;
use weir_scenario::victim::{PolicyChoice, Victim, VictimPolicy};
use weir_sim::{SimBackend, Threads};
use weir_units::{BitRate, Time};

use comparison::{DemoRun, comparison, lost};

/// Arguments of `weir demo`.
#[derive(clap::Args)]
pub(crate) struct DemoArguments {
    /// N: ports at which bursts of 64 KB messages arrive, 0 to 29; several are run one after another. By default 24, with
    /// --testbed 6, as in the paper.
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u8).range(0..=29))]
    bursts: Vec<u8>,
    /// Backend: sim, in virtual time, which takes seconds and is exact; or dpdk, with real frames by a clock of this
    /// machine. By default sim, then dpdk if this program has it, side by side.
    #[arg(long, value_parser = emulated(), value_name = "NAME")]
    backend: Option<Backend>,
    /// A host of its own at each burst port, in place of one host whose port the others copy.
    #[arg(long)]
    separate_hosts: bool,
    /// Policies to compare: st; or dt, spfc, sih, oversubscribed, adaptive, dsh, dsh-no-insurance, dsh-no-shared, sonic,
    /// abm, reverie, each alone (α = 1) or with its α (dt:1/8).
    #[arg(long, alias = "policies", value_delimiter = ',', default_value = "st,dt:1,spfc", value_name = "LIST")]
    policy: Vec<VictimPolicy>,
    /// Congestion control of F1 and F2. Bursts are of messages too short to be controlled.
    #[arg(long, default_value = "dcqcn", value_name = "NAME")]
    congestion_control: CongestionControlName,
    /// The paper's testbed (nine ports of 10 Gb/s, 2.5 MB) in place of its simulation (100 Gb/s, 16 MB).
    #[arg(long)]
    testbed: bool,
    /// Slowdown against real time; by default the smallest that this machine sustains.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    dilation: Option<u32>,
    /// Directory of the results; each policy gets one of its own in it.
    #[arg(short, long, default_value = "runs/demo", value_name = "DIR")]
    output: PathBuf,
    /// Print each run's summary as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// Parser of the backends with emulated hosts.
fn emulated() -> impl TypedValueParser<Value = Backend> {
    let all = [Backend::Sim, Backend::Dpdk].map(|backend| backend.to_possible_value().expect("none is hidden"));
    PossibleValuesParser::new(all).map(|name| Backend::from_str(&name, true).expect("one of them"))
}

/// Name of a congestion control on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum CongestionControlName {
    None,
    Dcqcn,
}

/// Runs the experiment under each policy, on each backend in turn, and prints the comparison.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let backends = backends(arguments);
    if backends.iter().any(|backend| backend.is_real()) {
        real_frames::reach()?;
    }
    let bursts = burst_ports(arguments);
    let plans = backends.iter().map(|backend| plan(arguments, *backend, &bursts, backends.len() > 1));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    if !arguments.json {
        introduce(arguments, &bursts);
    }
    let stop = experiment::stopped_by_signals()?;
    let mut done: Vec<BackendRuns> = Vec::new();
    for plan in plans {
        if !arguments.json {
            announce(&plan);
        }
        let runs = run_backend(plan, &stop)?;
        if !arguments.json {
            print_runs(&done, &runs);
        }
        done.push(runs);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let planned = backends.len() * bursts.len() * arguments.policy.len();
    let complete: usize = done.iter().map(|runs| runs.complete.len()).sum();
    if arguments.json {
        print!("{}", json_text(&document(arguments, &done)));
    } else {
        let capture = if backends.iter().any(|backend| backend.is_real()) { "a capture of P0, " } else { "" };
        println!(
            "results: {0}/*/ (summary.json, series.csv, events.csv, {capture}config.toml); as a page: weir report {0}",
            arguments.output.display()
        );
    }
    if complete < planned {
        if !arguments.json {
            println!("INTERRUPTED. For what is left: {}", again(arguments, &done));
        }
        return Err(Failure::Run(format!("interrupted: {complete} of {planned} runs are complete")));
    }
    done.iter().try_for_each(|runs| verdict(&runs.complete))
}

/// Backends that run the experiment, the exact one first.
fn backends(arguments: &DemoArguments) -> Vec<Backend> {
    match (arguments.backend, Backend::best()) {
        (Some(backend), _) => vec![backend],
        (None, Backend::Sim) => vec![Backend::Sim],
        (None, real) => vec![Backend::Sim, real],
    }
}

/// Runs of one backend, before they start.
struct Plan {
    backend: Backend,
    /// Rate of all ports.
    rate: BitRate,
    dilation: u32,
    scenarios: Vec<Scenario>,
    directories: Vec<RunDir>,
    runs: Vec<DemoRun>,
}

/// Runs of one backend, as they ended.
struct BackendRuns {
    backend: Backend,
    /// Complete runs.
    complete: Vec<DemoRun>,
    /// Runs that a signal cut short or left.
    left: Vec<DemoRun>,
}

impl BackendRuns {
    /// Reason for which the runs are not judged: the first of them that lost too much line time to the machine.
    fn reason_not_judged(&self) -> Option<String> {
        let late = self.complete.iter().find(|run| run.summary.late_percent() > Summary::LATE_PERCENT_MAX)?;
        Some(format!(
            "not judged: {} lost {:.1} % of its line time to the machine, of which {} % are allowed; use a larger --dilation, or \
             an idle machine",
            late.label,
            late.summary.late_percent(),
            Summary::LATE_PERCENT_MAX
        ))
    }

    /// Conclusion in sentences, or why there is none.
    fn conclusions(&self) -> Vec<String> {
        self.reason_not_judged().map_or_else(|| conclusion::conclusions(&self.complete), |reason| vec![reason])
    }
}

/// Plans a backend's runs. With `several` backends the names of directories end in the backend's.
fn plan(arguments: &DemoArguments, backend: Backend, bursts: &[u8], several: bool) -> Result<Plan, Failure> {
    let like = if arguments.testbed { Victim::testbed } else { Victim::simulation };
    let rate = like(0, VictimPolicy::new(PolicyChoice::Static)).rate;
    let dilation = dilation(arguments, backend, rate)?;
    let (mut scenarios, mut directories, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for n in bursts {
        for policy in &arguments.policy {
            let victim = like(usize::from(*n), *policy);
            let mut victim = match backend {
                Backend::Dpdk | Backend::Hosts => Victim { time_dilation: dilation, capture: true, ..victim },
                Backend::Sim => victim.in_virtual_time(),
            };
            if !arguments.separate_hosts {
                victim = victim.copied(usize::from(*n));
            }
            if matches!(arguments.congestion_control, CongestionControlName::None) {
                victim.congestion_control = CongestionControlChoice::none();
            }
            scenarios.push(victim.scenario().map_err(|errors| too_fast(dilation, &errors))?);
            let label = policy.name();
            let label = if bursts.len() > 1 { format!("{label} N={n}") } else { label };
            let directory = if several { format!("{label}-{}", backend.name()) } else { label.clone() };
            directories.push(run_dir(&directory, &arguments.output)?);
            runs.push(DemoRun { label, bursts: *n, policy: *policy, summary: Summary::default() });
        }
    }
    Ok(Plan { backend, rate, dilation, scenarios, directories, runs })
}

fn run_backend(plan: Plan, stop: &AtomicBool) -> Result<BackendRuns, Failure> {
    let Plan { backend, scenarios, directories, mut runs, .. } = plan;
    let planned = scenarios.iter().zip(directories).zip(&mut runs);
    let planned = planned.map(|((scenario, directory), run)| (scenario, directory, run));
    let ended = match backend {
        Backend::Dpdk | Backend::Hosts => run_on_dpdk(&scenarios, planned, stop)?,
        Backend::Sim => run_in_virtual_time(planned, stop)?,
    };
    // A run that was cut short, the last to begin, has no results to compare.
    let complete = runs[..ended].iter().filter(|run| !is_cut_short(&run.summary)).count();
    let left = runs.split_off(complete);
    Ok(BackendRuns { backend, complete: runs, left })
}

/// Prints the table of these runs, each beside the same run of earlier backends, and their conclusions.
fn print_runs(earlier: &[BackendRuns], runs: &BackendRuns) {
    if runs.complete.is_empty() {
        return;
    }
    let of_label = |run: &DemoRun| {
        let all = earlier.iter().chain([runs]);
        all.filter_map(|of| of.complete.iter().find(|other| other.label == run.label).map(|found| (of.backend, found)))
            .collect::<Vec<_>>()
    };
    let columns: Vec<(String, &Summary)> = (runs.complete.iter().flat_map(of_label))
        .map(|(backend, run)| {
            let label =
                if earlier.is_empty() { run.label.clone() } else { format!("{} {}", run.label, backend.name()) };
            (label, &run.summary)
        })
        .collect();
    println!("{}", comparison(&columns));
    for sentence in runs.conclusions() {
        println!("{}: {sentence}", medium(runs.backend));
    }
    println!();
}

/// Medium of a backend's frames, for sentences.
fn medium(backend: Backend) -> &'static str {
    match backend {
        Backend::Sim => "Virtual time",
        Backend::Dpdk | Backend::Hosts => "Real frames",
    }
}

fn is_cut_short(summary: &Summary) -> bool {
    summary.failures.iter().any(|failure| failure.starts_with("interrupted"))
}

/// Formats the command for the remaining policies and Ns of the last backend, or for all runs if a backend has not begun.
fn again(arguments: &DemoArguments, done: &[BackendRuns]) -> String {
    let listed = |all: Vec<String>| {
        let mut once: Vec<String> = Vec::new();
        all.into_iter().for_each(|one| {
            if !once.contains(&one) {
                once.push(one)
            }
        });
        once.join(",")
    };
    let mut command_line = vec!["weir demo".to_owned()];
    let last = done.last().expect("a backend has begun");
    let is_last = done.len() == backends(arguments).len();
    let (policies, bursts) = if is_last {
        command_line.push(format!("--backend {}", last.backend.name()));
        (last.left.iter().map(|run| run.policy).collect(), last.left.iter().map(|run| run.bursts).collect())
    } else {
        (arguments.policy.clone(), burst_ports(arguments))
    };
    command_line.push(format!("--policy {}", listed(policies.iter().map(VictimPolicy::argument).collect())));
    command_line.push(format!("--bursts {}", listed(bursts.iter().map(u8::to_string).collect())));
    command_line.extend(arguments.separate_hosts.then(|| "--separate-hosts".to_owned()));
    command_line.extend(
        matches!(arguments.congestion_control, CongestionControlName::None)
            .then(|| "--congestion-control none".to_owned()),
    );
    command_line.extend(arguments.testbed.then(|| "--testbed".to_owned()));
    command_line.extend(arguments.dilation.map(|dilation| format!("--dilation {dilation}")));
    command_line.push(format!("-o {}", quoted(&arguments.output.display().to_string())));
    command_line.join(" ")
}

/// Output of `--json`.
#[derive(Serialize)]
struct Document<'d> {
    results: &'d Path,
    /// Runs of each backend, the exact one first.
    backends: Vec<BackendDocument<'d>>,
}

#[derive(Serialize)]
struct BackendDocument<'d> {
    backend: &'static str,
    /// Whether the machine kept up, so that conclusions hold.
    judged: bool,
    conclusions: Vec<String>,
    runs: Vec<RunDocument<'d>>,
    /// Labels of the runs that were left when the command was interrupted.
    left: Vec<&'d str>,
}

#[derive(Serialize)]
struct RunDocument<'d> {
    policy: &'d str,
    burst_ports: u8,
    lossless_frames_lost: u64,
    summary: &'d Summary,
}

fn document<'d>(arguments: &'d DemoArguments, done: &'d [BackendRuns]) -> Document<'d> {
    let run = |run: &'d DemoRun| RunDocument {
        policy: &run.label,
        burst_ports: run.bursts,
        lossless_frames_lost: lost(&run.summary),
        summary: &run.summary,
    };
    let of_backend = |runs: &'d BackendRuns| BackendDocument {
        backend: runs.backend.name(),
        judged: runs.reason_not_judged().is_none(),
        conclusions: runs.conclusions(),
        runs: runs.complete.iter().map(run).collect(),
        left: runs.left.iter().map(|run| run.label.as_str()).collect(),
    };
    Document { results: &arguments.output, backends: done.iter().map(of_backend).collect() }
}

/// Factor by which the run is slower than real time; 1 in virtual time.
fn dilation(arguments: &DemoArguments, backend: Backend, rate: BitRate) -> Result<u32, Failure> {
    match (backend, arguments.dilation) {
        (Backend::Dpdk | Backend::Hosts, asked) => {
            asked.map_or_else(|| Ok(real_frames::reach()?.fitting_dilation(rate)), Ok)
        }
        (Backend::Sim, Some(asked)) if backends(arguments) == [Backend::Sim] => Err(Failure::Argument(format!(
            "--dilation {asked}: in virtual time no clock runs, and there is nothing to slow down; leave it out, or write \
             --backend dpdk"
        ))),
        (Backend::Sim, _) => Ok(1),
    }
}

/// Returns the numbers N of burst ports to run.
fn burst_ports(arguments: &DemoArguments) -> Vec<u8> {
    match arguments.bursts.as_slice() {
        [] if arguments.testbed => vec![6],
        [] => vec![24],
        given => given.to_vec(),
    }
}

/// Formats the error for a dilation whose headroom exceeds the buffer: a faster clock needs more headroom for the machine's reaction.
fn too_fast(dilation: u32, errors: &ConfigErrors) -> Failure {
    Failure::Argument(format!(
        "--dilation {dilation}: the headroom for this machine's reaction does not fit a buffer; write a larger one, \
         or leave it out\n{errors}"
    ))
}

fn run_dir(label: &str, output: &Path) -> Result<RunDir, RunDirError> {
    experiment::directory(&output.join(label.replace('/', "_").replace(" N=", "-n")))
}

fn introduce(arguments: &DemoArguments, bursts: &[u8]) {
    let bursts: Vec<String> = bursts.iter().map(u8::to_string).collect();
    println!(
        "The victim experiment (SPFC, III-A): H0 sends F1 to R1 and F2 to R2, bursts to R2 arrive at N = {} more ports{}.",
        bursts.join(", "),
        if arguments.separate_hosts { "" } else { " (one host's, and copies of it)" }
    );
    match arguments.congestion_control {
        CongestionControlName::Dcqcn => {
            println!("F1 and F2 are under DCQCN, the switch marks ECN; each burst message starts at line rate.")
        }
        CongestionControlName::None => {
            println!("No flow is under congestion control: F2 keeps its rate for as long as the bursts last.")
        }
    }
    println!("F1 shares no congested port, and is held up all the same whenever the switch pauses H0 on P0.\n");
}

/// Prints number and duration of a backend's runs.
fn announce(plan: &Plan) {
    match plan.backend {
        Backend::Dpdk | Backend::Hosts => println!(
            "With real frames, ports of {}, by one clock that runs {} times slower than real time: {}\n",
            plan.rate,
            plan.dilation,
            experiment::outlook(&plan.scenarios)
        ),
        Backend::Sim => println!(
            "In virtual time, exact, ports of {}: {} of {} each.\n",
            plan.rate,
            match plan.scenarios.len() {
                1 => "one run".to_owned(),
                several => format!("{several} runs"),
            },
            plan.scenarios[0].end.since(Time::ZERO)
        ),
    }
}

/// Planned run: its scenario, its directory, and the place of its results.
type PlannedRun<'a> = (&'a Scenario, RunDir, &'a mut DemoRun);

/// Runs like [`run_in_virtual_time`], on DPDK.
fn run_on_dpdk<'a>(
    scenarios: &[Scenario],
    planned: impl Iterator<Item = PlannedRun<'a>>,
    stop: &AtomicBool,
) -> Result<usize, Failure> {
    let backend = real_frames::reach()?.start(scenarios)?;
    run_each(planned, stop, |scenario, run, observe| backend.run(scenario, run, observe, stop))
}

/// Runs in virtual time until a signal. Returns the number of runs begun.
fn run_in_virtual_time<'a>(planned: impl Iterator<Item = PlannedRun<'a>>, stop: &AtomicBool) -> Result<usize, Failure> {
    let backend = SimBackend { threads: Threads::all(), ..SimBackend::default() };
    run_each(planned, stop, |scenario, run, observe| Ok(backend.run(scenario, run, observe, stop)?))
}

fn run_each<'a>(
    planned: impl Iterator<Item = PlannedRun<'a>>,
    stop: &AtomicBool,
    mut run_one: impl FnMut(&Scenario, RunDir, &mut dyn FnMut(&Progress)) -> Result<Summary, Failure>,
) -> Result<usize, Failure> {
    let mut begun = 0;
    for (scenario, run, compared) in planned {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        compared.summary = with_bar(&compared.label, scenario, |observe| run_one(scenario, run, observe))?;
        begun += 1;
    }
    Ok(begun)
}

fn with_bar(
    label: &str,
    scenario: &Scenario,
    run: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<Summary, Failure>,
) -> Result<Summary, Failure> {
    let message = |progress: &Progress| {
        let state = progress.first_port_state.map_or(String::new(), |state| format!(" ({state})"));
        format!(
            "F1 {:5.1} Gb/s  PAUSE on P0{state} {}  shared buffer {:.1} MB",
            progress.first_flow_bps as f64 / 1e9,
            progress.first_port_pauses,
            progress.pool_used.get() as f64 / 1e6
        )
    };
    experiment::run_with_bar(label, 12, scenario, message, run)
}

/// Fails if lossless frames were lost, or for a run's other failures.
fn verdict(compared: &[DemoRun]) -> Result<(), Failure> {
    if let Some(DemoRun { label, summary, .. }) = compared.iter().find(|compared| !compared.summary.lossless) {
        return Err(Failure::Run(format!("{label}: {} lossless frames were lost", lost(summary))));
    }
    match compared.iter().find(|compared| !compared.summary.failures.is_empty()) {
        Some(DemoRun { label, summary, .. }) => Err(Failure::Run(format!("{label}: {}", summary.failures.join("; ")))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_lost_line_time_to_the_machine_are_not_judged() {
        let runs = |late_ns| {
            let summary = Summary { duration_ns: 1_000_000, late_ns, ..Summary::default() };
            let run = DemoRun { label: "st".into(), bursts: 4, policy: "st".parse().unwrap(), summary };
            BackendRuns { backend: Backend::Dpdk, complete: vec![run], left: Vec::new() }
        };
        assert!(runs(50_000).reason_not_judged().is_none());
        let [conclusion] = &runs(81_000).conclusions()[..] else { panic!() };
        assert!(conclusion.starts_with("not judged: st lost 8.1 % of its line time"), "{conclusion}");
    }
}
