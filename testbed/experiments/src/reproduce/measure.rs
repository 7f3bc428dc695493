//! Evaluation of measures: the numbers that an experiment reads from its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use weir_results::measure::nearest_rank;

use super::paper_file::{Aggregation, Claim, Measure, SeriesThreshold, Statistic};
use super::rows::{MessageQuery, ResultRow, ResultRows, Selection, combination, parameter};
use crate::Failure;
use crate::table::statistics::{self, Estimate};
use crate::table::units;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MeasureResult {
    Value(Estimate),
    /// The sweep that runs has no such point: a quick one, or a full one where a farm has more.
    LeftOut,
    /// Ratio or reduction with both sides 0 in all runs.
    Indeterminate,
    Missing(String),
}

/// Points that a claim depends on.
pub(super) fn points_of<'m>(measures: &'m [Measure], claim: &Claim) -> Vec<Selection<'m>> {
    claim.measures().flat_map(|name| points_of_one(measures, named(measures, name))).collect()
}

/// Points that a measure depends on.
pub(super) fn points_of_one<'m>(measures: &'m [Measure], measure: &'m Measure) -> Vec<Selection<'m>> {
    match measure.parts() {
        Some(parts) => parts.iter().flat_map(|part| points_of_one(measures, named(measures, part))).collect(),
        None => {
            let after = measure.after.iter().map(|name| named(measures, name));
            std::iter::once(measure).chain(after).map(Measure::selection).collect()
        }
    }
}

pub(super) fn read(measures: &[Measure], rows: &ResultRows) -> Result<BTreeMap<String, MeasureResult>, Failure> {
    let (mut readings, messages) = (BTreeMap::new(), MessageValues::read(measures, rows)?);
    let rows = &MeasureInput { measures, rows, messages };
    for measure in measures {
        let reading = match measure.parts() {
            Some([one, other]) => quotient(measure, [named(measures, one), named(measures, other)], rows)?,
            None => single(measure, rows)?,
        };
        readings.insert(measure.name.clone(), reading);
    }
    Ok(readings)
}

struct MeasureInput<'r> {
    measures: &'r [Measure],
    rows: &'r ResultRows,
    messages: MessageValues,
}

/// Values of measures of messages, by the measure's name and the point's number.
struct MessageValues(BTreeMap<(String, usize), f64>);

impl MessageValues {
    /// Evaluates run by run: each run's messages are read once, and only one run's are in memory.
    fn read(measures: &[Measure], rows: &ResultRows) -> Result<MessageValues, Failure> {
        let mut values = BTreeMap::new();
        let of_messages_alone: Vec<(&Measure, MessageQuery<'_>)> =
            measures.iter().filter_map(|measure| Some((measure, measure.of_messages()?))).collect();
        for row in rows.all() {
            let of_row = of_messages_alone.iter().filter(|(measure, _)| measure.selection().has(&row.point));
            let (of_row, asked): (Vec<&Measure>, Vec<MessageQuery<'_>>) = of_row.copied().unzip();
            if of_row.is_empty() {
                continue;
            }
            for (measure, found) in of_row.into_iter().zip(row.messages(&asked)?) {
                let value = of_messages(found, measure.percentile);
                values.extend(value.map(|value| ((measure.name.clone(), row.point.number), value)));
            }
        }
        Ok(MessageValues(values))
    }

    fn value(&self, measure: &Measure, row: &ResultRow) -> Option<f64> {
        self.0.get(&(measure.name.clone(), row.point.number)).copied()
    }
}

impl Measure {
    /// Query for messages; `None` for a measure of something else.
    fn of_messages(&self) -> Option<MessageQuery<'_>> {
        let value = self.messages.as_deref()?;
        Some(MessageQuery { value, unit: &self.unit, traffic: self.traffic.as_deref(), sizes: self.sizes.as_ref() })
    }
}

/// Measure with this name; its existence was checked before.
fn named<'a>(measures: &'a [Measure], name: &str) -> &'a Measure {
    measures.iter().find(|measure| measure.name == name).expect("checked before")
}

