//! Validation of an experiment's `paper.toml` before anything runs.

use std::collections::BTreeSet;
use std::str::FromStr;

use weir_config::ConfigErrors;
use weir_units::Bytes;

use super::experiment::Experiment;
use super::mutation::Mutation;
use super::paper_file::{Aggregation, Claim, Measure, Panel, PanelKind, PaperFile, SeriesThreshold};
use super::rows::{Selection, combination, parameter};
use crate::experiment::Backend;
use crate::sweep::{Point, SweepPlan, check_column};
use crate::table::key_path::KeyPath;
use crate::table::units;

/// Error: the key, the problem, and the remedy.
type Mistake = (String, String, String);

/// Checks the file alone.
pub(super) fn of_itself(experiment: &Experiment) -> Result<(), ConfigErrors> {
    let paper = &experiment.paper;
    let mut mistakes = Vec::new();
    let mut wrong = |key: &str, message: String, help: &str| mistakes.push((key.to_owned(), message, help.to_owned()));
    let takes = [
        ("takes.full", Some(&paper.takes.full)),
        ("takes.quick", paper.takes.quick.as_ref()),
        ("takes.farm", paper.takes.farm.as_ref()),
    ];
    for (key, text) in takes.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        if units::seconds(text).is_none() {
            wrong(key, format!("\"{text}\" is no time"), "write the CPU time on one core: full = \"40s\"");
        }
    }
    if experiment.has_quick() != paper.quick.is_some() {
        let help = "write [quick] leaves_out = \"...\" beside a quick.toml, and not without one";
        wrong("quick", "quick.toml and the table [quick] go together".to_owned(), help);
    }
    if experiment.has_farm() != paper.takes.farm.is_some() {
        let help = "write farm = \"5h\" in [takes] beside a farm.toml, and not without one";
        wrong("takes", "farm.toml and `farm` of [takes] go together".to_owned(), help);
    }
    for (backend, less) in [(Backend::Dpdk, &paper.dpdk), (Backend::Hosts, &paper.hosts)] {
        let (name, has_own) = (backend.name(), experiment.has_own_for(backend));
        if less.is_some() && !has_own {
            let help = "write the file, the sweep that leaves it out";
            wrong(name, format!("the table [{name}] is about a {name}.toml, and there is none"), help);
        }
        if has_own && !paper.backends.contains(&backend) {
            let help = "write backends = [\"sim\", \"dpdk\"], and \"hosts\" where its hosts may be real";
            wrong("backends", format!("{name}.toml is for --backend {name}"), help);
        }
    }
    if !paper.backends.contains(&Backend::Sim) {
        wrong("backends", "an experiment runs in virtual time".to_owned(), "write backends = [\"sim\"]");
    }
    if paper.columns == 0 {
        wrong("columns", "no panels stand side by side".to_owned(), "write columns = 2");
    }
    if !paper.claims.iter().any(|claim| claim.conclusion) {
        let help = "write conclusion = true in what the paper is about";
        wrong("claims", "no claim is a conclusion, on which the verdict hangs".to_owned(), help);
    }
    let mut names = BTreeSet::new();
    for (n, measure) in paper.measures.iter().enumerate() {
        if !names.insert(measure.name.as_str()) {
            let message = format!("a measure \"{}\" stands here twice", measure.name);
            wrong(&format!("measures[{n}].name"), message, "write another name");
        }
    }
    for (n, measure) in paper.measures.iter().enumerate() {
        mistakes.extend(of_measure(&format!("measures[{n}]"), measure, &paper.measures));
    }
    for (n, claim) in paper.claims.iter().enumerate() {
        mistakes.extend(of_claim(&format!("claims[{n}]"), claim, &names));
    }
    for (n, panel) in paper.panels.iter().enumerate() {
        mistakes.extend(of_panel(&format!("panels[{n}]"), panel));
    }
    for (n, open) in paper.open.iter().enumerate() {
        let wrong = open.mistakes(&paper.open[..n]);
        mistakes.extend(wrong.into_iter().map(|(key, message, help)| (format!("open[{n}]{key}"), message, help)));
    }
    mistakes.extend(of_map(paper));
    for (n, mutation) in paper.mutations.iter().enumerate() {
        let wrong = mistakes_of_mutation(mutation, paper);
        mistakes.extend(wrong.into_iter().map(|(key, message, help)| (format!("mutations[{n}]{key}"), message, help)));
    }
    into_result(experiment, mistakes)
}

