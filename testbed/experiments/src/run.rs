//! `weir testbed run`: executes the runs of a scenario file, on this machine's DPDK or in virtual time, and compares
//! them. Each run has its own directory.

mod figure;
pub(crate) mod hosts;
mod outcome;
pub(crate) mod seeds;
pub(crate) mod traffic;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_config::{ConfigErrors, Device};
use weir_hosts::RealHostSet;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, RunDirError, Summary};
use weir_scenario::file::{self, Expectation, ScenarioRun};
use weir_scenario::{Scenario, TrafficPlan};
use weir_sim::{CostEstimate, SimBackend, Threads, format_memory, free_memory};
use weir_units::{BitRate, Bytes, Span, Time, UnitError};

use crate::Failure;
use crate::experiment::{self, Backend};
use crate::files::{json_text, quoted, slug};
use crate::real_frames;
use crate::switches;
use crate::table::count;

pub use hosts::{CheckArguments, check};
use seeds::SeedSummary;

/// Commands of `weir testbed`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a scenario: switches and emulated RDMA hosts in one process, with real frames on this machine's DPDK, or in virtual
    /// time.
    ///
    /// The exit code is 1 if a lossless frame was lost, a run deadlocked unexpectedly, sent data did not arrive, or the run was
    /// interrupted.
    Run(RunArguments),
    /// Check a scenario's file; with --hosts, also its real hosts: each problem with the command that fixes it.
    Check(CheckArguments),
}

/// Arguments of `weir testbed run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml")]
    file: PathBuf,
    /// Backend: dpdk, with real frames by a clock of this machine; sim, in virtual time, the same on every machine; or hosts, with real
    /// frames, and real hosts where a host has a `backend`, whose flows are perftest's and iperf3's. By default dpdk; sim for fabrics,
    /// workloads, and scenarios that only sim can run.
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
    /// Run only this run of the file, by the beginning of its name; repeat it for several.
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,
    /// Slowdown against real time; by default that of the file, or the smallest that this machine sustains. In virtual time it only
    /// sets the default of `[pfc] reaction`.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    dilation: Option<u32>,
    /// Maximum number of threads in virtual time: a fabric too small to gain from them has fewer. By default as many as this
    /// process may use cores. The results are the same for any number.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    threads: Option<u32>,
    /// Number of seeds for each run: `seed` of the scenario, and the following integers. Results have confidence intervals, also in
    /// seeds.json; with sim only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    seeds: Option<u32>,
    /// End the runs at this time of the scenario's clock, 2ms, before the scenario's own end. Nothing starts from then on.
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    until: Option<Span>,
    /// Write the contents of all queues at this instant of the scenario's clock, 1.5ms, to queues.csv, besides the scenario's own
    /// `snapshots`. Separate several by commas, or repeat the option.
    #[arg(long = "snapshot", value_name = "TIME", value_delimiter = ',')]
    snapshots: Vec<String>,
    /// Write fct.txt, pfc.txt and qlen.txt too, as public ns-3 simulators of RDMA networks do; with sim only.
    #[arg(long)]
    ns3_files: bool,
    /// Directory of the results, in which each run gets one of its own; by default runs/ and the scenario's name.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the outcome of each run as JSON, its summary included, in place of the comparison.
    #[arg(long)]
    json: bool,
}

/// Parses a time with its unit, 1 us or more.
fn time_of(text: &str) -> Result<Span, String> {
    let time: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    if time < Span::from_micros(1) { Err("write 1us or more".to_owned()) } else { Ok(time) }
}

impl RunArguments {
    /// Arguments for a scenario's runs in virtual time; `runs` selects some of them. Results go to `output`, or
    /// `runs/NAME` by default.
    pub fn in_virtual_time(file: PathBuf, runs: Vec<String>, output: Option<PathBuf>) -> RunArguments {
        let (dilation, threads) = (None, None);
        RunArguments {
            file,
            backend: Some(Backend::Sim),
            runs,
            dilation,
            threads,
            seeds: None,
            until: None,
            snapshots: Vec::new(),
            ns3_files: false,
            output,
            json: false,
        }
    }

