//! Verdict on runs, in sentences.

use weir_results::run_dir::Summary;
use weir_units::Span;

use super::input::{Input, Run};
use crate::table::count;

/// Beginning of a report.
pub(super) struct ReportVerdict {
    pub is_good: bool,
    pub headline: String,
    /// Failures, followed by deadlocks and standstills; each in the order of the runs.
    pub findings: Vec<RunFinding>,
}

pub(super) struct RunFinding {
    pub run: String,
    pub text: String,
    pub is_failure: bool,
}

impl Input {
    /// Verdict on the report.
    pub(super) fn verdict(&self) -> ReportVerdict {
        verdict(&self.runs, !self.left_out.is_empty())
    }
}

/// Verdict on a report's runs; `leaves_out` says whether it leaves some out.
fn verdict(runs: &[Run], leaves_out: bool) -> ReportVerdict {
    let mut findings: Vec<RunFinding> = Vec::new();
    for run in runs {
        let of_run = |text: String, is_failure: bool| RunFinding { run: run.label.clone(), text, is_failure };
        findings.extend(failures(&run.summary).into_iter().map(|text| of_run(text, true)));
        findings.extend(expected_loss(&run.summary).map(|text| of_run(text, false)));
        findings.extend(deadlock(&run.summary).map(|text| of_run(text, false)));
        let texts = run.summary.standstill_text().into_iter().chain(run.summary.outage_text());
        findings.extend(texts.map(|text| of_run(text, false)));
    }
    findings.sort_by_key(|finding| !finding.is_failure);
    let summaries: Vec<&Summary> = runs.iter().map(|run| &run.summary).collect();
    ReportVerdict {
        is_good: summaries.iter().all(|summary| is_good(summary)),
        headline: verdict_text(&summaries) + if leaves_out { " Some runs are left out." } else { "" },
        findings,
    }
}

fn verdict_text(runs: &[&Summary]) -> String {
    let is_deadlocked = |run: &&&Summary| has_deadlock(run);
    let cut_off = |run: &&Summary| run.outages.as_ref().is_some_and(|of| of.lossless_frames_lost > 0);
    match (runs.iter().filter(|run| !is_good(run)).count(), runs.len()) {
        (0, _) if runs.iter().any(cut_off) => "No failure, but outages took lossless frames.".to_owned(),
        (0, all) => match runs.iter().filter(is_deadlocked).count() {
            0 => "No failure.".to_owned(),
            1 if all == 1 => "No failure, but a deadlock for good.".to_owned(),
            deadlocked => format!("No failure, but {deadlocked} of {all} runs deadlocked."),
        },
        (1, 1) => "The run failed.".to_owned(),
        (failed, all) => format!("{failed} of {all} runs failed."),
    }
}

/// Whether a run ended in a deadlock.
pub(super) fn has_deadlock(summary: &Summary) -> bool {
    summary.deadlock.as_ref().is_some_and(|deadlock| deadlock.dissolved_ns.is_none())
}

/// Whether a run kept its guarantees.
pub(super) fn is_good(summary: &Summary) -> bool {
    failures(summary).is_empty()
}

fn failures(summary: &Summary) -> Vec<String> {
    // In virtual time unexpected losses are failures of the run.
    if !summary.failures.is_empty() || summary.lossless || summary.backend == "sim" {
        return summary.failures.clone();
    }
    let dropped = summary.lossless_drops_with_hosts();
    let gaps: u64 = summary.flows.iter().map(|flow| flow.lost).sum();
    vec![match dropped.max(gaps) {
        0 => "not all that was sent has arrived".to_owned(),
        1 => "one lossless frame was lost".to_owned(),
        frames => format!("{} lossless frames were lost", count(frames)),
    }]
}

/// Formats the losses of a run whose scenario allows them.
fn expected_loss(summary: &Summary) -> Option<String> {
    let is_expected = summary.backend == "sim" && !summary.lossless && summary.failures.is_empty();
    let dropped = summary.lossless_drops_with_hosts();
    is_expected.then(|| format!("{} lossless frames were lost, as the scenario allows", count(dropped)))
}

