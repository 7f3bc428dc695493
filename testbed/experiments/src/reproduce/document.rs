//! Writer of `docs/REPRODUCTION.md`, with a page and picture of each figure, and of `docs/REAL_FRAMES.md`, from the
//! results of earlier calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::earlier_page::{self, EarlierPage};
use super::experiment::Experiment;
use super::explore::{self, ClaimMap};
use super::mutation_test::{self, MutationResult};
use super::outcome::{self, Environment, StoredResult, duration};
use super::paper::Paper;
use super::units::shown;
use super::verdict::{ExperimentOutcome, JudgedNumber, Judgement, Tally, Verdict};
use crate::Failure;
use crate::experiment::Backend;
use crate::files::{with_path, write_atomic};

struct Entry<'a> {
    experiment: &'a Experiment,
    result: Option<StoredResult>,
}

/// Writes the document of all experiments that the backend may run. Their results are below `results`.
pub(super) fn write(file: &Path, experiments: &[Experiment], results: &Path, backend: Backend) -> Result<(), Failure> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for experiment in experiments.iter().filter(|experiment| experiment.paper.backends.contains(&backend)) {
        entries.push(Entry { experiment, result: outcome::read(&results.join(&experiment.id))? });
    }
    if entries.iter().all(|entry| entry.result.is_none()) {
        let results = results.display();
        return Err(Failure::Argument(format!(
            "{results}: there are no results of experiments; run weir reproduce all first, or name their directory: -o DIR"
        )));
    }
    let of_earlier = EarlierPage::read(&file.with_file_name(MAPS));
    let mut maps = BTreeMap::new();
    for Entry { experiment, .. } in entries.iter().filter(|_| backend == Backend::Sim) {
        let id = &experiment.id;
        let map = explore::read(&results.join(id))?.as_ref().map(MapText::from_map);
        maps.extend(map.or_else(|| MapText::from_page(&of_earlier, id)).map(|map| (id.clone(), map)));
    }
    if backend == Backend::Sim {
        let directory = file.parent().unwrap_or(Path::new(""));
        pages(directory, &entries, &maps, results)?;
    }
    let kept = EarlierPage::read(file);
    let text = document(&entries, &maps, &kept, backend);
    write_atomic(file, |part| fs::write(part, text)).map_err(with_path(file))?;
    let of_earlier = match entries.iter().filter(|entry| kept_row(&kept, entry).is_some()).count() {
        0 => String::new(),
        some => format!(", and {some} as an earlier call wrote them"),
    };
    println!(
        "{} of {} experiments{of_earlier}: {}",
        entries.iter().filter(|entry| entry.result.is_some()).count(),
        entries.len(),
        file.display()
    );
    Ok(())
}

/// Text on a figure's map for these documents.
struct MapText {
    anchor: String,
    /// Summary in one line.
    verdict: String,
    /// Cell of a row: `3 % of 201 settings`.
    cell: String,
}

/// Page of maps, in the same folder as this document.
const MAPS: &str = "CLAIMS.md";

impl MapText {
    fn from_map(map: &ClaimMap) -> MapText {
        let share = if map.lines[0].is_open() { OPEN.to_owned() } else { map.lines[0].share_shown() };
        MapText {
            anchor: map.anchor(),
            verdict: map.verdict.clone(),
            cell: format!("{share} of {} settings", map.settings),
        }
    }

    /// Text read from the page of maps, for a map that is missing here: both documents then describe the same map.
    fn from_page(page: &EarlierPage, id: &str) -> Option<MapText> {
        let line = page.section(id)?.lines().find_map(|line| line.strip_prefix("**")?.strip_suffix(".**"))?;
        let mut letters = line.chars();
        let verdict = letters.next()?.to_lowercase().chain(letters).collect();
        let row: Vec<&str> = earlier_page::cells(page.row(id)?).collect();
        let share = row.get(1)?.split(" (").next()?;
        let share = if share.starts_with("not decided") { OPEN } else { share };
        let settings = row.last()?.split(',').next()?;
        Some(MapText { anchor: explore::anchor(id), verdict, cell: format!("{share} of {settings} settings") })
    }
}

const OPEN: &str = "not decided in most";

/// Folder of the figures' pages, relative to the document.
const PAGES: &str = "figures";
const PICTURES: &str = "images/figures";