    /// Directory of the results.
    ///
    /// # Errors
    /// The file can't be read, or is no scenario.
    pub fn directory(&self) -> Result<PathBuf, Failure> {
        switches::refuse_other_than_scenario(&self.file, "weir run")?;
        if let Some(output) = &self.output {
            return Ok(output.clone());
        }
        let runs = file::load(&self.file)?;
        Ok(PathBuf::from("runs").join(runs.first().map_or("", |run| run.scenario.name.as_str())))
    }
}

pub(crate) struct CompletedRun {
    pub name: String,
    pub expects: Expectation,
    pub scenario: Scenario,
    pub summary: Summary,
    pub directory: PathBuf,
}

struct PlannedRun {
    name: String,
    expects: Expectation,
    scenario: Scenario,
    run_dir: RunDir,
    directory: PathBuf,
}

/// Executes the file's runs, prints the comparison and draws it.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    switches::refuse_other_than_scenario(&arguments.file, "weir run")?;
    let runs = chosen(arguments, file::load(&arguments.file)?)?;
    let backend = backend(arguments, &runs)?;
    if let Some(seeds) = arguments.seeds {
        return run_with_seeds(arguments, &runs, backend, seeds);
    }
    // First of all: another program may execute the command from its start.
    let real_frames = if backend == Backend::Sim { None } else { Some(real_frames::reach()?) };
    let (mut scenarios, mut hosts) = match backend {
        Backend::Hosts => {
            let (scenarios, hosts) = hosts::prepared(&arguments.file, &runs, arguments.dilation)?;
            refuse_virtual_time(&scenarios)?;
            (scenarios, Some(hosts))
        }
        _ => (at_dilation(arguments, &runs, backend)?, None),
    };
    scenarios.iter_mut().try_for_each(|scenario| arguments.time(scenario))?;
    if let Some(real_frames) = real_frames {
        real_frames.check_machine(&scenarios)?;
    }
    let name = scenarios.first().map_or("", |scenario| scenario.name.as_str()).to_owned();
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
    if !arguments.json {
        introduce(&scenarios, backend);
    }
    let stop = experiment::stopped_by_signals()?;
    // Before directories are made: another process may hold the devices.
    let dpdk = real_frames.map(|real_frames| real_frames.start(&scenarios)).transpose()?;
    let text = fs::read_to_string(&arguments.file)?;
    let mut planned = Vec::new();
    for (run, scenario) in runs.into_iter().zip(scenarios) {
        let directory = output.join(slug(&run.name));
        let run_dir = run_dir(&directory, &text)?;
        planned.push(PlannedRun { name: run.name, expects: run.expects, scenario, run_dir, directory });
    }
    let names: Vec<String> = planned.iter().map(|planned| planned.name.clone()).collect();
    let ended = match &dpdk {
        None => run_in_virtual_time(planned, arguments, &stop)?,
        Some(dpdk) => run_on_dpdk(&**dpdk, planned, hosts.as_mut(), &stop)?,
    };
    let figure = figure::draw(&ended, &name, &output)?;
    let left = if stop.load(Ordering::Relaxed) { outcome::left(&names, &ended) } else { Vec::new() };
    if arguments.json {
        print!("{}", json_text(&outcome::json(&name, backend, &ended, &left, &output)));
        return outcome::verdict(&ended, left.len());
    }
    outcome::print(&ended);
    if let Some(figure) = figure {
        println!("figure: {}", figure.display());
    }
    println!(
        "results: {0}/*/ (summary.json, series.csv, events.csv, fct.csv, the switches' configurations); as a page: weir report {0}",
        output.display()
    );
    note_earlier_runs(&output, std::slice::from_ref(&text));
    if stop.load(Ordering::Relaxed) {
        let (all, left_out) = (names.len(), arguments.again(backend, &left));
        println!("INTERRUPTED: {} of {all} runs have results. For what is left: {left_out}", ended.len());
    }
    outcome::verdict(&ended, left.len())
}

