//! Statistics of a replay: counts, and delays of frames by cause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use weir_trace::{LineLimit, Schedule};
use weir_units::{CLASSES, Span, Time};

/// Longest recorded delay, in nanoseconds: a minute.
const NANOS_MAX: u64 = 60_000_000_000;

/// Statistics of a replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Each trace.
    pub streams: Vec<StreamReport>,
    /// Time for which the traces' clock stopped while the task was off its CPU.
    pub clock_stall: ClockStall,
    /// Whether all frames have left.
    pub is_done: bool,
}

/// Stops of the clock of all traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockStall {
    /// Number of stops.
    pub times: u64,
    /// Total time stopped.
    pub total: Span,
    /// The longest time.
    pub longest: Span,
}

/// Statistics of one trace.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Name of the trace.
    pub name: String,
    /// Frames that are to leave, over all loops; `None`: without end.
    pub frames: Option<u64>,
    /// Frames that the port took, by class.
    pub sent: [u64; CLASSES],
    /// Bytes of the sent frames, with FCS.
    pub sent_bytes: u64,
    /// Frames dropped as their class was paused when they were due, by class.
    pub dropped_paused: [u64; CLASSES],
    /// Frames that were offered to the port, and that it had not taken when the replay was ended.
    pub not_taken: u64,
    /// PAUSE and PFC frames that came from the port.
    pub pauses_received: u64,
    /// Other received frames: traffic from the switch to the trace's hosts.
    pub other_frames_received: u64,
    /// Times that no packet buffer was free; the frame left later.
    pub no_buffers: u64,
    /// Frames that the line could not carry when the trace has them, in one pass of it.
    pub line_limit: LineLimit,
    /// Delays of frames. Empty where frames have no due time.
    pub delays: ReplayDelays,
}

/// Delays of frames in nanoseconds, by cause.
#[derive(Clone, Debug)]
pub struct ReplayDelays {
    /// All reasons together: when the port took a frame, after it was due.
    pub all: Histogram<u64>,
    /// Delay by a pause of the class, or by the backlog of a pause. Excludes frames that no pause delayed.
    pub paused: Histogram<u64>,
    /// Delay by the task's absence from its CPU.
    pub machine: Histogram<u64>,
    /// Delay by a port without room, for the frame or for earlier frames. Excludes frames that it accepted at once.
    pub port: Histogram<u64>,
}

/// The instants of a frame that leaves.
#[derive(Clone, Copy)]
pub(super) struct FrameTiming {
    /// Due time in the trace.
    pub(super) due: Time,
    /// Send time of an ideal sender: after the pause, and after the earlier frames.
    pub(super) ideal: Time,
    /// Instant at which the port last accepted frames that it had refused.
    pub(super) room: Time,
    /// Instant at which the frame was first offered to the port.
    pub(super) offered: Time,
}

/// Passes reports from the lcore to the control thread.
#[derive(Debug)]
pub(crate) struct ReplayStats {
    /// Request flag: set by the thread that wants a report, cleared by the lcore when it has written the report.
    is_requested: AtomicBool,
    pub(super) is_done: AtomicBool,
    /// Report memory, allocated at the start, so that the lcore allocates none.
    report: Mutex<(Vec<StreamReport>, ClockStall)>,
}

/// An empty histogram of nanoseconds. Its memory is taken now.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("legal bounds")
}

impl StreamReport {
    pub(super) fn new(name: String, frames: Option<u64>, schedule: &Schedule) -> StreamReport {
        StreamReport {
            name,
            frames,
            sent: [0; CLASSES],
            sent_bytes: 0,
            dropped_paused: [0; CLASSES],
            not_taken: 0,
            pauses_received: 0,
            other_frames_received: 0,
            no_buffers: 0,
            line_limit: schedule.line_limit(),
            delays: ReplayDelays { all: histogram(), paused: histogram(), machine: histogram(), port: histogram() },
        }
    }