/// Errors of a mutation; keys are relative to `[[mutations]]`.
fn mistakes_of_mutation(mutation: &Mutation, paper: &PaperFile) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    if mutation.set.is_empty() {
        let help = "write set = { \"switch.buffer.dt.alpha\" = 8 }".to_owned();
        mistakes.push((".set".to_owned(), "the mutation changes nothing".to_owned(), help));
    }
    if let Some(key) = mutation.set.keys().find(|key| KeyPath::parse(key).is_none()) {
        let help = "write keys with dots between them".to_owned();
        mistakes.push((".set".to_owned(), format!("\"{key}\" is no key of a scenario"), help));
    }
    let is_claim = paper.claims.iter().any(|claim| claim.statement == mutation.fails);
    let is_number = paper.measures.iter().any(|one| one.name == mutation.fails && one.paper.is_some());
    if !is_claim && !is_number {
        let help = "write what a claim says, or the name of a measure with the paper's number".to_owned();
        mistakes.push((".fails".to_owned(), format!("nothing claims \"{}\"", mutation.fails), help));
    }
    mistakes
}

fn of_map(paper: &PaperFile) -> Vec<Mistake> {
    let map = &paper.map;
    let names: BTreeSet<&str> = map.measures.iter().map(|measure| measure.name.as_str()).collect();
    let measures = map.measures.iter().enumerate();
    let measures = measures.flat_map(|(n, measure)| of_measure(&format!("map.measures[{n}]"), measure, &map.measures));
    let claims =
        map.claims.iter().enumerate().flat_map(|(n, claim)| of_claim(&format!("map.claims[{n}]"), claim, &names));
    let mut mistakes: Vec<Mistake> = measures.chain(claims).collect();
    if names.len() < map.measures.len() {
        let help = "write another name".to_owned();
        mistakes.push(("map.measures".to_owned(), "two measures have one name".to_owned(), help));
    }
    if map.measures.is_empty() != map.claims.is_empty()
        || map.claims.iter().any(|claim| claim.conclusion) == map.claims.is_empty()
    {
        let help = "write [[map.measures]] and [[map.claims]], one with conclusion = true, or neither";
        mistakes.push(("map".to_owned(), "a map's own claims are not complete".to_owned(), help.to_owned()));
    }
    mistakes
}

/// Checks measures and lines against the sweep: each needs a point. A reduced sweep may lack some.
pub(super) fn of_plan(experiment: &Experiment, plan: &SweepPlan, is_full: bool) -> Result<(), ConfigErrors> {
    let mut mistakes = Vec::new();
    let look = |key: String, of: Selection<'_>, over: Option<Aggregation>| {
        let selected: Vec<&Point> = plan.points.iter().filter(|point| of.has(point)).collect();
        let (message, help) = if let Some(unknown) = of.unknown(plan).filter(|_| selected.is_empty()) {
            unknown
        } else if selected.is_empty() && is_full {
            let help = "write runs and where as the sweep has them";
            ("the sweep has no such point".to_owned(), help.to_owned())
        } else if over == Some(Aggregation::Parameters)
            && selected.iter().any(|point| point.run_name != selected[0].run_name)
        {
            ("a mean over parameters is of one run, and this is of several".to_owned(), "name one in `runs`".to_owned())
        } else if over == Some(Aggregation::Mean)
            && selected.iter().any(|point| combination(point) != combination(selected[0]))
        {
            let help = "name one run, and a value of each parameter in `where`; or write over = \"parameters\", \"max\", \"min\", \"median\", \"sum\" or \"share\"";
            ("a mean is over seeds alone, and this is of several runs or parameters".to_owned(), help.to_owned())
        } else {
            return None;
        };
        Some((key, message, help))
    };
    for (n, measure) in experiment.paper.measures.iter().enumerate().filter(|(_, measure)| measure.parts().is_none()) {
        let is_counted = measure.share.is_some() || measure.count.is_some();
        let over = (!is_counted).then(|| measure.over.unwrap_or_default());
        mistakes.extend(look(format!("measures[{n}]"), measure.selection(), over));
        if let Some(path) =
            measure.each.as_ref().filter(|path| plan.points.iter().any(|it| parameter(it, path).is_none()))
        {
            let message = format!("the sweep has no parameter \"{path}\"");
            mistakes.push((format!("measures[{n}].each"), message, known_parameters(plan)));
        }
    }
    for (n, panel) in experiment.paper.panels.iter().enumerate() {
        for (m, line) in panel.lines.iter().enumerate() {
            mistakes.extend(look(format!("panels[{n}].lines[{m}]"), line.selection(), None));
        }
        if let Some(x) = panel.x.as_ref().filter(|x| plan.points.iter().any(|point| parameter(point, x).is_none())) {
            let message = format!("the sweep has no parameter \"{x}\"");
            mistakes.push((format!("panels[{n}].x"), message, known_parameters(plan)));
        }
    }
    into_result(experiment, mistakes)
}

