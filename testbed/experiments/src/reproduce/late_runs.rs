//! Judgements that depend on failed runs, which fail, and on late runs, which are withdrawn.

use super::lateness::{LateRun, Lateness, named};
use super::measure;
use super::paper_file::PaperFile;
use super::rows::Selection;
use super::verdict::{JudgedClaim, JudgedNumber, Judgement};
use crate::sweep::{Point, PointRecord};

/// Fails the claims that depend on a failed run.
pub(super) fn fail_claims_of_failed_runs(paper: &PaperFile, records: &[PointRecord], claims: &mut [JudgedClaim]) {
    let failed: Vec<&PointRecord> = records.iter().filter(|record| !record.is_good()).collect();
    for (judged, claim) in claims.iter_mut().zip(&paper.claims) {
        let points = measure::points_of(&paper.measures, claim);
        let of_claim = failed.iter().find(|record| points.iter().any(|of| of.has(&record.finished.point)));
        if let Some(PointRecord { finished, .. }) = of_claim
            && judged.judgement != Judgement::LeftOut
        {
            judged.judgement = Judgement::Fails;
            judged.because =
                format!("the run {} failed: {}; {}", finished.point.folder, finished.reason, judged.because);
        }
    }
}

impl Lateness {
    /// Marks claims and numbers that depend on late runs as not judged.
    pub(super) fn unjudge(
        &self,
        paper: &PaperFile,
        records: &[PointRecord],
        numbers: &mut [JudgedNumber],
        claims: &mut [JudgedClaim],
    ) {
        let is_late = |record: &&PointRecord| record.is_late(Some(self.allowed_percent));
        let late: Vec<&Point> = records.iter().filter(is_late).map(|record| &record.finished.point).collect();
        let of = |selections: &[Selection<'_>]| -> Vec<&LateRun> {
            let read = late.iter().filter(|point| selections.iter().any(|selection| selection.has(point)));
            read.filter_map(|point| self.late.iter().find(|late| late.run == point.folder)).collect()
        };
        for (number, measure) in numbers.iter_mut().zip(&paper.measures) {
            number.is_late = !number.is_left_out() && !of(&measure::points_of_one(&paper.measures, measure)).is_empty();
            if number.is_late {
                number.judgement = number.judgement.map(|_| Judgement::NotJudged);
            }
        }
        for (judged, claim) in claims.iter_mut().zip(&paper.claims) {
            let late = of(&measure::points_of(&paper.measures, claim));
            if !late.is_empty() && judged.judgement != Judgement::LeftOut {
                judged.judgement = Judgement::NotJudged;
                judged.because = format!("{}; {}", named(&late), judged.because);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use weir_results::run_dir::{FlowSummary, Summary};

    use super::super::measure;
    use super::super::rows::ResultRows;
    use super::super::verdict::{self, Conclusions};
    use super::*;
    use crate::sweep::{FinishedPoint, PointOutcome};

    const PAPER: &str = r#"
        title = "Rates"
        figure = "Fig. 0"
        setting = "Three rates."
        found = "A faster port carries more."
        takes = { full = "1s" }
        measures = [
            { name = "slow", unit = "Mb/s", value = "flows.F.throughput_bps", runs = "slow" },
            { name = "fast", unit = "Mb/s", value = "flows.F.throughput_bps", runs = "fast", paper = 10, within = 1, source = "by hand" },
            { name = "other", unit = "Mb/s", value = "flows.F.throughput_bps", runs = "other" },
            { name = "none", unit = "Mb/s", value = "flows.F.throughput_bps", runs = "none" },
        ]
        [[claims]]
        says = "A faster port carries more"
        conclusion = true
        measure = "fast"
        above = { measure = "slow" }
        [[claims]]
        says = "The other one carries little"
        measure = "other"
        at_most = 3
        [[claims]]
        says = "There is a fourth"
        measure = "none"
        at_most = 3
    "#;

    /// Run of 100 ms with real frames, as its directory describes it.
    struct Made {
        run: &'static str,
        late_ns: u64,
        gap_ns: u64,
        mbps: u64,
        outcome: PointOutcome,
    }

    fn record(n: usize, made: &Made, below: &Path) -> PointRecord {
        let summary = Summary {
            backend: "dpdk".to_owned(),
            duration_ns: 100_000_000,
            late_ns: made.late_ns,
            poll_gap_max_ns: Some(made.gap_ns),
            flows: vec![FlowSummary {
                name: "F".to_owned(),
                throughput_bps: made.mbps * 1_000_000,
                ..Default::default()
            }],
            ..Summary::default()
        };
        let folder = format!("{n}-{}", made.run);
        let directory = below.join(&folder);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("summary.json"), serde_json::to_string(&summary).unwrap()).unwrap();
        let point = serde_json::json!({
            "number": n, "run": n - 1, "run_name": made.run, "seed": null, "parameters": [], "hash": "", "folder": folder
        });
        let point = serde_json::from_value(point).unwrap();
        let finished =
            FinishedPoint { point, outcome: made.outcome, reason: "frames were lost".to_owned(), wall_ms: 1 };
        PointRecord::read(finished, &directory, &["flows.F.throughput_bps".to_owned()]).unwrap()
    }

    /// Judges runs with the allowed lateness, as `run` does.
    fn judged(
        made: &[Made],
        allowed: Option<f64>,
    ) -> (Conclusions, Vec<Judgement>, Vec<JudgedNumber>, Option<Lateness>) {
        let paper: PaperFile = toml::from_str(PAPER).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let records: Vec<PointRecord> =
            made.iter().enumerate().map(|(n, made)| record(n + 1, made, directory.path())).collect();
        let rows = ResultRows::new(vec!["flows.F.throughput_bps".to_owned()], records.clone());
        let (mut numbers, mut claims) = verdict::judge(&paper, &measure::read(&paper.measures, &rows).unwrap());
        let lateness = Lateness::from_records(&records, allowed);
        fail_claims_of_failed_runs(&paper, &records, &mut claims);
        if let Some(lateness) = &lateness {
            lateness.unjudge(&paper, &records, &mut numbers, &mut claims);
        }
        let verdict = Conclusions::from_claims(&claims);
        (verdict, claims.iter().map(|claim| claim.judgement).collect(), numbers, lateness)
    }

    fn made(run: &'static str, mbps: u64) -> Made {
        Made { run, late_ns: 100_000, gap_ns: 50_000, mbps, outcome: PointOutcome::Good }
    }

    #[test]
    fn nothing_is_judged_by_a_run_that_lost_too_much() {
        use Judgement::{Fails, Holds, LeftOut, NotJudged};
        let all = || [made("slow", 4), made("fast", 10), made("other", 2)];
        let (verdict, claims, numbers, lateness) = judged(&all(), Some(5.0));
        assert_eq!((verdict, claims), (Conclusions::Reproduced, vec![Holds, Holds, LeftOut]));
        assert!(numbers.iter().all(|number| !number.is_late));
        let lateness = lateness.unwrap();
        assert_eq!((lateness.most_percent, lateness.runs, lateness.late.len()), (0.1, 3, 0));

        // The conclusion depends on two runs. One late run suffices, whether the claim would hold or fail.
        for mbps in [4, 400] {
            let late = Made { late_ns: 7_000_000, ..made("slow", mbps) };
            let (verdict, claims, numbers, lateness) = judged(&[late, made("fast", 10), made("other", 2)], Some(5.0));
            assert_eq!((verdict, claims), (Conclusions::NotJudged, vec![NotJudged, Holds, LeftOut]));
            assert_eq!(numbers.iter().map(|number| number.is_late).collect::<Vec<_>>(), [true, false, false, false]);
            // The paper's number depends on the other run.
            assert_eq!(numbers[1].judgement, Some(Holds));
            assert!(numbers[0].shown()[1].ends_with("Mb/s (not judged)"), "{:?}", numbers[0].shown());
            let late = LateRun { run: "1-slow".to_owned(), lost_percent: 7.0 };
            assert_eq!(lateness.unwrap().late, [late]);
        }
        // A stated number that is off by a factor of ten.
        let late = Made { late_ns: 7_000_000, ..made("fast", 100) };
        let (verdict, _, numbers, _) = judged(&[made("slow", 4), late, made("other", 2)], Some(5.0));
        assert_eq!((verdict, numbers[1].judgement), (Conclusions::NotJudged, Some(NotJudged)));
        // A late run that no conclusion depends on.
        let late = Made { late_ns: 7_000_000, ..made("other", 2) };
        let (verdict, claims, ..) = judged(&[made("slow", 4), made("fast", 10), late], Some(5.0));
        assert_eq!((verdict, claims), (Conclusions::Reproduced, vec![Holds, NotJudged, LeftOut]));
        // A claim that fails in punctual runs fails.
        let late = Made { late_ns: 7_000_000, ..made("other", 2) };
        let (verdict, claims, ..) = judged(&[made("slow", 4), made("fast", 3), late], Some(5.0));
        assert_eq!((verdict, claims), (Conclusions::Not, vec![Fails, NotJudged, LeftOut]));
    }

    #[test]
    fn a_long_gap_is_lost_time_and_the_allowed_share_is_an_option() {
        let with_gap = |allowed| {
            let gap = Made { gap_ns: 8_000_000, ..made("slow", 4) };
            judged(&[gap, made("fast", 10), made("other", 2)], allowed)
        };
        let (verdict, _, _, lateness) = with_gap(Some(5.0));
        assert_eq!((verdict, lateness.unwrap().late[0].lost_percent), (Conclusions::NotJudged, 8.0));
        assert_eq!(with_gap(Some(8.0)).0, Conclusions::Reproduced);
        assert_eq!(with_gap(Some(100.0)).0, Conclusions::Reproduced);
        assert_eq!(with_gap(Some(0.05)).3.unwrap().late.len(), 3, "each lost 0.1 %");
        // As in virtual time.
        let (verdict, _, _, lateness) = with_gap(None);
        assert_eq!((verdict, lateness), (Conclusions::Reproduced, None));
    }

    #[test]
    fn a_late_run_that_failed_may_have_failed_by_that() {
        let of = |run: &'static str, late_ns: u64| {
            let failing = Made { late_ns, outcome: PointOutcome::Failed, ..made(run, 4) };
            judged(&[failing, made("fast", 10), made("other", 2)], Some(5.0)).0
        };
        assert_eq!((of("slow", 0), of("slow", 7_000_000)), (Conclusions::Not, Conclusions::NotJudged));
    }

    #[test]
    fn late_runs_are_named_and_counted() {
        let late = |n: usize| LateRun { run: format!("{n}-a"), lost_percent: 10.0 + n as f64 };
        let of = |many: usize| Lateness {
            allowed_percent: 5.0,
            most_percent: 15.0,
            runs: 8,
            late: (1..=many).map(late).collect(),
        };
        assert!(
            of(1).describe().starts_with("the run 1-a lost 11 % of its time to the machine, and more than 5 % is not")
        );
        assert!(of(5).describe().starts_with(
            "the run 1-a lost 11 % of its time to the machine, 2-a 12 %, 3-a 13 %, and 2 more, and more than 5 %"
        ));
        assert_eq!(of(5).in_short(), "the machine was late in 5 of 8 runs");
    }
}