/// Runs each run with several seeds, in virtual time, and prints the figures with their confidence intervals.
fn run_with_seeds(arguments: &RunArguments, runs: &[ScenarioRun], backend: Backend, count: u32) -> Result<(), Failure> {
    if backend != Backend::Sim {
        let message = "--seeds: only runs in virtual time depend on nothing else; add --backend sim";
        return Err(Failure::Argument(message.to_owned()));
    }
    let text = fs::read_to_string(&arguments.file)?;
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let name = runs.first().map_or("", |run| run.scenario.name.as_str()).to_owned();
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
    let stop = experiment::stopped_by_signals()?;
    let (mut planned, mut of, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for seeds::SeededRun { of: run_of, seed, run, text } in seeds::seeded(&arguments.file, &text, &names, count)? {
        let [scenario] = <[Scenario; 1]>::try_from(at_dilation(arguments, std::slice::from_ref(&run), backend)?)
            .map_err(|_| Failure::Argument("a run is one scenario".to_owned()))?;
        let mut scenario = scenario;
        arguments.time(&mut scenario)?;
        let directory = output.join(slug(&run.name));
        let run_dir = run_dir(&directory, &text)?;
        of.push((run_of, seed));
        texts.push(text);
        planned.push(PlannedRun { name: run.name, expects: run.expects, scenario, run_dir, directory });
    }
    if !arguments.json {
        introduce(&planned.iter().map(|planned| planned.scenario.clone()).collect::<Vec<_>>(), backend);
    }
    let all = planned.len();
    let ended = run_in_virtual_time(planned, arguments, &stop)?;
    let left = all - ended.len();
    let of_seeds = ended.iter().zip(&of).map(|(ended, (run, seed))| SeedSummary {
        run,
        parameters: "",
        seed: u64::from(*seed),
        summary: &ended.summary,
    });
    let figures = seeds::figures(of_seeds);
    let summary = json_text(&figures);
    fs::write(output.join("seeds.json"), &summary)?;
    if arguments.json {
        print!("{summary}");
        return outcome::verdict(&ended, left);
    }
    println!("{}", seeds::table(&figures));
    for run in seeds::same_results(&names, &figures) {
        println!(
            "{run}: all seeds have the same results; `seed` draws nothing in it (paths: ecmp_seed = \"seed\" in [scenario])"
        );
    }
    println!("results: {0}/*/, one for each seed, and {0}/seeds.json", output.display());
    note_earlier_runs(&output, &texts);
    if stop.load(Ordering::Relaxed) {
        println!("INTERRUPTED: {} of {all} runs have results.", ended.len());
    }
    outcome::verdict(&ended, left)
}

impl RunArguments {
    /// Applies `--until` and `--snapshot` to a scenario.
    fn time(&self, scenario: &mut Scenario) -> Result<(), Failure> {
        self.end_early(scenario)?;
        for text in &self.snapshots {
            let at: Span =
                text.parse().map_err(|error: UnitError| Failure::Argument(format!("--snapshot: {error}")))?;
            let end = scenario.end.since(Time::ZERO);
            if at > end {
                return Err(Failure::Argument(format!(
                    "--snapshot {text}: the run ends at {end}; write no more than that"
                )));
            }
            scenario.snapshots.push(Time::ZERO + at);
        }
        scenario.snapshots.sort();
        scenario.snapshots.dedup();
        Ok(())
    }

    fn end_early(&self, scenario: &mut Scenario) -> Result<(), Failure> {
        let Some(until) = self.until else { return Ok(()) };
        let end = scenario.end.since(Time::ZERO);
        if until >= end {
            return Err(Failure::Argument(format!("--until {until}: the scenario ends at {end} anyway; write less")));
        }
        scenario.end_at(Time::ZERO + until);
        Ok(())
    }

    /// Command line that repeats this call for the given runs.
    fn again(&self, backend: Backend, runs: &[&str]) -> String {
        let mut arguments = vec!["weir testbed run".to_owned(), quoted(&self.file.display().to_string())];
        arguments.push(format!("--backend {}", backend.name()));
        arguments.extend(runs.iter().map(|run| format!("--run {}", quoted(run))));
        arguments.extend(self.dilation.map(|dilation| format!("--dilation {dilation}")));
        arguments.extend(self.until.map(|until| format!("--until {until}")));
        arguments.extend(self.snapshots.iter().map(|at| format!("--snapshot {}", quoted(at))));
        arguments.extend(self.ns3_files.then(|| "--ns3-files".to_owned()));
        arguments.extend(self.output.as_ref().map(|output| format!("-o {}", quoted(&output.display().to_string()))));
        arguments.join(" ")
    }
}

/// Creates a run's directory, with the scenario's text.
fn run_dir(directory: &Path, text: &str) -> Result<RunDir, RunDirError> {
    let run_dir = experiment::directory(directory)?;
    run_dir.write_scenario(text)?;
    Ok(run_dir)
}

/// Prints a note on run directories in `output` with a scenario other than `texts`: reports show these earlier runs too.
fn note_earlier_runs(output: &Path, texts: &[String]) {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let is_earlier = |directory: &Path| {
        let text = fs::read_to_string(directory.join("scenario.toml"));
        directory.join("provenance.json").exists() && text.is_ok_and(|text| !texts.contains(&text))
    };
    let mut earlier: Vec<String> = entries
        .filter(|entry| is_earlier(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    earlier.sort();
    if !earlier.is_empty() {
        println!(
            "note: {} has earlier runs of another scenario or seed, which reports include: {}; remove them, or name another directory (-o)",
            output.display(),
            earlier.join(", ")
        );
    }
}

/// Refuses flows between emulated hosts that need virtual time, in a scenario that also has real hosts.
pub(crate) fn refuse_virtual_time(scenarios: &[Scenario]) -> Result<(), Failure> {
    match scenarios.iter().find_map(Scenario::needs_virtual_time) {
        Some(reason) => Err(Failure::Argument(format!("--backend hosts: {reason}"))),
        None => Ok(()),
    }
}

/// The requested backend, or one that can execute all runs.
fn backend(arguments: &RunArguments, runs: &[ScenarioRun]) -> Result<Backend, Failure> {
    let needs_virtual_time = runs.iter().find_map(|run| run.scenario.needs_virtual_time());
    let real = runs.iter().find_map(|run| real_device(&run.scenario));
    if arguments.backend == Some(Backend::Hosts) {
        // Flows between real hosts need no virtual time, so the scenario is checked after they are removed.
        return match arguments.ns3_files {
            true => {
                Err(Failure::Argument("--ns3-files: only runs in virtual time have them; add --backend sim".to_owned()))
            }
            false => Ok(Backend::Hosts),
        };
    }
    let backend = match (arguments.backend, needs_virtual_time, real) {
        (Some(Backend::Dpdk), Some(reason), _) => {
            return Err(Failure::Argument(format!("--backend dpdk: {reason}; write --backend sim, or leave it out")));
        }
        (Some(Backend::Sim), _, Some(device)) => {
            return Err(Failure::Argument(format!(
                "--backend sim: {device}, and in virtual time there are no devices; write --backend dpdk, or leave it out"
            )));
        }
        (Some(asked), ..) => asked,
        (None, Some(_), _) => Backend::Sim,
        (None, None, None) if !real_frames::is_available() => Backend::Sim,
        (None, None, None) if runs.iter().any(|run| is_usually_virtual(&run.scenario)) => Backend::Sim,
        (None, None, _) => Backend::Dpdk,
    };
    if arguments.ns3_files && backend != Backend::Sim {
        return Err(Failure::Argument(
            "--ns3-files: only runs in virtual time have them; add --backend sim".to_owned(),
        ));
    }
    if arguments.threads.is_some() && backend == Backend::Dpdk {
        return Err(Failure::Argument(
            "--threads: only runs in virtual time are shared out; add --backend sim, or leave it out".to_owned(),
        ));
    }
    Ok(backend)
}

/// Whether a scenario usually exceeds a machine's real-time capacity: a fabric, or workloads.
fn is_usually_virtual(scenario: &Scenario) -> bool {
    scenario.routes.is_some() || !scenario.traffic.is_empty()
}

/// Description of a port or host on a real device, if there is one.
pub(crate) fn real_device(scenario: &Scenario) -> Option<String> {
    let is_real = |device: &Device| !matches!(device, Device::Ring(_) | Device::CloneOf(_));
    if let Some(host) = scenario.hosts.iter().find(|host| host.device.is_some()) {
        return Some(format!("host {} has a device of its own", host.name));
    }
    let place = scenario.ports().find(|place| is_real(&scenario.switches[place.switch].ports[place.port].device))?;
    Some(format!("port {} is on a device", scenario.port_name(place)))
}

/// Executes runs on DPDK or real hosts until `stop` is set; runs after an interrupted one are omitted.
fn run_on_dpdk(
    backend: &dyn real_frames::ScenarioRunner,
    planned: Vec<PlannedRun>,
    mut hosts: Option<&mut RealHostSet>,
    stop: &AtomicBool,
) -> Result<Vec<CompletedRun>, Failure> {
    let message = |progress: &Progress| {
        format!(
            "received {:5.2} Gb/s  PAUSEs {}  buffers {:.1} MB",
            progress.received_bps as f64 / 1e9,
            progress.pauses,
            progress.pool_used.get() as f64 / 1e6
        )
    };
    let mut ended = Vec::new();
    for PlannedRun { name, expects, scenario, run_dir, directory } in planned {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let summary = experiment::run_with_bar(&name, NAMES, &scenario, message, |observe| {
            backend.run_with_hosts(&scenario, run_dir, hosts.as_deref_mut(), observe, stop)
        })?;
        ended.push(CompletedRun { name, expects, scenario, summary, directory });
    }
    Ok(ended)
}

/// Executes runs in virtual time until `stop` is set; runs after an interrupted one are omitted.
fn run_in_virtual_time(
    planned: Vec<PlannedRun>,
    arguments: &RunArguments,
    stop: &AtomicBool,
) -> Result<Vec<CompletedRun>, Failure> {
    let (ns3_files, threads) = (arguments.ns3_files, arguments.threads);
    let threads = threads.map_or_else(Threads::all, |most| Threads::up_to(most as usize));
    let mut ended = Vec::new();
    for PlannedRun { name, expects, scenario, run_dir, directory } in planned {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let backend = SimBackend { expects, ns3_files, threads };
        let (started, last) = (Instant::now(), Cell::new((0.0, 0, 0.0)));
        let goes_round = scenario.traffic.iter().any(|traffic| traffic.closed_loop().is_some());
        // A closed loop's number of messages is not known in advance.
        let messages: usize = if goes_round { 0 } else { scenario.traffic.iter().map(TrafficPlan::count).sum() };
        let message = |progress: &Progress| {
            let (at, hops, rate) = last.get();
            let now = started.elapsed().as_secs_f64();
            // Averages over at least half a second; shorter windows fluctuate.
            let rate = if now - at > 0.5 || rate == 0.0 {
                let rate = (progress.packet_hops - hops) as f64 / (now - at).max(1e-6);
                last.set((now, progress.packet_hops, rate));
                rate
            } else {
                rate
            };
            let done = match messages {
                0 if !goes_round => String::new(),
                0 => format!("  messages {}", count(progress.messages_done)),
                all => format!("  messages {} of {}", count(progress.messages_done), count(all as u64)),
            };
            format!("{:.2} M packet-hops/s  PAUSEs {}{done}", rate / 1e6, count(progress.pauses))
        };
        let summary = experiment::run_with_bar(&name, NAMES, &scenario, message, |observe| {
            Ok(backend.run(&scenario, run_dir, observe, stop)?)
        })?;
        ended.push(CompletedRun { name, expects, scenario, summary, directory });
    }
    Ok(ended)
}

/// Width of the column of run names before progress bars, in characters.
const NAMES: usize = 26;

/// Runs selected by `--run`, in the file's order.
fn chosen(arguments: &RunArguments, runs: Vec<ScenarioRun>) -> Result<Vec<ScenarioRun>, Failure> {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    if let Some(unknown) = arguments.runs.iter().find(|name| !names.iter().any(|run| is_meant(run, name))) {
        return Err(Failure::Argument(format!(
            "--run: \"{unknown}\" is the beginning of no run's name in {}; it has: {}",
            arguments.file.display(),
            names.join("; ")
        )));
    }
    let is_chosen =
        |run: &ScenarioRun| arguments.runs.is_empty() || arguments.runs.iter().any(|name| is_meant(&run.name, name));
    Ok(runs.into_iter().filter(is_chosen).collect())
}

fn chosen_of(names: &[String], runs: Vec<ScenarioRun>) -> Vec<ScenarioRun> {
    runs.into_iter().filter(|run| names.contains(&run.name)).collect()
}

/// Whether a run's name starts with `name`, ignoring case.
fn is_meant(run: &str, name: &str) -> bool {
    run.to_lowercase().starts_with(&name.trim().to_lowercase())
}

/// Scenarios at the time dilation of the command, the file or, with real frames, this machine.
fn at_dilation(arguments: &RunArguments, runs: &[ScenarioRun], backend: Backend) -> Result<Vec<Scenario>, Failure> {
    let asked = arguments.dilation.or(runs.iter().find_map(|run| run.time_dilation));
    let dilation = match (asked, backend) {
        (Some(asked), _) => asked,
        (None, Backend::Dpdk | Backend::Hosts) => fitting(runs)?,
        (None, Backend::Sim) => return Ok(runs.iter().map(|run| run.scenario.clone()).collect()),
    };
    let (mut scenarios, mut errors) = (Vec::new(), Vec::new());
    for run in runs {
        match run.dilated(dilation) {
            Ok(scenario) => scenarios.push(scenario),
            Err(wrong) => errors.push(wrong),
        }
    }
    match ConfigErrors::joined(errors) {
        Some(errors) => Err(errors.into()),
        None => Ok(scenarios),
    }
}

/// Time dilation for this machine: 1 with real devices, else as the fastest link requires.
pub(crate) fn fitting(runs: &[ScenarioRun]) -> Result<u32, Failure> {
    match fastest(runs) {
        None => Ok(1),
        Some(rate) => Ok(real_frames::reach()?.fitting_dilation(rate)),
    }
}

/// Highest rate that this machine must sustain; `None` with real devices, which run in real time.
pub(crate) fn fastest(runs: &[ScenarioRun]) -> Option<BitRate> {
    let scenarios = || runs.iter().map(|run| &run.scenario);
    let ports = || scenarios().flat_map(|scenario| scenario.switches.iter()).flat_map(|switch| &switch.ports);
    if ports().any(|port| !matches!(port.device, Device::Ring(_) | Device::CloneOf(_))) {
        return None;
    }
    let hosts = scenarios().flat_map(|scenario| &scenario.hosts).map(|host| host.nic.rate);
    ports().filter_map(|port| port.rate).chain(hosts).max()
}

/// Count with its noun: `one switch`, `4 hosts`.
fn number(n: usize, of: &str) -> String {
    if n == 1 { format!("one {of}") } else { format!("{} {of}s", count(n as u64)).replace("switchs", "switches") }
}

/// Numbers of switches and hosts: `one switch, 4 hosts`.
fn switches_and_hosts(scenario: &Scenario) -> String {
    format!("{}, {}", number(scenario.switches.len(), "switch"), number(scenario.host_count(), "host"))
}

fn introduce(scenarios: &[Scenario], backend: Backend) {
    let Some(scenario) = scenarios.first() else { return };
    let clock = match (backend, scenario.time_dilation()) {
        (Backend::Sim, _) => "in virtual time".to_owned(),
        (_, 1) => "in real time".to_owned(),
        (_, factor) => format!("by one clock, {factor} times slower than real time"),
    };
    let messages: usize = scenario.traffic.iter().map(TrafficPlan::count).sum();
    let loops = scenario.traffic.iter().filter_map(|traffic| traffic.closed_loop());
    let mut sent: Vec<String> = [(scenario.flows.len(), "flow"), (messages, "message")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, of)| number(n, of))
        .collect();
    sent.extend(loops.map(|closed| format!("{} in a closed loop", number(closed.senders().len(), "sender"))));
    let sent = if sent.is_empty() { number(0, "flow") } else { sent.join(" and ") };
    println!("{}: {} and {sent}, {clock}.", scenario.name, switches_and_hosts(scenario));
    println!(
        "{}\n",
        match backend {
            Backend::Dpdk | Backend::Hosts => experiment::outlook(scenarios),
            Backend::Sim => {
                let runs = format!("{} of {}.", number(scenarios.len(), "run"), scenario.end.since(Time::ZERO));
                [Some(runs), forecast(scenarios)].into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
        }
    );
}

/// Expected memory and CPU time of runs in virtual time, as a sentence; `None` if both are small.
fn forecast(scenarios: &[Scenario]) -> Option<String> {
    let all: Vec<CostEstimate> = scenarios.iter().map(CostEstimate::for_scenario).collect();
    let memory = all.iter().map(|one| one.memory).max()?;
    let hops: u64 = all.iter().map(|one| one.packet_hops).sum();
    let [fast, slow] = [0, 1].map(|n| all.iter().map(|one| one.core_time()[n]).sum::<Span>());
    if slow < FORECAST_TIME && memory < FORECAST_MEMORY {
        return None;
    }
    let [fast, slow] = [fast, slow].map(|time| time.as_secs_f64());
    let free = free_memory().map_or(String::new(), |free| format!(" of {} that are free", format_memory(free)));
    Some(format!(
        "They take about {} of memory{free}, and {} million packet-hops: {fast:.0} to {slow:.0} s of one core.",
        format_memory(memory),
        count(hops / 1_000_000),
    ))
}

/// CPU time below which runs need no forecast, at the slow estimate for a shared core.
const FORECAST_TIME: Span = Span::from_secs(5);
/// Memory below which runs need no forecast; every machine has more.
const FORECAST_MEMORY: Bytes = Bytes::mb(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_more_than_seconds_are_forecast() {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let of = |file: &str| {
            let runs = weir_scenario::file::load(&scenarios.join(file));
            let runs = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
            forecast(&runs.into_iter().map(|run| run.scenario).collect::<Vec<_>>())
        };
        let forecast = of("fat-tree-1024.toml").expect("a thousand hosts take more than 5 s");
        assert!(
            forecast.contains(" of memory") && forecast.contains("47 million packet-hops: 5 to 17 s of one core"),
            "{forecast}"
        );
        assert_eq!(of("incast-dcqcn.toml"), None);
    }

    #[test]
    fn runs_are_named_by_their_beginning() {
        assert!(is_meant("GFC by stages, arrival", "gfc by stages") && is_meant("PFC, arrival", " PFC"));
        assert!(!is_meant("PFC, arrival", "arrival"));
    }
}
