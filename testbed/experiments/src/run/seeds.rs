//! Runs of a scenario with several seeds, and their means with confidence intervals.

use std::path::Path;

use serde::Serialize;
use weir_results::run_dir::{BinSummary, Distribution, Summary};
use weir_scenario::file::{self, ScenarioRun};

use super::{CompletedRun, chosen_of};
use crate::Failure;
use crate::table::Table;
use crate::table::statistics::{is_below_max, mean};

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

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FigureEstimate {
    pub run: String,
    pub figure: String,
    /// Number of seeds with the figure: a percentile at an unfinished message has no value.
    pub seeds: usize,
    pub mean: f64,
    /// 95 % confidence interval of the mean (Student's t), with two or more seeds.
    pub interval: Option<(f64, f64)>,
    pub least: f64,
    pub most: f64,
}

/// All figures of all runs; `of` has the file's run and the seed of each completed run.
pub(super) fn figures(ended: &[CompletedRun], of: &[(String, u32)]) -> Vec<FigureEstimate> {
    let mut figures: Vec<(String, String, Vec<f64>)> = Vec::new();
    for (ended, (run, _)) in ended.iter().zip(of) {
        for (figure, value) in values(&ended.summary) {
            match figures.iter_mut().find(|(of, name, _)| of == run && *name == figure) {
                Some((.., values)) => values.push(value),
                None => figures.push((run.clone(), figure, vec![value])),
            }
        }
    }
    let figure = |(run, figure, values): (String, String, Vec<f64>)| {
        let estimate = mean(&values)?;
        Some(FigureEstimate {
            run,
            figure,
            seeds: values.len(),
            mean: estimate.value,
            interval: estimate.interval,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    };
    figures.into_iter().filter_map(figure).collect()
}

/// Runs, of several seeds, whose figures are the same with each.
pub(super) fn same_results<'n>(names: &'n [String], figures: &[FigureEstimate]) -> Vec<&'n str> {
    let is_same = |name: &&str| {
        let of_run = || figures.iter().filter(|figure| figure.run == **name);
        of_run().any(|figure| figure.seeds > 1) && of_run().all(|figure| figure.least == figure.most)
    };
    names.iter().map(String::as_str).filter(is_same).collect()
}

pub(super) fn table(figures: &[FigureEstimate]) -> Table {
    let mut table = Table::new(["run", "figure", "mean", "95 % interval", "least", "most", "seeds"]);
    for figure in figures {
        let interval = match figure.interval {
            None => "-".to_owned(),
            Some((low, high)) => format!("{} to {}", shown(low), shown(high)),
        };
        table.row([
            figure.run.clone(),
            figure.figure.clone(),
            shown(figure.mean),
            interval,
            shown(figure.least),
            shown(figure.most),
            figure.seeds.to_string(),
        ]);
    }
    table
}

type StatisticFn = fn(&Distribution) -> Option<u64>;

/// Maximum number of flows with figures of their own.
const FLOWS_MAX: usize = 8;

/// Values to compare, in the order of a table.
fn values(summary: &Summary) -> Vec<(String, f64)> {
    let mut values = Vec::new();
    let mut add = |name: &str, value: Option<f64>| values.extend(value.map(|value| (name.to_owned(), value)));
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
        };
        let all =
            [figure("drawn", 2, 3.0), figure("drawn", 2, 1.0), figure("same", 2, 1.0), figure("one seed", 1, 1.0)];
        let names = ["drawn", "same", "one seed"].map(str::to_owned);
        assert_eq!(same_results(&names, &all), ["same"]);
    }

    #[test]
    fn figures_are_shown_with_the_places_that_say_something() {
        assert_eq!([0.0, 1.23456, 12.3456, 12_345.6].map(shown), ["0", "1.235", "12.3", "12346"]);
    }
}
