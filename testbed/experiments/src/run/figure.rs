//! Figure of a scenario's runs: ingress queues and received rates of the drawn ports over time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_config::SwitchConfig;
use weir_flowctl::MessageKind;
use weir_mmu::policy::ConstantThreshold;
use weir_results::plot::{Figure, Panel, PlotLine, PlotMark};
use weir_results::run_dir::{Series, read_series};
use weir_scenario::PortRef;
use weir_switch_core::flow_control::{RATE_UNKNOWN, port_flow_control};
use weir_units::Span;

use super::CompletedRun;
use super::outcome::RUNS_SIDE_BY_SIDE;
use crate::Failure;

const TIME_LABEL: &str = "time (ms)";

/// Averaging window of rates.
const RATE_OVER: Span = Span::from_micros(200);

const LINES_MAX: usize = 16;

/// Draws the runs and returns the file; `None` if no ports are drawn.
pub(super) fn draw(ended: &[CompletedRun], title: &str, output: &Path) -> Result<Option<PathBuf>, Failure> {
    if ended.iter().all(|run| run.scenario.draw.is_empty()) {
        return Ok(None);
    }
    let columns = ended.len().clamp(1, RUNS_SIDE_BY_SIDE);
    let mut panels = Vec::new();
    for runs in ended.chunks(columns) {
        let series = runs.iter().map(|run| read_series(&run.directory)).collect::<Result<Vec<_>, _>>()?;
        let drawn = || runs.iter().zip(&series);
        panels.extend(drawn().map(|(run, series)| queues(run, series)));
        panels.extend((runs.len()..columns).map(|_| Panel::default()));
        panels.extend(drawn().map(|(run, series)| rates(run, series)));
        panels.extend((runs.len()..columns).map(|_| Panel::default()));
    }
    let figure = Figure { title: title.to_owned(), columns, panels, ..Figure::default() };
    let path = output.join("figure.svg");
    figure.write_svg(&path).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(Some(path))
}

fn queues(run: &CompletedRun, series: &Series) -> Panel {
    let lines = columns(run, "ingress_bytes").take(LINES_MAX).map(|(name, column)| PlotLine {
        name,
        points: values(series, &column).map(|(us, bytes)| (us / 1e3, bytes / 1e3)).collect(),
        ..PlotLine::default()
    });
    Panel {
        title: run.name.clone(),
        x_label: TIME_LABEL.to_owned(),
        y_label: "ingress queue (KB)".to_owned(),
        lines: lines.collect(),
        marks: thresholds(run),
        ..Panel::default()
    }
}

fn rates(run: &CompletedRun, series: &Series) -> Panel {
    let lines = columns(run, "rx_bps").take(LINES_MAX).map(|(name, column)| PlotLine {
        name,
        points: smoothed(values(series, &column)).map(|(us, bps)| (us / 1e3, bps / 1e9)).collect(),
        ..PlotLine::default()
    });
    Panel {
        x_label: TIME_LABEL.to_owned(),
        y_label: "comes in (Gb/s)".to_owned(),
        lines: lines.collect(),
        ..Panel::default()
    }
}

/// Columns of a kind for the drawn ports, each with its line's name.
fn columns(run: &CompletedRun, kind: &str) -> impl Iterator<Item = (String, String)> {
    let scenario = &run.scenario;
    scenario.draw.iter().flat_map(move |place| {
        let port = scenario.port_name(*place);
        let lossless = scenario.switches[place.switch].classes.lossless.iter().collect::<Vec<_>>();
        let one = lossless.len() == 1;
        lossless.into_iter().map(move |class| {
            let name = if one { port.clone() } else { format!("{port}, class {}", class.index()) };
            (name, format!("{port}.{}.{kind}", class.index()))
        })
    })
}

fn values<'a>(series: &'a Series, column: &str) -> impl Iterator<Item = (f64, f64)> + 'a {
    series.column(column).into_iter().flatten()
}

/// Means over windows of [`RATE_OVER`], at their middles. Single samples of a rate fluctuate by whole frames.
fn smoothed(samples: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let over = RATE_OVER.as_nanos() as f64 / 1e3;
    let mut spans: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut last = 0.0;
    for (us, rate) in samples {
        let sum = spans.entry((us / over) as u64).or_default();
        *sum = (sum.0 + rate * (us - last), sum.1 + us - last);
        last = us;
    }
    spans.into_iter().map(move |(n, (bits, us))| ((n as f64 + 0.5) * over, bits / us.max(f64::MIN_POSITIVE)))
}

/// Thresholds of the drawn queues; those of the first port represent all.
fn thresholds(run: &CompletedRun) -> Vec<PlotMark> {
    let Some(PortRef { switch, port }) = run.scenario.draw.first().copied() else { return Vec::new() };
    let config: &SwitchConfig = &run.scenario.switches[switch];
    let mark = |name: &str, bytes: u64| PlotMark {
        label: format!("{name} {} KB", bytes / 1_000),
        value: bytes as f64 / 1e3,
        ..PlotMark::default()
    };
    let rate = config.ports[port].rate.unwrap_or(RATE_UNKNOWN);
    let own = port_flow_control(config, port, rate).map(|mechanism| mechanism.reference_lengths()).unwrap_or_default();
    if !own.is_empty() {
        return own.iter().map(|(name, length)| mark(name, length.get())).collect();
    }
    match config.ports[port].flow_control.message_kind() {
        MessageKind::Nothing => Vec::new(),
        _ => match config.buffer.policy.constant_threshold() {
            Some(ConstantThreshold::Given(xoff)) => vec![mark("Xoff", xoff.get())],
            _ => Vec::new(),
        },
    }
}
