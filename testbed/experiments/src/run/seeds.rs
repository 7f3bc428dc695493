//! Runs of a scenario with several seeds, and their means with confidence intervals.

use std::path::Path;

use serde::Serialize;
use weir_results::run_dir::{BinSummary, Distribution, Summary};
use weir_scenario::file::{self, ScenarioRun};

use super::chosen_of;
use crate::Failure;
use crate::table::Table;
use crate::table::statistics::{Estimate, INTERVAL_HEAD, interval_text, is_below_max, mean};

/// Run with one of several values of `scenario.seed`.
pub(super) struct SeededRun {
    /// Name of the file's run.
    pub of: String,
    pub seed: u32,
    pub run: ScenarioRun,
    pub text: String,
}

/// Creates each named run with `count` seeds: the file's own, continued with the following integers.
pub(super) fn seeded(path: &Path, text: &str, names: &[String], count: u32) -> Result<Vec<SeededRun>, Failure> {
    let mut all = Vec::new();
    for n in 0..count {
        // The text was parsed as a scenario before.
        let mut document: toml::Table = text.parse().map_err(|error| Failure::Argument(format!("{error}")))?;
        let scenario = document.entry("scenario").or_insert_with(|| toml::Table::new().into());
        let table = scenario.as_table_mut().ok_or_else(|| Failure::Argument("`scenario` is no table".to_owned()))?;
        let first = table.get("seed").and_then(toml::Value::as_integer).unwrap_or(1) as u32;
        let seed = first.checked_add(n).ok_or_else(|| {
            Failure::Argument(format!("--seeds {count}: seeds from {first} on end at {}; write fewer", u32::MAX))
        })?;
        table.insert("seed".to_owned(), i64::from(seed).into());
        let text = toml::to_string(&document).expect("a table that was read can be written");
        for mut run in chosen_of(names, file::parse(path, &text)?) {
            let of = run.name.clone();
            run.name = format!("{of} seed {seed}");
            all.push(SeededRun { of, seed, run, text: text.clone() });
        }
    }
    all.sort_by_key(|seeded| names.iter().position(|name| *name == seeded.of));
    Ok(all)
}

/// Figure of a run over its seeds: an element of `seeds.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FigureEstimate {
    pub run: String,
    pub figure: String,
    /// Number of seeds with the figure: a percentile at an unfinished message has no value.
    pub seeds: usize,
    pub mean: f64,
    /// 95 % confidence interval of the mean (Student's t), with two or more seeds that differ.
    pub interval: Option<(f64, f64)>,
    pub least: f64,
    pub most: f64,
    /// Difference to the first run, if both have the figure for the same seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<FigureDifference>,
}

/// Mean difference between two runs of a seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FigureDifference {
    /// Run that is subtracted.
    pub less: String,
    pub mean: f64,
    /// 95 % confidence interval (Student's t), with seeds that differ.
    pub interval: Option<(f64, f64)>,
}

/// Results of a run with one seed.
#[derive(Clone, Copy)]
pub(crate) struct SeedSummary<'s> {
    /// Name of the run, without the seed.
    pub run: &'s str,
    /// Values of a sweep's parameters: runs are compared where these are equal. Empty without parameters.
    pub parameters: &'s str,
    pub seed: u64,
    pub summary: &'s Summary,
}