fn single(measure: &Measure, read: &MeasureInput<'_>) -> Result<MeasureResult, Failure> {
    let rows = read.rows;
    let selected: Vec<&ResultRow> = rows.select(measure.selection()).collect();
    if selected.is_empty() {
        return Ok(MeasureResult::LeftOut);
    }
    if let Some(column) = &measure.share {
        let holds_for = selected.iter().filter(|row| is_counted(measure, rows.number(row, column))).count();
        return Ok(share_of(holds_for, &selected));
    }
    if measure.over == Some(Aggregation::Share) {
        let level = measure.level.as_ref().and_then(SeriesThreshold::of_column);
        let mut holds_for = 0;
        for row in &selected {
            let value = point_value(measure, row, read)?;
            holds_for += usize::from(
                value.is_some_and(|value| measure.is_instant() || level.is_some_and(|level| value >= level)),
            );
        }
        return Ok(share_of(holds_for, &selected));
    }
    if let Some(column) = &measure.count {
        let with: Vec<&ResultRow> =
            selected.iter().copied().filter(|row| is_counted(measure, rows.number(row, column))).collect();
        let count = match &measure.each {
            None => with.len(),
            Some(path) => with
                .iter()
                .filter_map(|row| parameter(&row.point, path))
                .map(ToString::to_string)
                .collect::<BTreeSet<_>>()
                .len(),
        };
        return Ok(MeasureResult::Value(Estimate::exactly(count as f64, selected.len())));
    }
    let values = match values(measure, &selected, read)? {
        Ok(values) => values,
        Err(none) => return Ok(MeasureResult::Missing(none)),
    };
    let of_all = |value: Option<f64>| value.map(|value| Estimate::exactly(value, values.len()));
    let estimate = match measure.over.unwrap_or_default() {
        Aggregation::Mean => statistics::mean(&values),
        Aggregation::Parameters => statistics::mean(&seed_means(selected.iter().map(|row| row.point.seed), &values)),
        Aggregation::Min => of_all(values.iter().copied().reduce(f64::min)),
        Aggregation::Max => of_all(values.iter().copied().reduce(f64::max)),
        Aggregation::Median => of_all(statistics::median(&values)),
        Aggregation::Sum => of_all(values.iter().copied().reduce(|sum, value| sum + value)),
        Aggregation::Share => unreachable!("a share was returned"),
    };
    Ok(estimate.map_or(MeasureResult::LeftOut, MeasureResult::Value))
}

/// Mean of each seed's values, by seed.
fn seed_means(seeds: impl Iterator<Item = Option<u32>>, values: &[f64]) -> Vec<f64> {
    let mut by_seed: BTreeMap<Option<u32>, Vec<f64>> = BTreeMap::new();
    for (seed, value) in seeds.zip(values) {
        by_seed.entry(seed).or_default().push(*value);
    }
    by_seed.into_values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
}

/// Whether `share` and `count` count a point with this value: it is not 0, and as an instant in ns not after `to`.
fn is_counted(measure: &Measure, value: Option<f64>) -> bool {
    let to = measure.to.as_ref().and_then(|to| units::micros(to)).map_or(f64::INFINITY, |to| 1e3 * to);
    value.is_some_and(|value| value != 0.0 && value <= to)
}

/// Ratio of two measures, or reduction in percent, paired by seed.
fn quotient(measure: &Measure, parts: [&Measure; 2], rows: &MeasureInput<'_>) -> Result<MeasureResult, Failure> {
    let mut of_parts = Vec::new();
    for part in parts {
        match single(part, rows)? {
            // An aggregate of all points has no seeds to pair.
            MeasureResult::Value(estimate) if estimate.values.is_empty() => of_parts.push(vec![estimate.value]),
            MeasureResult::Value(estimate) => of_parts.push(estimate.values),
            other => return Ok(other),
        }
    }
    let [one, other] = [&of_parts[0], &of_parts[1]];
    // Points of a sweep have all its seeds.
    if one.len() != other.len() {
        return Ok(MeasureResult::Missing(format!(
            "\"{}\" and \"{}\" have not the same seeds",
            parts[0].name, parts[1].name
        )));
    }
    let pairs: Vec<(f64, f64)> = one.iter().copied().zip(other.iter().copied()).collect();
    if pairs.iter().all(|pair| *pair == (0.0, 0.0)) {
        return Ok(MeasureResult::Indeterminate);
    }
    let Some(ratio) = statistics::ratio(&pairs) else {
        return Ok(MeasureResult::Missing(format!("\"{}\" is 0", parts[1].name)));
    };
    Ok(MeasureResult::Value(if measure.reduction.is_some() { spared(ratio) } else { ratio }))
}

