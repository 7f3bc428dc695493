//! Lines and panels of a figure's points. Names contain only differing values; series beyond the number of line styles
//! get panels of their own.

use std::str::FromStr;

use weir_results::plot::{ConfidenceInterval, Figure, Marker, Panel, PlotLine, Scale, Style, XAxis};
use weir_units::{BitRate, Bytes, Span};

use super::FigureSpec;
use super::names::{ResolvedFigure, short_column, short_key};
use super::pooled::{GroupKey, PooledValue};
use super::results::Results;
use crate::table::typed::{Cell, TypedTable};
use crate::table::units::column_unit;

/// Maximum number of distinguishable lines in a panel.
const LINES_MAX: usize = 7;

pub(super) fn figure(spec: &FigureSpec, wanted: &ResolvedFigure, points: &[PooledValue], results: &Results) -> Figure {
    let names = results.names();
    let x = AxisValues::from_texts(points.iter().map(|point| point.place.x.as_str()));
    let x_label = format!("{}{}", short_key(&names.keys, wanted.x), x.unit());
    let mut panels = Vec::new();
    for y in 0..wanted.y.len() {
        let column = &names.columns[wanted.y[y]];
        let of_column: Vec<&PooledValue> = points.iter().filter(|point| point.place.y == y).collect();
        let largest =
            of_column.iter().filter_map(|point| point.estimate.as_ref()).map(|it| it.value.abs()).fold(0.0, f64::max);
        let (unit, divisor) = column_unit(column, largest);
        let y_label = if unit.is_empty() { short_column(column) } else { format!("{} ({unit})", short_column(column)) };
        for (panel, series) in grouped(&of_column) {
            let title = panel_title(wanted, &names.keys, panel.as_deref(), &series, &of_column);
            let lines = series.iter().map(|series| {
                let mine = of_column.iter().filter(|point| point.place.panel == panel && point.place.series == *series);
                let name = series_name(wanted, &names.keys, series);
                // A single line is named by its column.
                let name = if name.is_empty() { short_column(column) } else { name };
                line(&name, mine.copied(), &x, divisor)
            });
            panels.push(Panel {
                title,
                x_label: x_label.clone(),
                x_axis: x.axis(spec.x_log),
                y_label: y_label.clone(),
                y_scale: if spec.y_log { Scale::Log } else { Scale::Linear },
                lines: lines.filter(|line| !line.points.is_empty()).collect(),
                ..Panel::default()
            });
        }
    }
    let title = if spec.title.is_empty() { results.sweep.clone() } else { spec.title.clone() };
    Figure { title, columns: if panels.len() > 1 { 2 } else { 1 }, panels }
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
    if let Some(key) = wanted.panels {
        columns.push((names.keys[key].clone(), text(&|place| place.panel.clone().unwrap_or_default())));
    }
    for (n, key) in wanted.by.iter().enumerate() {
        columns.push((names.keys[*key].clone(), text(&|place| place.series[n].clone())));
    }
    columns.push((names.keys[wanted.x].clone(), text(&|place| place.x.clone())));
    columns.push(("value".to_owned(), number(&|point| Some(point.estimate.as_ref()?.value))));
    columns.push(("low".to_owned(), number(&|point| Some(point.estimate.as_ref()?.interval?.0))));
    columns.push(("high".to_owned(), number(&|point| Some(point.estimate.as_ref()?.interval?.1))));
    columns.push(("runs".to_owned(), points.iter().map(|point| Cell::from_u64(point.runs as u64)).collect()));
    columns.push(("failed".to_owned(), points.iter().map(|point| Cell::from_u64(point.failed as u64)).collect()));
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
    let value = |key: usize, text: &str| {
        if keys[key] == "run" { text.to_owned() } else { format!("{} {text}", short_key(keys, key)) }
    };
    let of_panel = wanted.panels.zip(panel).map(|(key, text)| value(key, text));
    let differs = all.iter().any(|point| point.place.series.first() != series[0].first());
    let is_alike = series.len() > 1 && series.iter().all(|one| one.first() == series[0].first());
    let of_group = wanted.by.first().filter(|_| differs && is_alike).map(|key| value(*key, &series[0][0]));
    of_panel.into_iter().chain(of_group).collect::<Vec<_>>().join(", ")
}

/// Name of a series: `DT, alpha 1/8`.
fn series_name(wanted: &ResolvedFigure, keys: &[String], series: &[String]) -> String {
    let name = |(key, text): (&usize, &String)| {
        if keys[*key] == "run" { text.clone() } else { format!("{} {text}", short_key(keys, *key)) }
    };
    wanted.by.iter().zip(series).map(name).collect::<Vec<_>>().join(", ")
}

fn line<'p>(name: &str, points: impl Iterator<Item = &'p PooledValue>, x: &AxisValues, divisor: f64) -> PlotLine {
    let mut line = PlotLine { name: name.to_owned(), style: x.style(), ..PlotLine::default() };
    let mut placed: Vec<(f64, &PooledValue)> = points.map(|point| (x.place(&point.place.x), point)).collect();
    placed.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (at, point) in placed {
        let Some(estimate) = &point.estimate else { continue };
        line.points.push((at, estimate.value / divisor));
        let interval =
            estimate.interval.map(|(low, high)| ConfidenceInterval { x: at, low: low / divisor, high: high / divisor });
        line.intervals.extend(interval);
    }
    line
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
