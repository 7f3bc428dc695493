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
    /// What runs it: dpdk, with real frames by a clock of this machine; or sim, in virtual time, which takes seconds and is the
    /// same on every machine.
    #[arg(long, default_value = Backend::best().name(), value_parser = emulated(), value_name = "NAME")]
    backend: Backend,
    /// A host of its own at each burst port, in place of one host whose port the others copy.
    #[arg(long)]
    separate_hosts: bool,
    /// Policies to compare: st; or dt, spfc, sih, oversubscribed, adaptive, dsh, dsh-no-insurance, dsh-no-shared, sonic,
    /// abm, reverie, each alone (α = 1) or with its α (dt:1/8).
    #[arg(long, alias = "policies", value_delimiter = ',', default_value = "st,dt:1,spfc", value_name = "LIST")]
    policy: Vec<VictimPolicy>,
    /// What controls the rates of F1 and F2. Bursts are of messages too short to be controlled.
    #[arg(long, default_value = "dcqcn", value_name = "NAME")]
    congestion_control: CongestionControlName,
    /// The paper's testbed (nine ports of 10 Gb/s, 2.5 MB) in place of its simulation (100 Gb/s, 16 MB).
    #[arg(long)]
    testbed: bool,
    /// How many times slower than real time; by default what this machine can follow.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    dilation: Option<u32>,
    /// Directory of the results; each policy gets one of its own in it.
    #[arg(short, long, default_value = "runs/demo", value_name = "DIR")]
    output: PathBuf,
    /// Print each run's summary as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// Backends with emulated hosts, as the demo has.
fn emulated() -> impl TypedValueParser<Value = Backend> {
    let all = [Backend::Sim, Backend::Dpdk].map(|backend| backend.to_possible_value().expect("none is hidden"));
    PossibleValuesParser::new(all).map(|name| Backend::from_str(&name, true).expect("one of them"))
}

/// Returns a congestion control by its name on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum CongestionControlName {
    None,
    Dcqcn,
}

/// Runs the experiment under each policy and prints the comparison.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    if arguments.backend.is_real() {
        real_frames::reach()?;
    }
    let like = if arguments.testbed { Victim::testbed } else { Victim::simulation };
    let rate = like(0, VictimPolicy::new(PolicyChoice::Static)).rate;
    let dilation = dilation(arguments, rate)?;
    let mut scenarios = Vec::new();
    let mut compared = Vec::new();
    let bursts = burst_ports(arguments);
    for n in &bursts {
        for policy in &arguments.policy {
            let victim = like(usize::from(*n), *policy);
            let mut victim = match arguments.backend {
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
            compared.push(DemoRun { label, bursts: *n, policy: *policy, summary: Summary::default() });
        }
    }
    let labels = compared.iter().map(|compared| compared.label.as_str());
    let runs = labels.map(|label| run_dir(label, &arguments.output)).collect::<Result<Vec<_>, _>>()?;
    if !arguments.json {
        introduce(arguments, &bursts, &scenarios, rate, dilation);
    }
    let planned = scenarios.iter().zip(runs).zip(&mut compared);
    let planned = planned.map(|((scenario, run), compared)| (scenario, run, compared));
    let stop = experiment::stopped_by_signals()?;
    let ended = match arguments.backend {
        Backend::Dpdk | Backend::Hosts => run_on_dpdk(&scenarios, planned, &stop)?,
        Backend::Sim => run_in_virtual_time(planned, &stop)?,
    };
    let is_interrupted = stop.load(Ordering::Relaxed);
    // A run that was cut short, the last to begin, has no results to compare.
    let complete = compared[..ended].iter().filter(|compared| !is_cut_short(&compared.summary)).count();
    let (compared, left) = compared.split_at(complete);
    if arguments.json {
        print!("{}", json_text(&document(arguments, compared, left)));
        return if left.is_empty() { verdict(compared) } else { Err(interrupted(compared, left)) };
    }
    if !compared.is_empty() {
        println!("{}", comparison(compared));
    }
    disturbed(compared);
    for sentence in conclusion::conclusions(compared) {
        println!("{sentence}");
    }
    let capture = if arguments.backend.is_real() { "a capture of P0, " } else { "" };
    println!(
        "results: {0}/*/ (summary.json, series.csv, events.csv, {capture}config.toml); as a page: weir report {0}",
        arguments.output.display()
    );
    if is_interrupted && !left.is_empty() {
        println!("INTERRUPTED. For what is left: {}", again(arguments, left));
        return Err(interrupted(compared, left));
    }
    verdict(compared)
}

fn is_cut_short(summary: &Summary) -> bool {
    summary.failures.iter().any(|failure| failure.starts_with("interrupted"))
}

fn interrupted(compared: &[DemoRun], left: &[DemoRun]) -> Failure {
    Failure::Run(format!("interrupted: {} of {} runs are whole", compared.len(), compared.len() + left.len()))
}

