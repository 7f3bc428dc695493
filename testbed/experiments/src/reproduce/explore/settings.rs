//! Settings run in batches, each a sweep of its own that goes on where it was stopped, and judged.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::reproduce::experiment::Experiment;
use crate::reproduce::open::Open;
use crate::reproduce::rows::{Rows, Selection};
use crate::reproduce::verdict::{self, Judgement, Number};
use crate::reproduce::{check, measure};
use crate::sweep::{self, Axis, Columns, Parameter, Record, Say, SweepFile, SweepPlan};

use super::design::Setting;

/// What makes settings run.
pub(super) struct Runner<'a> {
    /// With the measures and claims of the map.
    pub experiment: &'a Experiment,
    pub open: &'a [Open],
    /// The map's folder; each batch has one in it.
    pub directory: &'a Path,
    /// Of the program.
    pub version: &'a str,
    pub jobs: usize,
    pub say: Say,
}

/// A setting that was run, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub setting: Setting,
    /// What became of the claims, and then of the stated numbers.
    pub judgements: Vec<Judgement>,
    /// Whether what the paper concludes comes out, and in its magnitude.
    pub comes_out: bool,
    /// Whether all of it does.
    pub all_holds: bool,
    pub runs: usize,
    pub cpu_ms: u64,
}

impl Runner<'_> {
    /// A plan of these settings, all checked. `name` tells it on the terminal.
    pub(super) fn plan(&self, settings: &[Setting], name: &str) -> Result<SweepPlan, Failure> {
        let mut file = SweepFile {
            name: name.to_owned(),
            columns: Columns::only(self.experiment.columns()),
            ..self.experiment.map_sweep()?
        };
        let mut parameters: Vec<Parameter> = Vec::new();
        for (n, open) in self.open.iter().enumerate() {
            for (m, (path, _)) in open.settings(0).into_iter().enumerate() {
                if file.axes.iter().flat_map(|axis| &axis.parameters).any(|parameter| parameter.path == path) {
                    let message = format!("the map's sweep varies `{path}` too, which \"{}\" sets", open.name);
                    let help = "leave it out of map.toml, or write a map.toml without it";
                    return Err(self.experiment.source.error_at(&format!("open[{n}]"), message, help).into());
                }
                let values = settings.iter().map(|setting| open.settings(setting[n])[m].1.clone()).collect();
                parameters.push(Parameter { path, key: String::new(), is_list: false, values });
            }
        }
        if !parameters.is_empty() {
            file.axes.insert(0, Axis { parameters });
        }
        let plan = SweepPlan::of(&file, self.jobs)?;
        if settings.len() == 1 {
            // Of several a mean would be over more than seeds.
            check::of_plan(self.experiment, &plan, false)?;
        }
        Ok(plan)
    }

    /// Runs these settings, and judges each. `None` if it was interrupted.
    pub(super) fn run(&self, settings: &[Setting], batch: usize, name: &str) -> Result<Option<Vec<Judged>>, Failure> {
        if settings.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let plan = self.plan(settings, name)?;
        let directory = self.batch(batch);
        std::fs::create_dir_all(&directory)
            .map_err(|error| Failure::Argument(format!("{}: {error}", directory.display())))?;
        let records = sweep::run_plan(&plan, &directory, self.version.to_owned(), self.jobs, self.say)?;
        if records.len() < plan.points.len() {
            return Ok(None);
        }
        let each = plan.points.len() / settings.len();
        let judged =
            settings.iter().zip(records.chunks(each)).map(|(setting, records)| self.judge(setting, records, &plan));
        judged.collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn batch(&self, batch: usize) -> PathBuf {
        self.directory.join(format!("batch-{batch:03}"))
    }

    fn judge(&self, setting: &Setting, records: &[Record], plan: &SweepPlan) -> Result<Judged, Failure> {
        let paper = &self.experiment.paper;
        let bad: Vec<&Record> = records.iter().filter(|record| !record.is_good()).collect();
        let is_spoiled = |of: &[Selection<'_>]| {
            bad.iter().any(|record| of.iter().any(|selection| selection.has(&record.finished.point)))
        };
        let rows = Rows::new(plan.columns.clone(), records.to_vec());
        let readings = measure::read(&paper.measures, &rows)?;
        let (numbers, mut claims) = verdict::judge(paper, &readings);
        for (judged, claim) in claims.iter_mut().zip(&paper.claims) {
            if is_spoiled(&measure::points_of(&paper.measures, claim)) && judged.judgement != Judgement::LeftOut {
                judged.judgement = Judgement::Fails;
            }
        }
        let stated: Vec<&Number> = numbers.iter().filter(|number| number.judgement.is_some()).collect();
        let holds =
            |judgement: Judgement| !matches!(judgement, Judgement::Fails | Judgement::Undecided | Judgement::NotJudged);
        let main: Vec<Judgement> =
            claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement).collect();
        let comes_out = main.iter().all(|judgement| holds(*judgement))
            && main.iter().any(|judgement| matches!(judgement, Judgement::Holds | Judgement::Arithmetic))
            && !stated.iter().any(|number| number.judgement == Some(Judgement::Fails) && number.is_far_off());
        let judgements: Vec<Judgement> = claims
            .iter()
            .map(|claim| claim.judgement)
            .chain(stated.iter().filter_map(|number| number.judgement))
            .collect();
        Ok(Judged {
            setting: setting.clone(),
            comes_out,
            all_holds: comes_out && judgements.iter().all(|judgement| holds(*judgement)),
            judgements,
            runs: records.len(),
            cpu_ms: records.iter().filter_map(|record| record.cpu_ms).sum(),
        })
    }
}
