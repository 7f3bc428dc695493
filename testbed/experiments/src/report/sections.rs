//! Plots of the report, by section. A run without data for a plot has none.

mod bars;
mod gauges;
mod lines;
mod messages;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::charts::{Axis, Chart, ChartMark, Column, Columns};
use super::events::Events;
use super::input::{Run, natural};
use super::series::SeriesFile;
use crate::Failure;
use crate::table::count;

pub(super) struct Section {
    /// Anchor for links.
    pub id: Cow<'static, str>,
    pub title: Cow<'static, str>,
    /// Notes on the plots and on omitted lines.
    pub notes: Vec<String>,
    /// Options that the reader selects from; may be empty.
    pub choices: Vec<String>,
    pub plots: Vec<Plot>,
}

pub(super) struct Plot {
    pub caption: String,
    /// Alternative text.
    pub alt: String,
    pub chart: Chart,
}

/// Sections with the numbers that their plots refer to.
pub(super) struct Plots {
    pub sections: Vec<Section>,
    pub columns: Columns,
    /// Sentences on downsampled series.
    pub downsampling_notes: Vec<String>,
}

const LINES_MAX: usize = 8;
/// Maximum count of series numbers on a page, which keeps it below a few MB.
const NUMBERS_MAX: usize = 450_000;
/// Minimum and maximum number of points per line.
const POINTS: [usize; 2] = [240, 4_000];
/// Averaging window of rates, in microseconds.
const RATE_OVER_US: f64 = 200.0;
/// Averaging window in a short run, as a share of the run.
const RATE_SHARE: f64 = 1.0 / 50.0;

/// Suffixes of queues' column names after port and class, without rates and the policies' gauges.
const OF_QUEUE: [&str; 5] = ["ingress_bytes", "headroom_bytes", "threshold_bytes", "egress_bytes", "peer_rate_bps"];

struct DrawnRun<'a> {
    run: &'a Run,
    end_ms: f64,
    events: Events,
    /// Instants of the samples; `samples` has the columns by name.
    at: Option<Column>,
    at_ms: Vec<f64>,
    samples: BTreeMap<String, Vec<f64>>,
    /// Instants of the mean rates; `means` has the columns by name.
    means_at: Option<Column>,
    means: BTreeMap<String, Vec<f64>>,
    /// Averaging window, in microseconds.
    over_us: f64,
}

/// Queues, flows or pools that are drawn.
pub(super) struct NameSelection {
    /// Names, largest first.
    names: Vec<String>,
    /// Number of candidates.
    of: usize,
}

pub(super) fn plots(runs: &[Run]) -> Result<Plots, Failure> {
    let files = runs.iter().map(|run| SeriesFile::survey(&run.directory)).collect::<Result<Vec<_>, _>>()?;
    let asked: Vec<&str> =
        runs.iter().filter_map(|run| run.topology.as_ref()).flat_map(|of| &of.drawn).map(String::as_str).collect();
    let is_asked = |queue: &str| queue.rsplit_once('.').is_some_and(|(port, _)| asked.contains(&port));
    let queues = NameSelection::select(&files, &["ingress_bytes", "egress_bytes", "rx_bps"], is_asked);
    let flows = NameSelection::select(&files, &["received_bps"], |_| false).by_name();
    let pools = NameSelection::select(&files, &["used_bytes"], |_| false).by_name();
    let (mut columns, mut downsampling_notes, mut drawn) = (Columns::default(), Vec::new(), Vec::new());
    for (run, file) in runs.iter().zip(&files) {
        let mut of_run = DrawnRun {
            run,
            end_ms: run.end_us() / 1e3,
            events: Events::read(&run.directory, run.end_us() / 1e3)?,
            at: None,
            at_ms: Vec::new(),
            samples: BTreeMap::new(),
            means_at: None,
            means: BTreeMap::new(),
            over_us: 0.0,
        };
        of_run.events.mark_deadlock(run.summary.deadlock.as_ref());
        if let Some(file) = file {
            downsampling_notes.extend(of_run.read(file, [&queues, &flows, &pools], runs.len(), &mut columns)?);
        }
        drawn.push(of_run);
    }
    let mut sections = Vec::new();
    sections.extend(lines::ingress(&drawn, &mut columns, &queues));
    sections.extend(lines::segments(&drawn, &mut columns, &queues));
    sections.extend(lines::pools(&drawn, &mut columns, &pools));
    sections.extend(lines::flow_rates(&drawn, &mut columns, &flows));
    let shown = gauges::flow_gauge_names(files.iter().flatten(), &flows.names);
    sections.extend(shown.iter().filter_map(|gauge| lines::flow_gauge(&drawn, &mut columns, &flows, gauge)));
    sections.extend(lines::queue_rates(&drawn, &mut columns, &queues));
    sections.extend(bars::pauses(&drawn));
    let gauges = gauges::queue_gauge_columns(files.iter().flatten());
    sections.extend(gauges.iter().filter_map(|gauge| bars::states(&drawn, &queues, gauge)));
    sections.extend(lines::peer_rates(&drawn, &mut columns, &queues));
    sections.extend(lines::stages(&drawn, &mut columns));
    sections.extend(gauges.iter().filter_map(|gauge| lines::gauge(&drawn, &mut columns, &queues, gauge)));
    sections.extend(messages::by_size(runs, &mut columns));
    sections.extend(messages::distributions(runs, &mut columns)?);
    Ok(Plots { sections, columns, downsampling_notes })
}

