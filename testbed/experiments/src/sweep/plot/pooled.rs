//! Points of a figure: rows that differ only in their seed are pooled, with an interval.

use std::collections::BTreeMap;
use std::path::Path;

use super::messages::{PercentileColumn, RunMessages};
use super::names::ResolvedFigure;
use super::results::{Results, SweepRow};
use crate::Failure;
use crate::table::statistics::{Estimate, mean};

/// Values of a position.
#[derive(Default)]
struct Group<'r> {
    values: Vec<Option<f64>>,
    /// Rows, with their cells.
    rows: Vec<(&'r SweepRow, &'r str)>,
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
    /// Whether it is a percentile of so few messages that it is their maximum.
    pub is_maximum: bool,
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
    let rows: Vec<&SweepRow> =
        results.rows.iter().filter(|row| wanted.keep.iter().all(|(key, value)| row.keys[*key] == *value)).collect();
    if rows.is_empty() {
        let kept = wanted.keep.keys().map(|key| {
            let mut values: Vec<&str> = results.rows.iter().map(|row| row.keys[*key].as_str()).collect();
            values.sort_unstable();
            values.dedup();
            format!("{} is one of {}", names.keys[*key], values.join(", "))
        });
        return Err(Failure::Argument(format!("no row is left; {}", kept.collect::<Vec<_>>().join("; "))));
    }
    let used = |key: usize| {
        wanted.x == key || wanted.by.contains(&key) || wanted.panels == Some(key) || names.keys[key] == "seed"
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
    let mut groups: Vec<(GroupKey, Group<'_>)> = Vec::new();
    for y in 0..wanted.y.len() {
        for row in &rows {
            let place = GroupKey {
                y,
                panel: wanted.panels.map(|key| row.keys[key].clone()),
                series: wanted.by.iter().map(|key| row.keys[*key].clone()).collect(),
                x: row.keys[wanted.x].clone(),
            };
            let cell = row.cells[wanted.y[y]].as_str();
            let value = match cell {
                "true" => Some(1.0),
                "false" => Some(0.0),
                number => number.parse().ok(),
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
            group.failed += usize::from(!row.is_good);
        }
    }
    let percentiles: Vec<Option<PercentileColumn>> =
        wanted.y.iter().map(|y| PercentileColumn::parse(&names.columns[*y])).collect();
    let mut messages = RunMessages::new(directory);
    let mut points = Vec::new();
    for (place, Group { values, rows, failed }) in groups {
        let (estimate, is_maximum) = match &percentiles[place.y] {
            _ if failed > 0 => (None, false),
            Some(column) => messages.percentile(column, &rows)?.map_or((None, false), |(of, is)| (Some(of), is)),
            None => (values.into_iter().collect::<Option<Vec<f64>>>().and_then(|values| mean(&values)), false),
        };
        points.push(PooledValue { place, estimate, failed, runs: rows.len(), is_maximum });
    }
    Ok(points)
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