/// Estimates all figures of all runs, in the order of their first appearance.
pub(crate) fn figures<'s>(runs: impl IntoIterator<Item = SeedSummary<'s>>) -> Vec<FigureEstimate> {
    let mut figures: Vec<SeededFigure<'s>> = Vec::new();
    for SeedSummary { run, parameters, seed, summary } in runs {
        for figure in values(summary) {
            let value = (seed, figure.value);
            let place = |of: &&mut SeededFigure<'_>| {
                (of.run, of.parameters, &of.figure.name) == (run, parameters, &figure.name)
            };
            match figures.iter_mut().find(place) {
                Some(of) => of.values.push(value),
                None => figures.push(SeededFigure { run, parameters, figure, values: vec![value] }),
            }
        }
    }
    figures.iter_mut().for_each(|of| of.values.sort_by_key(|(seed, _)| *seed));
    let first = figures.first().map_or("", |of| of.run);
    let estimate = |of: &SeededFigure<'_>| {
        let estimate = of.estimate()?;
        let has_seeds = |other: &&SeededFigure<'_>| {
            other.values.iter().map(|(seed, _)| seed).eq(of.values.iter().map(|(seed, _)| seed))
        };
        let base = figures
            .iter()
            .find(|other| (other.run, other.parameters, &other.figure.name) == (first, of.parameters, &of.figure.name));
        let base = base.filter(|_| of.run != first).filter(has_seeds).and_then(SeededFigure::estimate);
        let difference = base.and_then(|base| estimate.paired_difference(&base));
        let estimate = estimate.bounded(of.figure.least).with_spread();
        let parts = [of.run, of.parameters].into_iter().filter(|part| !part.is_empty());
        Some(FigureEstimate {
            run: parts.collect::<Vec<_>>().join(", "),
            figure: of.figure.name.clone(),
            seeds: of.values.len(),
            mean: estimate.value,
            interval: estimate.interval,
            least: estimate.values.iter().copied().fold(f64::INFINITY, f64::min),
            most: estimate.values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            difference: difference.map(|of| FigureDifference {
                less: first.to_owned(),
                mean: of.value,
                interval: of.interval,
            }),
        })
    };
    figures.iter().filter_map(estimate).collect()
}

/// Runs, of several seeds, whose figures are the same with each.
pub(super) fn same_results<'n>(names: &'n [String], figures: &[FigureEstimate]) -> Vec<&'n str> {
    let is_same = |name: &&str| {
        let of_run = || figures.iter().filter(|figure| figure.run == **name);
        of_run().any(|figure| figure.seeds > 1) && of_run().all(|figure| figure.least == figure.most)
    };
    names.iter().map(String::as_str).filter(is_same).collect()
}

/// Rows of a table of figures, the head first. Differences have columns if there are any.
pub(crate) fn rows(figures: &[FigureEstimate]) -> Vec<Vec<String>> {
    let head = ["run", "figure", "mean of the seeds", INTERVAL_HEAD, "least", "most", "seeds"];
    let less = figures.iter().find_map(|figure| figure.difference.as_ref()).map(|difference| &difference.less);
    let head_of_differences = less.map(|less| [format!("less {less}, seed by seed"), INTERVAL_HEAD.to_owned()]);
    let mut rows = vec![head.map(str::to_owned).into_iter().chain(head_of_differences.into_iter().flatten()).collect()];
    for figure in figures {
        let mut row = vec![
            figure.run.clone(),
            figure.figure.clone(),
            shown(figure.mean),
            interval_text(figure.interval, figure.seeds, shown),
            shown(figure.least),
            shown(figure.most),
            figure.seeds.to_string(),
        ];
        match (&figure.difference, less) {
            (Some(of), _) => row.extend([shown(of.mean), interval_text(of.interval, figure.seeds, shown)]),
            (None, Some(_)) => row.extend(["-", "-"].map(str::to_owned)),
            (None, None) => {}
        }
        rows.push(row);
    }
    rows
}

pub(super) fn table(figures: &[FigureEstimate]) -> Table {
    Table::of_rows(rows(figures))
}

/// Figure of a run, with its value for each seed.
struct SeededFigure<'s> {
    run: &'s str,
    parameters: &'s str,
    figure: RunFigure,
    values: Vec<(u64, f64)>,
}

impl SeededFigure<'_> {
    fn estimate(&self) -> Option<Estimate> {
        mean(&self.values.iter().map(|(_, value)| *value).collect::<Vec<_>>())
    }
}

/// Value to compare between runs.
struct RunFigure {
    name: String,
    value: f64,
    /// Least possible value.
    least: f64,
}

type StatisticFn = fn(&Distribution) -> Option<u64>;

