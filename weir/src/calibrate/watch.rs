//! Time for which a sender goes on after a PAUSE, from the frames that passed a port.
//!
//! Call [`Watch::see`] with the frames in the order of their times, then [`Watch::end`]. A watch is for one class and one direction: frames
//! of the data's sender, and PAUSEs to it.

use std::collections::VecDeque;

use serde::Serialize;
use weir_control::capture::CaptureDirection;
use weir_units::{BitRate, Bytes, Span, WIRE_OVERHEAD_BYTES};

/// Frame that passed a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedFrame {
    /// Nanoseconds since 1970, by the switch's clock.
    pub(super) at_ns: u64,
    pub(super) direction: CaptureDirection,
    pub(super) role: FrameRole,
}

/// Meaning of a frame for the watched class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameRole {
    /// Data of the class, with this length including FCS.
    Data(Bytes),
    /// PAUSE of the class, with this duration.
    Pause(Span),
    /// RESUME of the class.
    Resume,
    /// Any other frame.
    Other,
}

/// Measured pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Instant of the PAUSE, in nanoseconds since 1970.
    pub(super) at_ns: u64,
    /// Delay to the last frame after the PAUSE; 0 without frames.
    pub(super) last_frame_ns: u64,
    /// Average spacing of frames before the pause. The sender stopped within one spacing after the last frame.
    pub(super) spacing_ns: u64,
    /// Frames after the PAUSE.
    pub(super) frames: u64,
    /// Bytes of these frames.
    pub(super) bytes: u64,
    /// Load of the class before the pause, in percent of the link's rate.
    pub(super) load_percent: f64,
}

/// Pauses without a result, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SkippedPauses {
    /// Pauses before which the class was idle.
    pub(super) idle: u64,
    /// Pauses that ended before the sender's stop could be determined.
    pub(super) too_short: u64,
    /// Pauses during which the sender never stopped.
    pub(super) never_stopped: u64,
    /// Pauses during which frames arrived while lcores were away so long that frames of a stopped sender would have appeared as late.
    pub(super) unpolled: u64,
}

/// Watch of one class in one direction.
#[derive(Debug)]
pub(super) struct Watch {
    data_direction: CaptureDirection,
    rate: BitRate,
    /// Time without a stop after which the sender counts as disobeying.
    held: Span,
    /// Time for which lcores were away during the current frames.
    away: Span,
    /// Frames before the pause: instant, and length on the wire.
    before: VecDeque<(u64, u64)>,
    pause: Option<ActivePause>,
    pub(super) samples: Vec<Sample>,
    pub(super) left_out: SkippedPauses,
}

/// Pause in progress.
#[derive(Clone, Copy, Debug)]
struct ActivePause {
    at_ns: u64,
    /// Expiry of the pause unless it is repeated.
    until_ns: u64,
    last_ns: u64,
    frames: u64,
    bytes: u64,
    spacing_ns: Option<u64>,
    /// Silence after which the sender counts as stopped.
    silent_ns: u64,
    load_percent: f64,
}

/// Frames before a pause that determine its load: many bursts, since a burst's frames have one time.
const BEFORE: usize = 1_024;
/// A sender that paused longer than this before by itself was idle.
const IDLE_NS: u64 = 5_000_000;
/// Factor of the silence after which a sender counts as stopped: this many spacings, and twice the longest time between two earlier frames.
const SILENT_SPACINGS: u64 = 4;

impl Watch {
    pub(super) fn new(data_direction: CaptureDirection, rate: BitRate, held: Span) -> Watch {
        Watch {
            data_direction,
            rate,
            held,
            away: Span::ZERO,
            before: VecDeque::with_capacity(BEFORE),
            pause: None,
            samples: Vec::new(),
            left_out: SkippedPauses::default(),
        }
    }

    /// Sets the total time for which lcores were away during the frames up to [`Watch::end`]. Call before [`Watch::see`].
    pub(super) fn away(&mut self, away: Span) {
        self.away = away;
    }

