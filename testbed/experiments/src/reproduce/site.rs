//! Pages of the site on the papers' figures, as Markdown, from `paper.toml` and the stored results.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::catalogue::catalogue;
use super::claim_map::{ClaimMap, MapLine, MapLineKind};
use super::experiment::Experiment;
use super::explore::{extent, nearest};
use super::joint;
use super::outcome::duration;
use super::page_table::{head, row};
use super::sentence::upper_first;
use super::stored::{FigureResults, MAP_PICTURE, StoredMap, StoredResult, figure_file};
use super::verdict::{Conclusions, Judgement, NumbersVerdict, Tally};
use crate::Failure;
use crate::experiment::Backend;

/// Page of the site that is no file of the repository.
#[derive(Debug)]
pub struct SitePage {
    /// Path of the page, as if it were a Markdown file of the repository.
    pub path: PathBuf,
    /// Folder of the repository that the page describes: links to the folder lead to the page.
    pub folder: Option<PathBuf>,
    /// Markdown.
    pub text: String,
}

/// Folder of the papers in a repository.
const PAPERS: &str = "scenarios/papers";
/// Folder of experiments that no paper has, which has pages of its own and no place in the overviews.
const UNPUBLISHED: &str = "scenarios/ai-fabrics";
const BACKENDS: [(Backend, &str); 3] =
    [(Backend::Sim, "Virtual time"), (Backend::Dpdk, "Real frames"), (Backend::Hosts, "Real hosts")];

struct Figure {
    experiment: Experiment,
    /// Folder of the experiment, relative to the repository.
    folder: PathBuf,
    results: FigureResults,
}

/// Pages on the papers of a repository: overviews, a page per paper, and a page per figure. Empty without papers.
///
/// # Errors
/// An invalid experiment or stored result.
pub fn pages(repository: &Path) -> Result<Vec<SitePage>, Failure> {
    let papers = repository.join(PAPERS);
    if !papers.is_dir() {
        return Ok(Vec::new());
    }
    let read = |experiment: Experiment| {
        let results = FigureResults::read(&experiment)?;
        let folder = experiment.folder().strip_prefix(repository).unwrap_or(experiment.folder()).to_owned();
        Ok(Figure { experiment, folder, results })
    };
    let figures: Vec<Figure> = catalogue(&[papers])?.into_iter().map(read).collect::<Result<_, Failure>>()?;
    let unpublished = repository.join(UNPUBLISHED);
    let others = if unpublished.is_dir() { catalogue(&[unpublished])? } else { Vec::new() };
    let others: Vec<Figure> = others.into_iter().map(read).collect::<Result<_, Failure>>()?;
    let mut pages = vec![
        SitePage {
            path: "docs/REPRODUCTION.md".into(),
            folder: Some(PAPERS.into()),
            text: figures_page(REPRODUCTION, &figures, Backend::Sim),
        },
        SitePage {
            path: "docs/REAL_FRAMES.md".into(),
            folder: None,
            text: figures_page(REAL_FRAMES, &figures, Backend::Dpdk),
        },
        SitePage { path: "docs/CLAIMS.md".into(), folder: None, text: claims(&figures) },
    ];
    let papers = [&figures, &others].into_iter();
    for of_paper in papers.flat_map(|all| all.chunk_by(|one, other| one.experiment.of == other.experiment.of)) {
        let Some(paper) = &of_paper[0].experiment.of else { continue };
        let mut text = format!("# {}\n\n{}{}\n", paper.title(), paper.citation(), paper.configuration_sentence());
        figure_table(&mut text, of_paper, Backend::Sim, "../figures");
        let folder = of_paper[0].folder.parent().map(Path::to_owned);
        pages.push(SitePage { path: format!("docs/papers/{}.md", paper.id).into(), folder, text });
    }
    pages.extend(figures.iter().chain(&others).map(|figure| SitePage {
        path: format!("docs/figures/{}.md", figure.experiment.id).into(),
        folder: Some(figure.folder.clone()),
        text: figure.page(),
    }));
    Ok(pages)
}

