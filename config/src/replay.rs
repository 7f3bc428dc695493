//! Captures that a port replays.

use weir_units::{BitRate, Span};

/// Capture that a port replays: `replay = "trace.pcapng"`, or a table with `file` and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// Path of the capture file.
    pub file: String,
    /// Transmission times of the frames.
    pub pace: ReplayPace,
    /// Number of repetitions; 0 repeats for ever.
    pub loops: u64,
    /// Delay from the start of the switch to the first frame.
    pub after: Span,
    /// Treatment of frames whose class is paused when they are due.
    pub when_paused: PausedAction,
    /// Direction of the frames to replay; `None` replays both.
    pub direction: Option<ReplayDirection>,
    /// Whether MAC control frames are sent too.
    pub with_mac_control: bool,
    /// CPU of the replay thread; `None` takes one that no switch uses, if there is one.
    pub core: Option<u32>,
}

/// Transmission times of a replayed capture's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPace {
    /// Recorded times, scaled by this speed in millionths: 2,500,000 is 2.5 times as fast.
    Speed(u64),
    /// Port's rate; without a rate, as fast as the port accepts frames.
    Max,
    /// Back-to-back at this rate, with preamble and gap.
    Rate(BitRate),
}

/// Treatment of frames whose class is paused when they are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PausedAction {
    /// Frames wait, and leave at line rate after the pause.
    #[default]
    Wait,
    /// Frames are dropped and counted.
    Drop,
    /// Frames leave, as from a host without flow control.
    Ignore,
}

/// Direction of a captured frame at the capturing interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDirection {
    /// Received frame.
    In,
    /// Sent frame.
    Out,
}

impl ReplayConfig {
    /// Creates a replay that runs once, at the recorded times, from 100 ms after the start of the switch.
    pub fn new(file: impl Into<String>) -> ReplayConfig {
        ReplayConfig {
            file: file.into(),
            pace: ReplayPace::default(),
            loops: 1,
            after: Span::from_millis(100),
            when_paused: PausedAction::default(),
            direction: None,
            with_mac_control: false,
            core: None,
        }
    }
}

impl ReplayPace {
    pub(crate) const SPEEDS: std::ops::RangeInclusive<f64> = 0.000_1..=1_000_000.0;

    /// Parses `1`, `2.5` or `max`.
    pub fn parse_speed(text: &str) -> Option<ReplayPace> {
        if text == "max" {
            return Some(ReplayPace::Max);
        }
        let speed = text.parse::<f64>().ok().filter(|speed| ReplayPace::SPEEDS.contains(speed))?;
        Some(ReplayPace::Speed((speed * 1e6).round() as u64))
    }
}

impl Default for ReplayPace {
    fn default() -> ReplayPace {
        ReplayPace::Speed(1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read() {
        let read = ReplayPace::parse_speed;
        assert_eq!(
            (read("1"), read("2.5"), read("max")),
            (Some(ReplayPace::default()), Some(ReplayPace::Speed(2_500_000)), Some(ReplayPace::Max))
        );
        assert_eq!(["0", "-1", "fast", "1e9", "nan", ""].map(read), [None; 6]);
    }
}
