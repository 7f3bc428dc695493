//! `weir testbed run`: the runs of a scenario file on this machine's DPDK, each in a directory of its own, compared.

mod figure;
mod outcome;

use std::path::PathBuf;

use weir_config::{ConfigErrors, Device};
use weir_testbed::dpdk::{DpdkBackend, fitting_dilation};
use weir_testbed::run_dir::{RunDir, Summary};
use weir_testbed::scenario::Scenario;
use weir_testbed::scenario::file::{self, Expectation, ScenarioRun};

use crate::exit::Failure;
use crate::experiment;

/// What can be done with a scenario.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a scenario with real frames on this machine's DPDK: switches and emulated RDMA hosts in one process, by one
    /// clock.
    ///
    /// The exit code is 1 if a lossless frame was lost, or a run came to a deadlock that the scenario does not expect.
    Run(RunArguments),
}

/// Arguments of `weir testbed run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml")]
    file: PathBuf,
    /// Only this one of the file's runs, and others given alike; the beginning of a name will do.
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,
    /// How many times slower than real time; by default as the file says, or what this machine can follow.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    dilation: Option<u32>,
    /// Directory of the results, in which each run gets one of its own; by default runs/ and the scenario's name.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub name: String,
    pub expects: Expectation,
    pub scenario: Scenario,
    pub summary: Summary,
    pub directory: PathBuf,
}

/// Runs what the file describes, prints the comparison and draws it.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let runs = chosen(arguments, file::load(&arguments.file)?)?;
    let scenarios = at_dilation(arguments, &runs)?;
    for scenario in &scenarios {
        weir_dpdk_driver::check_machine(&scenario.switches)?;
    }
    let name = scenarios.first().map_or("", |scenario| scenario.name.as_str()).to_owned();
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
    let directories: Vec<PathBuf> = runs.iter().map(|run| output.join(slug(&run.name))).collect();
    let run_dirs = directories.iter().map(|path| experiment::directory(path)).collect::<Result<Vec<_>, _>>()?;
    introduce(&scenarios);
    let backend = DpdkBackend::start(&scenarios)?;
    let mut ended = Vec::new();
    for (((run, scenario), run_dir), directory) in runs.into_iter().zip(scenarios).zip(run_dirs).zip(directories) {
        let summary = run_one(&backend, &run.name, &scenario, run_dir)?;
        ended.push(Ended { name: run.name, expects: run.expects, scenario, summary, directory });
    }
    outcome::print(&ended);
    println!("figure: {}", figure::draw(&ended, &name, &output)?.display());
    println!("results: {}/*/ (summary.json, series.csv, events.csv, the switches' configurations)", output.display());
    outcome::verdict(&ended)
}

/// The runs that were asked for, in the file's order.
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

/// Whether `name` is how the name of a run begins, in whatever case.
fn is_meant(run: &str, name: &str) -> bool {
    run.to_lowercase().starts_with(&name.trim().to_lowercase())
}

/// The runs at the time dilation that the command, the file or this machine asks for.
fn at_dilation(arguments: &RunArguments, runs: &[ScenarioRun]) -> Result<Vec<Scenario>, Failure> {
    let asked = arguments.dilation.or(runs.iter().find_map(|run| run.time_dilation));
    let dilation = asked.unwrap_or_else(|| fitting(runs));
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

/// What this machine can follow: real time where a device is real, else as slow as the links ask for.
fn fitting(runs: &[ScenarioRun]) -> u32 {
    let scenarios = || runs.iter().map(|run| &run.scenario);
    let ports = || scenarios().flat_map(|scenario| &scenario.switches).flat_map(|switch| &switch.ports);
    if ports().any(|port| !matches!(port.device, Device::Ring(_) | Device::CloneOf(_))) {
        return 1;
    }
    let rates = ports()
        .filter_map(|port| port.rate)
        .chain(scenarios().flat_map(|scenario| &scenario.hosts).map(|host| host.nic.rate));
    rates.max().map_or(1, fitting_dilation)
}

/// A run's name as that of a directory: `gfc-by-stages-arrival`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn introduce(scenarios: &[Scenario]) {
    let Some(scenario) = scenarios.first() else { return };
    let dilation = scenario.time_dilation();
    let clock = match dilation {
        1 => "in real time".to_owned(),
        factor => format!("by one clock, {factor} times slower than real time"),
    };
    let count = |n: usize, of: &str| if n == 1 { format!("one {of}") } else { format!("{n} {of}s") };
    println!(
        "{}: {}, {} and {}, {clock}.",
        scenario.name,
        count(scenario.switches.len(), "switch").replace("switchs", "switches"),
        count(scenario.hosts.len(), "host"),
        count(scenario.flows.len(), "flow")
    );
    println!("{}\n", experiment::outlook(scenarios));
}

fn run_one(backend: &DpdkBackend, name: &str, scenario: &Scenario, run: RunDir) -> Result<Summary, Failure> {
    experiment::run_with_bar(backend, (name, 26), scenario, run, |progress| {
        format!(
            "received {:5.2} Gb/s  PAUSEs {}  buffers {:.1} MB",
            progress.received_bps as f64 / 1e9,
            progress.pauses,
            progress.pool_used.get() as f64 / 1e6
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_their_beginning() {
        assert!(is_meant("GFC by stages, arrival", "gfc by stages") && is_meant("PFC, arrival", " PFC"));
        assert!(!is_meant("PFC, arrival", "arrival"));
        assert_eq!(slug("GFC by stages, round-robin"), "gfc-by-stages-round-robin");
    }
}
