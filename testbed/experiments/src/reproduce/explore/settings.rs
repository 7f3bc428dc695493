//! Execution and judgement of settings in batches, each a resumable sweep of its own.

use std::path::{Path, PathBuf};

use weir_results::run_dir::read_summary;
use weir_units::Span;

use crate::Failure;
use crate::reproduce::experiment::Experiment;
use crate::reproduce::late_runs::fail_claims_of_failed_runs;
use crate::reproduce::rows::ResultRows;
use crate::reproduce::unspecified::UnspecifiedParameter;
use crate::reproduce::verdict::{self, JudgedNumber, Judgement, Tally};
use crate::reproduce::{check, measure};
use crate::sweep::{
    self, Axis, ColumnSelection, OutputMode, Parameter, PointRecord, PointRunner, SweepFile, SweepPlan,
};

use super::design::Setting;

pub(super) struct Runner<'a> {
    /// Experiment, with the measures and claims of the map.
    pub experiment: &'a Experiment,
    pub open: &'a [UnspecifiedParameter],
    /// Number of seeds that replace the map's own.
    pub seeds: Option<u32>,
    /// Folder of the map, with a folder for each batch.
    pub directory: &'a Path,
    pub version: &'a str,
    pub points: &'a PointRunner,
    pub mode: OutputMode,
}

#[derive(Clone, Debug)]
pub(super) struct JudgedSetting {
    pub setting: Setting,
    /// Judgements of the claims, followed by those of the stated numbers.
    pub judgements: Vec<Judgement>,
    /// Judgement of the paper's main claims together; undecided if the seeds do not suffice.
    pub together: Judgement,
    /// Judgement of all claims and numbers together.
    pub all: Judgement,
    pub runs: usize,
    pub cpu_ms: u64,
}

impl Runner<'_> {
    /// Sweep that runs in each setting.
    pub(super) fn sweep(&self) -> Result<SweepFile, Failure> {
        Ok(self.experiment.map_sweep()?.with_seeds(self.seeds))
    }

    /// Plans these settings, all checked; `name` is displayed on the terminal.
    pub(super) fn plan(&self, settings: &[Setting], name: &str) -> Result<SweepPlan, Failure> {
        let mut file = SweepFile {
            name: name.to_owned(),
            columns: ColumnSelection::only(self.experiment.columns()),
            ..self.sweep()?
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
        let plan = SweepPlan::new(&file, self.points.jobs)?;
        if settings.len() == 1 {
            // With several settings, means would be over more than seeds.
            check::of_plan(self.experiment, &plan, false)?;
        }
        Ok(plan)
    }

    /// Runs and judges settings; `None` if interrupted.
    pub(super) fn run(
        &self,
        settings: &[Setting],
        batch: usize,
        name: &str,
    ) -> Result<Option<Vec<JudgedSetting>>, Failure> {
        if settings.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let plan = self.plan(settings, name)?;
        let directory = self.batch(batch);
        std::fs::create_dir_all(&directory)
            .map_err(|error| Failure::Argument(format!("{}: {error}", directory.display())))?;
        let records = sweep::run_plan(&plan, &directory, self.version.to_owned(), self.points, self.mode)?;
        if records.len() < plan.points.len() {
            return Ok(None);
        }
        if batch == 0 {
            self.check_length(&records)?;
        }
        let each = plan.points.len() / settings.len();
        let judged =
            settings.iter().zip(records.chunks(each)).map(|(setting, records)| self.judge(setting, records, &plan));
        judged.collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Refuses runs in which messages take as long as the run, on average: their claims say nothing about the paper's.
    fn check_length(&self, records: &[PointRecord]) -> Result<(), Failure> {
        for record in records.iter().filter(|record| record.is_good()) {
            let summary = read_summary(&record.folder).map_err(|error| Failure::Run(error.to_string()))?;
            for traffic in &summary.traffic {
                let mean =
                    traffic.bins.first().and_then(|all| all.fct_ns.mean).filter(|mean| *mean >= summary.duration_ns);
                let Some(mean) = mean else { continue };
                let [mean, end] = [mean, summary.duration_ns].map(Span::from_nanos);
                return Err(Failure::Argument(format!(
                    "{}: the map's runs end after {end}, and messages of {} take {mean} on average: write a longer `end` for the map's sweep",
                    self.experiment.id, traffic.name
                )));
            }
        }
        Ok(())
    }

    fn batch(&self, batch: usize) -> PathBuf {
        self.directory.join(format!("batch-{batch:03}"))
    }

    fn judge(&self, setting: &Setting, records: &[PointRecord], plan: &SweepPlan) -> Result<JudgedSetting, Failure> {
        let paper = &self.experiment.paper;
        let rows = ResultRows::new(plan.columns.clone(), records.to_vec());
        let readings = measure::read(&paper.measures, &rows)?;
        let (numbers, mut claims) = verdict::judge(paper, &readings);
        fail_claims_of_failed_runs(paper, records, &mut claims);
        let stated: Vec<&JudgedNumber> = numbers.iter().filter(|number| number.judgement.is_some()).collect();
        let main = claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement);
        let together = all_of(main);
        let judgements: Vec<Judgement> = claims
            .iter()
            .map(|claim| claim.judgement)
            .chain(stated.iter().filter_map(|number| number.judgement))
            .collect();
        Ok(JudgedSetting {
            setting: setting.clone(),
            together,
            all: all_of(std::iter::once(together).chain(judgements.iter().copied())),
            judgements,
            runs: records.len(),
            cpu_ms: records.iter().filter_map(|record| record.cpu_ms).sum(),
        })
    }
}

/// Judgement of several claims together. A failing claim fails all, else one that is undecided or not exercised
/// leaves all undecided.
/// Arithmetic and omitted claims prevent nothing, but omitted ones alone fail.
fn all_of(judgements: impl Iterator<Item = Judgement>) -> Judgement {
    let tally = Tally::from_judgements(judgements);
    match tally {
        Tally { fails: 1.., .. } => Judgement::Fails,
        Tally { open: 1.., .. } | Tally { not_exercised: 1.., .. } | Tally { unjudged: 1.., .. } => {
            Judgement::Undecided
        }
        Tally { holds: 1.., .. } | Tally { arithmetic: 1.., .. } => Judgement::Holds,
        _ => Judgement::Fails,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_hold_together_fail_or_are_open() {
        use Judgement::{Arithmetic, Fails, Holds, LeftOut, Undecided};
        for (claims, together) in [
            (&[Holds, Holds][..], Holds),
            (&[Holds, Arithmetic, LeftOut], Holds),
            (&[Arithmetic], Holds),
            (&[Holds, Undecided], Undecided),
            (&[Undecided, Arithmetic], Undecided),
            (&[Undecided, Fails, Holds], Fails),
            (&[LeftOut], Fails),
        ] {
            assert_eq!(all_of(claims.iter().copied()), together, "{claims:?}");
        }
    }
}
