//! Schedule of a capture's frames.

use std::ops::Range;

use weir_config::ReplayPace;
use weir_units::{BitRate, Bytes, FCS_BYTES, SerialisationDelay, Span, WIRE_OVERHEAD_BYTES};

use crate::capture::{Capture, CaptureTime};

/// Frames of a capture with their due times.
#[derive(Clone, Debug)]
pub struct Schedule {
    frames: Vec<ScheduledFrame>,
    bytes: Vec<u8>,
    period: Span,
    line_limit: LineLimit,
    is_timed: bool,
}

/// Frame with its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledFrame {
    /// Due time, after the start of all traces that are replayed together.
    pub at: Span,
    start: usize,
    /// Length in bytes, without FCS.
    pub bytes: u32,
}

/// Frames that the port's line delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineLimit {
    /// Number of delayed frames.
    pub frames: u64,
    /// Longest delay.
    pub longest: Span,
}

impl Schedule {
    /// Schedules the frames. `origin` is the instant of the captures' clock at which all of them start; `line` is the rate of the port,
    /// if known. Frames are at least their serialization time on that line apart.
    pub fn new(capture: Capture, pace: ReplayPace, line: Option<BitRate>, origin: CaptureTime) -> Schedule {
        let (captured, bytes) = capture.into_bytes();
        let line = line.map(SerialisationDelay::new);
        let paced = match pace {
            ReplayPace::Rate(rate) => Some(SerialisationDelay::new(rate)),
            _ => None,
        };
        let mut frames = Vec::with_capacity(captured.len());
        let (mut line_limit, mut free, mut next) = (LineLimit::default(), Span::ZERO, Span::ZERO);
        for frame in captured {
            let Range { start, end } = frame.bytes;
            let on_wire = Bytes::new((end - start) as u64 + FCS_BYTES + WIRE_OVERHEAD_BYTES);
            let wanted = match pace {
                ReplayPace::Speed(millionths) => {
                    let since = (frame.at.0 - origin.0).max(0) as u128;
                    Span::from_picos((since * 1_000_000 / u128::from(millionths)).min(u128::from(u64::MAX / 4)) as u64)
                }
                ReplayPace::Max => free,
                ReplayPace::Rate(_) => next,
            };
            if let Some(paced) = paced {
                next += paced.time_for(on_wire);
            }
            let at = wanted.max(free);
            if at > wanted {
                line_limit.frames += 1;
                line_limit.longest = line_limit.longest.max(at.saturating_sub(wanted));
            }
            free = at + line.map_or(Span::ZERO, |line| line.time_for(on_wire));
            frames.push(ScheduledFrame { at, start, bytes: (end - start) as u32 });
        }
        let last = frames.last().map_or(Span::ZERO, |frame| frame.at);
        let first = frames.first().map_or(Span::ZERO, |frame| frame.at);
        // Gap from the last frame to the first one of the next repetition: the mean gap between frames.
        let gap = match frames.len() as u64 {
            0 | 1 => Span::ZERO,
            frames => last.saturating_sub(first).divided_by(frames - 1),
        };
        let period = free.max(next).max(last + gap);
        let is_timed = line.is_some() || pace != ReplayPace::Max;
        Schedule { frames, bytes, period, line_limit, is_timed }
    }

    /// Frames, in the order of their due times.
    pub fn frames(&self) -> &[ScheduledFrame] {
        &self.frames
    }

    /// Bytes of a frame, without FCS.
    #[inline]
    pub fn bytes(&self, frame: &ScheduledFrame) -> &[u8] {
        &self.bytes[frame.start..frame.start + frame.bytes as usize]
    }

    /// Duration from the start to the next repetition of the trace.
    pub fn period(&self) -> Span {
        self.period
    }

    /// Frames that the line delays.
    pub fn line_limit(&self) -> LineLimit {
        self.line_limit
    }

    /// Whether frames have due times; otherwise they leave as fast as the port takes them.
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{ALL, pcap};

    /// Frames of 60 B at these microseconds.
    fn capture(at: &[u32]) -> Capture {
        let frames: Vec<_> = at.iter().map(|us| (1, *us, 60, vec![2; 60])).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pcap(0xa1b2_c3d4, &frames)).unwrap();
        Capture::read(file.path(), &ALL).unwrap()
    }

    fn due(pace: ReplayPace, line: Option<BitRate>) -> (Vec<u64>, Schedule) {
        let capture = capture(&[100, 110, 111, 200]);
        let origin = capture.first();
        let schedule = Schedule::new(capture, pace, line, origin);
        (schedule.frames().iter().map(|frame| frame.at.as_nanos()).collect(), schedule)
    }

    #[test]
    fn a_speed_divides_the_times() {
        assert_eq!(due(ReplayPace::Speed(1_000_000), None).0, [0, 10_000, 11_000, 100_000]);
        assert_eq!(due(ReplayPace::Speed(2_500_000), None).0, [0, 4_000, 4_400, 40_000]);
        let (_, schedule) = due(ReplayPace::Speed(1_000_000), None);
        // The mean gap is a third of 100 us.
        assert_eq!((schedule.period().as_nanos(), schedule.line_limit()), (133_333, LineLimit::default()));
    }

    #[test]
    fn no_frame_is_due_before_the_line_is_free() {
        // 84 B take 6.72 us at 100 Mb/s.
        let (at, schedule) = due(ReplayPace::Speed(1_000_000), Some(BitRate::mbps(100)));
        assert_eq!(at, [0, 10_000, 16_720, 100_000]);
        assert_eq!(schedule.line_limit(), LineLimit { frames: 1, longest: Span::from_nanos(5_720) });
        assert_eq!(due(ReplayPace::Max, Some(BitRate::mbps(100))).0, [0, 6_720, 13_440, 20_160]);
    }

    #[test]
    fn a_rate_spreads_frames_evenly() {
        let (at, schedule) = due(ReplayPace::Rate(BitRate::mbps(10)), Some(BitRate::mbps(100)));
        assert_eq!((at, schedule.period().as_nanos()), (vec![0, 67_200, 134_400, 201_600], 268_800));
        let (at, schedule) = due(ReplayPace::Max, None);
        assert_eq!((at, schedule.is_timed()), (vec![0; 4], false));
    }
}
