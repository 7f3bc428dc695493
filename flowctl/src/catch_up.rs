//! Bounds on catching up after late polls.

use weir_units::{BitRate, Bytes, SerialisationDelay, Span, Time};

use crate::TxBacklog;

/// Highest rate while catching up, as a multiple of the line's rate: a loop that runs for an eighth of the time keeps up.
pub const CATCH_UP_PEAK: u64 = 8;

/// Rule for making up line time after late polls. All spans are on the clock of polls.
///
/// A receiver gets up to C · `most` beyond its rate C: C · `base` of it as fast as the device sends, and the rest at no more than
/// [`CATCH_UP_PEAK`] · C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// Part of a poll's lateness that is always made up. More is made up only by a queue that waited for its rate at its last
    /// poll; an idle or paused queue saves nothing up.
    pub base: Span,
    /// Upper bound on the time made up.
    pub most: Span,
    /// Age up to which a gap between polls counts (up to twice as long). Then at most twice the longest such gap is made up, and
    /// at least [`CatchUp::base`]. `None` always allows [`CatchUp::most`].
    pub memory: Option<Span>,
}

/// Tracker of late polls and of the line time that may be made up.
///
/// Call [`LatePollTracker::poll`] once at the beginning of each poll; other answers hold until the next.
#[derive(Clone, Debug)]
pub struct LatePollTracker {
    rule: CatchUp,
    polled: Option<Time>,
    gap: Span,
    /// Longest gap since the last turn, and in the period before it.
    longest: [Span; 2],
    turns_at: Time,
    bound: Span,
    /// Floors of line time by [`CatchUpLevel`].
    floors: [Time; 3],
}

/// Second limiter of a line that catches up: a burst, C · [`CatchUp::base`], may leave at once, and the rest at [`CATCH_UP_PEAK`]
/// times the rate C. A NIC's peak is at most its link's speed, so its [transmit backlog](TxBacklog) stays within its bound.
#[derive(Clone, Debug, Default)]
pub struct PeakRateLimiter {
    /// Serialiser at the peak rate; `None` sets no limit.
    serialiser: Option<SerialisationDelay>,
    /// Duration of the burst at the peak rate.
    burst: Span,
    free_at: Time,
}

/// Share of the missed line time that may be made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUpLevel {
    /// All missed time within the bound: the queue waited for its rate since the last poll.
    Bound = 0,
    /// The base only, although the queue waited.
    Base = 1,
    /// Time since the last poll, in which frames may have arrived, and at most the base: the queue did not wait.
    Idle = 2,
}

impl CatchUp {
    /// Rule without catching up, as in virtual time, where no poll is late.
    pub const NONE: CatchUp = CatchUp::at_most(Span::ZERO);

    /// Returns a rule with the same bound at every [`CatchUpLevel`].
    pub const fn at_most(most: Span) -> CatchUp {
        CatchUp { base: most, most, memory: None }
    }
}

impl LatePollTracker {
    /// Creates a tracker under this rule.
    pub fn new(rule: CatchUp) -> LatePollTracker {
        LatePollTracker {
            rule,
            polled: None,
            gap: Span::ZERO,
            longest: [Span::ZERO; 2],
            turns_at: Time::ZERO,
            bound: if rule.memory.is_some() { rule.base.min(rule.most) } else { rule.most },
            floors: [Time::ZERO; 3],
        }
    }

    /// Records a poll at `now`, no earlier than the previous one.
    #[inline]
    pub fn poll(&mut self, now: Time) {
        let polled = self.polled.replace(now).unwrap_or(now);
        self.gap = now.since(polled);
        if self.rule.memory.is_some() && (self.gap > self.longest[0] || now >= self.turns_at) {
            self.follow(now);
        }
        let base = self.rule.base.min(self.rule.most);
        let based = now.saturating_sub(base);
        self.floors = [now.saturating_sub(self.bound), based, based.max(polled)];
    }

    #[cold]
    fn follow(&mut self, now: Time) {
        if let Some(memory) = self.rule.memory
            && now >= self.turns_at
        {
            // A gap longer than the memory makes all earlier gaps old.
            let before = if now.since(self.turns_at) < memory { self.longest[0] } else { Span::ZERO };
            self.longest = [Span::ZERO, before];
            self.turns_at = now.saturating_add(memory);
        }
        self.longest[0] = self.longest[0].max(self.gap);
        let longest = self.longest[0].max(self.longest[1]);
        self.bound = (longest * 2).max(self.rule.base).min(self.rule.most);
    }

    /// Returns the time between the last two polls.
    #[inline]
    pub fn gap(&self) -> Span {
        self.gap
    }

    /// Returns whether the rule makes up any time.
    #[inline]
    pub fn makes_up(&self) -> bool {
        self.rule.most > Span::ZERO
    }

    /// Returns the current upper bound on the time made up.
    pub fn bound(&self) -> Span {
        self.bound
    }

    /// Returns the instant before which line time is not made up.
    #[inline]
    pub fn floor(&self, level: CatchUpLevel) -> Time {
        self.floors[level as usize]
    }
}

impl PeakRateLimiter {
    /// Limits a line of this rate from now on, under [`CatchUp::base`]; `None` removes the limit. `nic` has the link's speed on
    /// the switch's clock.
    pub fn set(&mut self, rate: Option<BitRate>, base: Span, nic: Option<(TxBacklog, BitRate)>) {
        let Some(rate) = rate else {
            (self.serialiser, self.burst) = (None, Span::ZERO);
            return;
        };
        let (mut peak, mut burst) = (rate * CATCH_UP_PEAK, rate.bytes_in(base));
        if let Some((backlog, link)) = nic {
            peak = peak.min(TxBacklog::least_rate(link));
            burst = burst.min(backlog.room(link));
        }
        (self.serialiser, self.burst) = (Some(SerialisationDelay::new(peak)), peak.time_for(burst));
    }

