//! Points of a figure: rows that differ only in their seed are pooled, with an interval.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::messages::{PercentileColumn, RunMessages};
use super::names::{ResolvedFigure, ResolvedLines};
use super::results::{Results, SweepRow};
use super::sizes::bin_column;
use super::spec::MESSAGE_SIZE;
use crate::Failure;
use crate::table::key_path::KeyPath;
use crate::table::statistics::{Estimate, mean};

/// Values of a position.
#[derive(Default)]
struct Group<'r> {
    values: Vec<Option<f64>>,
    /// Rows, with their cells.
    rows: Vec<(&'r SweepRow, &'r str)>,
    seeds: Vec<&'r str>,
    failed: usize,
}

/// Position of a point: column, panel, series and horizontal value, as the keys' texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub y: usize,
    pub panel: Option<String>,
    pub series: Vec<String>,
    pub x: String,
}

/// Value of a position over its seeds.
#[derive(Clone, Debug)]
pub(super) struct PooledValue {
    pub place: GroupKey,
    /// Mean, or a percentile of the messages of all seeds; `None` if a run failed or has no value, because the other runs' mean would
    /// flatter.
    pub estimate: Option<Estimate>,
    pub failed: usize,
    pub runs: usize,
    /// Whether it is a percentile of the messages of all seeds.
    pub is_of_messages: bool,
    /// Whether it is a percentile of so few messages that it is their maximum.
    pub is_maximum: bool,
    /// Seeds of the values, in the same order; empty texts in a sweep without seeds.
    seeds: Vec<String>,
    /// Difference to the point of another series at the same place.
    pub difference: Option<PooledDifference>,
}

/// Difference between two series at a place, over the seeds that both have.
#[derive(Clone, Debug)]
pub(super) struct PooledDifference {
    /// Series that is subtracted.
    pub against: Vec<String>,
    pub estimate: Estimate,
}

/// All points, in the order of the sweep, whose runs are in `directory`.
///
/// # Errors
/// Another parameter varies, so that a mean would be over more than seeds; or the messages of runs can't be read.
pub(super) fn points(
    wanted: &ResolvedFigure,
    results: &Results,
    directory: &Path,
) -> Result<Vec<PooledValue>, Failure> {
    let names = results.names();
    let rows = rows(&wanted.lines, Some(wanted.x), results)?;
    let seed = names.keys.iter().position(|key| key == "seed");
    let mut groups: Vec<(GroupKey, Group<'_>)> = Vec::new();
    for y in 0..wanted.y.len() {
        for row in &rows {
            let place = GroupKey {
                y,
                panel: wanted.lines.panels.map(|key| row.keys[key].clone()),
                series: wanted.lines.by.iter().map(|key| row.keys[*key].clone()).collect(),
                x: row.keys[wanted.x].clone(),
            };
            let cell = row.cells[wanted.y[y]].as_str();
            let value = match cell {
                "" => None,
                "true" => Some(1.0),
                "false" => Some(0.0),
                number => Some(number.parse().map_err(|_| {
                    let column = &names.columns[wanted.y[y]];
                    Failure::Argument(format!("y {column}: \"{cell}\" is no number; write a column of numbers"))
                })?),
            };
            let found = match groups.iter().position(|(other, _)| *other == place) {
                Some(found) => found,
                None => {
                    groups.push((place, Group::default()));
                    groups.len() - 1
                }
            };
            let group = &mut groups[found].1;
            group.values.push(value);
            group.rows.push((row, cell));
            group.seeds.push(seed.map_or("", |key| &row.keys[key]));
            group.failed += usize::from(!row.is_good);
        }
    }
    let is_by_size = names.keys[wanted.x] == MESSAGE_SIZE;
    let percentile = |place: &GroupKey| {
        let column = &names.columns[wanted.y[place.y]];
        PercentileColumn::parse(&if is_by_size { bin_column(column, &place.x)? } else { column.clone() })
    };
    let mut messages = RunMessages::new(directory);
    let mut points = Vec::new();
    for (place, Group { values, rows, failed, seeds }) in groups {
        let percentile = percentile(&place);
        let is_of_messages = percentile.is_some();
        let (estimate, is_maximum) = match percentile {
            _ if failed > 0 => (None, false),
            Some(column) => messages.percentile(&column, &rows)?.map_or((None, false), |(of, is)| (Some(of), is)),
            None => (values.into_iter().collect::<Option<Vec<f64>>>().and_then(|values| mean(&values)), false),
        };
        let least = least_value(&names.columns[wanted.y[place.y]]);
        let estimate = estimate.map(|estimate| estimate.bounded(least).with_spread());
        let (runs, seeds) = (rows.len(), seeds.into_iter().map(str::to_owned).collect());
        points.push(PooledValue { place, estimate, failed, runs, is_of_messages, is_maximum, seeds, difference: None });
    }
    let lines: BTreeSet<&str> =
        points.iter().filter_map(|point| point.place.series.first()).map(String::as_str).collect();
    if let Some(versus) = wanted.versus.as_deref().filter(|versus| !lines.contains(versus)) {
        let lines: Vec<&str> = lines.into_iter().collect();
        return Err(Failure::Argument(format!(
            "versus {versus}: no line has this value; write one of: {}",
            lines.join(", ")
        )));
    }
    compare(&mut points, wanted.versus.as_deref());
    Ok(points)
}

/// Rows that a figure shows: those with its values. `x` is the key on the horizontal axis.
///
/// # Errors
/// No row is left, or another parameter varies.
pub(super) fn rows<'r>(
    lines: &ResolvedLines,
    x: Option<usize>,
    results: &'r Results,
) -> Result<Vec<&'r SweepRow>, Failure> {
    let names = results.names();
    let rows: Vec<&SweepRow> =
        results.rows.iter().filter(|row| lines.keep.iter().all(|(key, value)| row.keys[*key] == *value)).collect();
    if rows.is_empty() {
        let kept = lines.keep.keys().map(|key| {
            let mut values: Vec<&str> = results.rows.iter().map(|row| row.keys[*key].as_str()).collect();
            values.sort_unstable();
            values.dedup();
            format!("{} is one of {}", names.keys[*key], values.join(", "))
        });
        return Err(Failure::Argument(format!("no row is left; {}", kept.collect::<Vec<_>>().join("; "))));
    }
    let used = |key: usize| {
        x == Some(key) || lines.by.contains(&key) || lines.panels == Some(key) || names.keys[key] == "seed"
    };
    // A parameter that varies together with a named one, as in a [[zip]], is determined by that.
    let named: Vec<usize> = (0..names.keys.len()).filter(|key| used(*key) && names.keys[*key] != "seed").collect();
    let others: Vec<usize> = (0..names.keys.len()).filter(|key| !used(*key)).collect();
    let mut rest_by_key: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        let of = |keys: &[usize]| keys.iter().map(|key| row.keys[*key].as_str()).collect::<Vec<_>>();
        let rest = of(&others);
        let before = rest_by_key.entry(of(&named)).or_insert_with(|| rest.clone());
        if let Some(n) = (0..others.len()).find(|n| before[*n] != rest[*n]) {
            let key = &names.keys[others[n]];
            return Err(Failure::Argument(format!(
                "{key} varies too, and a mean would be over more than seeds; name it with --by or --panels, or keep one value: --where \"{key}={}\"",
                rest[n]
            )));
        }
    }
    Ok(rows)
}

