//! Runs with real hosts, and the check of these hosts.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempDir;
use weir_hosts::check::{self, FindingStatus, HostFinding};
use weir_hosts::{HostError, RealHostSet};
use weir_scenario::file::{self, ScenarioRun};
use weir_scenario::{HostBackend, RealPorts, Scenario};

use super::switches_and_hosts;
use crate::Failure;
use crate::files::json_text;
use crate::switches;
use crate::table::Table;

/// Arguments of `weir testbed check`.
#[derive(clap::Args)]
pub struct CheckArguments {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml")]
    file: PathBuf,
    /// Look at the hosts that say how they are reached, too.
    #[arg(long)]
    hosts: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Output of the check.
#[derive(Serialize)]
struct CheckOutput<'c> {
    scenario: &'c str,
    runs: Vec<&'c str>,
    /// Remarks of each run.
    notes: Vec<&'c [String]>,
    /// Findings on the hosts; `None` if they were not checked.
    hosts: Option<Vec<HostFinding>>,
}

/// Prepares the runs' scenarios with their real hosts; returns both.
pub(crate) fn prepared(
    file: &Path,
    runs: &[ScenarioRun],
    dilation: Option<u32>,
) -> Result<(Vec<Scenario>, RealHostSet), Failure> {
    let (mut scenarios, ports, folder) = with_real_hosts(file, runs, dilation)?;
    let mut log = |message: &str| eprintln!("weir: {message}");
    let experiment = RealHostSet::prepare(&mut scenarios, ports, folder, &mut log).map_err(failure)?;
    Ok((scenarios, experiment))
}

fn with_real_hosts(
    file: &Path,
    runs: &[ScenarioRun],
    dilation: Option<u32>,
) -> Result<(Vec<Scenario>, RealPorts, TempDir), Failure> {
    if !runs.iter().any(ScenarioRun::has_real_hosts) {
        return Err(Failure::Argument(format!(
            "no host of {} says how it is reached: write backend = \"vm\", \"netns\" or {{ by = \"ssh\", … }} in [[hosts]]",
            file.display()
        )));
    }
    let (ports, folder) = RealHostSet::place().map_err(failure)?;
    let mut scenarios = Vec::new();
    for run in runs {
        let asked = dilation.or(run.time_dilation);
        // By default the dilation that slows the fastest link to 100 Mb/s, which a guest can fill.
        let scenario = run.with_real_hosts(asked.unwrap_or(run.scenario.time_dilation()), &ports)?;
        scenarios.push(match has_machines(&scenario) {
            false => scenario,
            true if asked.is_some_and(|asked| asked > 1) => {
                return Err(Failure::Argument(
                    "a machine that is reached by ssh goes by real time: take time_dilation and --dilation out"
                        .to_owned(),
                ));
            }
            true => run.with_real_hosts(1, &ports)?,
        });
    }
    Ok((scenarios, ports, folder))
}

fn has_machines(scenario: &Scenario) -> bool {
    let real = scenario.real.iter().flat_map(|real| &real.hosts).flatten();
    real.into_iter().any(|host| matches!(host.backend, HostBackend::Ssh { .. }))
}

/// Checks a scenario's file, and its real hosts with `--hosts`.
///
/// # Errors
/// Errors in the file, or a host that lacks something.
pub fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let name = arguments.file.display();
    switches::refuse_other_than_scenario(&arguments.file, "weir check")?;
    let runs = file::load(&arguments.file)?;
    let findings = arguments.hosts.then(|| look(&arguments.file, &runs)).transpose()?;
    let scenario = &runs[0].scenario.name;
    if arguments.json {
        let names = runs.iter().map(|run| run.name.as_str()).collect();
        let notes = runs.iter().map(|run| run.scenario.notes.as_slice()).collect();
        print!("{}", json_text(&CheckOutput { scenario, runs: names, notes, hosts: findings.clone() }));
    } else {
        let count = if runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", runs.len()) };
        println!("{name}: {count} of {scenario}, {}", switches_and_hosts(&runs[0].scenario));
        for run in &runs {
            let of_run = if runs.len() == 1 { String::new() } else { format!("{}: ", run.name) };
            run.scenario.notes.iter().for_each(|note| println!("note: {of_run}{note}"));
        }
        findings.iter().for_each(|findings| print(findings));
    }
    match findings.iter().flatten().filter(|finding| finding.verdict == FindingStatus::Bad).count() {
        0 => Ok(()),
        1 => Err(Failure::Run("a host lacks something".to_owned())),
        several => Err(Failure::Run(format!("hosts lack {several} things"))),
    }
}

fn look(file: &Path, runs: &[ScenarioRun]) -> Result<Vec<HostFinding>, Failure> {
    let (scenarios, ports, _folder) = with_real_hosts(file, &runs[..1], None)?;
    RealHostSet::refuse(&scenarios[0]).map_err(failure)?;
    let real = scenarios[0].real.as_ref().expect("made with real hosts");
    Ok(check::check_hosts(&scenarios[0], real, &ports.folder))
}

fn print(findings: &[HostFinding]) {
    let mut table = Table::new(["host", "", "what", "found"]).with_text_last();
    for finding in findings {
        let mark = match finding.verdict {
            FindingStatus::Good => "ok",
            FindingStatus::Bad => "LACKS",
            FindingStatus::Unknown => "?",
        };
        table.row([finding.host.as_str(), mark, &finding.what, &finding.found]);
    }
    print!("{table}");
    for finding in findings.iter().filter(|finding| finding.verdict != FindingStatus::Good) {
        if let Some(command) = &finding.command {
            println!("{}, {}: {command}", finding.host, finding.what);
        }
    }
    if findings.iter().all(|finding| finding.verdict != FindingStatus::Bad) {
        println!("the hosts have what the scenario needs");
    }
}

pub(super) fn failure(error: HostError) -> Failure {
    match error {
        HostError::Scenario(message) => Failure::Argument(message),
        error => Failure::Argument(error.to_string()),
    }
}
