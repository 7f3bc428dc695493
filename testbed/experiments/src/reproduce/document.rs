//! `docs/REPRODUCTION.md`, its page and picture of each figure, and `docs/REAL_FRAMES.md`, of the results that earlier calls have left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::broken::{self, Told};
use super::experiment::Experiment;
use super::explore::{self, ClaimMap};
use super::kept::{self, Kept};
use super::outcome::{self, MadeOn, duration};
use super::paper::Paper;
use super::units::shown;
use super::verdict::{Judgement, Number, Outcome, Tally, Verdict};
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
    if backend == Backend::Sim {
        let beside = file.parent().unwrap_or(Path::new(""));
        pages(beside, &entries, &maps, results)?;
    }
    let kept = Kept::read(file);
    let text = document(&entries, &maps, &kept, backend);
    whole(file, |part| fs::write(part, text)).map_err(at(file))?;
    let of_earlier = match entries.iter().filter(|entry| kept_row(&kept, entry).is_some()).count() {
        0 => String::new(),
        some => format!(", and {some} as an earlier call wrote them"),
    };
    println!(
        "{} of {} experiments{of_earlier}: {}",
        entries.iter().filter(|it| it.1.is_some()).count(),
        entries.len(),
        file.display()
    );
    Ok(())
}

/// Below the document's folder: a page of each figure, and its picture.
const PAGES: &str = "figures";
const PICTURES: &str = "images/figures";