/// Writes a page for each experiment that ran, with the picture of its last run.
fn pages(
    directory: &Path,
    entries: &[Entry<'_>],
    maps: &BTreeMap<String, MapText>,
    results: &Path,
) -> Result<(), Failure> {
    for folder in [PAGES, PICTURES].map(|name| directory.join(name)) {
        fs::create_dir_all(&folder).map_err(with_path(&folder))?;
    }
    for (experiment, result) in entries.iter().filter_map(|entry| Some((entry.experiment, entry.result.as_ref()?))) {
        let id = &experiment.id;
        let from = results.join(id);
        let picture = picture(id);
        let drawn = from.join("figure.svg");
        if drawn.is_file() {
            fs::copy(&drawn, directory.join(&picture)).map_err(with_path(&drawn))?;
        }
        let mut text = format!("# {}: {}\n\n[All figures](../REPRODUCTION.md)\n\n", id, experiment.paper.title);
        details(&mut text, experiment, Some(result), maps.get(id), &mutation_test::read(&from)?);
        if drawn.is_file() {
            let _ = writeln!(text, "\n![{}](../{picture})", alternative(experiment));
        }
        made(&mut text, result);
        let path = directory.join(page(id));
        write_atomic(&path, |part| fs::write(part, text)).map_err(with_path(&path))?;
    }
    // Updates the map's text in kept pages of figures without results here.
    for Entry { experiment, .. } in entries.iter().filter(|entry| entry.result.is_none()) {
        let path = directory.join(page(&experiment.id));
        let Some((map, text)) = maps.get(&experiment.id).zip(fs::read_to_string(&path).ok()) else { continue };
        let updated = page_with_map(&text, map);
        write_atomic(&path, |part| fs::write(part, updated)).map_err(with_path(&path))?;
    }
    Ok(())
}

/// Replaces the map's text in a kept page, or adds it.
fn page_with_map(page: &str, map: &MapText) -> String {
    if page.contains(OVER_OPEN) {
        return earlier_page::with_between(page, OVER_OPEN, ")).\n", &(over_open(map) + "\n"));
    }
    let verdict = page.find("\nWeir: **").and_then(|place| Some(place + 1 + page[place + 1..].find('\n')?));
    let Some(end) = verdict else { return page.to_owned() };
    format!("{}\n\n{}{}", &page[..end], over_open(map), &page[end..])
}

/// Replaces the map's text in a kept section, or adds it.
fn section_with_map(section: &str, map: &MapText) -> String {
    const DETAILS: &str = " [All numbers and claims](";
    match section.split_once(DETAILS) {
        Some((head, rest)) if !section.contains(OVER_OPEN_SHORT) => {
            format!("{head}{}{DETAILS}{rest}", over_open_short(map))
        }
        _ => earlier_page::with_between(section, OVER_OPEN_SHORT, &map_link(map), &over_open_short(map)),
    }
}

const OVER_OPEN: &str = "Over what the paper leaves open: it ";

/// Sentence on a map, for a figure's page.
fn over_open(map: &MapText) -> String {
    format!("{OVER_OPEN}{} ([map](../{MAPS}#{})).", map.verdict, map.anchor)
}

/// Path of a figure's page, relative to the document.
fn page(id: &str) -> String {
    format!("{PAGES}/{id}.md")
}

/// Path of a figure's picture, relative to the document.
fn picture(id: &str) -> String {
    format!("{PICTURES}/{id}.svg")
}

fn alternative(experiment: &Experiment) -> String {
    format!("{} of {}, out of Weir", experiment.paper.figure, experiment.id).replace(['[', ']'], "")
}

/// Appends the command, runs, time, date and commit of the results.
fn made(text: &mut String, StoredResult { outcome, environment }: &StoredResult) {
    let date = environment.provenance.started.split('T').next().unwrap_or("");
    let seeds = if outcome.seeds > 1 { format!(" of {}", outcome.seeds_shown()) } else { String::new() };
    let _ = writeln!(
        text,
        "\nMade by `weir reproduce {}`: {} runs{seeds}, {} of CPU time, {date}, commit `{}`.",
        outcome.id,
        outcome.points,
        duration(taken(outcome, environment)),
        environment.commit
    );
}

/// Row of a figure that is kept because its results are missing here.
fn kept_row<'k>(kept: &'k EarlierPage, entry: &Entry<'_>) -> Option<&'k str> {
    kept.row(&entry.experiment.id).filter(|_| entry.result.is_none())
}

/// Section of a figure whose row is kept.
fn kept_section<'k>(kept: &'k EarlierPage, entry: &Entry<'_>) -> Option<&'k str> {
    kept.section(&entry.experiment.id).filter(|_| kept_row(kept, entry).is_some())
}

fn document(entries: &[Entry<'_>], maps: &BTreeMap<String, MapText>, kept: &EarlierPage, backend: Backend) -> String {
    let (head, time) = match backend {
        Backend::Sim => (HEAD, "CPU time"),
        Backend::Dpdk => (HEAD_REAL, "time"),
        Backend::Hosts => (HEAD_HOSTS, "time"),
    };
    let mut text = String::from(head);
    summary(&mut text, entries, kept);
    if backend == Backend::Sim {
        text.push_str("\n| figure | verdict | main claims | stated numbers | over what is open | runs, CPU time | made |\n|---|---|---|---|---|---|---|\n");
        for entry @ Entry { experiment, result } in entries {
            let map = maps.get(&experiment.id);
            match kept_row(kept, entry) {
                Some(row) => {
                    let updated = map.map(|map| earlier_page::with_cell(row, MAP_CELL, &map.cell));
                    let _ = writeln!(text, "{}", updated.as_deref().unwrap_or(row));
                }
                None => short_row(&mut text, experiment, result.as_ref(), map),
            }
        }
        papers(&mut text, entries);
        machines(&mut text, entries, kept, TIME_CELL);
        for entry @ Entry { experiment, result } in entries {
            let map = maps.get(&experiment.id);
            match kept_section(kept, entry) {
                Some(section) => {
                    let updated = map.map(|map| section_with_map(section, map));
                    let _ = writeln!(text, "{}", updated.as_deref().unwrap_or(section));
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
            None => row(&mut text, entry.experiment, entry.result.as_ref()),
        }
    }
    machines(&mut text, entries, kept, TIME_CELL_REAL);
    for entry @ Entry { experiment, result } in entries {
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

Made by `weir reproduce --document docs/REAL_FRAMES.md --backend dpdk` of what `weir reproduce all --backend dpdk` left; not written by hand. Experiments of
[REPRODUCTION.md](REPRODUCTION.md), which has what is not as in the paper, run by the same switch on DPDK lcores, with hosts that send RoCEv2 frames, by a clock as slow as the machine needs it:
[EXPERIMENTS.md](EXPERIMENTS.md#real-frames). Time that the machine takes shows in them, so that they differ from one time to the next. **Not judged**: the machine took too much of a run that a conclusion is read off.

";

const HEAD_HOSTS: &str = "# Experiments with real hosts

Made by `weir reproduce --document FILE --backend hosts` of what `weir reproduce ID --backend hosts` left; not written by hand. Hosts are guests with Soft-RoCE, namespaces or machines, and flows
are perftest's and iperf3's: [LAB-HOSTS.md](LAB-HOSTS.md). **Not judged**: the machine took too much of a run that a conclusion is read off.

";

fn papers(text: &mut String, entries: &[Entry<'_>]) {
    let all: BTreeSet<&Paper> = entries.iter().filter_map(|entry| entry.experiment.of.as_ref()).collect();
    if all.is_empty() {
        return;
    }
    text.push('\n');
    for paper in all {
        let _ = writeln!(text, "- {}: {}. {}.", paper.id, paper.title(), paper.citation());
    }
}

fn summary(text: &mut String, entries: &[Entry<'_>], kept: &EarlierPage) {
    let verdict_of = |Entry { experiment, result }: &Entry<'_>| {
        result.as_ref().map_or_else(|| kept.verdict(&experiment.id), |made| Some(made.outcome.verdict))
    };
    let of = |verdict: Verdict| entries.iter().filter(|entry| verdict_of(entry) == Some(verdict)).count();
    let (holds, in_part, not) = (of(Verdict::Holds), of(Verdict::HoldsInPart), of(Verdict::DoesNotHold));
    let hold = |count: usize| if count == 1 { "holds" } else { "hold" };
    let do_not = if not == 1 { "does" } else { "do" };
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
        "{} experiments: {holds} {},{arithmetic} {in_part} {} in part, {not} {do_not} not hold{not_judged}.",
        entries.len(),
        hold(holds),
        hold(in_part)
    );
}

fn short_row(text: &mut String, experiment: &Experiment, result: Option<&StoredResult>, map: Option<&MapText>) {
    let what = escaped(&format!("{}, {}", experiment.paper.title, experiment.paper.figure));
    let id = format!("[{0}](#{1}) {what}", experiment.id, anchor(experiment));
    let Some(StoredResult { outcome, environment }) = result else {
        let _ = writeln!(text, "| {id} | not run | | | | | |");
        return;
    };
    let held = |judgements: &mut dyn Iterator<Item = Judgement>| Tally::from_judgements(judgements).held();
    let mut main = outcome.claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement);
    let mut stated = outcome.numbers.iter().filter_map(|number| number.judgement);
    let map = map.map_or("", |map| &map.cell);
    let less = if outcome.left_out.is_some() { ", quick" } else { "" };
    let _ = writeln!(
        text,
        "| {id} | **{}** | {} | {} | {map} | {}{less}, {} | {}, `{}` |",
        outcome.verdict,
        held(&mut main),
        held(&mut stated),
        outcome.points,
        duration(taken(outcome, environment)),
        environment.provenance.started.split('T').next().unwrap_or(""),
        environment.commit,
    );
}

/// Column of the map's text in rows; the next constants are columns of run times.
const MAP_CELL: usize = 4;
const TIME_CELL: usize = 5;
const TIME_CELL_REAL: usize = 4;

const OVER_OPEN_SHORT: &str = " Over what the paper leaves open it [";

/// Sentence on a map, for a section.
fn over_open_short(map: &MapText) -> String {
    format!("{OVER_OPEN_SHORT}{}{}", map.verdict, map_link(map))
}

fn map_link(map: &MapText) -> String {
    format!("]({MAPS}#{}).", map.anchor)
}

/// Appends a figure's section: finding, result, map and picture.
fn short_section(text: &mut String, experiment: &Experiment, result: Option<&StoredResult>, map: Option<&MapText>) {
    let _ = writeln!(text, "\n## {}: {}\n", experiment.id, experiment.paper.title);
    let _ = write!(text, "The paper: {}", experiment.paper.found);
    let Some(StoredResult { outcome, .. }) = result else {
        text.push_str(" Not run.\n");
        return;
    };
    let _ = write!(text, " **{}**", outcome.summary);
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

fn row(text: &mut String, experiment: &Experiment, result: Option<&StoredResult>) {
    let paper = &experiment.paper;
    let id = format!("[{0}](#{1})", experiment.id, anchor(experiment));
    let what = format!("{}, {}", paper.title, paper.figure);
    let Some(StoredResult { outcome, environment }) = result else {
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
    let date = environment.provenance.started.split('T').next().unwrap_or("");
    let _ = writeln!(
        text,
        "| {id} | {} | **{}** | {} | {}{less}, {} | {date}, `{}` |",
        escaped(&what),
        outcome.verdict,
        escaped(&key.join("; ")),
        outcome.points,
        duration(taken(outcome, environment)),
        environment.commit,
    );
}

fn paper_and_weir(number: &JudgedNumber) -> String {
    let [_, weir, ..] = number.shown();
    format!("{} {} / {weir}", number.name, number.paper.map_or_else(String::new, shown))
}

fn machines(text: &mut String, entries: &[Entry<'_>], kept: &EarlierPage, time: usize) {
    let results = || entries.iter().filter_map(|entry| entry.result.as_ref());
    let machine = |environment: &Environment| {
        let machine = &environment.provenance.machine;
        format!("{} ({} cores)", machine.cpu, machine.cores)
    };
    let mut machines: BTreeSet<String> = results().map(|made| machine(&made.environment)).collect();
    let earlier = entries.iter().filter(|entry| kept_row(kept, entry).is_some());
    if earlier.clone().next().is_some() {
        machines.extend(kept.machines().map(str::to_owned));
    }
    let all: f64 = results().map(|made| taken(&made.outcome, &made.environment)).sum();
    let all = all + earlier.map(|entry| kept.seconds(&entry.experiment.id, time)).sum::<f64>();
    let of_cpu = if results().all(|made| made.outcome.is_real()) { "" } else { " of CPU time" };
    let machines: Vec<String> = machines.into_iter().collect();
    let _ = writeln!(text, "\nAll together took {}{of_cpu} on {}.", duration(all), machines.join(", "));
}

/// Duration in seconds: CPU time in virtual time, wall time with real frames.
fn taken(outcome: &ExperimentOutcome, environment: &Environment) -> f64 {
    (if outcome.is_real() { environment.wall_ms } else { environment.cpu_ms }) as f64 / 1e3
}

/// Appends all details of a figure, below its heading. Links to maps are relative to the figures' pages.
fn details(
    text: &mut String,
    experiment: &Experiment,
    result: Option<&StoredResult>,
    map: Option<&MapText>,
    broken: &[MutationResult],
) {
    let paper = &experiment.paper;
    let _ = writeln!(text, "{}. {}\n", experiment.place_in_paper(), paper.setting);
    let _ = writeln!(text, "The paper: {}", paper.found);
    if let Some(StoredResult { outcome, .. }) = result {
        let _ = writeln!(text, "\nWeir: **{}**. {}", outcome.verdict, outcome.summary);
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
    if result.is_some_and(|made| made.outcome.is_real()) {
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
            let _ = writeln!(text, "- {}: {}. Chosen: {}", it.place, it.statement, it.choice);
        }
    }
}

fn numbers(text: &mut String, outcome: &ExperimentOutcome) {
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

fn claims(text: &mut String, outcome: &ExperimentOutcome) {
    text.push('\n');
    for claim in outcome.claims.iter().filter(|claim| claim.judgement != Judgement::LeftOut) {
        let conclusion = if claim.conclusion { "conclusion, " } else { "" };
        let source = if claim.source.is_empty() { String::new() } else { format!(" [{}]", claim.source) };
        let _ = writeln!(text, "- {conclusion}{}: {}{source} ({})", claim.judgement, claim.statement, claim.because);
    }
}

/// Appends the results of mutations.
fn schemes(text: &mut String, broken: &[MutationResult]) {
    if broken.is_empty() {
        return;
    }
    text.push_str("\nBroken on purpose, to see whether the verdict tells:\n");
    for it in broken {
        let (how, result) =
            (if it.subtle { "subtle; " } else { "" }, if it.detected { "told" } else { "**not told**" });
        let _ = writeln!(text, "- {}: {how}{result} by \"{}\" ({})", it.what, it.fails, it.broken.because);
    }
}

/// Anchor that GitHub derives from a figure's heading.
fn anchor(experiment: &Experiment) -> String {
    let heading = format!("{}: {}", experiment.id, experiment.paper.title).to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Text escaped for a table cell.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_not_at_hand_is_told_by_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join(MAPS);
        let text = "# Maps\n\n| figure | together | decided by | a | b | c | d | settings, CPU time |\n|---|---|\n\
            | [a.1](#a1) One | 12 % (4-31 %) | delay | 1 | 2 | 3 | 0 | 24, 4 min |\n\
            | [a.2](#a2) Two | not decided in 60 of 80 | - | 0 | 1 | 0 | 1 | 80, 8 min |\n\n\
            ## a.1\n\nOne.\n\n**Holds in 12 % of the settings (4-31 %); delay decides.**\n\n- x\n\n\
            ## a.2\n\nTwo.\n\n**Is decided by its 2 seeds in 20 of the 80 settings.**\n";
        fs::write(&page, text).unwrap();
        let of =
            |id: &str| MapText::from_page(&EarlierPage::read(&page), id).map(|map| (map.cell, map.verdict, map.anchor));
        let told =
            |cell: &str, verdict: &str, anchor: &str| Some((cell.to_owned(), verdict.to_owned(), anchor.to_owned()));
        assert_eq!(
            of("a.1"),
            told("12 % of 24 settings", "holds in 12 % of the settings (4-31 %); delay decides", "a1")
        );
        let verdict = "is decided by its 2 seeds in 20 of the 80 settings";
        assert_eq!(of("a.2"), told("not decided in most of 80 settings", verdict, "a2"));
        assert_eq!(of("a.3"), None);

        // Page and section without a map, and with another one.
        let map = MapText::from_page(&EarlierPage::read(&page), "a.1").unwrap();
        let other = MapText {
            verdict: "holds in 3 %".to_owned(),
            ..MapText::from_page(&EarlierPage::read(&page), "a.1").unwrap()
        };
        let bare = "# a.1\n\nWeir: **holds**. Reproduced.\n\n- more\n";
        let with = page_with_map(bare, &map);
        let told = "Over what the paper leaves open: it holds in 12 % of the settings (4-31 %); delay decides ([map](../CLAIMS.md#a1)).";
        assert_eq!(with, format!("# a.1\n\nWeir: **holds**. Reproduced.\n\n{told}\n\n- more\n"));
        assert_eq!(page_with_map(&page_with_map(bare, &other), &map), with);
        let bare = "## a.1: One\n\nThe paper: x. **Reproduced.** [All numbers and claims](figures/a.1.md).\n";
        let with = section_with_map(bare, &map);
        assert!(with.contains("**Reproduced.** Over what the paper leaves open it [holds in 12 %"), "{with}");
        assert!(with.ends_with("(CLAIMS.md#a1). [All numbers and claims](figures/a.1.md).\n"), "{with}");
        assert_eq!(section_with_map(&section_with_map(bare, &other), &map), with);
    }
}