/// Maximum number of flows with figures of their own.
const FLOWS_MAX: usize = 8;

/// Values to compare, in the order of a table.
fn values(summary: &Summary) -> Vec<RunFigure> {
    let mut values = Vec::new();
    let mut add = |name: &str, value: Option<f64>| {
        let least = if name.contains(": slowdown ") { 1.0 } else { 0.0 };
        values.extend(value.map(|value| RunFigure { name: name.to_owned(), value, least }));
    };
    let flow_control = summary.flow_control;
    add("PAUSEs sent by switches", flow_control.map(|of| of.pauses_sent as f64));
    add("paused, all ports added up, ms", flow_control.map(|of| of.paused_ns as f64 / 1e6));
    add("lossless frames dropped", Some(summary.lossless_drops_with_hosts() as f64));
    let outages = summary.outages.as_ref();
    add("lossless frames lost to outages, drops included", outages.map(|of| of.lossless_frames_lost as f64));
    let dropped = summary.frames.as_ref().map(|frames| frames.dropped.values().sum::<u64>());
    add("all frames dropped", dropped.map(|frames| frames as f64));
    if summary.flows.len() <= FLOWS_MAX {
        for flow in &summary.flows {
            add(&format!("{}, Gb/s of payload", flow.name), Some(flow.throughput_bps as f64 / 1e9));
        }
    } else {
        let all: u64 = summary.flows.iter().map(|flow| flow.throughput_bps).sum();
        add("all flows, Gb/s of payload", Some(all as f64 / 1e9));
    }
    for traffic in &summary.traffic {
        let name = &traffic.name;
        let all: Option<&BinSummary> = traffic.bins.iter().find(|bin| bin.sizes == "all");
        add(&format!("{name}: unfinished"), Some(traffic.unfinished as f64));
        let many = all.filter(|bin| is_below_max(bin.count, 990));
        let parts: [(&str, Option<&BinSummary>, StatisticFn); 3] =
            [("mean", all, |of| of.mean), ("50 %", all, |of| of.p50), ("99 %", many, |of| of.p99)];
        for (what, bin, value) in parts {
            let slowdown = bin.and_then(|bin| value(bin.slowdown_permille.as_ref()?));
            add(&format!("{name}: slowdown {what}"), slowdown.map(|permille| permille as f64 / 1e3));
        }
        for (what, bin, value) in parts {
            let fct = bin.and_then(|bin| value(&bin.fct_ns));
            add(&format!("{name}: FCT {what}, us"), fct.map(|ns| ns as f64 / 1e3));
        }
        let completions = traffic.repetitions.iter().map(|repetition| Some(repetition.completion_ns? as f64 / 1e3));
        let completions: Option<Vec<f64>> = completions.collect();
        let completion = completions.and_then(|completions| mean(&completions));
        add(&format!("{name}: completion of a repetition, us"), completion.map(|estimate| estimate.value));
    }
    values
}

