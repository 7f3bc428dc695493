//! Logs ports that flood more than they may, stations that move between ports, and ports with more stations than they may have.

use std::time::{Duration, Instant};

use weir_config::SwitchConfig;
use weir_dpdk_driver::RunningSwitches;
use weir_results::run_dir::EventKind;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::PortId;

use crate::event_sink::EventSink;

/// Interval between two events of one kind at a port, or of moves in a switch, at least.
const INTERVAL: Duration = Duration::from_secs(60);
/// Repeated moves within [`INTERVAL`] that are reported. A guest that migrates makes fewer.
const MOVES_MIN: u64 = 5;

/// State of the log, by switch.
pub(crate) struct StationLog(Vec<SwitchStations>);

struct SwitchStations {
    /// Frames dropped by storm control, and frames of stations that were not learned, by port.
    ports: Vec<[ReportedCount; 2]>,
    moves: MoveWindow,
}

/// Count that is reported when it grows, at most once in [`INTERVAL`].
#[derive(Clone, Copy, Default)]
struct ReportedCount {
    count: u64,
    next: Option<Instant>,
}

/// Interval in which repeated moves are counted, and reported once.
#[derive(Default)]
struct MoveWindow {
    end: Option<Instant>,
    /// Number of repeated moves at the begin.
    before: u64,
    /// Number as of the last call.
    last: u64,
    is_reported: bool,
}

impl StationLog {
    pub(crate) fn new(switches: &[SwitchConfig]) -> StationLog {
        let switch = |config: &SwitchConfig| SwitchStations {
            ports: vec![Default::default(); config.ports.len()],
            moves: MoveWindow::default(),
        };
        StationLog(switches.iter().map(switch).collect())
    }

    /// Counts the ports' stations; logs and records new drops, refusals and moves. Call it about once a second.
    pub(crate) fn log(
        &mut self,
        switches: &[SwitchConfig],
        running: &RunningSwitches,
        reports: &[Report],
        sink: EventSink<'_>,
    ) {
        let now = Instant::now();
        for (index, ((config, log), report)) in switches.iter().zip(&mut self.0).zip(reports).enumerate() {
            let (fdb, switch) = (&running.shared(index).fdb, &config.name);
            let name = |port: PortId| &config.ports[port.index()].name;
            fdb.count_stations(report.at);
            for (number, [storms, refusals]) in log.ports.iter_mut().enumerate() {
                let id = PortId(number as u16);
                let classes = report.ports[number].classes.iter();
                let dropped = classes.map(|class| class.rx_drops[DropReason::StormControl as usize]).sum();
                if let Some(frames) = storms.take_new(now, dropped) {
                    tracing::warn!(
                        switch = %switch, port = %name(id),
                        "storm control dropped {frames} broadcasts, multicasts or frames to unknown stations: is a cable or a host wrong there?"
                    );
                    sink(index, id, None, EventKind::StormControl(frames));
                }
                if let Some(frames) = refusals.take_new(now, fdb.station_counters(id).refused) {
                    tracing::warn!(
                        switch = %switch, port = %name(id),
                        "the port has its `stations_max`, or its share of a full forwarding table: the sources of up to {frames} frames were not learned"
                    );
                    sink(index, id, None, EventKind::StationsRefused(frames));
                }
            }
            let (moves, last) = fdb.take_repeated_move();
            if let Some(last) = last.filter(|_| log.moves.is_due(now, moves)) {
                let (station, other) = (last.station, name(last.to));
                tracing::warn!(
                    switch = %switch, port = %name(last.from),
                    "station {station} moves between this port and port {other} again and again: another switch joins the ports, or two \
                     stations have the address"
                );
                sink(index, last.from, None, EventKind::MacMove(&format!("{station} {other}")));
            }
        }
    }
}

impl ReportedCount {
    /// Returns the growth since the last report, if one is due.
    fn take_new(&mut self, now: Instant, count: u64) -> Option<u64> {
        let new = count.saturating_sub(self.count);
        if new == 0 || self.next.is_some_and(|next| now < next) {
            return None;
        }
        *self = ReportedCount { count, next: Some(now + INTERVAL) };
        Some(new)
    }
}

impl MoveWindow {
    /// Returns whether repeated moves are to be reported. `moves` is their number since the start; call it each time that has grown.
    fn is_due(&mut self, now: Instant, moves: u64) -> bool {
        if self.end.is_none_or(|end| now >= end) {
            *self = MoveWindow { end: Some(now + INTERVAL), before: self.last, ..MoveWindow::default() };
        }
        self.last = moves;
        let is_due = !self.is_reported && moves.saturating_sub(self.before) >= MOVES_MIN;
        self.is_reported |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_reported_at_once_and_then_by_interval() {
        let (mut reported, start) = (ReportedCount::default(), Instant::now());
        let mut take = |second, count| reported.take_new(start + Duration::from_secs(second), count);
        let taken = [(0, 0), (1, 5), (2, 5), (2, 9), (60, 12), (61, 12), (62, 13), (121, 13), (300, 13)];
        let expected = [None, Some(5), None, None, None, Some(7), None, Some(1), None];
        assert_eq!(taken.map(|(second, count)| take(second, count)), expected);
    }

    #[test]
    fn a_few_moves_are_no_event() {
        let (mut window, start) = (MoveWindow::default(), Instant::now());
        let mut is_due = |second, moves| window.is_due(start + Duration::from_secs(second), moves);
        assert_eq!([(0, 1), (59, 4), (60, 5), (70, 8)].map(|(second, moves)| is_due(second, moves)), [false; 4]);
        assert_eq!([(71, 9), (72, 100), (119, 200)].map(|(second, moves)| is_due(second, moves)), [true, false, false]);
        assert_eq!(
            [(130, 203), (131, 204), (132, 205)].map(|(second, moves)| is_due(second, moves)),
            [false, false, true]
        );
        assert!(MoveWindow::default().is_due(start, 400), "a storm");
    }
}
