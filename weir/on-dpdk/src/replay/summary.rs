//! Results of a replay, as tables and as JSON.

use std::sync::Arc;

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_bench::latency::Latency;
use weir_dpdk_driver::LcoreStats;
use weir_dpdk_driver::replayer::{ReplayReport, StreamReport};
use weir_experiments::table::{Table, count};

/// Results of a replay. Times are in nanoseconds.
#[derive(Serialize)]
pub(crate) struct ReplaySummary {
    /// Whether all frames have left.
    is_done: bool,
    traces: Vec<TraceSummary>,
    /// Number of stops of the traces' clock: the replay was off its CPU for longer than it may make up.
    clock_stood_still: u64,
    clock_stood_still_us: u64,
    clock_stood_still_longest_us: u64,
    /// The longest time between two polls of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_gap_max_us: Option<u64>,
}

#[derive(Serialize)]
struct TraceSummary {
    /// The port or device.
    name: String,
    /// Frames that were to leave, over all loops; null: without end.
    frames: Option<u64>,
    sent: u64,
    sent_bytes: u64,
    sent_by_class: [u64; 8],
    dropped_paused: u64,
    dropped_paused_by_class: [u64; 8],
    /// Offered to the port, and not taken when the replay ended.
    not_taken: u64,
    /// Frames not yet due, or held back by a pause, when the replay was ended.
    left: Option<u64>,
    /// Frames of the file that can't be sent.
    refused: u64,
    /// Description of the file's frames that were not sent unchanged.
    left_out: String,
    pauses_received: u64,
    other_frames_received: u64,
    no_buffers: u64,
    /// Frames, in one pass, that the line can't carry when the trace has them, and for how long at most they are put off.
    put_off_by_line: u64,
    put_off_by_line_max_ns: u64,
    /// Delay from a frame's due time until the port had it.
    late_ns: Latency,
    /// The part that is the machine's: the replay came late to its CPU.
    late_machine_ns: Latency,
    /// Part of the delay by pauses, of the frames that pauses delayed.
    late_paused_ns: Latency,
    /// Part of the delay by a port without room, of the frames that waited for room.
    late_port_ns: Latency,
}

impl ReplaySummary {
    pub(crate) fn new(report: &ReplayReport, lcores: &[(u32, Arc<LcoreStats>)]) -> ReplaySummary {
        let clock_stall = report.clock_stall;
        ReplaySummary {
            is_done: report.is_done,
            traces: report.streams.iter().map(TraceSummary::new).collect(),
            clock_stood_still: clock_stall.times,
            clock_stood_still_us: clock_stall.total.as_micros(),
            clock_stood_still_longest_us: clock_stall.longest.as_micros(),
            poll_gap_max_us: lcores.iter().map(|(_, stats)| stats.gap_max().as_micros()).max(),
        }
    }

    /// Sets each trace's description of skipped frames.
    pub(crate) fn name_left_out(&mut self, refused: &[u64], left_out: &[String]) {
        for ((trace, refused), left_out) in self.traces.iter_mut().zip(refused).zip(left_out) {
            (trace.refused, trace.left_out) = (*refused, left_out.clone());
        }
    }

    /// Reason why the replay failed, if it did.
    pub(crate) fn fault(&self) -> Option<String> {
        let trace = self.traces.iter().find(|trace| trace.not_taken > 0)?;
        Some(format!(
            "{}: the port did not take {} frames that were due; does the switch run, and is the link up?",
            trace.name,
            count(trace.not_taken)
        ))
    }

    /// Frames that were not due when the replay was ended; none of traces without end.
    pub(crate) fn left(&self) -> u64 {
        self.traces.iter().filter_map(|trace| trace.left).sum()
    }
}

impl TraceSummary {
    fn new(stream: &StreamReport) -> TraceSummary {
        let latency = |histogram: &Histogram<u64>| Latency::from_histogram(histogram);
        TraceSummary {
            name: stream.name.clone(),
            frames: stream.frames,
            sent: stream.sent_frames(),
            sent_bytes: stream.sent_bytes,
            sent_by_class: stream.sent,
            dropped_paused: stream.dropped_frames(),
            dropped_paused_by_class: stream.dropped_paused,
            not_taken: stream.not_taken,
            left: stream.left(),
            refused: 0,
            left_out: "nothing".to_owned(),
            pauses_received: stream.pauses_received,
            other_frames_received: stream.other_frames_received,
            no_buffers: stream.no_buffers,
            put_off_by_line: stream.line_limit.frames,
            put_off_by_line_max_ns: stream.line_limit.longest.as_nanos(),
            late_ns: latency(&stream.delays.all),
            late_machine_ns: latency(&stream.delays.machine),
            late_paused_ns: latency(&stream.delays.paused),
            late_port_ns: latency(&stream.delays.port),
        }
    }
}

/// The summary as tables.
pub(crate) fn replay_text(summary: &ReplaySummary) -> String {
    let mut counts = Table::new([
        "Replayed to",
        "Frames",
        "Sent",
        "Bytes",
        "Dropped, paused",
        "Not taken",
        "Left",
        "Refused",
        "PAUSE received",
        "Put off by the line",
    ]);
    let mut late = Table::new(["Late, in ns", "Why", "Frames", "p50", "p99", "Max"]);
    for trace in &summary.traces {
        counts.row([
            trace.name.clone(),
            trace.frames.map_or_else(|| "endless".to_owned(), count),
            count(trace.sent),
            count(trace.sent_bytes),
            count(trace.dropped_paused),
            count(trace.not_taken),
            trace.left.map_or_else(|| "-".to_owned(), count),
            count(trace.refused),
            count(trace.pauses_received),
            count(trace.put_off_by_line),
        ]);
        let parts = [
            ("all", &trace.late_ns),
            ("the machine", &trace.late_machine_ns),
            ("paused", &trace.late_paused_ns),
            ("the port was full", &trace.late_port_ns),
        ];
        for (why, latency) in parts.into_iter().filter(|(_, latency)| latency.count > 0) {
            late.row([
                trace.name.clone(),
                why.to_owned(),
                count(latency.count),
                count(latency.p50_ns),
                count(latency.p99_ns),
                count(latency.max_ns),
            ]);
        }
    }
    let mut text = counts.to_string();
    if !late.is_empty() {
        text += &format!("\n{late}");
    }
    if summary.clock_stood_still > 0 {
        text += &format!(
            "The traces' clock stood still {} times, {} us in all and {} us at most: the machine had the CPU for others.\n",
            count(summary.clock_stood_still),
            count(summary.clock_stood_still_us),
            count(summary.clock_stood_still_longest_us)
        );
    }
    text
}
