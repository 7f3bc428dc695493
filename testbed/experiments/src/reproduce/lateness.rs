//! Time that runs with real frames lost to the machine.
//!
//! Virtual time is never late. With real frames and real hosts, other programs may use the CPUs for a while. Numbers
//! then describe the machine and not the scheme, and neither confirm nor refute a claim.

use serde::{Deserialize, Serialize};

use crate::sweep::PointRecord;
use crate::table::units::shown;

/// Time that an experiment's runs lost to the machine: a part of `verdict.json`. All shares are in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lateness {
    /// Maximum share of time that a run may lose without being late.
    pub allowed_percent: f64,
    /// Largest share of time that a run lost.
    pub most_percent: f64,
    pub runs: usize,
    /// Late runs, in the sweep's order.
    pub late: Vec<LateRun>,
}

/// Run that lost more time to the machine than allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LateRun {
    /// Folder of the run.
    pub run: String,
    pub lost_percent: f64,
}

const NAMED_MAX: usize = 3;

impl Lateness {
    /// Creates the report for runs with real frames; `None` without a limit, as in virtual time.
    pub(super) fn from_records(records: &[PointRecord], allowed_percent: Option<f64>) -> Option<Lateness> {
        let rounded = |percent: f64| (percent * 100.0).round() / 100.0;
        let late = records.iter().filter(|record| record.is_late(allowed_percent)).map(|record| LateRun {
            run: record.finished.point.folder.clone(),
            lost_percent: rounded(record.lost_percent),
        });
        Some(Lateness {
            allowed_percent: allowed_percent?,
            most_percent: rounded(records.iter().map(|record| record.lost_percent).fold(0.0, f64::max)),
            runs: records.len(),
            late: late.collect(),
        })
    }

    /// Short message: `the machine was late in 2 of 8 runs`.
    pub(super) fn in_short(&self) -> String {
        match (self.late.len(), self.runs) {
            (1, 1) => "the machine was late in the only run".to_owned(),
            (late, runs) => format!("the machine was late in {late} of {runs} runs"),
        }
    }

    /// Message on the late runs, with remedies.
    pub(super) fn describe(&self) -> String {
        let late: Vec<&LateRun> = self.late.iter().collect();
        format!(
            "{}, and more than {} % is not judged by (--lateness): leave the machine alone, slow the clock down (time_dilation), or take \
             fewer hosts; the same command runs what was late anew, and keeps the rest",
            named(&late),
            shown(self.allowed_percent)
        )
    }
}

/// Names of late runs with their losses: `the run 1-a lost 12.5 % of its time to the machine, 2-b 8 %`.
pub(super) fn named(late: &[&LateRun]) -> String {
    let percent = |run: &LateRun| format!("{} %", shown(run.lost_percent));
    let (first, others) = late.split_first().expect("one at least");
    let mut descriptions = vec![format!("the run {} lost {} of its time to the machine", first.run, percent(first))];
    descriptions.extend(others.iter().take(NAMED_MAX - 1).map(|run| format!("{} {}", run.run, percent(run))));
    if late.len() > NAMED_MAX {
        descriptions.push(format!("and {} more", late.len() - NAMED_MAX));
    }
    descriptions.join(", ")
}