/// Reduction in percent: 1 - ratio.
fn spared(ratio: Estimate) -> Estimate {
    let of = |ratio: f64| 100.0 * (1.0 - ratio);
    let values = ratio.values.iter().copied().map(of).collect();
    Estimate {
        value: of(ratio.value),
        interval: ratio.interval.map(|(low, high)| (of(high), of(low))),
        values,
        ..ratio
    }
}

/// Value of each point, or the reason why some point has none.
fn values(
    measure: &Measure,
    selected: &[&ResultRow],
    read: &MeasureInput<'_>,
) -> Result<Result<Vec<f64>, String>, Failure> {
    if measure.messages.is_some() {
        let values: Vec<f64> = selected.iter().filter_map(|row| read.messages.value(measure, row)).collect();
        return Ok(match values.iter().filter(|value| value.is_infinite()).count() {
            0 => all_or_why(values, selected.len()),
            endless => Err(format!(
                "without end in {endless} of {} runs: the message of this rank did not finish",
                selected.len()
            )),
        });
    }
    let divisor = units::divisor(measure.column_of_unit(), &measure.unit).expect("checked before");
    let ranked = measure.over.filter(|over| over.ranks() && measure.is_instant());
    let (mut values, mut runs) = (Vec::new(), 0);
    for row in selected {
        if origin(measure, row, read)?.is_none() && ranked.is_some() {
            continue;
        }
        runs += 1;
        values.extend(point_value(measure, row, read)?.map(|value| value / divisor));
    }
    Ok(match ranked {
        Some(over) => instants_or_why(values, runs, over),
        None => all_or_why(values, runs),
    })
}

impl Aggregation {
    /// Whether the result is the value of some rank.
    fn ranks(self) -> bool {
        matches!(self, Aggregation::Median | Aggregation::Min)
    }
}

/// Instants of all runs, infinite where none occurs; or the reason why the one of the rank does not occur.
fn instants_or_why(values: Vec<f64>, runs: usize, over: Aggregation) -> Result<Vec<f64>, String> {
    let mut all = values.clone();
    all.resize(runs, f64::INFINITY);
    let ranked = if over == Aggregation::Min { all.iter().copied().reduce(f64::min) } else { statistics::median(&all) };
    if ranked.is_some_and(f64::is_finite) { Ok(all) } else { all_or_why(values, runs.max(1)) }
}

/// Share of the selected points, with an interval if they differ only in the seed.
fn share_of(holds_for: usize, selected: &[&ResultRow]) -> MeasureResult {
    let is_by_chance = selected.iter().all(|row| combination(&row.point) == combination(&selected[0].point));
    let share = statistics::share(holds_for, selected.len());
    // Points with different parameters are no sample.
    let share = share.map(|share| Estimate { interval: share.interval.filter(|_| is_by_chance), ..share });
    share.map_or(MeasureResult::LeftOut, MeasureResult::Value)
}

/// Value of a point in the column's own unit; of an instant, `None` if it does not occur.
fn point_value(measure: &Measure, row: &ResultRow, read: &MeasureInput<'_>) -> Result<Option<f64>, Failure> {
    let Some(column) = &measure.series else {
        return Ok(read.rows.number(row, measure.value.as_deref().expect("checked before: it has one of them")));
    };
    let Some(origin) = origin(measure, row, read)? else { return Ok(None) };
    Ok(statistic(measure, &row.series(column)?, origin))
}

