//! Report as JSON: the verdict, and the runs' own files.

use std::path::Path;

use serde::Serialize;
use weir_results::run_dir::{Provenance, Speed, Summary};

use super::input::{Input, Run};

#[derive(Serialize)]
pub(super) struct Report<'i> {
    is_good: bool,
    headline: String,
    findings: Vec<FindingJson>,
    runs: Vec<RunJson<'i>>,
    /// Directories without results, with the reason.
    left_out: &'i [String],
}

#[derive(Serialize)]
struct FindingJson {
    run: String,
    text: String,
    is_failure: bool,
}

#[derive(Serialize)]
struct RunJson<'i> {
    label: &'i str,
    directory: &'i Path,
    summary: &'i Summary,
    provenance: &'i Provenance,
    speed: Option<&'i Speed>,
}

pub(super) fn report(input: &Input) -> Report<'_> {
    fn run_json(run: &Run) -> RunJson<'_> {
        RunJson {
            label: &run.label,
            directory: &run.directory,
            summary: &run.summary,
            provenance: &run.provenance,
            speed: run.speed.as_ref(),
        }
    }
    let verdict = input.verdict();
    let findings = verdict.findings.into_iter();
    Report {
        is_good: verdict.is_good,
        headline: verdict.headline,
        findings: findings.map(|of| FindingJson { run: of.run, text: of.text, is_failure: of.is_failure }).collect(),
        runs: input.runs.iter().map(run_json).collect(),
        left_out: &input.left_out,
    }
}