impl Selection<'_> {
    /// Error for a run or a parameter that the sweep lacks.
    fn unknown(&self, plan: &SweepPlan) -> Option<(String, String)> {
        let names: BTreeSet<&str> = plan.points.iter().map(|point| point.run_name.as_str()).collect();
        if let Some(run) = self.runs.iter().find(|run| !names.contains(run.as_str())) {
            let known: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            return Some((format!("the sweep has no run \"{run}\""), format!("write one of: {}", known.join(", "))));
        }
        let path =
            self.parameters.keys().find(|path| plan.points.iter().all(|point| parameter(point, path).is_none()))?;
        Some((format!("the sweep has no parameter \"{path}\""), known_parameters(plan)))
    }
}

fn known_parameters(plan: &SweepPlan) -> String {
    let paths: Vec<&str> =
        plan.points.iter().take(1).flat_map(|point| &point.parameters).map(|(path, _)| path.as_str()).collect();
    if paths.is_empty() { "it has none".to_owned() } else { format!("write one of: {}", paths.join(", ")) }
}

fn of_measure(key: &str, measure: &Measure, all: &[Measure]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |what: &str, message: String, help: &str| {
        mistakes.push((format!("{key}{what}"), message, help.to_owned()));
    };
    let kinds = [measure.value.is_some(), measure.series.is_some(), measure.share.is_some(), measure.ratio.is_some()];
    let more = [measure.reduction.is_some(), measure.count.is_some(), measure.messages.is_some()];
    let kinds = kinds.into_iter().chain(more).filter(|is| *is).count();
    if kinds != 1 {
        let help = "write value, series, share, count, messages, ratio or reduction";
        wrong(
            "",
            format!("the measure \"{}\" is {}", measure.name, if kinds == 0 { "of nothing" } else { "two things" }),
            help,
        );
        return mistakes;
    }
    let is_of_messages = [measure.percentile.is_some(), measure.traffic.is_some(), measure.sizes.is_some()];
    match measure.messages.as_deref() {
        None if is_of_messages.contains(&true) => {
            let help = "write messages = \"slowdown\" beside them, or take them out";
            wrong("", "percentile, traffic and sizes are of messages".to_owned(), help);
        }
        None => {}
        Some(value @ ("fct" | "slowdown" | "throughput")) => {
            let unit = match value {
                "fct" => units::divisor("_us", &measure.unit).err(),
                "throughput" => units::divisor("_bps", &measure.unit).err(),
                _ => None,
            };
            if let Some(known) = unit {
                let message = format!("\"{}\" is no unit of this", measure.unit);
                wrong(".unit", message, &format!("write one of: {known}"));
            }
        }
        Some(other) => {
            let help = "write \"fct\", \"slowdown\" or \"throughput\"";
            wrong(".messages", format!("messages have no \"{other}\""), help);
        }
    }
    if measure.percentile.is_some_and(|percentile| !(percentile > 0.0 && percentile <= 100.0)) {
        let message = "a percentile is above 0 and at most 100".to_owned();
        wrong(".percentile", message, "write percentile = 95, or leave it out for the mean");
    }
    for (n, text) in measure.sizes.iter().flatten().enumerate().filter(|(_, text)| Bytes::from_str(text).is_err()) {
        let help = "write sizes = [\"100KB\", \"1MB\"], from the one and below the other";
        wrong(&format!(".sizes[{n}]"), format!("\"{text}\" is no size"), help);
    }
    if measure.each.is_some() && measure.count.is_none() {
        let help = "write count = \"deadlock_since_ns\" beside it, or take it out";
        wrong(".each", "values of a parameter are counted, and nothing says which".to_owned(), help);
    }
    for (what, column) in [(".value", &measure.value), (".share", &measure.share), (".count", &measure.count)] {
        if let Some(Err((message, help))) = column.as_ref().map(|column| check_column(column)) {
            wrong(what, message, &help);
        }
    }
    let is_share = measure.over == Some(Aggregation::Share);
    if is_share && !measure.is_instant() && measure.series.is_none() {
        let help = "write share = \"deadlock_since_ns\", or over = \"share\" beside a series with a level";
        wrong(".over", "a share is of points in which an instant occurs or a series is at a level".to_owned(), help);
    }
    if is_share && !measure.unit.is_empty() {
        wrong(".unit", "a share has no unit".to_owned(), "write unit = \"\"");
    }
    if let Err(units) = units::divisor(measure.column_of_unit(), &measure.unit)
        && !is_share
    {
        wrong(".unit", format!("\"{}\" is no unit of this", measure.unit), &format!("write one of: {units}"));
    }
    if measure.series.is_some() != measure.statistic.is_some() {
        let help = "write statistic = \"mean\" beside a series, and not without one";
        wrong("", "series and statistic go together".to_owned(), help);
    }
    let has_level = measure.statistic.is_some_and(|statistic| statistic.is_time() || is_share);
    if has_level != measure.level.as_ref().and_then(SeriesThreshold::of_column).is_some() {
        let help = "write level = \"5Gbps\", \"100KB\", or a number in the column's own unit, beside \"first-at-least\", \"first-below\" and over = \"share\"";
        wrong(".level", "this statistic and a level go together".to_owned(), help);
    }
    if let Some(after) = &measure.after {
        let is_instant = |other: &&Measure| other.name == *after && other.is_instant() && other.after.is_none();
        if measure.series.is_none() || !all.iter().any(|other| is_instant(&other)) {
            let help = "write the name of a measure with value = \"deadlock_since_ns\" or a \"first-below\" statistic, beside a series";
            wrong(".after", format!("\"{after}\" is no instant from which a series is read"), help);
        }
    }
    for (what, text) in [(".from", &measure.from), (".to", &measure.to), (".smooth", &measure.smooth)] {
        mistakes.extend(of_time(&format!("{key}{what}"), text));
    }
    for part in measure.parts().into_iter().flatten() {
        let found = all.iter().find(|other| other.name == *part);
        if !found.is_some_and(|other| other.value.is_some() || other.series.is_some() || other.messages.is_some()) {
            let help = "write the names of two measures with a value, a series or messages";
            mistakes.push((key.to_owned(), format!("\"{part}\" can't be divided"), help.to_owned()));
        }
    }
    if measure.paper.is_some() && (measure.allowed().is_none() || measure.source.is_none()) {
        let help = "write tolerance = 0.05 or within = 10, and source = \"6.1\"";
        let message = "a paper's number has a tolerance and a source".to_owned();
        mistakes.push((format!("{key}.paper"), message, help.to_owned()));
    }
    mistakes
}

