//! Plots of messages: slowdown by size, and distributions.

use weir_results::run_dir::{BinSummary, Distribution};

use super::{Plot, Section};
use crate::Failure;
use crate::report::charts::{Axis, Chart, ChartLine, Columns, color};
use crate::report::completion::{CompletionTimes, distribution, points};
use crate::report::input::Run;
use crate::table::count;
use crate::table::statistics::is_below_max;

/// Maximum number of lines in a plot of distributions; above it, each run has one line.
const DISTRIBUTIONS_MAX: usize = 14;

/// Slowdown by message size: the mean, and the 99th percentile.
pub(super) fn by_size(runs: &[Run], columns: &mut Columns) -> Option<Section> {
    let mut traffics: Vec<&str> = Vec::new();
    for traffic in runs.iter().flat_map(|run| &run.summary.traffic) {
        if !traffics.contains(&traffic.name.as_str()) {
            traffics.push(&traffic.name);
        }
    }
    let mut plots = Vec::new();
    for name in traffics {
        let of = |run: &Run| run.summary.traffic.iter().find(|of| of.name == name).cloned().unwrap_or_default();
        let bins = |run: &Run| of(run).bins.into_iter().filter(|bin| bin.sizes != "all");
        let mut sizes: Vec<(u64, String)> = runs.iter().flat_map(bins).map(|bin| (bin.from_bytes, bin.sizes)).collect();
        sizes.sort();
        sizes.dedup();
        if sizes.len() < 2 {
            continue;
        }
        let mut chart = Chart {
            x: Axis {
                label: "size of the message".to_owned(),
                from: -0.4,
                to: sizes.len() as f64 - 0.6,
                ..Axis::default()
            },
            at: Some(columns.add((0..sizes.len()).map(|n| n as f64).collect())),
            categories: sizes.iter().map(|(_, size)| size.clone()).collect(),
            ..Chart::default()
        };
        let mut max = f64::NAN;
        for (n, run) in runs.iter().enumerate() {
            let slowdowns = |permille: u64, value: fn(&Distribution) -> Option<u64>| -> Vec<f64> {
                let is_shown = |bin: &BinSummary| is_below_max(bin.count, permille);
                let of_size =
                    |size: &String| bins(run).find(|bin| bin.sizes == *size).filter(is_shown)?.slowdown_permille;
                sizes
                    .iter()
                    .map(|(_, size)| {
                        of_size(size).and_then(|of| value(&of)).map_or(f64::NAN, |value| value as f64 / 1e3)
                    })
                    .collect()
            };
            let (mean, p99) = (slowdowns(0, |of| of.mean), slowdowns(990, |of| of.p99));
            if mean.iter().all(|value| value.is_nan()) {
                continue;
            }
            max = mean.iter().chain(&p99).copied().fold(max, f64::max);
            let line = |what: &str, values: Vec<f64>, is_dashed: bool, columns: &mut Columns| {
                let name = if runs.len() == 1 { what.to_owned() } else { format!("{}, {what}", run.label) };
                ChartLine { is_dashed, ..ChartLine::nth(n % color::COUNT, &name, columns.add(values)) }
            };
            chart.lines.push(line("mean", mean, false, columns));
            chart.lines.push(line("99 %", p99, true, columns));
        }
        if !chart.lines.is_empty() {
            chart.y = Axis::up_to("slowdown", max);
            let alt = format!("Slowdown of {name} by size; the same figures are in the table below");
            plots.push(Plot { caption: name.to_owned(), alt, chart });
        }
    }
    let notes = vec![
        "How many times longer than in an empty fabric messages took. Solid: the mean; dashed: 99 % took no longer. \
         There is no mean where some did not finish, and no such 99 % where more than 1 % did not, or of fewer than 100 messages."
            .to_owned(),
    ];
    let title = "Slowdown by size";
    (!plots.is_empty()).then_some(Section {
        id: "slowdown".into(),
        title: title.into(),
        notes,
        choices: Vec::new(),
        plots,
    })
}

/// Distributions of FCT and slowdown.
pub(super) fn distributions(runs: &[Run], columns: &mut Columns) -> Result<Option<Section>, Failure> {
    let mut messages = Vec::new();
    for run in runs {
        messages.push(CompletionTimes::read(&run.directory)?);
    }
    let lines: usize = messages.iter().map(|of| of.flows.len()).sum();
    if lines > DISTRIBUTIONS_MAX {
        messages = messages.into_iter().map(CompletionTimes::merged).collect();
    }
    let one_name = messages.iter().all(|of| of.flows.len() <= 1);
    let mut named: Vec<(String, &Vec<f64>, &Vec<f64>)> = Vec::new();
    for (run, messages) in runs.iter().zip(&messages) {
        for flow in &messages.flows {
            let name = match (runs.len(), one_name) {
                (1, _) => flow.name.clone(),
                (_, true) => run.label.clone(),
                _ => format!("{}, {}", run.label, flow.name),
            };
            named.push((name, &flow.fct_us, &flow.slowdown));
        }
    }
    let mut plots = Vec::new();
    let of_fct: Vec<(&str, &Vec<f64>)> = named.iter().map(|(name, fct, _)| (name.as_str(), *fct)).collect();
    plots.extend(plot("Flow completion time", "FCT (us)", &of_fct, columns));
    let of_slowdown: Vec<(&str, &Vec<f64>)> =
        named.iter().map(|(name, _, slowdown)| (name.as_str(), *slowdown)).collect();
    plots.extend(plot("Slowdown", "slowdown", &of_slowdown, columns));
    let mut notes = vec![
        "What share of the messages took no longer (cumulative distribution), of all that started: a line stays below 100 % \
         where some did not finish."
            .to_owned(),
    ];
    for (name, fct, _) in &named {
        let unfinished = fct.iter().filter(|fct| fct.is_infinite()).count() as u64;
        if unfinished > 0 {
            notes.push(format!(
                "{name}: {} of {} messages did not finish.",
                count(unfinished),
                count(fct.len() as u64)
            ));
        }
    }
    let title = "Distributions";
    Ok((!plots.is_empty()).then_some(Section {
        id: "distributions".into(),
        title: title.into(),
        notes,
        choices: Vec::new(),
        plots,
    }))
}

fn plot(caption: &str, label: &str, values: &[(&str, &Vec<f64>)], columns: &mut Columns) -> Option<Plot> {
    let at = points(values.iter().flat_map(|(_, values)| values.iter()));
    let (first, last) = (*at.first()?, *at.last()?);
    let mut chart = Chart {
        x: Axis { label: label.to_owned(), from: first, to: last.max(first * 1.01), is_log: true, ..Axis::default() },
        y: Axis { label: "of the messages (%)".to_owned(), to: 101.0, ..Axis::default() },
        ..Chart::default()
    };
    let mut descriptions = Vec::new();
    for (n, (name, values)) in values.iter().enumerate().filter(|(_, (_, values))| !values.is_empty()) {
        let shares = distribution(values, &at);
        descriptions.push(match at.iter().zip(&shares).find(|(_, share)| **share >= 50.0) {
            Some((half, _)) => format!("{name}: half within {half:.1}"),
            None => format!("{name}: less than half finished"),
        });
        chart.lines.push(ChartLine { is_stepped: true, ..ChartLine::nth(n, name, columns.add(shares)) });
    }
    chart.at = Some(columns.add(at));
    let alt = format!("Cumulative distribution of {label}. {}", descriptions.join("; "));
    (!chart.lines.is_empty()).then(|| Plot { caption: caption.to_owned(), alt, chart })
}