/// Writes a page of each experiment that was run, with the picture of its last run.
fn pages(
    beside: &Path,
    entries: &[Entry<'_>],
    maps: &BTreeMap<String, ClaimMap>,
    results: &Path,
) -> Result<(), Failure> {
    for folder in [PAGES, PICTURES].map(|name| beside.join(name)) {
        fs::create_dir_all(&folder).map_err(at(&folder))?;
    }
    for (experiment, result) in entries.iter().filter_map(|(experiment, result)| Some((experiment, result.as_ref()?))) {
        let id = &experiment.id;
        let from = results.join(id);
        let picture = picture(id);
        let drawn = from.join("figure.svg");
        if drawn.is_file() {
            fs::copy(&drawn, beside.join(&picture)).map_err(at(&drawn))?;
        }
        let mut text = format!("# {}: {}\n\n[All figures](../REPRODUCTION.md)\n\n", id, experiment.paper.title);
        details(&mut text, experiment, Some(result), maps.get(id), &broken::read(&from)?);
        if drawn.is_file() {
            let _ = writeln!(text, "\n![{}](../{picture})", alternative(experiment));
        }
        made(&mut text, result);
        let path = beside.join(page(id));
        whole(&path, |part| fs::write(part, text)).map_err(at(&path))?;
    }
    // What a map says anew, in pages whose results are not at hand.
    for (experiment, _) in entries.iter().filter(|(_, result)| result.is_none()) {
        let path = beside.join(page(&experiment.id));
        let Some((map, text)) = maps.get(&experiment.id).zip(fs::read_to_string(&path).ok()) else { continue };
        let told = kept::with_between(&text, (OVER_OPEN, ")).\n"), &(over_open(map) + "\n"));
        whole(&path, |part| fs::write(part, told)).map_err(at(&path))?;
    }
    Ok(())
}

const OVER_OPEN: &str = "Over what the paper leaves open: it ";

/// What a map says, for a figure's page.
fn over_open(map: &ClaimMap) -> String {
    format!("{OVER_OPEN}{} ([map](../CLAIMS.md#{})).", map.verdict, map.anchor())
}

/// A figure's page, as seen from the document.
fn page(id: &str) -> String {
    format!("{PAGES}/{id}.md")
}

/// A figure's picture, as seen from the document.
fn picture(id: &str) -> String {
    format!("{PICTURES}/{id}.svg")
}

/// For who does not see the picture.
fn alternative(experiment: &Experiment) -> String {
    format!("{} of {}, out of Weir", experiment.paper.figure, experiment.id).replace(['[', ']'], "")
}

/// With what the results were made.
fn made(text: &mut String, (outcome, made_on): &(Outcome, MadeOn)) {
    let date = made_on.provenance.started.split('T').next().unwrap_or("");
    let seeds = if outcome.seeds > 1 { format!(" of {}", outcome.seeds_shown()) } else { String::new() };
    let _ = writeln!(
        text,
        "\nMade by `weir reproduce {}`: {} runs{seeds}, {} of CPU time, {date}, commit `{}`.",
        outcome.id,
        outcome.points,
        duration(taken(outcome, made_on)),
        made_on.commit
    );
}

/// The row of a figure that stays as it is, as its results are not at hand.
fn kept_row<'k>(kept: &'k Kept, (experiment, result): &Entry<'_>) -> Option<&'k str> {
    kept.row(&experiment.id).filter(|_| result.is_none())
}

/// The section of a figure whose row stays.
fn kept_section<'k>(kept: &'k Kept, entry: &Entry<'_>) -> Option<&'k str> {
    kept.section(&entry.0.id).filter(|_| kept_row(kept, entry).is_some())
}

fn document(entries: &[Entry<'_>], maps: &BTreeMap<String, ClaimMap>, kept: &Kept, backend: Backend) -> String {
    let (head, time) = match backend {
        Backend::Sim => (HEAD, "CPU time"),
        Backend::Dpdk => (HEAD_REAL, "time"),
        Backend::Hosts => (HEAD_HOSTS, "time"),
    };
    let mut text = String::from(head);
    summary(&mut text, entries, kept);
    if backend == Backend::Sim {
        text.push_str("\n| figure | verdict | main claims | stated numbers | over what is open | runs, CPU time | made |\n|---|---|---|---|---|---|---|\n");
        for entry @ (experiment, result) in entries {
            let map = maps.get(&experiment.id);
            match kept_row(kept, entry) {
                Some(row) => {
                    let told = map.map(|map| kept::with_cell(row, MAP_CELL, &map_cell(map)));
                    let _ = writeln!(text, "{}", told.as_deref().unwrap_or(row));
                }
                None => short_row(&mut text, experiment, result.as_ref(), map),
            }
        }
        papers(&mut text, entries);
        machines(&mut text, entries, kept, TIME_CELL);
        for entry @ (experiment, result) in entries {
            let map = maps.get(&experiment.id);
            match kept_section(kept, entry) {
                Some(section) => {
                    let link = map.map(|map| (map, map_link(map)));
                    let told = link.map(|(map, link)| {
                        kept::with_between(section, (OVER_OPEN_SHORT, &link), &over_open_short(map))
                    });
                    let _ = writeln!(text, "{}", told.as_deref().unwrap_or(section));
                }
                None => short_section(&mut text, experiment, result.as_ref(), map),
            }
        }
        return text;
    }
    let _ = writeln!(
        text,
        "\n| id | what | verdict | key numbers: paper / Weir | runs, {time} | made |\n|---|---|---|---|---|---|"
    );
    for entry in entries {
        match kept_row(kept, entry) {
            Some(row) => {
                let _ = writeln!(text, "{row}");
            }
            None => row(&mut text, entry.0, entry.1.as_ref()),
        }
    }
    machines(&mut text, entries, kept, TIME_CELL_REAL);
    for entry @ (experiment, result) in entries {
        if let Some(section) = kept_section(kept, entry) {
            let _ = writeln!(text, "{section}");
            continue;
        }
        let _ = writeln!(text, "\n## {}: {}\n", experiment.id, experiment.paper.title);
        details(&mut text, experiment, result.as_ref(), None, &[]);
    }
    text
}

const HEAD: &str = "# The papers' figures, out of Weir

Made by `weir reproduce --document docs/REPRODUCTION.md` of what `weir reproduce all` left; not written by hand; what has no results there stays as an earlier call wrote it. Each figure has a page with all its numbers and claims, what is not as in the
paper, and where the paper is at odds with itself. [EXPERIMENTS.md](EXPERIMENTS.md) says how experiments are run and written, and [CLAIMS.md](CLAIMS.md) in which of the settings that a paper
leaves open its claims hold. Nothing is tuned to a figure.

**Holds**: each claim, and each number that the paper states, within its tolerance. **Holds in part**: what the paper concludes, but another claim or number
does not, or a run failed that no conclusion is read off, or these runs leave something open. **Does not hold**: a conclusion does not come out, or none does for sure, or a number that the paper states is off by more
than a factor of 2, or a run failed that a conclusion is read off.
**Arithmetic**: what the paper concludes follows from formulas, so that no run could contradict it.

";

const HEAD_REAL: &str = "# The papers' figures with real frames

Made by `weir reproduce --document docs/REAL_FRAMES.md --backend dpdk` of what `weir reproduce all --backend dpdk` left; not written by hand. The same experiments as in
[REPRODUCTION.md](REPRODUCTION.md), which has what is not as in the paper, run by the same switch on DPDK lcores, with hosts that send RoCEv2 frames, by a clock as slow as the machine needs it:
[EXPERIMENTS.md](EXPERIMENTS.md#real-frames). What a machine takes of the time shows in them, so that they differ from one time to the next. **Not judged**: the machine took too much of a run that a conclusion is read off.

";

const HEAD_HOSTS: &str = "# Experiments with real hosts

Made by `weir reproduce --document FILE --backend hosts` of what `weir reproduce ID --backend hosts` left; not written by hand. Hosts are guests with Soft-RoCE, namespaces or machines, and flows
are perftest's and iperf3's: [LAB-HOSTS.md](LAB-HOSTS.md). **Not judged**: the machine took too much of a run that a conclusion is read off.

";

/// The papers.
fn papers(text: &mut String, entries: &[Entry<'_>]) {
    let all: BTreeSet<&Paper> = entries.iter().filter_map(|(experiment, _)| experiment.of.as_ref()).collect();
    if all.is_empty() {
        return;
    }
    text.push('\n');
    for paper in all {
        let _ = writeln!(text, "- {}: {}. {}.", paper.id, paper.title(), paper.citation());
    }
}

fn summary(text: &mut String, entries: &[Entry<'_>], kept: &Kept) {
    let verdict_of = |(experiment, result): &Entry<'_>| {
        result.as_ref().map_or_else(|| kept.verdict(&experiment.id), |(outcome, _)| Some(outcome.verdict))
    };
    let of = |verdict: Verdict| entries.iter().filter(|entry| verdict_of(entry) == Some(verdict)).count();
    let (holds, in_part, not) = (of(Verdict::Holds), of(Verdict::HoldsInPart), of(Verdict::DoesNotHold));
    let not_judged = match of(Verdict::NotJudged) {
        0 => String::new(),
        1 => ", 1 is not judged".to_owned(),
        some => format!(", {some} are not judged"),
    };
    let arithmetic = match of(Verdict::Arithmetic) {
        0 => String::new(),
        1 => " 1 is arithmetic,".to_owned(),
        some => format!(" {some} are arithmetic,"),
    };
    let _ = writeln!(
        text,
        "Of {} experiments {holds} hold,{arithmetic} {in_part} hold in part, {not} do not hold{not_judged}.",
        entries.len()
    );
}

/// A figure in the table.
fn short_row(text: &mut String, experiment: &Experiment, result: Option<&(Outcome, MadeOn)>, map: Option<&ClaimMap>) {
    let what = escaped(&format!("{}, {}", experiment.paper.title, experiment.paper.figure));
    let id = format!("[{0}](#{1}) {what}", experiment.id, anchor(experiment));
    let Some((outcome, made_on)) = result else {
        let _ = writeln!(text, "| {id} | not run | | | | | |");
        return;
    };
    let held = |judgements: &mut dyn Iterator<Item = Judgement>| Tally::of(judgements).held();
    let mut main = outcome.claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement);
    let mut stated = outcome.numbers.iter().filter_map(|number| number.judgement);
    let map = map.map_or_else(String::new, map_cell);
    let less = if outcome.left_out.is_some() { ", quick" } else { "" };
    let _ = writeln!(
        text,
        "| {id} | **{}** | {} | {} | {map} | {}{less}, {} | {}, `{}` |",
        outcome.verdict,
        held(&mut main),
        held(&mut stated),
        outcome.points,
        duration(taken(outcome, made_on)),
        made_on.provenance.started.split('T').next().unwrap_or(""),
        made_on.commit,
    );
}

/// Where rows have what a map says, and how long runs took.
const MAP_CELL: usize = 4;
const TIME_CELL: usize = 5;
const TIME_CELL_REAL: usize = 4;

/// What a map says, for a row.
fn map_cell(map: &ClaimMap) -> String {
    let share = if map.lines[0].is_open() { "not decided in most".to_owned() } else { map.lines[0].share_shown() };
    format!("{share} of {} settings", map.settings)
}

const OVER_OPEN_SHORT: &str = " Over what the paper leaves open it [";

/// What a map says, for a section.
fn over_open_short(map: &ClaimMap) -> String {
    format!("{OVER_OPEN_SHORT}{}{}", map.verdict, map_link(map))
}

fn map_link(map: &ClaimMap) -> String {
    format!("](CLAIMS.md#{}).", map.anchor())
}

/// What a figure is about, what came of it, and over what is open; and its picture.
fn short_section(
    text: &mut String,
    experiment: &Experiment,
    result: Option<&(Outcome, MadeOn)>,
    map: Option<&ClaimMap>,
) {
    let _ = writeln!(text, "\n## {}: {}\n", experiment.id, experiment.paper.title);
    let _ = write!(text, "The paper: {}", experiment.paper.found);
    let Some((outcome, _)) = result else {
        text.push_str(" Not run.\n");
        return;
    };
    let _ = write!(text, " **{}**", outcome.says);
    match (map, outcome.reasons.first()) {
        (Some(map), _) => text.push_str(&over_open_short(map)),
        (None, Some(reason)) => {
            let _ = write!(text, " {reason}.");
        }
        (None, None) => {}
    }
    let (picture, page) = (picture(&experiment.id), page(&experiment.id));
    let _ = writeln!(text, " [All numbers and claims]({page}).\n\n![{}]({picture})", alternative(experiment));
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

fn machines(text: &mut String, entries: &[Entry<'_>], kept: &Kept, time: usize) {
    let results = || entries.iter().filter_map(|(_, result)| result.as_ref());
    let machine = |made_on: &MadeOn| {
        let machine = &made_on.provenance.machine;
        format!("{} ({} cores)", machine.cpu, machine.cores)
    };
    let mut machines: BTreeSet<String> = results().map(|(_, made_on)| machine(made_on)).collect();
    let earlier = entries.iter().filter(|entry| kept_row(kept, entry).is_some());
    if earlier.clone().next().is_some() {
        machines.extend(kept.machines().map(str::to_owned));
    }
    let all: f64 = results().map(|(outcome, made_on)| taken(outcome, made_on)).sum();
    let all = all + earlier.map(|(experiment, _)| kept.seconds(&experiment.id, time)).sum::<f64>();
    let of_cpu = if results().all(|(outcome, _)| outcome.is_real()) { "" } else { " of CPU time" };
    let machines: Vec<String> = machines.into_iter().collect();
    let _ = writeln!(text, "\nAll together took {}{of_cpu} on {}.", duration(all), machines.join(", "));
}

/// In seconds: of CPU time in virtual time, and of a clock with real frames.
fn taken(outcome: &Outcome, made_on: &MadeOn) -> f64 {
    (if outcome.is_real() { made_on.wall_ms } else { made_on.cpu_ms }) as f64 / 1e3
}

/// All that is to say of a figure, below its heading. A map's link is as seen from the pages.
fn details(
    text: &mut String,
    experiment: &Experiment,
    result: Option<&(Outcome, MadeOn)>,
    map: Option<&ClaimMap>,
    broken: &[Told],
) {
    let paper = &experiment.paper;
    let _ = writeln!(text, "{}. {}\n", experiment.place_in_paper(), paper.setting);
    let _ = writeln!(text, "The paper: {}", paper.found);
    if let Some((outcome, _)) = result {
        let _ = writeln!(text, "\nWeir: **{}**. {}", outcome.verdict, outcome.says);
        if let Some(map) = map {
            let _ = writeln!(text, "\n{}", over_open(map));
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
        schemes(text, broken);
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
    let (head, rule) = if outcome.has_spread() { (" least to most |", "---|") } else { ("", "") };
    let _ = writeln!(text, "\n| | paper | Weir | 95 % interval |{head} ratio | |\n|---|---|---|---|{rule}---|---|");
    for number in outcome.numbers.iter().filter(|number| !number.is_left_out()) {
        let [paper, weir, interval, ratio] = number.shown();
        let source = number.source.iter().chain(&number.why).map(String::as_str).collect::<Vec<_>>().join("; ");
        let source = if source.is_empty() { source } else { format!(" ({source})") };
        let judgement = number.judgement.map_or_else(String::new, |judgement| judgement.to_string());
        let _ = writeln!(
            text,
            "| {} | {paper}{} | {} | {interval} |{} {ratio} | {judgement} |",
            escaped(&number.name),
            escaped(&source),
            escaped(&weir),
            if outcome.has_spread() { format!(" {} |", number.spread_shown()) } else { String::new() },
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

/// The schemes that are broken on purpose, and what they change.
fn schemes(text: &mut String, broken: &[Told]) {
    if broken.is_empty() {
        return;
    }
    text.push_str("\nBroken on purpose, to see whether the verdict tells:\n");
    for it in broken {
        let (how, result) = (if it.subtle { "subtle; " } else { "" }, if it.told { "told" } else { "**not told**" });
        let _ = writeln!(text, "- {}: {how}{result} by \"{}\" ({})", it.what, it.fails, it.broken.because);
    }
}

/// As GitHub makes it of a heading.
fn anchor(experiment: &Experiment) -> String {
    let heading = format!("{}: {}", experiment.id, experiment.paper.title).to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// For a cell of a table.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