/// Formats the command for the remaining runs. It repeats all runs of a begun N, as they form one comparison.
fn again(arguments: &DemoArguments, left: &[DemoRun]) -> String {
    let listed = |all: Vec<String>| {
        let mut once: Vec<String> = Vec::new();
        all.into_iter().for_each(|one| {
            if !once.contains(&one) {
                once.push(one)
            }
        });
        once.join(",")
    };
    let mut command_line = vec![format!("weir demo --backend {}", arguments.backend.name())];
    command_line.push(format!("--policy {}", listed(left.iter().map(|run| run.policy.argument()).collect())));
    command_line.push(format!("--bursts {}", listed(left.iter().map(|run| run.bursts.to_string()).collect())));
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
    backend: &'static str,
    results: &'d Path,
    conclusions: Vec<String>,
    runs: Vec<RunOfDocument<'d>>,
    /// Policies whose runs were left when the command was interrupted.
    left: Vec<&'d str>,
}

#[derive(Serialize)]
struct RunOfDocument<'d> {
    policy: &'d str,
    burst_ports: u8,
    lossless_frames_lost: u64,
    summary: &'d Summary,
}

fn document<'d>(arguments: &'d DemoArguments, compared: &'d [DemoRun], left: &'d [DemoRun]) -> Document<'d> {
    let run = |run: &'d DemoRun| RunOfDocument {
        policy: &run.label,
        burst_ports: run.bursts,
        lossless_frames_lost: lost(&run.summary),
        summary: &run.summary,
    };
    Document {
        backend: arguments.backend.name(),
        results: &arguments.output,
        conclusions: conclusion::conclusions(compared),
        runs: compared.iter().map(run).collect(),
        left: left.iter().map(|run| run.label.as_str()).collect(),
    }
}

/// Factor by which the run is slower than real time; 1 in virtual time.
fn dilation(arguments: &DemoArguments, rate: BitRate) -> Result<u32, Failure> {
    match (arguments.backend, arguments.dilation) {
        (Backend::Dpdk | Backend::Hosts, asked) => {
            asked.map_or_else(|| Ok(real_frames::reach()?.fitting_dilation(rate)), Ok)
        }
        (Backend::Sim, None) => Ok(1),
        (Backend::Sim, Some(asked)) => Err(Failure::Argument(format!(
            "--dilation {asked}: in virtual time no clock runs, and there is nothing to slow down; leave it out, or write \
             --backend dpdk"
        ))),
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

fn introduce(arguments: &DemoArguments, bursts: &[u8], scenarios: &[Scenario], rate: BitRate, dilation: u32) {
    let bursts: Vec<String> = bursts.iter().map(u8::to_string).collect();
    println!(
        "The victim experiment (SPFC, III-A): H0 sends F1 to R1 and F2 to R2, bursts to R2 arrive at N = {} more ports{}.",
        bursts.join(", "),
        if arguments.separate_hosts { "" } else { " (one host's, and copies of it)" }
    );
    let clock = match arguments.backend {
        Backend::Dpdk | Backend::Hosts => format!("one clock runs {dilation} times slower than real time"),
        Backend::Sim => "all of it happens in virtual time".to_owned(),
    };
    println!("Every host and the switch have ports of {rate}; {clock}.");
    match arguments.congestion_control {
        CongestionControlName::Dcqcn => {
            println!("F1 and F2 are under DCQCN, the switch marks ECN; each burst message starts at line rate.")
        }
        CongestionControlName::None => {
            println!("No flow is under congestion control: F2 keeps its rate for as long as the bursts last.")
        }
    }
    println!("F1 shares no congested port, and is held up all the same whenever the switch pauses H0 on P0.");
    match (arguments.backend, scenarios) {
        (Backend::Dpdk | Backend::Hosts, _) => println!("{}\n", experiment::outlook(scenarios)),
        (Backend::Sim, [scenario]) => println!("One run of {}.\n", scenario.end.since(Time::ZERO)),
        (Backend::Sim, several) => {
            println!("{} runs of {}.\n", several.len(), several[0].end.since(Time::ZERO));
        }
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

/// Prints the runs that the machine delayed.
fn disturbed(compared: &[DemoRun]) {
    for DemoRun { label, summary, .. } in compared {
        let late = summary.late_percent();
        if late > Summary::LATE_PERCENT_MAX {
            println!(
                "{label}: a host or a port lost {late:.1} % of its line time to the machine; a larger --dilation makes the rates truer"
            );
        }
    }
}

/// Fails the demonstration for lossless losses, and for a run's other failures.
fn verdict(compared: &[DemoRun]) -> Result<(), Failure> {
    if let Some(DemoRun { label, summary, .. }) = compared.iter().find(|compared| !compared.summary.lossless) {
        return Err(Failure::Run(format!("{label}: {} lossless frames were lost", lost(summary))));
    }
    match compared.iter().find(|compared| !compared.summary.failures.is_empty()) {
        Some(DemoRun { label, summary, .. }) => Err(Failure::Run(format!("{label}: {}", summary.failures.join("; ")))),
        None => Ok(()),
    }
}
