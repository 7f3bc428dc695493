//! Plots of bars over time, a row for each port and class: PAUSEs, drops, port states.

use std::collections::BTreeMap;

use super::gauges::GaugeColumn;
use super::{DrawnRun, NameSelection, Plot, Section, queue_names};
use crate::report::charts::{Axis, BarRow, Bars, color};
use crate::report::events::{QueueEvents, Spans};
use crate::report::input::natural;
use crate::table::count;

const ROWS_MAX: usize = 24;

/// Section with the pauses and drops of ports.
pub(super) fn pauses(drawn: &[DrawnRun<'_>]) -> Option<Section> {
    let mut lengths: BTreeMap<&(String, String), (u64, f64)> = BTreeMap::new();
    for (queue, events) in drawn.iter().flat_map(|run| &run.events.queues).filter(|(_, of)| has_bars(of)) {
        let of_queue = lengths.entry(queue).or_default();
        of_queue.0 += events.frames_dropped;
        of_queue.1 += events.paused_peer.length + events.paused_by_peer.length;
    }
    let all = lengths.len();
    // Queues with drops come first.
    let mut ranked: Vec<_> = lengths.into_iter().collect();
    ranked.sort_by(|(_, one), (_, other)| (other.0 > 0).cmp(&(one.0 > 0)).then(other.1.total_cmp(&one.1)));
    ranked.truncate(ROWS_MAX);
    let mut queues: Vec<&(String, String)> = ranked.into_iter().map(|(queue, _)| queue).collect();
    queues.sort_by_cached_key(|queue| (natural(&queue.0), queue.1.clone()));
    let names = queue_names(&queues.iter().map(|queue| (queue.0.as_str(), queue.1.as_str())).collect::<Vec<_>>());
    let mut plots = Vec::new();
    for run in drawn.iter().filter(|run| queues.iter().any(|queue| run.events.queues.get(*queue).is_some_and(has_bars)))
    {
        let mut chart = run.chart(Axis::default());
        for (queue, name) in queues.iter().zip(&names) {
            let bars = run.events.queues.get(*queue).map_or_else(Vec::new, bars);
            chart.rows.push(BarRow { name: name.clone(), bars });
        }
        let length =
            |queue: &&&(String, String)| run.events.queues.get(**queue).map_or(0.0, |of| of.paused_peer.length);
        let longest = queues.iter().max_by(|one, other| length(one).total_cmp(&length(other)));
        let detail = longest.filter(|queue| length(queue) > 0.0).map_or(String::new(), |queue| {
            format!(": {} paused its peer longest, {:.3} ms in all", queue.0, length(&queue))
        });
        let alt = format!("When the switches' ports paused their peers{detail}");
        plots.push(Plot { caption: run.run.label.clone(), alt, chart });
    }
    let mut notes = vec![
        "Vermilion: the switch had its peer at that port paused. Blue: the host behind the port had the switch paused. Black ticks: frames dropped."
            .to_owned(),
    ];
    let merged = drawn.iter().map(|run| run.events.merged_ms).fold(0.0, f64::max) * 1e3;
    notes.push(format!("PAUSEs less than {merged:.1} us apart are one bar."));
    if all > queues.len() {
        notes.push(format!(
            "{} of {} queues: those paused longest; the others are in events.csv.",
            queues.len(),
            count(all as u64)
        ));
    }
    (!plots.is_empty()).then_some(Section {
        id: "pauses".into(),
        title: "PAUSEs".into(),
        notes,
        choices: Vec::new(),
        plots,
    })
}

/// Section with the time of queues in a state of the policy, such as SPFC's victim state; `None` for a gauge of another
/// type.
pub(super) fn states(drawn: &[DrawnRun<'_>], queues: &NameSelection, gauge: &GaugeColumn) -> Option<Section> {
    let on = gauge.state.as_deref()?;
    let mut plots = Vec::new();
    let names = queue_names(&queues.names.iter().filter_map(|name| name.rsplit_once('.')).collect::<Vec<_>>());
    for run in drawn {
        let mut chart = run.chart(Axis::default());
        for (name, shown) in queues.names.iter().zip(&names) {
            let Some(values) = run.sample(name, &gauge.name) else { continue };
            let mut spans = Spans::default();
            for (at, value) in run.at_ms.iter().zip(values) {
                if *value > 0.0 { spans.begin(*at) } else { spans.end(*at, run.events.merged_ms) }
            }
            spans.end(run.end_ms, run.events.merged_ms);
            let bars = Bars { what: on.to_owned(), color: color::GREEN, are_ticks: false, spans: spans.spans };
            chart.rows.push(BarRow { name: shown.clone(), bars: vec![bars] });
        }
        if chart.rows.iter().any(|row| row.bars.iter().any(|bars| !bars.spans.is_empty())) {
            let what = if gauge.of_port { "ports" } else { "queues" };
            let alt = format!("When {what} were in the {on} state");
            plots.push(Plot { caption: run.run.label.clone(), alt, chart });
        }
    }
    let notes = vec![gauge.about.clone()];
    let (id, title) = (gauge.id().into(), gauge.title.clone().into());
    (!plots.is_empty()).then_some(Section { id, title, notes, choices: Vec::new(), plots })
}

fn has_bars(events: &QueueEvents) -> bool {
    [&events.paused_peer, &events.paused_by_peer, &events.drops].iter().any(|spans| !spans.spans.is_empty())
}

fn bars(events: &QueueEvents) -> Vec<Bars> {
    let kinds = [
        ("paused its peer", color::VERMILION, false, &events.paused_peer),
        ("paused by its peer", color::BLUE, false, &events.paused_by_peer),
        ("dropped frames", color::BLACK, true, &events.drops),
    ];
    let some = kinds.into_iter().filter(|(.., spans)| !spans.spans.is_empty());
    some.map(|(what, color, are_ticks, spans)| Bars {
        what: what.to_owned(),
        color,
        are_ticks,
        spans: spans.spans.clone(),
    })
    .collect()
}
