//! Rates: of a line, and of a paced flow.

use weir_units::{BitRate, Bytes, Serialiser, Span, Time, WIRE_OVERHEAD_BYTES};

/// FCS, which a frame's length does not count and the wire does.
const FCS_BYTES: u64 = 4;

/// Bytes that a frame of this length (without FCS) takes on the wire: with FCS, preamble and gap.
pub(crate) fn wire_bytes(frame_bytes: usize) -> Bytes {
    Bytes::new(frame_bytes as u64 + FCS_BYTES + WIRE_OVERHEAD_BYTES)
}

/// Spaces frames so that their bytes on the wire keep to a rate.
///
/// A poll that comes late may catch up what it missed, but no more than `slack`; in virtual time polls are never late
/// and the slack is zero.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    serialiser: Serialiser,
    free_at: Time,
    slack: Span,
}

impl Pacer {
    pub(crate) fn new(rate: BitRate, slack: Span) -> Pacer {
        Pacer { serialiser: Serialiser::new(rate), free_at: Time::ZERO, slack }
    }

    /// When the next frame may start.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Starts a frame of this length, without FCS.
    pub(crate) fn send(&mut self, now: Time, frame_bytes: usize) {
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start + self.serialiser.time_for(wire_bytes(frame_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_a_wire_time_apart() {
        let mut pacer = Pacer::new(BitRate::gbps(10), Span::ZERO);
        pacer.send(Time::from_nanos(100), 1_514);
        // 1514 + 4 + 20 B at 0.8 ns a byte.
        assert_eq!(pacer.free_at(), Time::from_picos(100_000 + 1_538 * 800));
    }

    #[test]
    fn a_late_poll_catches_up_within_the_slack() {
        let mut pacer = Pacer::new(BitRate::gbps(10), Span::from_micros(2));
        let now = Time::from_nanos(1_000_000);
        let mut sent = 0;
        while pacer.free_at() <= now {
            pacer.send(now, 1_514);
            sent += 1;
        }
        // 2 us hold 1.6 frames; the one that crosses their end is sent too.
        assert_eq!(sent, 2);
    }
}