/// Instant in microseconds from which the measure's times count: the start of the run, or the instant of `after` in the
/// run with the same seed and parameters; `None` if that does not occur.
fn origin(measure: &Measure, row: &ResultRow, read: &MeasureInput<'_>) -> Result<Option<f64>, Failure> {
    let Some(after) = measure.after.as_ref().map(|name| named(read.measures, name)) else { return Ok(Some(0.0)) };
    let is_same = |of: &&ResultRow| of.point.seed == row.point.seed && of.point.parameters == row.point.parameters;
    let Some(of) = read.rows.select(after.selection()).find(is_same) else { return Ok(None) };
    let micros = units::divisor(after.column_of_unit(), "us").expect("an instant has a unit of time");
    let since = after.from.as_ref().and_then(|from| units::micros(from)).unwrap_or(0.0);
    Ok(point_value(after, of, read)?.map(|at| at / micros + since))
}

impl Measure {
    /// Column whose suffix is the unit of the values.
    pub(super) fn column_of_unit(&self) -> &str {
        let column = self.value.as_deref().or(self.series.as_deref()).unwrap_or_default();
        if self.statistic.is_some_and(Statistic::is_time) { "t_us" } else { column }
    }
}

/// Values if every run has one, else the reason why some have none.
fn all_or_why(values: Vec<f64>, runs: usize) -> Result<Vec<f64>, String> {
    match (runs - values.len(), runs) {
        (0, _) => Ok(values),
        (_, 1) => Err("never".to_owned()),
        (without, all) => Err(format!("never in {without} of {all} runs")),
    }
}

/// Mean of the completed messages, or a percentile of all by nearest rank: infinite if that rank is an unfinished
/// message. `None` without messages.
fn of_messages(mut values: Vec<f64>, percentile: Option<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match percentile {
        Some(percentile) => values.get(nearest_rank(values.len() as u64, percentile) as usize).copied(),
        None => {
            // An unfinished message has a throughput of 0.
            values.retain(|value| value.is_finite() && *value > 0.0);
            statistics::mean(&values).map(|mean| mean.value)
        }
    }
}

/// Statistic of a series between `from` and `to`, counted from `origin`; `None` without a sample, or without one that
/// satisfies `level`.
fn statistic(measure: &Measure, series: &[(f64, f64)], origin: f64) -> Option<f64> {
    let time = |text: &Option<String>| text.as_ref().and_then(|text| units::micros(text));
    let times = origin + time(&measure.from).unwrap_or(0.0)..=origin + time(&measure.to).unwrap_or(f64::INFINITY);
    let smoothed = match time(&measure.smooth) {
        Some(over) => smoothed(series.iter().copied(), over),
        None => series.to_vec(),
    };
    let level = measure.level.as_ref().and_then(SeriesThreshold::of_column).unwrap_or(0.0);
    let mut samples = smoothed.iter().copied().filter(|(at, value)| times.contains(at) && value.is_finite());
    let values = || smoothed.iter().filter(|(at, value)| times.contains(at) && value.is_finite()).map(|it| it.1);
    let since = |(at, _): (f64, f64)| at - times.start();
    match measure.statistic? {
        Statistic::Mean => over_time(&smoothed, &times),
        Statistic::Max => values().reduce(f64::max),
        Statistic::Min => values().reduce(f64::min),
        Statistic::Last => values().next_back(),
        Statistic::FirstAtLeast => samples.find(|(_, value)| *value >= level).map(since),
        Statistic::FirstBelow => samples.find(|(_, value)| *value < level).map(since),
    }
}

/// Time-weighted mean over `times`: each sample represents the time since the previous one.
fn over_time(series: &[(f64, f64)], times: &RangeInclusive<f64>) -> Option<f64> {
    let (mut sum, mut time) = (0.0, 0.0);
    let mut before: f64 = 0.0;
    for (at, value) in series {
        let span = at.min(*times.end()) - before.max(*times.start());
        before = *at;
        if span > 0.0 && value.is_finite() {
            sum += value * span;
            time += span;
        }
    }
    (time > 0.0).then(|| sum / time)
}