/// Least value of a column. Gauges have values below 0, and no bound.
fn least_value(column: &str) -> f64 {
    match KeyPath::parse(column).as_ref().map(KeyPath::keys) {
        Some([.., quantity, _]) if quantity == "slowdown_permille" => 1e3,
        Some(path) if path.iter().any(|key| key.starts_with("gauges")) => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

/// Subtracts from each point that of the series that `versus` names, or else of the first series: it differs in the first key alone.
fn compare(points: &mut [PooledValue], versus: Option<&str>) {
    let first = points.first().and_then(|point| point.place.series.first()).cloned();
    let Some(base) = versus.map(str::to_owned).or(first) else { return };
    let bases: BTreeMap<GroupKey, (Vec<String>, Estimate)> = points
        .iter()
        .filter(|point| point.place.series.first() == Some(&base))
        .filter_map(|point| Some((point.place.clone(), (point.seeds.clone(), point.estimate.clone()?))))
        .collect();
    for point in points {
        let mut place = point.place.clone();
        place.series[0].clone_from(&base);
        let (Some(estimate), Some((seeds, of_base))) = (&point.estimate, bases.get(&place)) else { continue };
        if place != point.place && *seeds == point.seeds && seeds.iter().all(|seed| !seed.is_empty()) {
            let difference = estimate.paired_difference(of_base);
            point.difference = difference.map(|estimate| PooledDifference { against: place.series, estimate });
        }
    }
}

/// Notes on omitted points, with the reason.
pub(super) fn notes(points: &[PooledValue]) -> Vec<String> {
    let failed: usize = points.iter().filter(|point| point.failed > 0).count();
    let without = points.iter().filter(|point| point.estimate.is_none() && point.failed == 0).count();
    let mut notes = Vec::new();
    if failed > 0 {
        notes.push(format!("{failed} of {} points are left out: a run of theirs failed (failures.csv)", points.len()));
    }
    if without > 0 {
        notes.push(format!(
            "{without} of {} points are left out: a run has no such value, as of messages that did not finish",
            points.len()
        ));
    }
    let maxima = points.iter().filter(|point| point.is_maximum).count();
    if maxima > 0 {
        notes.push(format!("{maxima} of {} points are maxima: too few messages for the percentile", points.len()));
    }
    notes
}