fn of_claim(key: &str, claim: &Claim, names: &BTreeSet<&str>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    if claim.comparison_count() == 0 {
        let help = "write is, at_least, at_most, above or below: at_most = 0.8, at_most = { measure = \"PAUSEs, DT\", times = 0.8 }";
        mistakes.push((key.to_owned(), format!("nothing is claimed of \"{}\"", claim.measure), help.to_owned()));
    }
    if claim.measures().skip(1).any(|other| other == claim.measure) {
        let help = "compare it with another measure or a number";
        mistakes.push((key.to_owned(), format!("\"{}\" is compared with itself", claim.measure), help.to_owned()));
    }
    for unknown in claim.measures().filter(|name| !names.contains(name)) {
        let known: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let help = format!("write one of: {}", known.join(", "));
        mistakes.push((format!("{key}.measure"), format!("there is no measure \"{unknown}\""), help));
    }
    mistakes
}

fn of_panel(key: &str, panel: &Panel) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |what: &str, message: &str, help: &str| {
        mistakes.push((format!("{key}{what}"), message.to_owned(), help.to_owned()));
    };
    if (panel.kind == PanelKind::Sweep) != panel.x.is_some() {
        wrong(".x", "a panel of kind \"sweep\", and no other, has an x", "write x = \"workloads.0.load\"");
    }
    let of_cdf = ["fct", "slowdown", "throughput"];
    let is_cdf = panel.value.as_ref().is_some_and(|value| of_cdf.contains(&value.as_str()));
    if (panel.kind == PanelKind::Cdf) != is_cdf {
        let help = "write value = \"fct\", \"slowdown\" or \"throughput\" in a panel of kind \"cdf\"";
        wrong(".value", "a panel of kind \"cdf\", and no other, has a value of its own", help);
    }
    for (n, line) in panel.lines.iter().enumerate() {
        let key = format!("{key}.lines[{n}]");
        let (has, help) = match panel.kind {
            PanelKind::Time => {
                (line.series.is_some() && line.value.is_none(), "write series = \"S1.p0.3.ingress_bytes\"")
            }
            PanelKind::Sweep => (line.value.is_some() && line.series.is_none(), "write value = \"pauses_sent\""),
            PanelKind::Cdf => (line.value.is_none() && line.series.is_none(), "write neither series nor value"),
        };
        if !has {
            mistakes.push((key.clone(), "this is no line of such a panel".to_owned(), help.to_owned()));
            continue;
        }
        if let Some(Err((message, help))) = line.value.as_ref().map(|column| check_column(column)) {
            mistakes.push((format!("{key}.value"), message, help));
        }
        let column = line.value.as_ref().or(line.series.as_ref());
        if let Some(Err(units)) = column.map(|column| units::divisor(column, &panel.unit)) {
            let message = format!("\"{}\" is no unit of this", panel.unit);
            mistakes.push((key.clone(), message, format!("write in the panel a unit of: {units}")));
        }
        mistakes.extend(of_time(&format!("{key}.smooth"), &line.smooth));
    }
    let unit = match panel.value.as_deref() {
        Some("fct") => units::divisor("_us", &panel.unit).err(),
        Some("throughput") => units::divisor("_bps", &panel.unit).err(),
        _ => None,
    };
    if let Some(known) = unit {
        let message = format!("\"{}\" is no unit of this", panel.unit);
        mistakes.push((format!("{key}.unit"), message, format!("write one of: {known}")));
    }
    for (n, text) in panel.sizes.iter().flatten().enumerate() {
        if Bytes::from_str(text).is_err() {
            let help = "write sizes = [\"100KB\", \"1MB\"], from the one and below the other";
            mistakes.push((format!("{key}.sizes[{n}]"), format!("\"{text}\" is no size"), help.to_owned()));
        }
    }
    for (n, stated) in panel.paper.iter().enumerate() {
        if let Some(of) = stated.of.as_ref().filter(|of| panel.lines.iter().all(|line| line.name != **of)) {
            let help = "write the name of one of the panel's lines, or leave it out".to_owned();
            mistakes.push((format!("{key}.paper[{n}].of"), format!("the panel has no line \"{of}\""), help));
        }
    }
    for (what, text) in [(".from", &panel.from), (".to", &panel.to)] {
        mistakes.extend(of_time(&format!("{key}{what}"), text));
    }
    mistakes
}

fn of_time(key: &str, text: &Option<String>) -> Option<Mistake> {
    let text = text.as_ref().filter(|text| units::micros(text).is_none())?;
    Some((key.to_owned(), format!("\"{text}\" is no time"), "write a number with its unit: \"20ms\"".to_owned()))
}

fn into_result(experiment: &Experiment, mistakes: Vec<Mistake>) -> Result<(), ConfigErrors> {
    let errors = mistakes.into_iter().map(|(key, message, help)| experiment.source.error_at(&key, message, help));
    ConfigErrors::joined(errors).map_or(Ok(()), Err)
}