    /// Updates the limiter; call at the beginning of each poll.
    #[inline]
    pub fn poll(&mut self, now: Time) {
        self.free_at = self.free_at.max(self.floor(now));
    }

    /// Returns the earliest instant whose unsent frames still belong to the burst.
    #[inline]
    pub fn floor(&self, now: Time) -> Time {
        now.saturating_sub(self.burst)
    }

    /// Returns whether a frame may start at `now`.
    #[inline]
    pub fn is_free(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// Counts a frame of `wire` bytes on the wire.
    #[inline]
    pub fn send(&mut self, wire: Bytes) {
        if let Some(serialiser) = self.serialiser {
            self.free_at += serialiser.time_for(wire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: CatchUp =
        CatchUp { base: Span::from_micros(200), most: Span::from_millis(100), memory: Some(Span::from_secs(1)) };

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn the_bound_follows_the_gaps_up_and_down() {
        let mut polls = LatePollTracker::new(RULE);
        let mut bounds = Vec::new();
        for at in [1_000, 1_020, 1_021, 1_900, 1_901, 2_500, 3_200, 4_300, 4_301] {
            polls.poll(ms(at));
            bounds.push(polls.bound().as_micros());
        }
        // 20 ms, twice; then gaps of hundreds of milliseconds, cut to the most.
        assert_eq!(bounds, [200, 40_000, 40_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000]);
        let mut now = ms(4_301);
        for _ in 0..4_000 {
            now += Span::from_millis(1);
            polls.poll(now);
        }
        assert_eq!(polls.bound(), Span::from_millis(2), "forgotten");
    }

    #[test]
    fn without_a_memory_the_bound_stays() {
        let mut polls = LatePollTracker::new(CatchUp { memory: None, ..RULE });
        polls.poll(ms(500));
        polls.poll(ms(500));
        assert_eq!((polls.bound(), polls.floor(CatchUpLevel::Bound)), (RULE.most, ms(400)));
    }

    #[test]
    fn a_peak_lets_the_base_go_at_once_and_then_eight_times_the_rate() {
        // 10 us each.
        let (mut peak, frame) = (PeakRateLimiter::default(), Bytes::new(1_250));
        peak.set(Some(BitRate::gbps(1)), RULE.base, None);
        let mut sent = |now: Time| {
            peak.poll(now);
            let mut frames = 0;
            while peak.is_free(now) {
                peak.send(frame);
                frames += 1;
            }
            frames
        };
        assert_eq!([sent(ms(500)), sent(ms(500)), sent(ms(501))], [21, 0, 21]);
        let soon: u32 = (1..=100).map(|us| sent(ms(501) + Span::from_micros(us))).sum();
        assert_eq!(soon, 80, "of 10 us each in 100 us");
    }

    /// Polls a NIC's ring at irregular instants, and follows the data in it while its link carries it off.
    #[test]
    fn a_nics_ring_holds_no_more_than_its_bound() {
        let frame_max = Bytes::new(1_542);
        for (rate, link) in [(10, 10), (10, 1), (1, 10), (4, 10)] {
            let (rate, link) = (BitRate::gbps(rate), BitRate::gbps(link));
            let backlog = TxBacklog { time: Span::from_micros(50), frame_max, dilation: 1 };
            let mut peak = PeakRateLimiter::default();
            peak.set(Some(rate), RULE.base, Some((backlog, link)));
            let (mut now, mut wire, mut most) = (ms(500), Time::ZERO, Span::ZERO);
            for poll in 1..20_000u64 {
                // Mostly 1 us, now and then up to 20 ms.
                now += Span::from_micros(if poll % 97 == 0 { poll * poll % 20_000 } else { 1 });
                peak.poll(now);
                while peak.is_free(now) {
                    let frame = Bytes::new(84 + poll * 131 % 1_459);
                    peak.send(frame);
                    wire = wire.max(now) + link.time_for(frame);
                    most = most.max(wire.since(now));
                }
            }
            let bound = backlog.bound(link);
            let catch_up = link.time_for(rate.bytes_in(RULE.base) + frame_max);
            assert!(most <= bound.min(catch_up) && most * 2 > bound.min(catch_up), "{rate} of {link}: {most}");
        }
    }

    #[test]
    fn only_what_waited_has_a_claim_beyond_the_base() {
        let mut polls = LatePollTracker::new(RULE);
        polls.poll(ms(500));
        assert_eq!(polls.floor(CatchUpLevel::Idle), ms(500), "no poll before");
        polls.poll(ms(520));
        assert_eq!(polls.gap(), Span::from_millis(20));
        let before = |level| ms(520).since(polls.floor(level)).as_micros();
        assert_eq!([CatchUpLevel::Bound, CatchUpLevel::Base, CatchUpLevel::Idle].map(before), [40_000, 200, 200]);
        polls.poll(ms(520) + Span::from_micros(5));
        let now = ms(520) + Span::from_micros(5);
        let before = |level| now.since(polls.floor(level)).as_micros();
        assert_eq!([CatchUpLevel::Bound, CatchUpLevel::Base, CatchUpLevel::Idle].map(before), [40_000, 200, 5]);
    }
}
