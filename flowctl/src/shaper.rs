//! Line-rate shaper of a switch's port, a host's NIC or a paced flow.

use weir_units::{BitRate, Bytes, SerialisationDelay, SerialisationRounding, Span, Time};

/// Returns the wire bytes of a frame of this length (without FCS). `link_overhead` is
/// [`LINK_OVERHEAD`](weir_units::LINK_OVERHEAD) on a real link.
#[inline]
pub fn wire_bytes(frame_bytes: u32, link_overhead: Bytes) -> Bytes {
    Bytes::new(u64::from(frame_bytes)) + link_overhead
}

/// Shaper to a rate. At a switch's port it keeps backlog in the egress queues, where it is counted, and out of the device's
/// ring.
///
/// Stores the instant at which the wire is free again. A late poll may catch up by at most `slack`; in virtual time polls are
/// never late and the slack is zero. A caller that knows a poll's lateness, and whether frames waited, may discard
/// more line time before the first frame: [`Shaper::give_up_before`].
#[derive(Clone, Debug)]
pub struct Shaper {
    serialiser: Option<SerialisationDelay>,
    free_at: Time,
    slack: Span,
}

impl Shaper {
    /// Creates a shaper to this rate; `None` lets all frames pass.
    pub fn new(rate: Option<BitRate>, slack: Span) -> Shaper {
        Shaper::timed(rate, slack, SerialisationRounding::Exact)
    }

    /// Creates a shaper with this rounding of frame times.
    pub fn timed(rate: Option<BitRate>, slack: Span, rounding: SerialisationRounding) -> Shaper {
        let serialiser = rate.map(|rate| SerialisationDelay::timed(rate, rounding));
        Shaper { serialiser, free_at: Time::ZERO, slack }
    }

    /// Shapes to this rate from `now` on. The rest of a frame on the wire passes at the new rate, rounded up; line time that
    /// was not used at the old one is not made up at the new one.
    pub fn set_rate(&mut self, now: Time, rate: BitRate) {
        // Frame times of `MUCH` at both rates; exact at Ethernet's rates.
        const MUCH: Bytes = Bytes::new(1 << 20);
        let rounding = self.serialiser.map_or(SerialisationRounding::Exact, SerialisationDelay::rounding);
        let serialiser = SerialisationDelay::timed(rate, rounding);
        let to = serialiser.time_for(MUCH).as_picos();
        let from = self.serialiser.replace(serialiser).map_or(to, |before| before.time_for(MUCH).as_picos());
        let left = u128::from(self.free_at.since(now).as_picos()) * u128::from(to);
        let wait = u64::try_from(left.div_ceil(u128::from(from.max(1)))).unwrap_or(u64::MAX);
        self.free_at = now.saturating_add(Span::from_picos(wait));
    }

    /// Lets all frames pass from `now` on.
    pub fn lift(&mut self, now: Time) {
        self.serialiser = None;
        self.free_at = self.free_at.min(now);
    }