    /// Processes the next frame.
    pub(super) fn see(&mut self, frame: TimedFrame) {
        if let Some(pause) = self.pause
            && frame.at_ns >= pause.until_ns
        {
            self.finish(pause, pause.until_ns);
        }
        let at_ns = frame.at_ns;
        match (frame.role, frame.direction == self.data_direction) {
            (FrameRole::Data(bytes), true) => self.data(at_ns, bytes),
            (FrameRole::Pause(span), false) => {
                let until_ns = at_ns.saturating_add(span.as_nanos());
                match &mut self.pause {
                    Some(pause) => pause.until_ns = until_ns,
                    None => self.pause = Some(self.begun(at_ns, until_ns)),
                }
            }
            (FrameRole::Resume, false) => {
                if let Some(pause) = self.pause {
                    self.finish(pause, at_ns);
                }
            }
            _ => {}
        }
    }

    /// Ends the watch: later frames are not known to follow without a gap.
    pub(super) fn end(&mut self) {
        // The unseen end of this pause may have been later.
        if self.pause.take().is_some() {
            self.left_out.too_short += 1;
        }
        self.before.clear();
    }

    fn data(&mut self, at_ns: u64, bytes: Bytes) {
        if let Some(pause) = &mut self.pause {
            pause.last_ns = at_ns;
            pause.frames += 1;
            pause.bytes += bytes.get();
            return;
        }
        if self.before.len() == BEFORE {
            self.before.pop_front();
        }
        self.before.push_back((at_ns, bytes.get() + WIRE_OVERHEAD_BYTES));
    }

    fn begun(&self, at_ns: u64, until_ns: u64) -> ActivePause {
        let (first, last) = (self.before.front(), self.before.back());
        let flowed = first.zip(last).filter(|(_, last)| self.before.len() > 1 && at_ns - last.0.min(at_ns) < IDLE_NS);
        let (spacing_ns, silent_ns, load_percent) = match flowed {
            None => (None, 0, 0.0),
            Some((first, last)) => {
                let took_ns = (last.0 - first.0).max(1);
                // The first frame passed before the measured time.
                let bytes: u64 = self.before.iter().skip(1).map(|(_, bytes)| bytes).sum();
                let wire_ns = self.rate.time_for(Bytes::new(bytes)).as_nanos();
                let spacing = (took_ns / (self.before.len() as u64 - 1)).max(1);
                let times = self.before.iter().map(|(at_ns, _)| *at_ns);
                let longest = times.clone().zip(times.skip(1)).map(|(one, next)| next - one).max().unwrap_or(0);
                let silent_ns = spacing.saturating_mul(SILENT_SPACINGS).max(longest.saturating_mul(2));
                (Some(spacing), silent_ns, wire_ns as f64 * 100.0 / took_ns as f64)
            }
        };
        ActivePause { at_ns, until_ns, last_ns: at_ns, frames: 0, bytes: 0, spacing_ns, silent_ns, load_percent }
    }

