//! Output of `weir reproduce`: printed text, and the files next to the figure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_results::run_dir::Provenance;

use super::experiment::Experiment;
use super::paper::Paper;
use super::paper_file::PaperFile;
use super::verdict::{Conclusions, ExperimentOutcome, JudgedClaim, JudgedNumber, Judgement, NumbersVerdict};
use crate::Failure;
use crate::experiment::{Backend, cores};
use crate::files::{read_json, with_path, write_json};
use crate::table::Table;
use crate::table::typed::{Cell, TypedTable};
use crate::table::units::shown;

/// Environment of the results: `environment.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Environment {
    /// Commit of the program's source; with `+changes` if modified.
    pub commit: String,
    /// Wall time of this call in ms, without runs that an earlier call finished.
    pub wall_ms: u64,
    /// CPU time of all runs in virtual time, in ms.
    pub cpu_ms: u64,
    pub provenance: Provenance,
}

const VERDICT: &str = "verdict.json";
const NUMBERS: &str = "numbers.csv";
const ENVIRONMENT: &str = "environment.json";

/// Writes an experiment's results, without the figure.
pub(super) fn write(directory: &Path, outcome: &ExperimentOutcome, environment: &Environment) -> Result<(), Failure> {
    let path = directory.join(NUMBERS);
    numbers(&outcome.numbers).write_csv(&path).map_err(with_path(&path))?;
    write_environment(directory, environment)?;
    write_json(&directory.join(VERDICT), outcome)
}

/// Writes the environment of a folder's results.
pub(super) fn write_environment(directory: &Path, environment: &Environment) -> Result<(), Failure> {
    write_json(&directory.join(ENVIRONMENT), environment)
}

impl Environment {
    /// Duration of the runs in seconds: CPU time in virtual time, wall time with real frames.
    pub(super) fn seconds(&self, is_real: bool) -> f64 {
        (if is_real { self.wall_ms } else { self.cpu_ms }) as f64 / 1e3
    }

    /// Date and commit: ``2026-11-27, `b01b7d407c` ``.
    pub(super) fn date_and_commit(&self) -> String {
        format!("{}, `{}`", self.provenance.started.split('T').next().unwrap_or(""), self.commit)
    }
}

/// Reads outcome and environment of an earlier call; `None` if there are none.
pub(super) fn read(directory: &Path) -> Result<Option<(ExperimentOutcome, Environment)>, Failure> {
    let path = directory.join(VERDICT);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some((read_json(&path)?, read_json(&directory.join(ENVIRONMENT))?)))
}

fn numbers(all: &[JudgedNumber]) -> TypedTable {
    let column = |name: &str, of: &dyn Fn(&JudgedNumber) -> Cell| (name.to_owned(), all.iter().map(of).collect());
    let float = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Float);
    let mut columns = TypedTable {
        columns: vec![
            column("name", &|number| Cell::Text(number.name.clone())),
            column("unit", &|number| Cell::Text(number.unit.clone())),
            column("paper", &|number| float(number.paper)),
            column("weir", &|number| float(number.weir)),
            column("low", &|number| float(number.interval.map(|interval| interval.0))),
            column("high", &|number| float(number.interval.map(|interval| interval.1))),
            column("runs", &|number| Cell::from_u64(number.runs as u64)),
            column("within", &|number| float(number.within)),
            column("judgement", &|number| number.judgement.map_or(Cell::Empty, |it| Cell::Text(it.to_string()))),
            column("source", &|number| number.source.clone().map_or(Cell::Empty, Cell::Text)),
        ],
    };
    if all.iter().any(|number| number.least_and_most.is_some()) {
        columns.columns.push(column("least", &|number| float(number.least_and_most.map(|spread| spread.0))));
        columns.columns.push(column("most", &|number| float(number.least_and_most.map(|spread| spread.1))));
    }
    columns
}

