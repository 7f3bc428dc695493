//! `docs/REPRODUCTION.md` and `docs/REAL_FRAMES.md`, of the results that earlier calls have left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::experiment::Experiment;
use super::explore::{self, ClaimMap};
use super::outcome::{self, MadeOn, duration};
use super::paper::Paper;
use super::units::shown;
use super::verdict::{Judgement, Number, Outcome, Verdict};
use crate::Failure;
use crate::experiment::Backend;
use crate::files::{at, whole};

/// An experiment, and what its last call has left.
type Entry<'a> = (&'a Experiment, Option<(Outcome, MadeOn)>);

/// Writes the document of all experiments that the backend may run, with its results, which stand below `results`.
pub(super) fn write(file: &Path, experiments: &[Experiment], results: &Path, backend: Backend) -> Result<(), Failure> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for experiment in experiments.iter().filter(|experiment| experiment.paper.backends.contains(&backend)) {
        entries.push((experiment, outcome::read(&results.join(&experiment.id))?));
    }
    if entries.iter().all(|(_, result)| result.is_none()) {
        let results = results.display();
        return Err(Failure::Argument(format!(
            "{results}: there are no results of experiments; run weir reproduce all first, or name their directory: -o DIR"
        )));
    }
    let mut maps = BTreeMap::new();
    for (experiment, _) in entries.iter().filter(|_| backend == Backend::Sim) {
        maps.extend(explore::read(&results.join(&experiment.id))?.map(|map| (map.id.clone(), map)));
    }
    let text = document(&entries, &maps, backend);
    whole(file, |part| fs::write(part, text)).map_err(at(file))?;
    println!(
        "{} of {} experiments: {}",
        entries.iter().filter(|it| it.1.is_some()).count(),
        entries.len(),
        file.display()
    );
    Ok(())
}