/// Number with three to five significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_differ_in_their_seeds_alone() {
        let text = "[scenario]\nend = '1ms'\nname = 'x'\nseed = 7\n[topology]\nkind = 'single'\nhosts = 2\nrate = '10Gbps'\n\
                    delay = '1us'\n[switch.classes]\npreset = 'roce'\n[[flows]]\nfrom = 'H0'\nto = 'H1'\nclass = 3\n\
                    [[runs]]\nname = 'a'\n[[runs]]\nname = 'b'\n[[runs]]\nname = 'c'\n";
        let names = ["c".to_owned(), "a".to_owned()];
        let all = seeded(Path::new("x.toml"), text, &names, 2).unwrap_or_else(|error| panic!("{error:?}"));
        let figures: Vec<(&str, u32, u64)> =
            all.iter().map(|one| (one.run.name.as_str(), one.seed, one.run.scenario.seed)).collect();
        assert_eq!(figures, [("c seed 7", 7, 7), ("c seed 8", 8, 8), ("a seed 7", 7, 7), ("a seed 8", 8, 8)]);
    }

    #[test]
    fn runs_that_no_seed_changes_are_named() {
        let figure = |run: &str, seeds, most| FigureEstimate {
            run: run.to_owned(),
            figure: "PAUSEs".to_owned(),
            seeds,
            mean: 1.0,
            interval: None,
            least: 1.0,
            most,
            difference: None,
        };
        let all =
            [figure("drawn", 2, 3.0), figure("drawn", 2, 1.0), figure("same", 2, 1.0), figure("one seed", 1, 1.0)];
        let names = ["drawn", "same", "one seed"].map(str::to_owned);
        assert_eq!(same_results(&names, &all), ["same"]);
    }

    #[test]
    fn runs_are_compared_seed_by_seed() {
        use weir_results::run_dir::FlowControlSummary;

        let summary = |pauses_sent| Summary {
            flow_control: Some(FlowControlSummary { pauses_sent, ..FlowControlSummary::default() }),
            ..Summary::default()
        };
        let of =
            |run: &'static str, numbers: [(u64, u64); 3]| numbers.map(|(seed, pauses)| (run, seed, summary(pauses)));
        // Seeds vary by 9 each, and the two runs by 1, 2 and 3 for the same seed.
        let all = [of("DT", [(1, 10), (2, 19), (3, 28)]), of("SPFC", [(3, 31), (2, 21), (1, 11)])].concat();
        let estimates =
            figures(all.iter().map(|(run, seed, summary)| SeedSummary { run, parameters: "", seed: *seed, summary }));
        let of_run = |run: &str| estimates.iter().find(|of| of.run == run && of.figure.starts_with("PAUSEs")).unwrap();
        assert_eq!(of_run("DT").difference, None);
        assert_eq!(of_run("DT").interval.unwrap().0, 0.0, "no fewer PAUSEs than none");
        let difference = of_run("SPFC").difference.as_ref().unwrap();
        // s = 1, t(2) = 4.303, half = 4.303 / sqrt(3).
        let (low, high) = difference.interval.unwrap();
        assert!((low + 0.4843).abs() < 1e-3 && (high - 4.4843).abs() < 1e-3, "{difference:?}");
        assert_eq!((difference.less.as_str(), difference.mean), ("DT", 2.0));
        let rows = rows(&estimates);
        assert_eq!(rows[0][7..], ["less DT, seed by seed", "95 % interval"]);
        let row = rows.iter().find(|row| row[0] == "SPFC" && row[1].starts_with("PAUSEs")).unwrap();
        assert_eq!(row[7..], ["2.000", "-0.484 to 4.484"]);
        let row = rows.iter().find(|row| row[1] == "lossless frames dropped").unwrap();
        assert_eq!(row[3], "no spread");
        // Runs are compared at equal parameters.
        let at = |parameters: &'static str, runs: [usize; 2]| {
            runs.map(|n| SeedSummary { run: all[n].0, parameters, seed: all[n].1, summary: &all[n].2 })
        };
        let of_parameters = figures([at("load 1", [0, 1]), at("load 2", [1, 2]), at("load 2", [4, 3])].concat());
        let of = |run: &str| of_parameters.iter().find(|of| of.run == run && of.figure.starts_with("PAUSEs")).unwrap();
        assert_eq!(of("DT, load 1").difference, None);
        assert_eq!(of("SPFC, load 2").difference.as_ref().map(|of| of.mean), Some(2.5));
        // Other seeds are no pairs.
        let one: Vec<_> = all.iter().filter(|(run, seed, _)| (*run == "DT") == (*seed < 3)).collect();
        let unpaired = figures(one.into_iter().map(|(run, seed, summary)| SeedSummary {
            run,
            parameters: "",
            seed: *seed,
            summary,
        }));
        assert!(unpaired.iter().all(|figure| figure.difference.is_none()));
    }

    #[test]
    fn figures_are_shown_with_the_places_that_say_something() {
        assert_eq!([0.0, 1.23456, 12.3456, 12_345.6].map(shown), ["0", "1.235", "12.3", "12346"]);
    }
}