fn deadlock(summary: &Summary) -> Option<String> {
    let deadlock = summary.deadlock.as_ref()?;
    let since = Span::from_nanos(deadlock.since_ns);
    Some(match deadlock.dissolved_ns {
        // In virtual time an unexpected deadlock is a failure of the run.
        None if summary.backend == "sim" && is_good(summary) => {
            format!("deadlock from {since} on, for good, as the scenario expects: {}", deadlock.cycle)
        }
        None => format!("deadlock from {since} on, for good: {}", deadlock.cycle),
        Some(at) => {
            let at = Span::from_nanos(at);
            format!(
                "no deadlock: queues waited for each other from {since} to {at}, which dissolved by itself: {}",
                deadlock.cycle
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::{DeadlockSummary, OutageSummary};

    use super::*;

    #[test]
    fn failures_are_listed() {
        let summary = Summary { lossless: true, ..Summary::default() };
        assert!(is_good(&summary));
        let summary = Summary { lossless: false, ..summary };
        assert_eq!(failures(&summary), ["not all that was sent has arrived"]);
        let summary = Summary { failures: vec!["not drained".into()], ..summary };
        assert_eq!(failures(&summary), ["not drained"]);
    }

    #[test]
    fn verdicts_on_some_runs_say_so() {
        assert_eq!(verdict(&[], false).headline, "No failure.");
        assert_eq!(verdict(&[], true).headline, "No failure. Some runs are left out.");
    }

    #[test]
    fn outages_are_part_of_the_verdict() {
        let outages = OutageSummary { lossless_frames_lost: 2_495, other_frames_lost: 3, ..OutageSummary::default() };
        let good = Summary { lossless: true, outages: Some(OutageSummary::default()), ..Summary::default() };
        let cut_off = Summary { outages: Some(outages), ..good.clone() };
        let failed = Summary { failures: vec!["not drained".into()], ..cut_off.clone() };
        assert_eq!((verdict_text(&[&good]), good.outage_text()), ("No failure.".to_owned(), None));
        assert_eq!(verdict_text(&[&good, &cut_off]), "No failure, but outages took lossless frames.");
        assert_eq!(verdict_text(&[&failed, &cut_off]), "1 of 2 runs failed.");
        let text = "outages took 2495 lossless and 3 other frames; \
                    without `routing_delay` only switches at a link's ends reroute";
        assert_eq!(cut_off.outage_text().unwrap(), text);
    }

    #[test]
    fn expected_losses_are_no_failure() {
        let summary = Summary { lossless: false, backend: "sim".into(), ..Summary::default() };
        assert!(is_good(&summary));
        assert_eq!(expected_loss(&summary).unwrap(), "0 lossless frames were lost, as the scenario allows");
        let summary = Summary { failures: vec!["3 lossless frames were lost".into()], ..summary };
        assert_eq!((is_good(&summary), expected_loss(&summary)), (false, None));
    }

    #[test]
    fn deadlocks_are_listed_with_their_cycle() {
        let cycle = || DeadlockSummary { cycle: "a -> b -> a, class 3".into(), since_ns: 5_000, dissolved_ns: None };
        let summary = Summary { lossless: true, backend: "sim".into(), deadlock: Some(cycle()), ..Summary::default() };
        assert_eq!(
            deadlock(&summary).unwrap(),
            "deadlock from 5us on, for good, as the scenario expects: a -> b -> a, class 3"
        );
        assert_eq!(verdict_text(&[&summary]), "No failure, but a deadlock for good.");
        let other = Summary { lossless: true, ..Summary::default() };
        assert_eq!(verdict_text(&[&summary, &other]), "No failure, but 1 of 2 runs deadlocked.");
        let summary = Summary { backend: "dpdk".into(), ..summary };
        assert_eq!(deadlock(&summary).unwrap(), "deadlock from 5us on, for good: a -> b -> a, class 3");
        let dissolved = DeadlockSummary { dissolved_ns: Some(7_000), ..cycle() };
        let summary = Summary { deadlock: Some(dissolved), ..summary };
        assert_eq!(
            deadlock(&summary).unwrap(),
            "no deadlock: queues waited for each other from 5us to 7us, which dissolved by itself: a -> b -> a, class 3"
        );
    }
}
