//! Page of an experiment for colleagues: `report.html`, with the verdict, the figure, and some of the runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::experiment::Experiment;
use super::rows::ResultRows;
use super::verdict::{Conclusions, ExperimentOutcome};
use crate::Failure;
use crate::report::{self, Lead};
use crate::table::units::shown;

/// Maximum number of runs on a readable page.
const RUNS_MAX: usize = 6;

/// Writes the page and returns its path.
pub(super) fn write(
    experiment: &Experiment,
    outcome: &ExperimentOutcome,
    rows: &ResultRows,
    figure: Option<&PathBuf>,
    directory: &Path,
) -> Result<PathBuf, Failure> {
    let figures = figure.map(fs::read_to_string).transpose()?.into_iter().collect();
    let lead = Lead {
        title: format!("{}: {}", experiment.id, experiment.paper.title),
        sentences: sentences(experiment, outcome),
        findings: outcome.reasons.clone(),
        numbers: outcome.number_table(),
        figures,
        folds_runs: false,
    };
    let file = directory.join("report.html");
    report::write(&file, &report::page(&runs(experiment, rows), Some(&lead))?)?;
    Ok(file)
}

/// Runs of the figure's lines over time, and the first run of each name.
fn runs(experiment: &Experiment, rows: &ResultRows) -> Vec<PathBuf> {
    let lines = experiment.paper.panels.iter().flat_map(|panel| &panel.lines);
    let drawn = lines.filter(|line| line.series.is_some()).filter_map(|line| rows.select(line.selection()).next());
    let mut chosen: Vec<PathBuf> = Vec::new();
    for row in drawn.chain(rows.first_of_each_run()) {
        if !chosen.contains(&row.folder) && chosen.len() < RUNS_MAX {
            chosen.push(row.folder.clone());
        }
    }
    chosen
}

fn sentences(experiment: &Experiment, outcome: &ExperimentOutcome) -> Vec<String> {
    let paper = &experiment.paper;
    let mut sentences = vec![outcome.summary.clone(), outcome.numbers_summary.clone()];
    sentences.extend(paper.cause_sentence().filter(|_| outcome.conclusions != Conclusions::Reproduced));
    sentences.extend([
        format!("{}. {}", experiment.place_in_paper(), paper.setting),
        format!("The authors found: {}", paper.found),
        format!("Weir: {} runs of {}.", outcome.points, outcome.seeds_shown()),
    ]);
    if let Some(lateness) = &outcome.lateness {
        sentences.push(format!(
            "The machine took at most {} % of a run; by a run that lost more than {} % nothing is judged.",
            shown(lateness.most_percent),
            shown(lateness.allowed_percent)
        ));
    }
    if !outcome.set.is_empty() {
        sentences.push(format!("With {}: this is another experiment.", outcome.set.join(", ")));
    }
    sentences.extend(outcome.lessened());
    sentences
}