/// Prints the experiments with the stored results of their runs in virtual time.
pub(super) fn list(all: &[(Experiment, Option<ExperimentOutcome>)], with_causes: bool) {
    let head = ["id", "conclusions", "numbers", "hosts", "runs", "draws", "quick", "full", "farm", "with", "setting"];
    let mut table = Table::new(head).with_text_last();
    for (experiment, outcome) in all {
        let backends: Vec<&str> = experiment.paper.backends.iter().map(|backend| backend.name()).collect();
        let of_outcome = |cell: &dyn Fn(&ExperimentOutcome) -> String| outcome.as_ref().map_or_else(String::new, cell);
        table.row([
            experiment.id.clone(),
            of_outcome(&|outcome| outcome.conclusions.to_string()),
            of_outcome(&|outcome| NumbersVerdict::from_numbers(&outcome.numbers).to_string()),
            of_outcome(&|outcome| outcome.hosts.to_string()),
            of_outcome(&|outcome| outcome.points.to_string()),
            of_outcome(&|outcome| outcome.seeds.to_string()),
            duration(experiment.cpu_seconds(true)),
            duration(experiment.cpu_seconds(false)),
            if experiment.has_farm() { duration(experiment.farm_cpu_seconds()) } else { String::new() },
            backends.join(", "),
            experiment.paper.title.clone(),
        ]);
    }
    print!("{table}");
    if with_causes {
        for (experiment, cause) in all.iter().filter_map(|(of, _)| Some((of, of.paper.cause_sentence()?))) {
            println!("\n{}: {cause}", experiment.id);
        }
    }
    let conclusions: Vec<Conclusions> =
        all.iter().filter_map(|(_, outcome)| Some(outcome.as_ref()?.conclusions)).collect();
    Conclusions::summary(&conclusions).iter().for_each(|summary| println!("\n{summary}"));
    let papers: BTreeSet<&Paper> = all.iter().filter_map(|(experiment, _)| experiment.of.as_ref()).collect();
    for paper in papers {
        println!("{}: {}{}", paper.id, paper.citation(), paper.configuration_sentence());
    }
    println!(
        "\nNumbers are judged apart from conclusions; weir reproduce --list ID has the cause of conclusions that do not come out.\n\
         Times are of one core. weir reproduce ID --quick, or without --quick, or with --farm DIR; ID's folder has the results in result.json."
    );
}

/// Experiment in the output of `--list --json`.
#[derive(Serialize)]
pub(super) struct ListEntry<'e> {
    id: &'e str,
    title: &'e str,
    paper: String,
    setting: &'e str,
    /// Verdicts of the stored runs in virtual time, and their size.
    conclusions: Option<Conclusions>,
    numbers: Option<NumbersVerdict>,
    /// Cause of main claims that do not come out.
    cause: Option<&'e str>,
    hosts: Option<usize>,
    runs: Option<usize>,
    draws: Option<usize>,
    backends: Vec<&'static str>,
    quick_cpu_s: f64,
    full_cpu_s: f64,
    farm_cpu_s: Option<f64>,
}

pub(super) fn listed(all: &[(Experiment, Option<ExperimentOutcome>)]) -> Vec<ListEntry<'_>> {
    fn one((experiment, outcome): &(Experiment, Option<ExperimentOutcome>)) -> ListEntry<'_> {
        let outcome = outcome.as_ref();
        ListEntry {
            id: &experiment.id,
            title: &experiment.paper.title,
            paper: experiment.place_in_paper(),
            setting: &experiment.paper.setting,
            conclusions: outcome.map(|outcome| outcome.conclusions),
            numbers: outcome.map(|outcome| NumbersVerdict::from_numbers(&outcome.numbers)),
            cause: experiment.paper.cause.as_deref(),
            hosts: outcome.map(|outcome| outcome.hosts),
            runs: outcome.map(|outcome| outcome.points),
            draws: outcome.map(|outcome| outcome.seeds),
            backends: experiment.paper.backends.iter().map(|backend| backend.name()).collect(),
            quick_cpu_s: experiment.cpu_seconds(true),
            full_cpu_s: experiment.cpu_seconds(false),
            farm_cpu_s: experiment.has_farm().then(|| experiment.farm_cpu_seconds()),
        }
    }
    all.iter().map(one).collect()
}

/// Prints the number of experiments and the expected duration.
pub(super) fn introduce(chosen: &[Experiment], takes: impl Fn(&Experiment) -> f64, jobs: usize) {
    let cores = jobs.min(cores()).max(1);
    let cpu: f64 = chosen.iter().map(takes).sum();
    let with = if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") };
    println!("{}, about {} on {with}.", number(chosen), duration(cpu / cores as f64));
}

/// Prints the number of experiments with real frames or hosts and the expected duration.
pub(super) fn introduce_real(chosen: &[Experiment], backend: Backend, takes: Duration) {
    let takes = duration(takes.as_secs_f64());
    let what = if backend == Backend::Hosts { "hosts" } else { "frames" };
    println!("{} with real {what}, one run after the other, about {takes} in all.", number(chosen));
}

fn number(chosen: &[Experiment]) -> String {
    if chosen.len() == 1 { "One experiment".to_owned() } else { format!("{} experiments", chosen.len()) }
}

/// Prints an experiment's title, place in the paper, setting and finding.
pub(super) fn head(experiment: &Experiment) {
    let paper = &experiment.paper;
    println!("\n{}  {}", experiment.id, paper.title);
    println!("  {}", experiment.place_in_paper());
    println!("  setting: {}", paper.setting);
    println!("  found:   {}", paper.found);
}

