//! Lines and panels of a figure's points. Names contain only differing values; series beyond the number of line styles
//! get panels of their own.

use std::str::FromStr;

use weir_results::plot::{ConfidenceInterval, Figure, Marker, Panel, PlotLine, Scale, Style, XAxis};
use weir_units::{BitRate, Bytes, Span};

use super::names::{ResolvedFigure, ResolvedLines, short_column, short_key};
use super::pooled::{GroupKey, PooledValue};
use super::results::Results;
use super::{FigureSpec, FigureWidth};
use crate::table::Table;
use crate::table::statistics::{Estimate, INTERVAL_HEAD, interval_text};
use crate::table::typed::{Cell, TypedTable};
use crate::table::units::{column_unit, shown};

/// Maximum number of distinguishable lines in a panel.
pub(super) const LINES_MAX: usize = 7;

pub(super) fn figure(spec: &FigureSpec, wanted: &ResolvedFigure, points: &[PooledValue], results: &Results) -> Figure {
    let names = results.names();
    let x = AxisValues::from_texts(points.iter().map(|point| point.place.x.as_str()));
    let x_label = format!("{}{}", short_key(&names.keys, wanted.x), x.unit());
    let x_label = spec.x_label.clone().unwrap_or(x_label);
    let mut panels = Vec::new();
    for y in 0..wanted.y.len() {
        let column = &names.columns[wanted.y[y]];
        let of_column: Vec<&PooledValue> = points.iter().filter(|point| point.place.y == y).collect();
        let values: &[PointValue] =
            if wanted.versus.is_some() { &[PointValue::Own, PointValue::Difference] } else { &[PointValue::Own] };
        for value in values {
            let drawn: Vec<&PooledValue> = of_column
                .iter()
                .copied()
                .filter(|point| *value == PointValue::Own || point.difference.is_some())
                .collect();
            let largest =
                drawn.iter().filter_map(|point| value.estimate(point)).map(|it| it.value.abs()).fold(0.0, f64::max);
            let (unit, divisor) = column_unit(column, largest);
            let what = value.label(wanted, &names.keys, &short_column(column));
            let with_unit = if unit.is_empty() { what } else { format!("{what} ({unit})") };
            let y_label = spec.y_label.clone().filter(|_| *value == PointValue::Own).unwrap_or(with_unit);
            for (panel, series) in grouped(&drawn) {
                let title = panel_title(wanted, &names.keys, panel.as_deref(), &series, &drawn);
                let title = match value {
                    PointValue::Own => title,
                    PointValue::Difference => {
                        let parts = [short_column(column), title];
                        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
                    }
                };
                let (mut lines, mut on_top) = (Vec::new(), Vec::new());
                for series in &series {
                    let mine = drawn.iter().filter(|of| of.place.panel == panel && of.place.series == *series);
                    let mine: Vec<&PooledValue> = mine.copied().collect();
                    let name = series_name(&wanted.lines, &names.keys, series);
                    // A single line is named by its column.
                    let name = if name.is_empty() { short_column(column) } else { name };
                    lines.push(line(&name, &mine, *value, &x, divisor));
                    on_top.push(mark_max(&name, &mine, *value, &x, divisor));
                }
                let lines = lines.into_iter().chain(on_top);
                panels.push(Panel {
                    title,
                    x_label: x_label.clone(),
                    x_axis: x.axis(spec.x_log),
                    y_label: y_label.clone(),
                    // Differences have both signs.
                    y_scale: if spec.y_log && *value == PointValue::Own { Scale::Log } else { Scale::Linear },
                    lines: lines.filter(|line| !line.points.is_empty()).collect(),
                    separates_intervals: true,
                    ..Panel::default()
                });
            }
        }
    }
    let title = if spec.title.is_empty() { results.sweep.clone() } else { spec.title.clone() };
    Figure { note: note(points), ..new_figure(spec, title, panels) }
}