const REPRODUCTION: &str = "# The papers' figures in virtual time

No parameter is tuned to a figure. [EXPERIMENTS](EXPERIMENTS.md#how-a-verdict-comes-about) defines the verdicts, [CLAIMS](CLAIMS.md) has the results over the parameters that a paper leaves unspecified, and [REAL_FRAMES](REAL_FRAMES.md) those on DPDK.
";

const REAL_FRAMES: &str = "# The papers' figures with real frames

Figures of [REPRODUCTION](REPRODUCTION.md), run on DPDK lcores with hosts that send RoCEv2 frames, by a clock as slow as the machine needs it: [EXPERIMENTS](EXPERIMENTS.md#real-frames). Time that the machine takes shows in the results, so they vary from run to run.
";

const CLAIMS: &str = "# Where the papers' claims hold

A paper leaves parameters unspecified; `weir reproduce` takes one value of each. `weir explore` tries the others too: [EXPERIMENTS](EXPERIMENTS.md#maps-of-claims). Each figure's page has its map.

- A share is of all settings that the paper allows, or of a sample spread evenly over them, with Wilson's interval of 95 %. Shares are no probabilities: nobody knows how likely each value is.
- A claim is **robust** if it holds in nine of ten settings or more, and **does not hold** if in one of ten or fewer; **fragile** in between. **Too few settings**: the interval is wider than 30 points. **Open**: the seeds do not decide most settings.
";

/// Page of all figures with results of a backend.
fn figures_page(introduction: &str, figures: &[Figure], backend: Backend) -> String {
    let results = figures.iter().filter_map(|figure| figure.results.result(backend));
    let conclusions: Vec<Conclusions> = results.map(|result| result.outcome.conclusions).collect();
    let mut text = introduction.to_owned();
    if let Some(summary) = Conclusions::summary(&conclusions) {
        let _ = writeln!(text, "\n{summary}");
    }
    figure_table(&mut text, figures, backend, "figures");
    text
}

/// Appends a table of the figures with results of a backend. `to` is the folder of the figures' pages.
fn figure_table(text: &mut String, figures: &[Figure], backend: Backend, to: &str) {
    head(
        text,
        [
            "figure",
            "conclusions",
            "main claims",
            "numbers",
            "map of main claims (sim)",
            "hosts, runs, draws, time",
            "made",
        ],
    );
    for Figure { experiment, results, .. } in figures {
        let Some(StoredResult { outcome, environment, .. }) = results.result(backend) else { continue };
        let held = |judgements: &mut dyn Iterator<Item = Judgement>| Tally::from_judgements(judgements).held();
        let (id, title) = (&experiment.id, &experiment.paper.title);
        let quick = if outcome.left_out.is_some() && !backend.is_real() { ", quick" } else { "" };
        row(
            text,
            [
                format!("[{id}]({to}/{id}.md) {title}, {}", experiment.paper.figure),
                format!("**{}**", outcome.conclusions),
                held(&mut outcome.claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement)),
                NumbersVerdict::from_numbers(&outcome.numbers).to_string(),
                results.map.as_ref().map_or_else(String::new, |stored| stored.map.share_in_short()),
                format!(
                    "{}, {}{quick}, {}, {}",
                    outcome.hosts,
                    outcome.points,
                    outcome.seeds,
                    duration(environment.seconds(backend.is_real()))
                ),
                environment.date_and_commit(),
            ],
        );
    }
}

/// Page of all maps of claims.
fn claims(figures: &[Figure]) -> String {
    const ROBUSTNESS: [&str; 5] = ["robust", "fragile", "does not hold", "too few settings", "open"];
    let mut text = CLAIMS.to_owned();
    let maps: Vec<&ClaimMap> = figures.iter().filter_map(|figure| Some(&figure.results.map.as_ref()?.map)).collect();
    list(&mut text, "By main effects on the main claims:", joint::sentences(&maps).map(|sentence| sentence + "."));
    head(&mut text, ["figure", "main claims together", "decided by", "claims", "settings, CPU time"]);
    for StoredMap { map, .. } in figures.iter().filter_map(|figure| figure.results.map.as_ref()) {
        let claims = map.lines.iter().filter(|line| matches!(line.kind, MapLineKind::Main | MapLineKind::Further));
        let robustness: Vec<&str> = claims.map(MapLine::robustness).collect();
        let count = |of: &str| robustness.iter().filter(|one| **one == of).count();
        let counts = ROBUSTNESS.iter().filter(|of| count(of) > 0).map(|of| format!("{of}: {}", count(of)));
        row(
            &mut text,
            [
                format!("[{0}](figures/{0}.md#map-of-claims) {1}", map.id, map.title),
                map.share_in_short(),
                map.lines[0].decides.clone().unwrap_or_else(|| "-".to_owned()),
                counts.collect::<Vec<_>>().join("; "),
                format!("{}, {}", map.settings, duration(map.cpu_ms as f64 / 1e3)),
            ],
        );
    }
    text
}

impl Figure {
    fn page(&self) -> String {
        let Experiment { id, paper, .. } = &self.experiment;
        let mut text = format!("# {id}: {}\n\n{}. {}\n", paper.title, self.experiment.place_in_paper(), paper.setting);
        let _ = writeln!(text, "\nThe authors found: {}", paper.found);
        if let Some(cause) = paper.cause_sentence() {
            let _ = writeln!(text, "\n{cause}");
        }
        for (backend, name) in BACKENDS {
            let Some(result) = self.results.result(backend) else { continue };
            let _ = writeln!(text, "\n## {name}");
            self.picture(&mut text, &figure_file(backend), &format!("{} of {id}, reproduced", paper.figure));
            result_section(&mut text, result, backend);
        }
        if let Some(map) = &self.results.map {
            text.push_str("\n## Map of claims\n");
            self.picture(&mut text, MAP_PICTURE, "Claims by the values of unspecified parameters");
            self.map_section(&mut text, map);
        }
        let departures = paper.departures.iter().map(|it| format!("{}: {}", it.what, it.why));
        list(&mut text, "## Departures", departures);
        let disagreements =
            paper.disagreements.iter().map(|it| format!("{}: {}. Chosen: {}", it.place, it.statement, it.choice));
        list(&mut text, "## Disagreements of the paper with itself or with public code", disagreements);
        text
    }

    /// Appends a picture of the experiment's folder, if it is there.
    fn picture(&self, text: &mut String, file: &str, alternative: &str) {
        if self.experiment.folder().join(file).is_file() {
            let _ = writeln!(text, "\n![{alternative}](../../{}/{file})", self.folder.display());
        }
    }

    fn map_section(&self, text: &mut String, StoredMap { map, environment }: &StoredMap) {
        let _ = writeln!(text, "\n**{}**", upper_first(&map.verdict));
        list(text, "", map.lines[0].tree.iter().cloned().chain(nearest(map)));
        let reading = &self.experiment.paper.map.reading;
        if !reading.is_empty() {
            let _ = writeln!(text, "\n{reading}");
        }
        head(text, ["claim", "holds in", "95 %", "as taken", "", "decided by"]);
        for line in map.lines.iter().filter(|line| line.of > 0) {
            map_row(text, line, map);
        }
        let parameters = map.open.iter().map(|parameter| {
            let value = |(n, value): (usize, &String)| {
                if n == parameter.taken { format!("**{value}**") } else { value.clone() }
            };
            let values: Vec<String> = parameter.values.iter().enumerate().map(value).collect();
            format!("{}: {}. {}", parameter.name, values.join("; "), parameter.why)
        });
        list(text, "Unspecified parameters, in bold what `weir reproduce` takes:", parameters);
        let left_out = map.left_out.as_ref().map_or_else(String::new, |left_out| format!(" Without {left_out}."));
        let made = environment.date_and_commit();
        let _ = writeln!(text, "\n`weir explore {}`: {}, {made}.{left_out}", map.id, extent(map));
    }
}

/// Appends a list below its title; nothing without items.
fn list(text: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| format!("- {item}\n")).collect();
    if !items.is_empty() {
        let title = if title.is_empty() { String::new() } else { format!("\n{title}\n") };
        let _ = write!(text, "{title}\n{items}");
    }
}

/// Appends verdict, numbers, claims and mutations of a backend.
fn result_section(text: &mut String, result: &StoredResult, backend: Backend) {
    let StoredResult { outcome, environment, mutations, note } = result;
    let _ = writeln!(text, "\n**{}** {}", outcome.summary, outcome.numbers_summary);
    list(text, "", note.iter().cloned().chain(outcome.lessened()).chain(outcome.reasons.iter().cloned()));
    let mut rows = outcome.number_table().into_iter();
    head(text, rows.next().into_iter().flatten().chain(["judgement".to_owned()]));
    for (number, mut cells) in outcome.numbers.iter().zip(rows).filter(|(number, _)| !number.is_left_out()) {
        let source = number.source.iter().chain(&number.why).map(String::as_str).collect::<Vec<_>>().join("; ");
        if !source.is_empty() {
            cells[1] += &format!(" ({source})");
        }
        cells.push(number.judgement.map_or_else(String::new, |judgement| judgement.to_string()));
        row(text, cells);
    }
    head(text, ["claim, in bold the main ones", "source", "judgement", "comparison"]);
    for claim in outcome.claims.iter().filter(|claim| claim.judgement != Judgement::LeftOut) {
        let statement = if claim.conclusion { format!("**{}**", claim.statement) } else { claim.statement.clone() };
        row(text, [&statement, &claim.source, &claim.judgement.to_string(), &claim.because]);
    }
    let mutations = mutations.iter().map(|it| {
        let size = if it.subtle { "subtle, " } else { "" };
        let result = if it.detected { "detected" } else { "**not detected**" };
        format!("{}: {size}{result} by \"{}\" ({})", it.description, it.fails, it.mutated.reason)
    });
    list(text, "Mutations of the scheme, which the verdict must detect:", mutations);
    let option = if backend.is_real() { format!(" --backend {}", backend.name()) } else { String::new() };
    let seeds = if outcome.seeds > 1 { format!(" of {}", outcome.seeds_shown()) } else { String::new() };
    let machine = &environment.provenance.machine;
    let _ = writeln!(
        text,
        "\n`weir reproduce {}{option}`: {} runs{seeds}, {}, on {} ({} cores), {}.",
        outcome.id,
        outcome.points,
        duration(environment.seconds(backend.is_real())),
        machine.cpu,
        machine.cores,
        environment.date_and_commit(),
    );
}

/// Appends a claim of a map.
fn map_row(text: &mut String, line: &MapLine, map: &ClaimMap) {
    let mark = match line.kind {
        MapLineKind::Together => "*",
        MapLineKind::Main => "**",
        _ => "",
    };
    let source = if line.source.is_empty() { String::new() } else { format!(" [{}]", line.source) };
    let others = [(line.open, "open"), (line.arithmetic, "arithmetic")].into_iter().filter(|(n, _)| *n > 0);
    let others: String = others.map(|(n, what)| format!(", {n} {what}")).collect();
    let share = if line.is_open() { String::new() } else { format!(": {}", line.share_shown()) };
    row(
        text,
        [
            format!("{mark}{}{mark}{source}", line.statement),
            format!("{} of {}{others}{share}", line.holds, line.of),
            map.interval_shown(line),
            line.taken_shown(),
            line.robustness().to_owned(),
            line.tree.as_ref().or(line.decides.as_ref()).cloned().unwrap_or_default(),
        ],
    );
}
