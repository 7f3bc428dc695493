//! Mutation tests: runs schemes with a fault, and checks that the verdict detects it.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use super::measure;
use super::mutation::Mutation;
use super::paper_file::PaperFile;
use super::rows::{ResultRows, Selection};
use super::verdict::{self, Judgement};
use crate::Failure;
use crate::experiment::Backend;
use crate::files::{with_path, write_json};
use crate::sweep::{self, ColumnSelection, OutputMode, Point, PointRecord, PointRunner, SweepFile, SweepPlan};

/// Result of a mutation: an element of `mutations.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MutationResult {
    pub description: String,
    pub subtle: bool,
    pub set: Vec<String>,
    /// Claim or stated number that must fail.
    pub fails: String,
    /// `None` in a stored result that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SideResult>,
    pub mutated: SideResult,
    /// True if the claim holds in the sound scheme and fails in the mutated one, so that the verdict detects the
    /// mutation.
    pub detected: bool,
}

/// Judgement of the sound or the mutated scheme, over the points that the claim depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SideResult {
    pub judgement: Judgement,
    pub reason: String,
}

pub(super) struct MutationTest<'a> {
    pub experiment: &'a Experiment,
    pub quick: bool,
    pub directory: &'a Path,
    pub version: &'a str,
    pub runner: &'a PointRunner,
    pub mode: OutputMode,
}

const FILE: &str = "mutations.json";

impl MutationTest<'_> {
    /// Runs all mutations of an experiment; `records` are those of its sound runs. Stores and prints the results.
    pub(super) fn run(&self, records: &[PointRecord]) -> Result<Vec<MutationResult>, Failure> {
        let mut all = Vec::new();
        for (n, mutation) in self.experiment.paper.mutations.iter().enumerate() {
            all.push(self.one(n, mutation, records)?);
        }
        write_json(&self.directory.join(FILE), &all)?;
        if !all.is_empty() {
            self.mode.print("\nMutations:");
        }
        all.iter().for_each(|result| self.mode.print(&result.line()));
        Ok(all)
    }

    fn one(&self, n: usize, mutation: &Mutation, records: &[PointRecord]) -> Result<MutationResult, Failure> {
        let paper = &self.experiment.paper;
        let selections = points_of(paper, &mutation.fails);
        let is_kept = |point: &Point| selections.iter().any(|of| of.has(point));
        let file = SweepFile {
            columns: ColumnSelection::only(self.experiment.columns()),
            overrides: mutation.overrides(),
            ..self.experiment.sweep(self.quick, Backend::Sim)?
        };
        let mut plan = SweepPlan::new(&file, self.runner.jobs).map_err(|failure| self.blamed(n, failure))?;
        plan.retain(|point| is_kept(point) && mutation.affects(&point.run_name));
        if plan.points.is_empty() {
            let message = format!("these runs have no point of \"{}\" that the mutation affects", mutation.fails);
            let help = "name another claim, or run it without --quick";
            return Err(self.experiment.source.error_at(&format!("mutations[{n}].fails"), message, help).into());
        }
        let directory = self.directory.join(format!("mutation-{}", n + 1));
        fs::create_dir_all(&directory).map_err(with_path(&directory))?;
        let quiet = OutputMode { json: true };
        let mutated_records = sweep::run_plan(&plan, &directory, self.version.to_owned(), self.runner, quiet)?;
        if mutated_records.len() < plan.points.len() {
            let message = format!("{}: interrupted; repeat the command to go on", self.experiment.id);
            return Err(Failure::Run(message));
        }
        let sound_records: Vec<PointRecord> =
            records.iter().filter(|record| is_kept(&record.finished.point)).cloned().collect();
        // Runs that the mutation does not affect keep their results.
        let mut mutated_records = mutated_records;
        let unaffected = sound_records.iter().filter(|record| !mutation.affects(&record.finished.point.run_name));
        mutated_records.extend(unaffected.cloned());
        mutated_records.sort_by_key(|record| record.finished.point.number);
        let side = |records: Vec<PointRecord>| side(paper, &mutation.fails, &plan.columns, records);
        let (sound, mutated) = (side(sound_records)?, side(mutated_records)?);
        // A claim that nothing happens any more for does not hold either.
        let detected = match mutated.judgement {
            Judgement::Fails => {
                matches!(sound.judgement, Judgement::Holds | Judgement::Arithmetic | Judgement::NotExercised)
            }
            Judgement::NotExercised => sound.judgement == Judgement::Holds,
            _ => false,
        };
        Ok(MutationResult {
            description: mutation.what.clone(),
            subtle: mutation.subtle,
            set: mutation.set(),
            fails: mutation.fails.clone(),
            sound: Some(sound),
            mutated,
            detected,
        })
    }

    /// Attributes an error to the mutation's settings: the scenario alone is valid.
    fn blamed(&self, n: usize, failure: Failure) -> Failure {
        let help = "write settings as --set takes them";
        let message = match failure {
            Failure::Input(errors) => errors.iter().next().map_or_else(String::new, |error| error.message().to_owned()),
            Failure::Argument(message) => message,
            other => return other,
        };
        self.experiment.source.error_at(&format!("mutations[{n}].set"), message, help).into()
    }
}