/// Lines of claims that are printed without `--all`.
const CLAIM_LINES: usize = 12;

/// Prints the paper's and Weir's numbers, the claims, and last the verdicts, with their cause. Without `all_claims`, the main claims come first, and claims
/// beyond [`CLAIM_LINES`] are counted only.
pub(super) fn print<'a>(
    outcome: &ExperimentOutcome,
    paper: &PaperFile,
    all_claims: bool,
    pictures: impl Iterator<Item = &'a PathBuf>,
    directory: &Path,
) {
    let seeds = if outcome.seeds > 1 { format!(", {}", outcome.seeds_shown()) } else { String::new() };
    println!("  runs:    {}{seeds}", outcome.points);
    if let Some(left_out) = &outcome.left_out {
        println!("  {}without {left_out}", if outcome.is_real() { "real:    " } else { "quick:   provisional, " });
    }
    if let Some(lateness) = &outcome.lateness {
        println!(
            "  late:    the machine took at most {} % of a run; more than {} % is not judged by",
            shown(lateness.most_percent),
            shown(lateness.allowed_percent)
        );
    }
    if !outcome.set.is_empty() {
        println!("  CHANGED: with {}: this is another experiment", outcome.set.join(", "));
    }
    println!();
    let mut rows = outcome.number_table().into_iter();
    let mut table = Table::new(rows.next().into_iter().flatten().chain([String::new()])).with_text_last();
    for (number, cells) in outcome.numbers.iter().zip(rows) {
        let judgement = match number.judgement {
            None | Some(Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut) => String::new(),
            Some(judgement) => judgement.to_string(),
        };
        table.row(cells.into_iter().chain([judgement]));
    }
    println!("{table}");
    let (main, further): (Vec<&JudgedClaim>, Vec<&JudgedClaim>) =
        outcome.claims.iter().partition(|claim| claim.conclusion);
    let lines: Vec<String> = main.into_iter().chain(further).map(claim_line).collect();
    let shown = match all_claims || lines.len() <= CLAIM_LINES {
        true => lines.len(),
        false => CLAIM_LINES - 1,
    };
    lines[..shown].iter().for_each(|line| println!("{line}"));
    if shown < lines.len() {
        println!("    {} further claims: --all, or verdict.json", lines.len() - shown);
    }
    println!("  (* main claims, which decide the conclusions)\n");
    println!("{}: {}", outcome.id, outcome.summary);
    println!("{}: {}", " ".repeat(outcome.id.len()), outcome.numbers_summary);
    if let Some(cause) = paper.cause_sentence().filter(|_| outcome.conclusions != Conclusions::Reproduced) {
        println!("{}: {cause}", " ".repeat(outcome.id.len()));
    }
    if all_claims {
        outcome.reasons.iter().for_each(|reason| println!("  - {reason}"));
    } else {
        outcome.failures.iter().for_each(|failure| println!("  - {failure}"));
    }
    for picture in pictures {
        println!("look at: {}", picture.display());
    }
    println!("results: {} (verdict.json, numbers.csv, sweep/results.csv)", directory.display());
}

/// A claim in one line, with the comparison if it does not hold.
fn claim_line(claim: &JudgedClaim) -> String {
    let mark = if claim.conclusion { "*" } else { " " };
    let because = match claim.judgement {
        Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut => String::new(),
        _ => format!(" ({})", claim.because),
    };
    format!("  {mark} {:<13}  {}{because}", claim.judgement.to_string(), claim.statement)
}

pub(super) fn print_all(outcomes: &[ExperimentOutcome]) {
    let mut table = Table::new(["id", "conclusions", "numbers"]);
    for outcome in outcomes {
        let numbers = NumbersVerdict::from_numbers(&outcome.numbers);
        let provisional = if outcome.is_quick() { ", provisional" } else { "" };
        table.row([outcome.id.clone(), format!("{}{provisional}", outcome.conclusions), numbers.to_string()]);
    }
    let conclusions: Vec<Conclusions> = outcomes.iter().map(|outcome| outcome.conclusions).collect();
    println!("\n{table}\nConclusions: {}.", Conclusions::counts(&conclusions));
}

/// Duration for a table: `8 s`, `3 min`, `1.5 h`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        few if few < 1.0 => "1 s".to_owned(),
        some if some < 100.0 => format!("{some:.0} s"),
        many if many < 6_000.0 => format!("{:.0} min", many / 60.0),
        hours => format!("{:.1} h", hours / 3_600.0),
    }
}