/// Note on points of several seeds: means, or percentiles; empty without any.
fn note(points: &[PooledValue]) -> String {
    let seeds = |of_messages: bool| {
        points.iter().filter(move |point| point.is_of_messages == of_messages).map(|point| point.runs).max()
    };
    let [means, percentiles] = [false, true].map(|of_messages| seeds(of_messages).filter(|seeds| *seeds > 1));
    let means = means.map(|seeds| format!("means over {seeds} seeds"));
    let percentiles = percentiles.map(|seeds| format!("percentiles of {seeds} seeds' messages"));
    let mut parts: Vec<String> = means.into_iter().chain(percentiles).collect();
    let has_interval = |point: &PooledValue| point.estimate.as_ref().is_some_and(|of| of.interval.is_some());
    if !parts.is_empty() && points.iter().any(has_interval) {
        parts.push("95 % intervals".to_owned());
    }
    parts.join("; ")
}

/// Figure of panels, with as many in a row as its width has room for.
pub(super) fn new_figure(spec: &FigureSpec, title: String, panels: Vec<Panel>) -> Figure {
    let columns = if panels.len() > 1 && spec.width != Some(FigureWidth::Column) { 2 } else { 1 };
    Figure { title, columns, panels, width_pt: spec.width.map(FigureWidth::points), ..Figure::default() }
}

/// Value of a point that a panel shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PointValue {
    Own,
    /// Difference to the line that others are compared with.
    Difference,
}

impl PointValue {
    fn estimate(self, point: &PooledValue) -> Option<&Estimate> {
        match self {
            PointValue::Own => point.estimate.as_ref(),
            PointValue::Difference => point.difference.as_ref().map(|difference| &difference.estimate),
        }
    }

    /// Label of the vertical axis for a column.
    fn label(self, wanted: &ResolvedFigure, keys: &[String], column: &str) -> String {
        match (self, &wanted.versus, wanted.lines.by.first()) {
            (PointValue::Difference, Some(versus), Some(key)) => {
                format!("difference to {}", key_value(keys, *key, versus))
            }
            _ => column.to_owned(),
        }
    }
}