impl MutationResult {
    fn line(&self) -> String {
        let how = if self.subtle { "subtle, " } else { "" };
        let result = if self.detected { "detected" } else { "NOT DETECTED" };
        let SideResult { judgement, reason } = &self.mutated;
        format!("  {how}{result}: {}\n    \"{}\" {judgement}: {reason}", self.description, self.fails)
    }
}

/// Fails if the verdict does not detect some mutation.
pub(super) fn conclude(all: &[(String, Vec<MutationResult>)]) -> Result<(), Failure> {
    let count: usize = all.iter().map(|(_, of)| of.len()).sum();
    let unseen: Vec<String> = all
        .iter()
        .flat_map(|(id, of)| {
            of.iter().filter(|result| !result.detected).map(move |result| format!("{id}: {}", result.description))
        })
        .collect();
    match unseen.len() {
        0 => Ok(()),
        n => Err(Failure::Run(format!("{n} of {count} mutations are not detected: {}", unseen.join("; ")))),
    }
}

/// Points that a claim, or a stated number, depends on.
fn points_of<'p>(paper: &'p PaperFile, name: &str) -> Vec<Selection<'p>> {
    if let Some(claim) = paper.claims.iter().find(|claim| claim.statement == name) {
        return measure::points_of(&paper.measures, claim);
    }
    let number = paper.measures.iter().find(|measure| measure.name == name).expect("checked when it was read");
    measure::points_of_one(&paper.measures, number)
}

/// Judges a scheme's runs. A failed run fails the claims that depend on it, as in the verdict.
fn side(paper: &PaperFile, fails: &str, columns: &[String], records: Vec<PointRecord>) -> Result<SideResult, Failure> {
    let bad = records.iter().find(|record| !record.is_good());
    if let Some(PointRecord { finished, .. }) = bad {
        let reason = format!("the run {} failed: {}", finished.point.folder, finished.reason);
        return Ok(SideResult { judgement: Judgement::Fails, reason });
    }
    let readings = measure::read(&paper.measures, &ResultRows::new(columns.to_vec(), records))?;
    let (numbers, claims) = verdict::judge(paper, &readings);
    if let Some(claim) = claims.iter().find(|claim| claim.statement == fails) {
        return Ok(SideResult { judgement: claim.judgement, reason: claim.because.clone() });
    }
    let number = numbers.iter().find(|number| number.name == fails).expect("checked when it was read");
    let [paper, weir, ..] = number.shown();
    let reason = format!("the paper has {paper}, measured {weir}");
    Ok(SideResult { judgement: number.judgement.unwrap_or(Judgement::LeftOut), reason })
}