fn document(entries: &[Entry<'_>], maps: &BTreeMap<String, ClaimMap>, backend: Backend) -> String {
    let (head, time) = match backend {
        Backend::Sim => (HEAD, "CPU time"),
        Backend::Dpdk => (HEAD_REAL, "time"),
    };
    let mut text = String::from(head);
    papers(&mut text, entries);
    summary(&mut text, entries);
    let _ = writeln!(
        text,
        "\n| id | what | verdict | key numbers: paper / Weir | runs, {time} | made |\n|---|---|---|---|---|---|"
    );
    for (experiment, result) in entries {
        row(&mut text, experiment, result.as_ref());
    }
    machines(&mut text, entries);
    for (experiment, result) in entries {
        section(&mut text, experiment, result.as_ref(), maps.get(&experiment.id));
    }
    text
}

const HEAD: &str = "# The papers' figures, out of Weir

Made by `weir reproduce --document docs/REPRODUCTION.md` of what `weir reproduce all` left; not written by hand. [EXPERIMENTS.md](EXPERIMENTS.md) says how
experiments are run and written, and how a verdict comes about. Each is a folder of data, [`scenarios/papers/PAPER/ID`](../scenarios/papers): a scenario, its sweep, the paper's
numbers with their sources. Nothing is tuned to a figure: a parameter that is not the paper's is listed with its reason below.

**Holds**: each claim, and each number that the paper states, within its tolerance. **Holds in part**: what the paper concludes, but not all else, or these
runs do not decide it. **Does not hold**: a conclusion does not come out, or none does for sure, or a number that the paper states is off by more than a factor of 2, or a run failed.
**Arithmetic**: what the paper concludes follows from formulas, or there was nothing on either side, so that no run could contradict it; it counts for nothing else. Intervals are of 95 %: Student's t over seeds, Wilson's of shares, the jackknife's of ratios.

";

const HEAD_REAL: &str = "# The papers' figures with real frames

Made by `weir reproduce --document docs/REAL_FRAMES.md --backend dpdk` of what `weir reproduce all --backend dpdk` left; not written by hand. The same experiments as in
[REPRODUCTION.md](REPRODUCTION.md), which has what is not as in the paper, run by the same switch on DPDK lcores, with hosts that send RoCEv2 frames, by a clock as slow as the machine needs it:
[EXPERIMENTS.md](EXPERIMENTS.md#real-frames). What a machine takes of the time shows in them, so that they differ from one time to the next.

";

/// The papers, with how many figures there are of each.
fn papers(text: &mut String, entries: &[Entry<'_>]) {
    let all: BTreeSet<&Paper> = entries.iter().filter_map(|(experiment, _)| experiment.of.as_ref()).collect();
    if all.is_empty() {
        return;
    }
    text.push_str("| paper | title | cited as | figures |\n|---|---|---|---|\n");
    for paper in all {
        let figures = entries.iter().filter(|(experiment, _)| experiment.of.as_ref() == Some(paper)).count();
        let [title, citation] = [paper.title(), &paper.citation()].map(escaped);
        let _ = writeln!(text, "| {} | {title} | {citation} | {figures} |", paper.id);
    }
    text.push('\n');
}

fn summary(text: &mut String, entries: &[Entry<'_>]) {
    let of = |verdict: Verdict| {
        entries
            .iter()
            .filter(|(_, result)| result.as_ref().is_some_and(|(outcome, _)| outcome.verdict == verdict))
            .count()
    };
    let (holds, in_part, not) = (of(Verdict::Holds), of(Verdict::HoldsInPart), of(Verdict::DoesNotHold));
    let arithmetic = match of(Verdict::Arithmetic) {
        0 => String::new(),
        1 => " 1 is arithmetic,".to_owned(),
        some => format!(" {some} are arithmetic,"),
    };
    let _ = writeln!(
        text,
        "Of {} experiments {holds} hold,{arithmetic} {in_part} hold in part, {not} do not hold.",
        entries.len()
    );
}

fn row(text: &mut String, experiment: &Experiment, result: Option<&(Outcome, MadeOn)>) {
    let paper = &experiment.paper;
    let id = format!("[{0}](#{1})", experiment.id, anchor(experiment));
    let what = format!("{}, {}", paper.title, paper.figure);
    let Some((outcome, made_on)) = result else {
        let _ = writeln!(text, "| {id} | {} | not run | | | |", escaped(&what));
        return;
    };
    let key: Vec<String> = outcome
        .numbers
        .iter()
        .filter(|number| number.paper.is_some() && !number.is_left_out())
        .map(paper_and_weir)
        .collect();
    let less = if outcome.left_out.is_some() && !outcome.is_real() { ", quick" } else { "" };
    let date = made_on.provenance.started.split('T').next().unwrap_or("");
    let _ = writeln!(
        text,
        "| {id} | {} | **{}** | {} | {}{less}, {} | {date}, `{}` |",
        escaped(&what),
        outcome.verdict,
        escaped(&key.join("; ")),
        outcome.points,
        duration(taken(outcome, made_on)),
        made_on.commit,
    );
}

fn paper_and_weir(number: &Number) -> String {
    let [_, weir, ..] = number.shown();
    format!("{} {} / {weir}", number.name, number.paper.map_or_else(String::new, shown))
}

fn machines(text: &mut String, entries: &[Entry<'_>]) {
    let results = || entries.iter().filter_map(|(_, result)| result.as_ref());
    let machine = |made_on: &MadeOn| {
        let machine = &made_on.provenance.machine;
        format!("{} ({} cores)", machine.cpu, machine.cores)
    };
    let machines: BTreeSet<String> = results().map(|(_, made_on)| machine(made_on)).collect();
    let all: f64 = results().map(|(outcome, made_on)| taken(outcome, made_on)).sum();
    let of_cpu = if results().all(|(outcome, _)| outcome.is_real()) { "" } else { " of CPU time" };
    let machines: Vec<String> = machines.into_iter().collect();
    let _ = writeln!(text, "\nAll together took {}{of_cpu} on {}.", duration(all), machines.join(", "));
}

/// In seconds: of CPU time in virtual time, and of a clock with real frames.
fn taken(outcome: &Outcome, made_on: &MadeOn) -> f64 {
    (if outcome.is_real() { made_on.wall_ms } else { made_on.cpu_ms }) as f64 / 1e3
}

fn section(text: &mut String, experiment: &Experiment, result: Option<&(Outcome, MadeOn)>, map: Option<&ClaimMap>) {
    let paper = &experiment.paper;
    let _ = writeln!(text, "\n## {}: {}\n", experiment.id, paper.title);
    let _ = writeln!(text, "{}. {}\n", experiment.place_in_paper(), paper.setting);
    let _ = writeln!(text, "The paper: {}", paper.found);
    if let Some((outcome, _)) = result {
        let _ = writeln!(text, "\nWeir: **{}**. {}", outcome.verdict, outcome.says);
        if let Some(map) = map {
            let anchor = map.id.replace('.', "");
            let _ =
                writeln!(text, "\nOver what the paper leaves open: it {} ([map](CLAIMS.md#{anchor})).", map.verdict);
        }
        if !outcome.reasons.is_empty() {
            text.push('\n');
        }
        for reason in &outcome.reasons {
            let _ = writeln!(text, "- {reason}");
        }
        if let Some(lessened) = outcome.lessened() {
            let _ = writeln!(text, "\n{lessened}");
        }
        numbers(text, outcome);
        claims(text, outcome);
    }
    if result.is_some_and(|(outcome, _)| outcome.is_real()) {
        return;
    }
    if !paper.departures.is_empty() {
        text.push_str("\nNot as in the paper:\n");
        for it in &paper.departures {
            let _ = writeln!(text, "- {}: {}", it.what, it.why);
        }
    }
    if !paper.disagreements.is_empty() {
        text.push_str("\nWhere the paper is at odds with itself or with public code:\n");
        for it in &paper.disagreements {
            let _ = writeln!(text, "- {}: {}. Chosen: {}", it.place, it.says, it.choice);
        }
    }
}

fn numbers(text: &mut String, outcome: &Outcome) {
    text.push_str("\n| | paper | Weir | 95 % interval | ratio | |\n|---|---|---|---|---|---|\n");
    for number in outcome.numbers.iter().filter(|number| !number.is_left_out()) {
        let [paper, weir, interval, ratio] = number.shown();
        let source = number.source.iter().chain(&number.why).map(String::as_str).collect::<Vec<_>>().join("; ");
        let source = if source.is_empty() { source } else { format!(" ({source})") };
        let judgement = number.judgement.map_or_else(String::new, |judgement| judgement.to_string());
        let _ = writeln!(
            text,
            "| {} | {paper}{} | {} | {interval} | {ratio} | {judgement} |",
            escaped(&number.name),
            escaped(&source),
            escaped(&weir),
        );
    }
}

fn claims(text: &mut String, outcome: &Outcome) {
    text.push('\n');
    for claim in outcome.claims.iter().filter(|claim| claim.judgement != Judgement::LeftOut) {
        let conclusion = if claim.conclusion { "conclusion, " } else { "" };
        let source = if claim.source.is_empty() { String::new() } else { format!(" [{}]", claim.source) };
        let _ = writeln!(text, "- {conclusion}{}: {}{source} ({})", claim.judgement, claim.says, claim.because);
    }
}

/// As GitHub makes it of a heading.
fn anchor(experiment: &Experiment) -> String {
    let heading = format!("{}: {}", experiment.id, experiment.paper.title).to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// For a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