    /// Frames that the port took.
    pub fn sent_frames(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Frames dropped as their class was paused.
    pub fn dropped_frames(&self) -> u64 {
        self.dropped_paused.iter().sum()
    }

    /// Frames that have not left: the replay was ended before they were due.
    pub fn left(&self) -> Option<u64> {
        let completed = self.sent_frames() + self.dropped_frames() + self.not_taken;
        self.frames.map(|frames| frames.saturating_sub(completed))
    }

    /// Takes over another's counts, without taking memory.
    fn copy_counts(&mut self, other: &StreamReport) {
        let StreamReport {
            sent,
            sent_bytes,
            dropped_paused,
            not_taken,
            pauses_received,
            other_frames_received,
            no_buffers,
            ..
        } = other;
        (self.sent, self.sent_bytes, self.dropped_paused) = (*sent, *sent_bytes, *dropped_paused);
        (self.not_taken, self.pauses_received, self.other_frames_received) =
            (*not_taken, *pauses_received, *other_frames_received);
        self.no_buffers = *no_buffers;
        self.delays.copy_counts(&other.delays);
    }
}

impl ReplayDelays {
    /// Records that the port took a frame at `now`.
    #[inline]
    pub(super) fn record(&mut self, now: Time, FrameTiming { due, ideal, room, offered }: FrameTiming) {
        record(&mut self.all, now.since(due));
        record(&mut self.machine, offered.since(ideal.max(room)));
        if ideal > due {
            record(&mut self.paused, ideal.since(due));
        }
        let port = now.since(offered) + room.since(ideal);
        if port > Span::ZERO {
            record(&mut self.port, port);
        }
    }

    fn copy_counts(&mut self, other: &ReplayDelays) {
        let pairs = [
            (&mut self.all, &other.all),
            (&mut self.paused, &other.paused),
            (&mut self.machine, &other.machine),
            (&mut self.port, &other.port),
        ];
        for (own, other) in pairs {
            own.reset();
            // With equal bounds, so that nothing is resized.
            let _ = own.add(other);
        }
    }
}

impl ReplayStats {
    pub(super) fn new(streams: Vec<StreamReport>) -> ReplayStats {
        ReplayStats {
            is_requested: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            report: Mutex::new((streams, ClockStall::default())),
        }
    }

    /// Publishes the report if it is requested.
    pub(super) fn publish_if_requested<'l>(
        &self,
        streams: impl Iterator<Item = &'l StreamReport>,
        clock_stall: ClockStall,
    ) {
        // Acquire and release: the pair orders the report after the request, and makes it complete.
        if self.is_requested.load(Ordering::Acquire) {
            let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.0.iter_mut().zip(streams).for_each(|(own, stream)| own.copy_counts(stream));
            report.1 = clock_stall;
            self.is_requested.store(false, Ordering::Release);
        }
    }

    /// Whether all frames have left.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Returns the counts as of now. `wait` is called until the lcore answers; if it returns false, they are those of the last answer.
    pub(crate) fn collect(&self, wait: impl Fn() -> bool) -> ReplayReport {
        self.is_requested.store(true, Ordering::Release);
        while self.is_requested.load(Ordering::Acquire) {
            if !wait() {
                break;
            }
        }
        let (streams, clock_stall) = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ReplayReport { streams, clock_stall, is_done: self.is_done() }
    }
}

/// Records a delay; values out of bounds count as the bound.
#[inline]
fn record(histogram: &mut Histogram<u64>, delay: Span) {
    histogram.saturating_record(delay.as_nanos().max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each histogram's value for a frame that was due at 1 us.
    fn parts(ideal: u64, room: u64, offered: u64, now: u64) -> [Option<u64>; 4] {
        let mut delays =
            ReplayDelays { all: histogram(), paused: histogram(), machine: histogram(), port: histogram() };
        let at = Time::from_nanos;
        delays.record(at(now), FrameTiming { due: at(1_000), ideal: at(ideal), room: at(room), offered: at(offered) });
        let all = [&delays.all, &delays.paused, &delays.machine, &delays.port];
        all.map(|histogram| (!histogram.is_empty()).then(|| histogram.max()))
    }

    #[test]
    fn each_part_of_a_delay_has_its_reason() {
        // The machine alone; a pause until 1.5 us; a port that was full until 1.7 us; one that takes the frame at the second offer.
        assert_eq!(parts(1_000, 0, 1_300, 1_300), [Some(300), None, Some(300), None]);
        assert_eq!(parts(1_500, 0, 1_600, 1_600), [Some(600), Some(500), Some(100), None]);
        assert_eq!(parts(1_000, 1_700, 1_710, 1_710), [Some(710), None, Some(10), Some(700)]);
        assert_eq!(parts(1_000, 0, 1_100, 1_900), [Some(900), None, Some(100), Some(800)]);
    }
}
