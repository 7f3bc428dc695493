//! What the machine took of runs by the clock.
//!
//! Virtual time is never late. With real frames and real hosts the CPUs may be somebody else's for a while, and then numbers are the
//! machine's and not the scheme's: neither that a claim holds nor that it fails may be said of them.

use serde::{Deserialize, Serialize};

use super::units::shown;
use crate::sweep::Record;

/// What the machine took of an experiment's runs: a part of `verdict.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lateness {
    /// A run that lost more of its time is late; in percent, as all here.
    pub allowed_percent: f64,
    /// What a run lost at most.
    pub most_percent: f64,
    /// How many runs there are.
    pub runs: usize,
    /// Runs that are late, in the sweep's order.
    pub late: Vec<LateRun>,
}

/// A run of which the machine took too much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LateRun {
    /// Its folder.
    pub run: String,
    pub lost_percent: f64,
}

/// So many late runs are named.
const NAMED_MAX: usize = 3;

impl Lateness {
    /// For runs by the clock; none if nothing is said to be allowed, as in virtual time.
    pub(super) fn of(records: &[Record], allowed_percent: Option<f64>) -> Option<Lateness> {
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

    /// `the machine was late in 2 of 8 runs`.
    pub(super) fn in_short(&self) -> String {
        match (self.late.len(), self.runs) {
            (1, 1) => "the machine was late in the only run".to_owned(),
            (late, runs) => format!("the machine was late in {late} of {runs} runs"),
        }
    }

    /// Which runs, by how much, and what to do about it.
    pub(super) fn told(&self) -> String {
        let late: Vec<&LateRun> = self.late.iter().collect();
        format!(
            "{}, and more than {} % is not judged by (--lateness): leave the machine alone, slow the clock down (time_dilation), or take \
             fewer hosts; the same command runs what was late anew, and keeps the rest",
            named(&late),
            shown(self.allowed_percent)
        )
    }
}

/// `the run 1-a lost 12.5 % of its time to the machine, 2-b 8 %`.
pub(super) fn named(late: &[&LateRun]) -> String {
    let percent = |run: &LateRun| format!("{} %", shown(run.lost_percent));
    let (first, others) = late.split_first().expect("one at least");
    let mut told = vec![format!("the run {} lost {} of its time to the machine", first.run, percent(first))];
    told.extend(others.iter().take(NAMED_MAX - 1).map(|run| format!("{} {}", run.run, percent(run))));
    if late.len() > NAMED_MAX {
        told.push(format!("and {} more", late.len() - NAMED_MAX));
    }
    told.join(", ")
}