    /// Returns whether the wire is free at `now`.
    #[inline]
    pub fn is_free(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// Counts a frame of `wire` bytes on the wire ([`wire_bytes`]).
    #[inline]
    pub fn send(&mut self, now: Time, wire: Bytes) {
        let Some(serialiser) = self.serialiser else { return };
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start + serialiser.time_for(wire);
    }

    /// Discards line time before `floor`; returns the unused part.
    #[inline]
    pub fn give_up_before(&mut self, floor: Time) -> Span {
        let given_up = floor.since(self.free_at);
        if given_up == Span::ZERO || self.serialiser.is_none() {
            return Span::ZERO;
        }
        self.free_at = floor;
        given_up
    }

    /// Returns the time for these bytes on the wire; zero without a rate.
    pub fn time_for(&self, wire: Bytes) -> Span {
        self.serialiser.map_or(Span::ZERO, |serialiser| serialiser.time_for(wire))
    }

    /// Returns the instant at which the wire is free again.
    #[inline]
    pub fn free_at(&self) -> Time {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_to_a_frame_over_any_time() {
        let rate = BitRate::gbps(10);
        let mut shaper = Shaper::new(Some(rate), Span::ZERO);
        let (mut now, mut sent) = (Time::ZERO, 0);
        for _ in 0..10_000 {
            while shaper.is_free(now) {
                shaper.send(now, Bytes::new(1_538));
                sent += 1_538;
            }
            assert!(sent <= rate.bytes_in(now.since(Time::ZERO)).get() + 1_538);
            now += Span::from_nanos(100);
        }
    }

    #[test]
    fn a_late_poll_catches_up_within_its_slack() {
        let rate = BitRate::gbps(10);
        let mut shaper = Shaper::new(Some(rate), Span::from_micros(10));
        shaper.send(Time::ZERO, Bytes::new(84));
        let late = Time::from_nanos(1_000_000);
        let mut sent = 0;
        while shaper.is_free(late) {
            shaper.send(late, Bytes::new(84));
            sent += 84;
        }
        let slack = rate.bytes_in(Span::from_micros(10)).get();
        assert!((slack..=slack + 84).contains(&sent), "{sent} B after a gap of 1 ms, {slack} B of slack");
    }

    #[test]
    fn given_up_line_time_is_returned_to_the_picosecond() {
        let mut shaper = Shaper::new(Some(BitRate::gbps(10)), Span::from_millis(100));
        shaper.send(Time::from_nanos(1_000), Bytes::new(1_538));
        assert_eq!(shaper.free_at(), Time::from_picos(1_230_400), "from the start, within the slack");
        assert_eq!(shaper.give_up_before(Time::from_nanos(1_000)), Span::ZERO);
        assert_eq!(shaper.give_up_before(Time::from_nanos(5_000)), Span::from_picos(3_769_600));
        assert_eq!(shaper.give_up_before(Time::from_nanos(5_000)), Span::ZERO);
        shaper.send(Time::from_nanos(9_000), Bytes::new(1_538));
        assert_eq!(shaper.free_at(), Time::from_picos(6_230_400));
        assert_eq!(Shaper::new(None, Span::ZERO).give_up_before(Time::from_nanos(9)), Span::ZERO);
    }

    #[test]
    fn wire_bytes_include_the_configured_overhead() {
        assert_eq!(wire_bytes(1_514, weir_units::LINK_OVERHEAD), Bytes::new(1_538));
        assert_eq!(wire_bytes(1_514, Bytes::ZERO), Bytes::new(1_514));
    }

    #[test]
    fn what_is_left_of_a_frame_passes_at_the_new_rate() {
        let mut shaper = Shaper::new(Some(BitRate::gbps(10)), Span::from_micros(200));
        let frame = Bytes::new(1_500);
        shaper.send(Time::from_nanos(200_000), frame);
        // 1.2 us from the start of the slack: long over. Nothing of the 200 us is made up at the new rate.
        shaper.set_rate(Time::from_nanos(200_000), BitRate::gbps(1));
        assert_eq!(shaper.free_at(), Time::from_nanos(200_000));
        shaper.send(Time::from_nanos(200_000), frame);
        assert_eq!(shaper.free_at(), Time::from_nanos(200_000 + 12_000));
        // Half of it is left.
        shaper.set_rate(Time::from_nanos(206_000), BitRate::gbps(10));
        assert_eq!(shaper.free_at(), Time::from_nanos(206_600));
        shaper.set_rate(Time::from_nanos(206_300), BitRate::gbps(10));
        assert_eq!(shaper.free_at(), Time::from_nanos(206_600), "the same rate changes nothing");
        let mut free = Shaper::new(None, Span::from_micros(200));
        free.set_rate(Time::from_nanos(206_000), BitRate::gbps(10));
        free.send(Time::from_nanos(206_000), frame);
        assert_eq!(free.free_at(), Time::from_nanos(207_200));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let mut shaper = Shaper::new(None, Span::ZERO);
        shaper.send(Time::ZERO, Bytes::new(9_024));
        assert!(shaper.is_free(Time::ZERO));
    }
}
