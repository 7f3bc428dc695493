//! Reader of `events.csv`: pauses of ports, advertised stages, and single instants.

use std::collections::BTreeMap;
use std::path::Path;

use weir_results::run_dir::DeadlockSummary;

use super::series::{rows, unreadable};
use crate::Failure;

/// Events of a run. Times are in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub queues: BTreeMap<(String, String), QueueEvents>,
    /// Deadlocks, PFC storms, links cut and repaired, and marks of the scenario.
    pub marks: Vec<(f64, String)>,
    pub marks_left_out: usize,
    /// Maximum gap between pauses that are merged into one bar, in ms.
    pub merged_ms: f64,
}

#[derive(Debug, Default)]
pub(super) struct QueueEvents {
    /// Intervals in which the switch paused its peer.
    pub paused_peer: Spans,
    /// Intervals in which the peer paused the switch.
    pub paused_by_peer: Spans,
    /// Instants of drops.
    pub drops: Spans,
    pub frames_dropped: u64,
    /// Advertised GFC stages, with their instants.
    pub stages: Vec<(f64, f64)>,
}

/// Time intervals; near ones are merged.
#[derive(Debug, Default)]
pub(super) struct Spans {
    pub spans: Vec<(f64, f64)>,
    open: Option<f64>,
    /// Total length of the intervals before merging, in ms.
    pub length: f64,
}

const MARKS_MAX: usize = 40;

/// Shortest visible bar or gap, as a share of the run.
const SEEN: f64 = 1.0 / 3_000.0;

impl Events {
    /// Reads a run's events; empty if the run has none. Open intervals end at `end_ms`.
    pub(super) fn read(run: &Path, end_ms: f64) -> Result<Events, Failure> {
        let path = run.join("events.csv");
        let mut events = Events { merged_ms: end_ms * SEEN, ..Events::default() };
        if !path.exists() {
            return Ok(events);
        }
        let mut reader = rows(&path)?;
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).map_err(|error| unreadable(&path, &error))? {
            let line = record.position().map_or(0, csv::Position::line);
            let (Some(at), Some(port), Some(class), Some(kind), Some(detail)) =
                (record.get(0), record.get(1), record.get(2), record.get(3), record.get(4))
            else {
                return Err(unreadable(&path, &format!("line {line} has no five fields")));
            };
            let at: f64 = at.parse().map_err(|_| unreadable(&path, &format!("line {line}: `{at}` is no number")))?;
            events.add(at / 1e3, port, class, kind, detail);
        }
        let merged = events.merged_ms;
        for queue in events.queues.values_mut() {
            queue.paused_peer.end(end_ms, merged);
            queue.paused_by_peer.end(end_ms, merged);
        }
        Ok(events)
    }

    /// Moves the mark of a deadlock from its detection to its beginning.
    pub(super) fn mark_deadlock(&mut self, deadlock: Option<&DeadlockSummary>) {
        let Some(deadlock) = deadlock else { return };
        self.marks.retain(|(_, text)| !text.starts_with("deadlock: "));
        let text = match deadlock.dissolved_ns {
            None => format!("deadlock from here on: {}", deadlock.cycle),
            Some(_) => format!("queues wait for each other for a while: {}", deadlock.cycle),
        };
        self.marks.push((deadlock.since_ns as f64 / 1e6, text));
    }

    fn add(&mut self, at: f64, port: &str, class: &str, kind: &str, detail: &str) {
        let merged = self.merged_ms;
        let mark = match kind {
            "mark" => Some(detail.to_owned()),
            "deadlock" => Some(format!("deadlock: {detail}")),
            "storm_detected" => Some(format!("storm detected: {port}, class {class}")),
            "storm_restored" => Some(format!("storm over: {port}, class {class}")),
            _ => None,
        };
        if let Some(mark) = mark {
            if self.marks.len() == MARKS_MAX {
                self.marks_left_out += 1;
            } else {
                self.marks.push((at, mark));
            }
            return;
        }
        let queue = self.queues.entry((port.to_owned(), class.to_owned())).or_default();
        match kind {
            "pause_sent" => queue.paused_peer.begin(at),
            "resume_sent" => queue.paused_peer.end(at, merged),
            "pause_received" => queue.paused_by_peer.begin(at),
            "resume_received" => queue.paused_by_peer.end(at, merged),
            "stage_sent" => queue.stages.push((at, detail.parse().unwrap_or(f64::NAN))),
            "drop" => {
                let frames = detail.rsplit(' ').next().and_then(|frames| frames.parse().ok());
                queue.frames_dropped += frames.unwrap_or(1);
                queue.drops.begin(at);
                queue.drops.end(at, merged);
            }
            // A refresh changes nothing, and unknown events of a later version are ignored.
            _ => {}
        }
    }
}

impl Spans {
    /// Opens an interval, unless one is open.
    pub(super) fn begin(&mut self, at: f64) {
        self.open.get_or_insert(at);
    }

    /// Closes the open interval, if any.
    pub(super) fn end(&mut self, at: f64, merged: f64) {
        let Some(from) = self.open.take() else { return };
        let at = at.max(from);
        self.length += at - from;
        match self.spans.last_mut() {
            Some(last) if from - last.1 < merged => last.1 = at,
            _ => self.spans.push((from, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_bars_and_near_ones_one() {
        let folder = tempfile::tempdir().unwrap();
        let text = "t_us,port,class,event,detail\n\
                    1000,p0,3,pause_sent,65535\n1500,p0,3,pause_refreshed,65535\n2000,p0,3,resume_sent,\n\
                    2500,p0,3,pause_sent,65535\n3000,p0,3,resume_sent,\n\
                    6000,p0,3,drop,headroom_violation 3\n6000,,,deadlock,\"a -> b, class 3\"\n\
                    8000,p0,3,pause_sent,65535\n9000,p1,3,stage_sent,2\n9500,p1,4,storm_detected,1\n";
        std::fs::write(folder.path().join("events.csv"), text).unwrap();
        let events = Events::read(folder.path(), 10.0).unwrap();
        let queue = &events.queues[&("p0".to_owned(), "3".to_owned())];
        assert_eq!(queue.paused_peer.spans, [(1.0, 2.0), (2.5, 3.0), (8.0, 10.0)]);
        assert_eq!((queue.paused_peer.length, queue.frames_dropped), (3.5, 3));
        let marks = [(6.0, "deadlock: a -> b, class 3"), (9.5, "storm detected: p1, class 4")];
        assert_eq!(events.marks, marks.map(|(at, text)| (at, text.to_owned())));
        assert_eq!(events.queues[&("p1".to_owned(), "3".to_owned())].stages, [(9.0, 2.0)]);
        let long = Events::read(folder.path(), 3_000.0).unwrap();
        let queue = &long.queues[&("p0".to_owned(), "3".to_owned())];
        assert_eq!(queue.paused_peer.spans, [(1.0, 3.0), (8.0, 3_000.0)], "gaps below 1 ms are not seen in 3 s");
    }
}
