//! Plots of lines over time: queues, pools, rates, stages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::gauges::GaugeColumn;
use super::{DrawnRun, LINES_MAX, NameSelection, POINTS, Plot, Section, queue_name, queue_names};
use crate::report::charts::{Axis, Chart, ChartLine, Column, Columns, color};
use crate::report::series::Downsampler;

/// Maximum of a limit that is drawn whole, as a multiple of the limited quantity.
const LIMIT_SHOWN: f64 = 2.5;

/// Physical quantity of a plot, which determines the axis's unit.
#[derive(Clone, Copy)]
enum Quantity {
    Bytes,
    Rate,
    Number,
}

/// Unit of an axis; `of` is its size in the file's unit.
struct AxisUnit {
    name: &'static str,
    of: f64,
}

/// Description of a section with a plot for each run.
struct LineSection<'a> {
    id: Cow<'static, str>,
    title: Cow<'static, str>,
    what: &'a str,
    quantity: Quantity,
    names: &'a [String],
    kind: &'a str,
    is_stepped: bool,
    notes: Vec<String>,
}

impl Quantity {
    fn unit(self, max: f64) -> AxisUnit {
        let (name, of) = match self {
            Quantity::Bytes if max >= 20e6 => ("MB", 1e6),
            Quantity::Bytes => ("KB", 1e3),
            Quantity::Rate if max < 1e9 => ("Mb/s", 1e6),
            Quantity::Rate => ("Gb/s", 1e9),
            Quantity::Number => ("", 1.0),
        };
        AxisUnit { name, of }
    }
}

impl AxisUnit {
    fn column(&self, columns: &mut Columns, values: &[f64]) -> Column {
        columns.add(values.iter().map(|value| value / self.of).collect())
    }

    fn label(&self, what: &str) -> String {
        if self.name.is_empty() { what.to_owned() } else { format!("{what} ({})", self.name) }
    }

    fn shown(&self, value: f64) -> String {
        format!("{} {}", crate::table::count((value / self.of).round() as u64), self.name).trim_end().to_owned()
    }
}

