//! Captures that a port replays.

use weir_units::{BitRate, Span};

/// A capture that is replayed into a port: `replay = "trace.pcapng"`, or a table with `file` and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The capture file.
    pub file: String,
    /// When frames leave.
    pub pace: ReplayPace,
    /// How often it is replayed; 0: for ever.
    pub loops: u64,
    /// From the start of the switch to the first frame.
    pub after: Span,
    /// What becomes of frames whose class is paused when they are due.
    pub when_paused: WhenPaused,
    /// Frames that passed this way alone.
    pub direction: Option<ReplayDirection>,
    /// Whether MAC control frames are sent too.
    pub with_mac_control: bool,
    /// The CPU that replays; `None` takes one that no switch uses, where there is one.
    pub core: Option<u32>,
}

/// When the frames of a replayed capture leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPace {
    /// At their own times, in millionths: 2,500,000 is two and a half times as fast.
    Speed(u64),
    /// As fast as the port's rate lets them; if it has none, as fast as it takes them.
    Max,
    /// One after the other at this rate, with preamble and gap.
    Rate(BitRate),
}

/// What becomes of frames whose class is paused when they are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenPaused {
    /// They wait, and leave at the line's rate when the pause is over.
    #[default]
    Wait,
    /// They are dropped, and counted.
    Drop,
    /// They leave, as those of a host that knows no flow control.
    Ignore,
}

/// Which way a captured frame passed whoever captured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDirection {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

impl ReplayConfig {
    /// Replays a file once, at its own times, 100 ms after the switch has started.
    pub fn of(file: impl Into<String>) -> ReplayConfig {
        ReplayConfig {
            file: file.into(),
            pace: ReplayPace::default(),
            loops: 1,
            after: Span::from_millis(100),
            when_paused: WhenPaused::default(),
            direction: None,
            with_mac_control: false,
            core: None,
        }
    }
}

impl ReplayPace {
    /// The slowest and the fastest speed.
    pub(crate) const SPEEDS: std::ops::RangeInclusive<f64> = 0.000_1..=1_000_000.0;

    /// Reads `1`, `2.5` or `max`.
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
