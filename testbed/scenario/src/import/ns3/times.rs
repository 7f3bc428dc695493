//! Conversion of the simulation's clock to the scenario's: traffic begins seconds after a simulation does.

use weir_units::Span;

use super::arguments::Arguments;
use super::config::Config;
use super::flows::FlowList;
use super::{Simulator, Sources};
use crate::import::document::exact_span;
use crate::import::{ImportErrors, ImportNote, ImportReport};

/// Clock of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Difference: instants in the scenario are this much earlier than in the files.
    pub shift: Span,
    /// End of the scenario.
    pub end: Span,
    /// Warm-up: messages that start earlier are not in the statistics.
    pub warm_up: Option<Span>,
    /// Sampling interval, if the default is too short.
    pub sample_every: Option<Span>,
}

/// Base of the instants of generated traffic.
const BASE: Span = Span::from_secs(2);
/// Time for the last flows to end, if the files have no end.
const DRAIN: Span = Span::from_millis(50);
/// End, if no file has one.
const END_DEFAULT: Span = Span::from_millis(100);
/// Warm-up that ConWeave's analysis leaves out.
const WARM_UP: Span = Span::from_millis(5);
const END_MAX: Span = Span::from_secs(1_000);
/// Approximate maximum of a run's samples.
const SAMPLES_MAX: u64 = 10_000;

impl Times {
    /// Sets the scenario's beginning to the first flow's start, rounded down to a millisecond.
    pub(super) fn from_files(
        sources: &Sources,
        config: &Config,
        flows: Option<&FlowList>,
        simulator: Simulator,
        report: &mut ImportReport,
    ) -> Result<Times, ImportErrors> {
        let starts = || flows.into_iter().flat_map(|list| &list.flows).map(|flow| flow.start);
        let written = |key: &str| config.instants.get(key).copied();
        let first = starts().min().or(written("FLOWGEN_START_TIME")).unwrap_or(BASE);
        let millis = first.as_picos() / Span::from_millis(1).as_picos();
        let shift = Span::from_millis(millis);
        let last = starts().max().unwrap_or(shift);
        let (stop, key) = match simulator {
            Simulator::ConWeave => (written("FLOWGEN_STOP_TIME").map(|stop| stop + DRAIN), "FLOWGEN_STOP_TIME"),
            _ => (written("SIMULATOR_STOP_TIME"), "SIMULATOR_STOP_TIME"),
        };
        // Such a simulation ends when nothing happens any more.
        let stop = stop.filter(|stop| flows.is_none() || stop.saturating_sub(shift) <= END_MAX);
        let end = match stop {
            Some(stop) if stop > first && stop.saturating_sub(shift) >= Span::from_micros(1) => {
                stop.saturating_sub(shift)
            }
            Some(stop) => {
                let problem = format!("{key} lets the simulation end at {}, before its first flow", exact_span(stop));
                let help = format!("write seconds after {}", exact_span(first));
                return Err(ImportErrors::one(&config.file, config.line(key), problem, help));
            }
            None if flows.is_some() => last.saturating_sub(shift) + DRAIN,
            None => END_DEFAULT,
        };
        let at = |text: String| match config.line(key) {
            Some(line) => ImportNote::for_line(&config.file, line, text),
            None => ImportNote::general(text),
        };
        match (stop, simulator) {
            (Some(_), Simulator::ConWeave) => {
                let text = format!(
                    "{key}: the run ends {} later, whatever is under way; the simulator waits for the last flow",
                    exact_span(DRAIN)
                );
                report.approximated.push(at(text));
            }
            (Some(_), _) => report.taken.push(at(format!("{key}: the run ends at {}", exact_span(end)))),
            (None, _) => {
                let what = if config.line(key).is_some() { format!("{key} is too late") } else { format!("no {key}") };
                report.approximated.push(at(format!("{what}: the run ends at {}", exact_span(end))));
            }
        }
        if end > END_MAX {
            let name = sources.flows.as_ref().map_or(&sources.topology.name, |source| &source.name);
            let file = if config.file.is_empty() { name } else { &config.file };
            let problem = format!("the run would take {}", exact_span(end));
            return Err(ImportErrors::one(file, config.line(key), problem, "write 1000 s at most"));
        }
        if shift > Span::ZERO {
            let text = format!("all instants are {} earlier than in the files", exact_span(shift));
            report.taken.push(ImportNote::general(text));
        }
        let warm_up = Some(WARM_UP).filter(|warm_up| simulator == Simulator::ConWeave && end > *warm_up + DRAIN);
        Ok(Times { shift, end, warm_up, sample_every: sample_every(end) })
    }

    /// Returns the times of a command line, whose instants count from START_TIME.
    pub(super) fn of_arguments(arguments: &Arguments, report: &mut ImportReport) -> Times {
        let [start, _, end] = arguments.times;
        let end = end.saturating_sub(start);
        let text = format!("the run ends at {}; all instants are {} earlier", exact_span(end), exact_span(start));
        report.taken.push(ImportNote::for_file("--arguments", text));
        Times { shift: start, end, warm_up: None, sample_every: sample_every(end) }
    }

    /// Converts an instant of the files; `None` if it is before the scenario.
    pub(super) fn shifted(&self, at: Span) -> Option<Span> {
        (at >= self.shift).then(|| at.saturating_sub(self.shift))
    }
}

/// Returns a sampling interval suited to the run's length; `None` for the default of 50 us.
fn sample_every(end: Span) -> Option<Span> {
    if end < Span::from_millis(1) {
        return Some(Span::from_micros(1));
    }
    let fits = |us: &u64| Span::from_micros(*us) * SAMPLES_MAX >= end;
    let us = [50, 100, 200, 500, 1_000].into_iter().find(fits).unwrap_or(1_000);
    (us != 50).then(|| Span::from_micros(us))
}