/// Means over windows of `span` microseconds, at their middles. Single samples of a rate fluctuate by whole frames.
pub(super) fn smoothed(samples: impl Iterator<Item = (f64, f64)>, span: f64) -> Vec<(f64, f64)> {
    let mut spans: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut last = 0.0;
    for (at, value) in samples {
        // A sample represents the time before it, which may begin in the previous window.
        let sum = spans.entry(((at + last) / 2.0 / span) as u64).or_default();
        *sum = (sum.0 + value * (at - last), sum.1 + at - last);
        last = at;
    }
    let mean = |(n, (sum, time)): (u64, (f64, f64))| ((n as f64 + 0.5) * span, sum / time.max(f64::MIN_POSITIVE));
    spans.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_after_to_are_not_counted() {
        let counted = |to: Option<&str>| {
            let measure = Measure { to: to.map(str::to_owned), ..Measure::default() };
            [None, Some(0.0), Some(10e6), Some(10e6 + 1.0)].map(|value| is_counted(&measure, value))
        };
        assert_eq!(counted(None), [false, false, true, true]);
        assert_eq!(counted(Some("10ms")), [false, false, true, false]);
    }

    #[test]
    fn a_mean_over_parameters_has_a_value_for_each_seed() {
        let seeds = [2, 1, 2, 1].map(Some);
        assert_eq!(seed_means(seeds.into_iter(), &[10.0, 1.0, 30.0, 5.0]), [3.0, 20.0]);
    }

    #[test]
    fn missing_instants_are_later_than_all_others() {
        let of = |values: &[f64], runs: usize, over: Aggregation| instants_or_why(values.to_vec(), runs, over);
        assert_eq!(statistics::median(&of(&[3.0, 1.0], 3, Aggregation::Median).unwrap()), Some(3.0));
        assert_eq!(of(&[3.0, 1.0], 4, Aggregation::Median), Err("never in 2 of 4 runs".to_owned()));
        assert_eq!(of(&[3.0], 4, Aggregation::Min).unwrap()[0], 3.0);
        assert_eq!(of(&[], 2, Aggregation::Min), Err("never in 2 of 2 runs".to_owned()));
        assert_eq!(of(&[], 0, Aggregation::Median), Err("never".to_owned()));
    }

    #[test]
    fn times_of_a_series_count_from_the_origin() {
        let series = [(1.0, 5.0), (2.0, 4.0), (3.0, 1.0), (4.0, 3.0)];
        let with = |statistic: Statistic, from: &str| Measure {
            series: Some("S1.p0.3.rx_bps".to_owned()),
            statistic: Some(statistic),
            level: Some(SeriesThreshold::Number(2.0)),
            from: Some(from.to_owned()),
            to: Some("3us".to_owned()),
            ..Measure::default()
        };
        let of =
            |statistic: Statistic, from: &str, origin: f64| super::statistic(&with(statistic, from), &series, origin);
        assert_eq!(of(Statistic::FirstBelow, "0us", 0.0), Some(3.0));
        assert_eq!(of(Statistic::FirstBelow, "1us", 1.0), Some(1.0));
        assert_eq!(of(Statistic::Max, "0us", 2.0), Some(4.0));
        assert_eq!(of(Statistic::FirstBelow, "1us", 3.0), None);
    }

    #[test]
    fn messages_that_did_not_finish_are_beyond_every_percentile_and_left_out_of_means() {
        let values = || vec![4.0, f64::INFINITY, 1.0, 3.0, 2.0];
        assert_eq!(of_messages(values(), None), Some(2.5));
        let percentiles =
            [1.0, 40.0, 41.0, 80.0, 81.0, 100.0].map(|percentile| of_messages(values(), Some(percentile)));
        assert_eq!(percentiles, [1.0, 2.0, 3.0, 4.0, f64::INFINITY, f64::INFINITY].map(Some));
        assert_eq!([of_messages(vec![f64::INFINITY], None), of_messages(vec![], Some(50.0))], [None, None]);
        // An unfinished message has a throughput of 0.
        let throughputs = || vec![0.0, 5.0];
        assert_eq!([None, Some(50.0)].map(|percentile| of_messages(throughputs(), percentile)), [Some(5.0), Some(0.0)]);
    }
}