/// Table of the differences to one line; `None` without any.
pub(super) fn differences(wanted: &ResolvedFigure, points: &[PooledValue], results: &Results) -> Option<Table> {
    let names = results.names();
    let mut table = Table::new(["", "difference", INTERVAL_HEAD, "seeds"]);
    for point in points {
        let Some(difference) = &point.difference else { continue };
        let column = &names.columns[wanted.y[point.place.y]];
        let (unit, divisor) = column_unit(column, difference.estimate.value.abs());
        let [one, other] =
            [&point.place.series, &difference.against].map(|series| series_name(&wanted.lines, &names.keys, series));
        let panel =
            wanted.lines.panels.zip(point.place.panel.as_ref()).map(|(key, text)| key_value(&names.keys, key, text));
        let at = key_value(&names.keys, wanted.x, &point.place.x);
        let place = panel.into_iter().chain([at]).collect::<Vec<_>>().join(", ");
        let number = |value: f64| shown(value / divisor);
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        table.row([
            format!("{}, {place}: {one} less {other}", short_column(column)),
            format!("{}{unit}", number(difference.estimate.value)),
            interval_text(difference.estimate.interval, difference.estimate.runs, number),
            difference.estimate.runs.to_string(),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

/// Table with a row for each point and its interval.
pub(super) fn table(wanted: &ResolvedFigure, points: &[PooledValue], results: &Results) -> TypedTable {
    let names = results.names();
    let text =
        |of: &dyn Fn(&GroupKey) -> String| points.iter().map(|point| Cell::Text(of(&point.place))).collect::<Vec<_>>();
    let number = |of: &dyn Fn(&PooledValue) -> Option<f64>| {
        points.iter().map(|point| of(point).map_or(Cell::Empty, Cell::Float)).collect::<Vec<_>>()
    };
    let mut columns = vec![("column".to_owned(), text(&|place| names.columns[wanted.y[place.y]].clone()))];
    if let Some(key) = wanted.lines.panels {
        columns.push((names.keys[key].clone(), text(&|place| place.panel.clone().unwrap_or_default())));
    }
    for (n, key) in wanted.lines.by.iter().enumerate() {
        columns.push((names.keys[*key].clone(), text(&|place| place.series[n].clone())));
    }
    columns.push((names.keys[wanted.x].clone(), text(&|place| place.x.clone())));
    columns.push(("value".to_owned(), number(&|point| Some(point.estimate.as_ref()?.value))));
    columns.push(("low".to_owned(), number(&|point| Some(point.estimate.as_ref()?.interval?.0))));
    columns.push(("high".to_owned(), number(&|point| Some(point.estimate.as_ref()?.interval?.1))));
    columns.push(("runs".to_owned(), points.iter().map(|point| Cell::from_u64(point.runs as u64)).collect()));
    columns.push(("failed".to_owned(), points.iter().map(|point| Cell::from_u64(point.failed as u64)).collect()));
    columns.push(("is_maximum".to_owned(), points.iter().map(|point| Cell::Bool(point.is_maximum)).collect()));
    let against = |point: &PooledValue| {
        let name = point.difference.as_ref().map(|of| series_name(&wanted.lines, &names.keys, &of.against));
        name.map_or(Cell::Empty, Cell::Text)
    };
    columns.push(("against".to_owned(), points.iter().map(against).collect()));
    let difference = |point: &PooledValue| point.difference.as_ref().map(|of| of.estimate.clone());
    columns.push(("difference".to_owned(), number(&|point| Some(difference(point)?.value))));
    columns.push(("difference_low".to_owned(), number(&|point| Some(difference(point)?.interval?.0))));
    columns.push(("difference_high".to_owned(), number(&|point| Some(difference(point)?.interval?.1))));
    TypedTable { columns }
}

/// Panels with their series, in order of appearance. No panel has more than `LINES_MAX` series, except series with a
/// common first key.
fn grouped(points: &[&PooledValue]) -> Vec<(Option<String>, Vec<Vec<String>>)> {
    let mut panels: Vec<(Option<String>, Vec<Vec<String>>)> = Vec::new();
    for point in points {
        let place = &point.place;
        let found = match panels.iter().position(|(panel, _)| *panel == place.panel) {
            Some(found) => found,
            None => {
                panels.push((place.panel.clone(), Vec::new()));
                panels.len() - 1
            }
        };
        if !panels[found].1.contains(&place.series) {
            panels[found].1.push(place.series.clone());
        }
    }
    panels
        .into_iter()
        .flat_map(|(panel, series)| {
            if series.len() <= LINES_MAX {
                return vec![(panel, series)];
            }
            // Split by the first of several keys, or else by the number of styles.
            let firsts = |series: &[Vec<String>]| {
                let mut firsts: Vec<String> = series.iter().map(|one| one[0].clone()).collect();
                firsts.dedup();
                firsts
            };
            let groups: Vec<Vec<Vec<String>>> = if series[0].len() > 1 {
                let of = |first: String| series.iter().filter(|one| one[0] == first).cloned().collect();
                firsts(&series).into_iter().map(of).collect()
            } else {
                series.chunks(LINES_MAX).map(<[_]>::to_vec).collect()
            };
            groups.into_iter().map(|group| (panel.clone(), group)).collect()
        })
        .collect()
}

/// Title of values that all series of a panel share, but not all panels.
fn panel_title(
    wanted: &ResolvedFigure,
    keys: &[String],
    panel: Option<&str>,
    series: &[Vec<String>],
    all: &[&PooledValue],
) -> String {
    let value = |key: usize, text: &str| key_value(keys, key, text);
    let of_panel = wanted.lines.panels.zip(panel).map(|(key, text)| value(key, text));
    let differs = all.iter().any(|point| point.place.series.first() != series[0].first());
    let is_alike = series.len() > 1 && series.iter().all(|one| one.first() == series[0].first());
    let of_group = wanted.lines.by.first().filter(|_| differs && is_alike).map(|key| value(*key, &series[0][0]));
    of_panel.into_iter().chain(of_group).collect::<Vec<_>>().join(", ")
}

/// Name of a series: `DT, alpha 1/8`.
pub(super) fn series_name(lines: &ResolvedLines, keys: &[String], series: &[String]) -> String {
    let name = |(key, text): (&usize, &String)| key_value(keys, *key, text);
    lines.by.iter().zip(series).map(name).collect::<Vec<_>>().join(", ")
}

/// Text on a key's value: a run by its name, a parameter as `alpha 1/8`.
pub(super) fn key_value(keys: &[String], key: usize, text: &str) -> String {
    if keys[key] == "run" { text.to_owned() } else { format!("{} {text}", short_key(keys, key)) }
}

fn line(name: &str, points: &[&PooledValue], value: PointValue, x: &AxisValues, divisor: f64) -> PlotLine {
    let mut line = PlotLine { name: name.to_owned(), style: x.style(), ..PlotLine::default() };
    let mut placed: Vec<(f64, &PooledValue)> = points.iter().map(|point| (x.place(&point.place.x), *point)).collect();
    placed.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (at, point) in placed {
        let Some(estimate) = value.estimate(point) else { continue };
        line.points.push((at, estimate.value / divisor));
        let interval =
            estimate.interval.map(|(low, high)| ConfidenceInterval { x: at, low: low / divisor, high: high / divisor });
        line.intervals.extend(interval);
    }
    line
}

/// Hollow markers on a line's percentiles of too few messages.
fn mark_max(name: &str, points: &[&PooledValue], value: PointValue, x: &AxisValues, divisor: f64) -> PlotLine {
    let chosen: Vec<&PooledValue> = points.iter().copied().filter(|point| point.is_maximum).collect();
    PlotLine {
        name: "maximum: too few messages".to_owned(),
        compared_with: Some(name.to_owned()),
        style: Style::Markers(Marker::Hollow),
        intervals: Vec::new(),
        ..line(name, &chosen, value, x, divisor)
    }
}

/// Values on the horizontal axis: numbers, with the unit of their texts, or names.
enum AxisValues {
    Numbers(NumberParser, &'static str),
    Names(Vec<String>),
}

/// Parser of a text's number.
type NumberParser = fn(&str) -> Option<f64>;

fn plain(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Parses `1/8` or a plain number.
fn fraction(text: &str) -> Option<f64> {
    let Some((one, other)) = text.split_once('/') else { return plain(text) };
    Some(plain(one)? / plain(other)?)
}

fn time(text: &str) -> Option<f64> {
    Some(Span::from_str(text).ok()?.as_nanos() as f64 / 1e3)
}

fn rate(text: &str) -> Option<f64> {
    Some(BitRate::from_str(text).ok()?.as_bps() as f64 / 1e9)
}

fn size(text: &str) -> Option<f64> {
    Some(Bytes::from_str(text).ok()?.get() as f64 / 1e3)
}

impl AxisValues {
    fn from_texts<'t>(texts: impl Iterator<Item = &'t str>) -> AxisValues {
        let kinds: [(NumberParser, &'static str); 5] =
            [(plain, ""), (fraction, ""), (time, " (us)"), (rate, " (Gb/s)"), (size, " (KB)")];
        let mut all: Vec<String> = Vec::new();
        for text in texts {
            if !all.iter().any(|other| other == text) {
                all.push(text.to_owned());
            }
        }
        match kinds.into_iter().find(|(number, _)| all.iter().all(|text| number(text).is_some())) {
            Some((number, unit)) => AxisValues::Numbers(number, unit),
            None => AxisValues::Names(all),
        }
    }

    fn unit(&self) -> &str {
        match self {
            AxisValues::Numbers(_, unit) => unit,
            AxisValues::Names(_) => "",
        }
    }

    fn place(&self, text: &str) -> f64 {
        match self {
            AxisValues::Numbers(number, _) => number(text).unwrap_or(f64::NAN),
            AxisValues::Names(names) => names.iter().position(|name| name == text).unwrap_or(0) as f64,
        }
    }

    fn axis(&self, is_log: bool) -> XAxis {
        match self {
            AxisValues::Numbers(..) => XAxis::Numbers(if is_log { Scale::Log } else { Scale::Linear }),
            AxisValues::Names(names) => XAxis::Categories(names.clone()),
        }
    }

    fn style(&self) -> Style {
        match self {
            AxisValues::Numbers(..) => Style::StrokeAndMarkers(Marker::Filled),
            AxisValues::Names(_) => Style::Bars,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_across_is_a_number_where_it_is_one() {
        let of = |texts: &[&str]| {
            let across = AxisValues::from_texts(texts.iter().copied());
            (across.place(texts[0]), across.unit().to_owned())
        };
        assert_eq!(of(&["0.5", "1"]), (0.5, String::new()));
        assert_eq!(of(&["1/8", "1"]), (0.125, String::new()));
        assert_eq!(of(&["40us", "1ms"]), (40.0, " (us)".to_owned()));
        assert_eq!(of(&["25Gbps", "100Gbps"]), (25.0, " (Gb/s)".to_owned()));
        assert_eq!(of(&["64KB", "1MB"]), (64.0, " (KB)".to_owned()));
        assert_eq!(of(&["dcqcn", "timely"]), (0.0, String::new()));
    }
}