impl LineSection<'_> {
    /// Section with a plot for each run that has one of these columns with a value above 0; `None` without such a run.
    /// `more` adds lines to a run's chart, and returns their maximum.
    fn section(
        self,
        drawn: &[DrawnRun<'_>],
        columns: &mut Columns,
        mut more: impl FnMut(&DrawnRun<'_>, &AxisUnit, &mut Chart, &mut Columns) -> f64,
    ) -> Option<Section> {
        let key = |name: &String| format!("{name}.{}", self.kind);
        let is_rate = |drawn: &DrawnRun<'_>, key: &str| drawn.means.contains_key(key);
        let values = |drawn: &'_ DrawnRun<'_>, name: &String| -> Option<Vec<f64>> {
            let key = key(name);
            let values = drawn.means.get(&key).or_else(|| drawn.samples.get(&key))?;
            // A peer with a constant rate is never slowed down.
            let is_idle = self.kind == "peer_rate_bps" && values.iter().all(|value| *value == values[0]);
            (greatest(values) > 0.0 && !is_idle).then(|| values.clone())
        };
        let of_all = drawn.iter().flat_map(|run| self.names.iter().filter_map(|name| values(run, name)));
        let max = of_all.map(|values| greatest(&values)).fold(f64::NAN, f64::max);
        if max.is_nan() {
            return None;
        }
        let unit = self.quantity.unit(max);
        let (mut plots, mut top, names) = (Vec::new(), max, self.shown());
        for run in drawn {
            let mut chart = run.chart(Axis { label: unit.label(self.what), ..Axis::default() });
            let mut descriptions = Vec::new();
            for (n, name) in self.names.iter().enumerate() {
                let Some(values) = values(run, name) else { continue };
                chart.at = if is_rate(run, &key(name)) { run.means_at } else { run.at };
                let column = unit.column(columns, &values);
                let is_stepped = self.is_stepped;
                chart.lines.push(ChartLine { is_stepped, ..ChartLine::nth(n, &names[n], column) });
                descriptions.push(format!("{} up to {}", names[n], unit.shown(greatest(&values))));
            }
            if chart.lines.is_empty() {
                continue;
            }
            top = top.max(more(run, &unit, &mut chart, columns));
            plots.push(Plot {
                caption: run.run.label.clone(),
                alt: format!("{} over time: {}", self.what, descriptions.join("; ")),
                chart,
            });
        }
        for plot in &mut plots {
            plot.chart.y = Axis::up_to(&plot.chart.y.label, top / unit.of);
        }
        Some(Section { id: self.id, title: self.title, notes: self.notes, choices: Vec::new(), plots })
    }

    /// Names in the legend.
    fn shown(&self) -> Vec<String> {
        let parts: Option<Vec<_>> = self.names.iter().map(|name| name.rsplit_once('.')).collect();
        match parts {
            Some(queues) if !matches!(self.kind, "received_bps" | "used_bytes") => queue_names(&queues),
            _ => self.names.to_vec(),
        }
    }
}

/// Ingress queues, with T(t) of the fullest.
pub(super) fn ingress(drawn: &[DrawnRun<'_>], columns: &mut Columns, queues: &NameSelection) -> Option<Section> {
    let mut notes = vec![
        "What each ingress queue holds: private buffer, shared segment and headroom together. Dashed: T(t), with which the shared part \
         of the fullest queue is compared."
            .to_owned(),
    ];
    notes.extend(queues.note("lossless queues", "those that the scenario has drawn, and else the longest"));
    let lines = LineSection {
        id: "ingress".into(),
        title: "Ingress queues".into(),
        what: "ingress queue",
        quantity: Quantity::Bytes,
        names: &queues.names,
        kind: "ingress_bytes",
        is_stepped: false,
        notes,
    };
    lines.section(drawn, columns, |run, unit, chart, columns| {
        let max = |name: &String| run.sample(name, "ingress_bytes").map_or(0.0, |values| greatest(values));
        let fullest = queues.names.iter().max_by(|one, other| max(one).total_cmp(&max(other)));
        let Some((name, values)) = fullest.and_then(|name| Some((name, run.sample(name, "threshold_bytes")?))) else {
            return 0.0;
        };
        let column = unit.column(columns, values);
        chart.lines.push(limit(&format!("T(t) of {}", queue_name(name)), column));
        greatest(values).min(LIMIT_SHOWN * max(name))
    })
}

pub(super) fn segments(drawn: &[DrawnRun<'_>], columns: &mut Columns, queues: &NameSelection) -> Option<Section> {
    let has =
        |run: &DrawnRun<'_>, name: &String| run.sample(name, "ingress_bytes").is_some_and(|all| greatest(all) > 0.0);
    let names: Vec<&String> = queues.names.iter().filter(|name| drawn.iter().any(|run| has(run, name))).collect();
    let all = |run: &DrawnRun<'_>| {
        names.iter().filter_map(|name| run.sample(name, "ingress_bytes")).map(|of| greatest(of)).fold(0.0, f64::max)
    };
    let max = drawn.iter().map(all).fold(0.0, f64::max);
    if names.is_empty() {
        return None;
    }
    let unit = Quantity::Bytes.unit(max);
    let (mut plots, mut top) = (Vec::new(), max);
    for run in drawn.iter().filter(|run| names.iter().any(|name| has(run, name))) {
        let mut chart = run.chart(Axis { label: unit.label("ingress queue"), ..Axis::default() });
        chart.at = run.at;
        for name in &names {
            let mut lines = Vec::new();
            if let Some(ingress) = run.sample(name, "ingress_bytes") {
                let headroom = run.sample(name, "headroom_bytes");
                if let Some(headroom) = headroom.filter(|headroom| greatest(headroom) > 0.0) {
                    let column = unit.column(columns, ingress);
                    lines.push(filled("all, with headroom", column, color::ORANGE));
                    let stored: Vec<f64> = ingress.iter().zip(headroom).map(|(all, of)| (all - of).max(0.0)).collect();
                    lines.push(filled("private and shared", unit.column(columns, &stored), color::BLUE));
                } else {
                    lines.push(filled("private and shared", unit.column(columns, ingress), color::BLUE));
                }
            }
            if let Some(threshold) = run.sample(name, "threshold_bytes") {
                lines.push(limit("T(t)", unit.column(columns, threshold)));
                top = top.max(greatest(threshold).min(LIMIT_SHOWN * max));
            }
            if let Some(egress) = run.sample(name, "egress_bytes").filter(|egress| greatest(egress) > 0.0) {
                let column = unit.column(columns, egress);
                let line = ChartLine::nth(color::GREEN, "egress queue there", column);
                lines.push(line);
            }
            chart.choices.push(lines);
        }
        let alt = "One ingress queue over time, split into what is in the private buffer and the shared segment, and what is in headroom";
        plots.push(Plot { caption: run.run.label.clone(), alt: alt.to_owned(), chart });
    }
    for plot in &mut plots {
        plot.chart.y = Axis::up_to(&plot.chart.y.label, top / unit.of);
    }
    let notes = vec![
        "One queue at a time. Blue: in the private buffer and the shared segment; orange on top: in headroom. Dashed: T(t)."
            .to_owned(),
    ];
    let choices = names.iter().map(|name| queue_name(name)).collect();
    Some(Section { id: "segments".into(), title: "One queue by segment".into(), notes, choices, plots })
}

/// Usage and size of shared segments.
pub(super) fn pools(drawn: &[DrawnRun<'_>], columns: &mut Columns, pools: &NameSelection) -> Option<Section> {
    let mut notes = vec![
        "Each switch's shared segment: the part in use. Dashed: the segment's size, where that is near.".to_owned(),
    ];
    notes.extend(pools.note("shared segments", "the fullest"));
    let lines = LineSection {
        id: "pool".into(),
        title: "Shared buffer".into(),
        what: "shared segment in use",
        quantity: Quantity::Bytes,
        names: &pools.names,
        kind: "used_bytes",
        is_stepped: false,
        notes,
    };
    lines.section(drawn, columns, |run, unit, chart, columns| {
        let fullest = |name: &String| run.sample(name, "used_bytes").map_or(0.0, |values| greatest(values));
        let Some(name) = pools.names.iter().max_by(|one, other| fullest(one).total_cmp(&fullest(other))) else {
            return 0.0;
        };
        let Some(capacity) = run.sample(name, "capacity_bytes") else { return 0.0 };
        chart.lines.push(limit(&format!("size of {name}"), unit.column(columns, capacity)));
        greatest(capacity).min(LIMIT_SHOWN * fullest(name))
    })
}

pub(super) fn flow_rates(drawn: &[DrawnRun<'_>], columns: &mut Columns, flows: &NameSelection) -> Option<Section> {
    let mut notes = vec![format!("Payload that arrives at each flow's receiver, {}.", means_over(drawn))];
    notes.extend(flows.note("flows", "the fastest"));
    let lines = LineSection {
        id: "flows".into(),
        title: "Rates of flows".into(),
        what: "received",
        quantity: Quantity::Rate,
        names: &flows.names,
        kind: "received_bps",
        is_stepped: false,
        notes,
    };
    lines.section(drawn, columns, |_, _, _, _| 0.0)
}

pub(super) fn queue_rates(drawn: &[DrawnRun<'_>], columns: &mut Columns, queues: &NameSelection) -> Option<Section> {
    let note = "What comes in at each port and class, as on the wire";
    let lines = LineSection {
        id: "rates".into(),
        title: "Rates into queues".into(),
        what: "comes in",
        quantity: Quantity::Rate,
        names: &queues.names,
        kind: "rx_bps",
        is_stepped: false,
        notes: vec![format!("{note}, {}.", means_over(drawn))],
    };
    lines.section(drawn, columns, |_, _, _, _| 0.0)
}

/// GFC: rates that ports set for their peers.
pub(super) fn peer_rates(drawn: &[DrawnRun<'_>], columns: &mut Columns, queues: &NameSelection) -> Option<Section> {
    let lines = LineSection {
        id: "peer-rates".into(),
        title: "Rates set to peers (GFC)".into(),
        what: "rate set to the peer",
        quantity: Quantity::Rate,
        names: &queues.names,
        kind: "peer_rate_bps",
        is_stepped: true,
        notes: vec![
            "The rate at which the switch lets its peer at each port send; without those that it never slowed down."
                .to_owned(),
        ],
    };
    lines.section(drawn, columns, |_, _, _, _| 0.0)
}

/// Gauge of queues from the buffer policy, such as DSH's headroom estimate; `None` for a gauge of a state.
pub(super) fn gauge(
    drawn: &[DrawnRun<'_>],
    columns: &mut Columns,
    queues: &NameSelection,
    gauge: &GaugeColumn,
) -> Option<Section> {
    if gauge.state.is_some() {
        return None;
    }
    let lines = LineSection {
        id: gauge.id().into(),
        title: gauge.title.clone().into(),
        what: &gauge.label,
        quantity: if gauge.name.ends_with("_bytes") { Quantity::Bytes } else { Quantity::Number },
        names: &queues.names,
        kind: &gauge.name,
        is_stepped: true,
        notes: vec![gauge.about.clone()],
    };
    lines.section(drawn, columns, |_, _, _, _| 0.0)
}

/// Gauge of flows from congestion control, such as DCQCN's α.
pub(crate) fn flow_gauge(
    drawn: &[DrawnRun<'_>],
    columns: &mut Columns,
    flows: &NameSelection,
    gauge: &str,
) -> Option<Section> {
    let (shown, quantity) = match gauge.rsplit_once('_') {
        Some((shown, "bps")) => (shown, Quantity::Rate),
        Some((shown, "bytes")) => (shown, Quantity::Bytes),
        _ => (gauge, Quantity::Number),
    };
    let mut abouts: Vec<&str> = weir_nic::flow_gauges().filter(|of| of.name == gauge).map(|of| of.help).collect();
    abouts.dedup();
    let about = match abouts[..] {
        [about] => about,
        // The gauge is unknown, or differs between congestion controls.
        _ => "what congestion control shows of each flow",
    };
    let mut notes = vec![format!("Column {gauge} of series.csv: {about}.")];
    notes.extend(flows.note("flows", "the fastest"));
    let lines = LineSection {
        id: format!("flow-{}", gauge.replace('_', "-")).into(),
        title: format!("Flows under congestion control: {}", shown.replace('_', " ")).into(),
        what: gauge,
        quantity,
        names: &flows.names,
        kind: gauge,
        is_stepped: true,
        notes,
    };
    lines.section(drawn, columns, |_, _, _, _| 0.0)
}

/// Buffer-based GFC: the stage that each port last advertised to its peer.
pub(super) fn stages(drawn: &[DrawnRun<'_>], columns: &mut Columns) -> Option<Section> {
    let (mut plots, mut top) = (Vec::new(), 0.0_f64);
    let mut stage_counts: BTreeMap<&(String, String), usize> = BTreeMap::new();
    for run in drawn {
        for (queue, events) in run.events.queues.iter().filter(|(_, events)| !events.stages.is_empty()) {
            *stage_counts.entry(queue).or_default() += events.stages.len();
        }
    }
    let all = stage_counts.len();
    let mut ranked: Vec<_> = stage_counts.into_iter().collect();
    ranked.sort_by_key(|(_, stages)| std::cmp::Reverse(*stages));
    ranked.truncate(LINES_MAX);
    let queues: Vec<&(String, String)> = ranked.into_iter().map(|(queue, _)| queue).collect();
    let names = queue_names(&queues.iter().map(|queue| (queue.0.as_str(), queue.1.as_str())).collect::<Vec<_>>());
    for run in drawn {
        let of_queue = |queue: &&(String, String)| run.events.queues.get(*queue).filter(|of| !of.stages.is_empty());
        if !queues.iter().any(|queue| of_queue(queue).is_some()) {
            continue;
        }
        // All instants, with the stage of each queue since its last change.
        let changes = queues.iter().enumerate().flat_map(|(n, queue)| {
            of_queue(queue).into_iter().flat_map(move |of| of.stages.iter().map(move |(at, stage)| (*at, n, *stage)))
        });
        let mut changes: Vec<(f64, usize, f64)> = changes.collect();
        changes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let mut now: Vec<f64> = vec![0.0; queues.len()];
        let mut downsampler = Downsampler::new(queues.len(), changes.len() + 2, POINTS[1] / drawn.len().min(4));
        downsampler.push(0.0, now.iter().copied());
        for (at, n, stage) in changes {
            now[n] = stage;
            top = top.max(stage);
            downsampler.push(at, now.iter().copied());
        }
        downsampler.push(run.end_ms, now.iter().copied());
        let samples = downsampler.finish();
        let mut chart = run.chart(Axis { label: "stage".to_owned(), ..Axis::default() });
        chart.at = Some(columns.add(samples.at));
        for (n, (queue, values)) in queues.iter().zip(samples.values).enumerate() {
            if of_queue(queue).is_some() {
                chart.lines.push(ChartLine { is_stepped: true, ..ChartLine::nth(n, &names[n], columns.add(values)) });
            }
        }
        let alt = format!("Stages over time of {} ports", chart.lines.len());
        plots.push(Plot { caption: run.run.label.clone(), alt, chart });
    }
    for plot in &mut plots {
        plot.chart.y = Axis::up_to("stage", top);
    }
    let mut notes = vec!["The stage that each port last advertised to its peer; 0 is full rate.".to_owned()];
    if all > queues.len() {
        notes.push(format!("{} of {all} ports: those that advertised most.", queues.len()));
    }
    (!plots.is_empty()).then_some(Section {
        id: "stages".into(),
        title: "Stages (GFC)".into(),
        notes,
        choices: Vec::new(),
        plots,
    })
}

fn filled(name: &str, column: Column, color: usize) -> ChartLine {
    ChartLine { is_filled: true, ..ChartLine::nth(color, name, column) }
}

fn limit(name: &str, column: Column) -> ChartLine {
    ChartLine { is_dashed: true, ..ChartLine::nth(color::BLACK, name, column) }
}

/// Note on the averaging window: `means over 200 us`.
fn means_over(drawn: &[DrawnRun<'_>]) -> String {
    let over = drawn.iter().map(|run| run.over_us).fold(0.0, f64::max);
    let digits = if over < 10.0 { 1 } else { 0 };
    format!("means over {over:.digits$} us")
}

/// Largest number; NaN if there is none.
fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}