impl DrawnRun<'_> {
    /// Reads the data of the plots; returns a sentence if they were downsampled.
    fn read(
        &mut self,
        file: &SeriesFile,
        [queues, flows, pools]: [&NameSelection; 3],
        runs: usize,
        columns: &mut Columns,
    ) -> Result<Option<String>, Failure> {
        let joined = |names: &[String], kinds: &[&str]| -> Vec<String> {
            names.iter().flat_map(|name| kinds.iter().map(move |kind| format!("{name}.{kind}"))).collect()
        };
        let is_used = |name: &String| file.place(name).is_some_and(|place| !file.columns()[place].max.is_nan());
        let mut sampled = joined(&queues.names, &OF_QUEUE);
        let gauges = gauges::queue_gauge_columns(std::iter::once(file));
        sampled.extend(joined(&queues.names, &gauges.iter().map(|gauge| gauge.name.as_str()).collect::<Vec<_>>()));
        let of_flows = gauges::flow_gauge_names(std::iter::once(file), &flows.names);
        sampled.extend(joined(&flows.names, &of_flows.iter().map(String::as_str).collect::<Vec<_>>()));
        sampled.extend(joined(&pools.names, &["used_bytes", "capacity_bytes"]));
        let mut rates = joined(&queues.names, &["rx_bps"]);
        rates.extend(joined(&flows.names, &["received_bps"]));
        sampled.retain(is_used);
        rates.retain(is_used);
        let numbers = runs * (sampled.len() + rates.len() + 2);
        let points = (NUMBERS_MAX / numbers).clamp(POINTS[0], POINTS[1]);
        let places = |names: &[String]| names.iter().filter_map(|name| file.place(name)).collect::<Vec<_>>();
        let samples = file.samples(&places(&sampled), points)?;
        self.at = Some(columns.add(samples.at.clone()));
        self.at_ms = samples.at;
        self.samples = sampled.into_iter().zip(samples.values).collect();
        let over_us = RATE_OVER_US.min(self.end_ms * 1e3 * RATE_SHARE);
        let means = file.means(&places(&rates), over_us, points)?;
        self.means_at = Some(columns.add(means.at));
        self.means = rates.into_iter().zip(means.values).collect();
        self.over_us = means.over_us;
        Ok((samples.rows_each > 1).then(|| {
            format!(
                "{}: series.csv has {} samples; of each {} the plots show the least and the greatest",
                self.run.label,
                count(file.rows() as u64),
                count(samples.rows_each as u64)
            )
        }))
    }

    fn sample(&self, name: &str, kind: &str) -> Option<&Vec<f64>> {
        self.samples.get(&format!("{name}.{kind}"))
    }

    /// Chart over the run's time, with marked events.
    fn chart(&self, y: Axis) -> Chart {
        let marks = self.events.marks.iter().map(|(at, text)| ChartMark { at: *at, text: text.clone() });
        Chart { x: Axis::time(self.end_ms), y, marks: marks.collect(), ..Chart::default() }
    }
}

impl NameSelection {
    /// Selects the names with the largest values in columns of the first kind, then of the others. Names for which
    /// `is_first` is true come before all. Names without a value above 0 are omitted.
    fn select(files: &[Option<SeriesFile>], kinds: &[&str], is_first: impl Fn(&str) -> bool) -> NameSelection {
        let mut max: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for column in files.iter().flatten().flat_map(SeriesFile::columns) {
            let Some((name, kind)) = column.name.rsplit_once('.') else { continue };
            let Some(place) = kinds.iter().position(|of| *of == kind) else { continue };
            let of_name = max.entry(name).or_insert_with(|| vec![0.0; kinds.len()]);
            of_name[place] = of_name[place].max(column.max);
        }
        max.retain(|_, max| max.iter().any(|max| *max > 0.0));
        let mut ranked: Vec<(&str, Vec<f64>)> = max.into_iter().collect();
        let of = ranked.len();
        // A stable sort: equals stay in the order of their names.
        ranked.sort_by(|(one, max_of_one), (other, max_of_other)| {
            let by_size = max_of_other.partial_cmp(max_of_one).unwrap_or(std::cmp::Ordering::Equal);
            is_first(other).cmp(&is_first(one)).then(by_size)
        });
        ranked.truncate(LINES_MAX);
        NameSelection { names: ranked.into_iter().map(|(name, _)| name.to_owned()).collect(), of }
    }

    fn by_name(mut self) -> NameSelection {
        self.names.sort_by_cached_key(|name| natural(name));
        self
    }

    /// Note on omitted names, if any: `what` names the objects, and `which` the drawn ones.
    fn note(&self, what: &str, which: &str) -> Option<String> {
        (self.of > self.names.len()).then(|| {
            format!("{} of {} {what}: {which}; the others are in series.csv.", self.names.len(), count(self.of as u64))
        })
    }
}

/// Readable name of a queue: `S1.h1, class 3` for the column's `S1.h1.3`.
fn queue_name(queue: &str) -> String {
    match queue.rsplit_once('.') {
        Some((port, class)) => format!("{port}, class {class}"),
        None => queue.to_owned(),
    }
}

/// Readable names of several queues, with the class only if the classes differ.
fn queue_names(queues: &[(&str, &str)]) -> Vec<String> {
    let one = queues.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let name = |(port, class): &(&str, &str)| if one { (*port).to_owned() } else { format!("{port}, class {class}") };
    queues.iter().map(name).collect()
}