    fn finish(&mut self, pause: ActivePause, end_ns: u64) {
        self.pause = None;
        // Frames held back by the pause form a burst, which is no measure of the load.
        self.before.clear();
        let Some(spacing_ns) = pause.spacing_ns else {
            self.left_out.idle += 1;
            return;
        };
        if end_ns.saturating_sub(pause.last_ns) < pause.silent_ns {
            let held = end_ns.saturating_sub(pause.at_ns) >= self.held.as_nanos();
            // Frames that wait for a poll get the poll's timestamp. If lcores were away for less than half of the pause, the sender
            // itself sent during at least half of it.
            let left_out = &mut self.left_out;
            let count = match (held, self.away * 2 >= self.held) {
                (false, _) => &mut left_out.too_short,
                (true, false) => &mut left_out.never_stopped,
                (true, true) => &mut left_out.unpolled,
            };
            *count += 1;
            return;
        }
        self.samples.push(Sample {
            at_ns: pause.at_ns,
            last_frame_ns: pause.last_ns - pause.at_ns,
            spacing_ns,
            frames: pause.frames,
            bytes: pause.bytes,
            load_percent: pause.load_percent,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate::gbps(10);
    const LONG: Span = Span::from_millis(50);

    /// A frame of 1,230 B, which with preamble and gap takes 1 us at 10 Gb/s.
    fn data(at_us: u64) -> TimedFrame {
        TimedFrame { at_ns: at_us * 1_000, direction: CaptureDirection::In, role: FrameRole::Data(Bytes::new(1_230)) }
    }

    fn control_frame(at_us: u64, role: FrameRole) -> TimedFrame {
        TimedFrame { at_ns: at_us * 1_000, direction: CaptureDirection::Out, role }
    }

    fn seen(frames: impl IntoIterator<Item = TimedFrame>) -> Watch {
        let mut watch = Watch::new(CaptureDirection::In, RATE, Span::from_millis(5));
        frames.into_iter().for_each(|frame| watch.see(frame));
        watch.end();
        watch
    }

    #[test]
    fn a_pause_is_measured_to_the_last_frame() {
        let frames =
            (0..100).map(|n| data(n * 2)).chain([control_frame(200, FrameRole::Pause(LONG)), data(201), data(203)]);
        // A PAUSE repeated before its end: the first counts.
        let frames = frames.chain([
            control_frame(800, FrameRole::Pause(LONG)),
            control_frame(1_000, FrameRole::Resume),
            data(1_002),
        ]);
        let watch = seen(frames);
        let [sample] = watch.samples[..] else { panic!("{watch:?}") };
        assert_eq!((sample.at_ns, sample.last_frame_ns, sample.frames, sample.bytes), (200_000, 3_000, 2, 2_460));
        assert_eq!(sample.spacing_ns, 2_000);
        assert!((sample.load_percent - 50.0).abs() < 1.0, "{sample:?}");
        assert_eq!(watch.left_out, SkippedPauses::default());
    }

    #[test]
    fn a_pause_ends_by_itself_too() {
        let frames =
            (0..10).map(data).chain([control_frame(10, FrameRole::Pause(Span::from_micros(50))), data(11), data(61)]);
        let [sample] = seen(frames).samples[..] else { panic!() };
        assert_eq!((sample.last_frame_ns, sample.frames), (1_000, 1), "the frame after its end is not one too many");
    }

    #[test]
    fn pauses_without_a_result_are_counted_by_reason() {
        let left_out = |frames: Vec<TimedFrame>| {
            let watch = seen(frames);
            assert!(watch.samples.is_empty(), "{watch:?}");
            watch.left_out
        };
        let idle = SkippedPauses { idle: 1, ..SkippedPauses::default() };
        assert_eq!(
            left_out(vec![control_frame(0, FrameRole::Pause(LONG)), control_frame(900, FrameRole::Resume)]),
            idle
        );
        let long_ago = vec![
            data(0),
            data(1),
            control_frame(6_000, FrameRole::Pause(LONG)),
            control_frame(7_000, FrameRole::Resume),
        ];
        assert_eq!(left_out(long_ago), idle);
        let too_short = SkippedPauses { too_short: 1, ..SkippedPauses::default() };
        let flowing = |until| (0..until).map(data);
        assert_eq!(
            left_out(
                flowing(10)
                    .chain([control_frame(10, FrameRole::Pause(LONG)), control_frame(12, FrameRole::Resume)])
                    .collect()
            ),
            too_short
        );
        assert_eq!(
            left_out(flowing(10).chain([control_frame(10, FrameRole::Pause(LONG))]).collect()),
            too_short,
            "its end is not seen"
        );
        let deaf = (0..6_000).map(data).take(10).chain([control_frame(10, FrameRole::Pause(LONG))]);
        let deaf: Vec<TimedFrame> =
            deaf.chain((11..6_000).map(data)).chain([control_frame(6_000, FrameRole::Resume)]).collect();
        assert_eq!(left_out(deaf.clone()), SkippedPauses { never_stopped: 1, ..SkippedPauses::default() });
        for (away_us, never_stopped, unpolled) in [(2_400, 1, 0), (2_500, 0, 1)] {
            let mut watch = Watch::new(CaptureDirection::In, RATE, Span::from_millis(5));
            watch.away(Span::from_micros(away_us));
            deaf.iter().for_each(|frame| watch.see(*frame));
            watch.end();
            assert_eq!(
                watch.left_out,
                SkippedPauses { never_stopped, unpolled, ..SkippedPauses::default() },
                "{away_us} us"
            );
        }
    }

    #[test]
    fn pauses_in_the_other_direction_are_ignored() {
        let frames: Vec<TimedFrame> = (0..10)
            .map(data)
            .chain([control_frame(10, FrameRole::Pause(LONG)), control_frame(900, FrameRole::Resume)])
            .collect();
        let mut other = Watch::new(CaptureDirection::Out, RATE, LONG);
        frames.iter().for_each(|frame| other.see(*frame));
        other.end();
        assert!(other.samples.is_empty() && other.left_out == SkippedPauses::default(), "{other:?}");
    }
}
