//! Rate limiters of a port's classes.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};

use crate::gfc::ClassRates;
use crate::{CatchUpLevel, LatePollTracker, RateLimiter, TxRegulator};

/// Rate limiters of a port's eight classes, where configured or where the peer sets the rate.
#[derive(Debug)]
pub struct ClassRateLimiters {
    /// Limiter of each class; `None` where no class has one, as at most ports.
    classes: Option<Box<[ClassRateLimiter; CLASSES]>>,
    /// Version of the peer's rates that the limiters follow.
    version: u32,
    limited: ClassSet,
    /// Limited classes whose rate the peer sets.
    rated: ClassSet,
    /// Rated classes at the line rate because the peer's rate has expired.
    aged: ClassSet,
    /// Expiry of the first of the peer's rates, as last seen.
    ages_at: Time,
}

/// Result of [`ClassRateLimiters::follow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateUpdate {
    /// Whether the peer has changed a rate, even if back to the old value.
    pub changed: bool,
    /// Classes at the line rate since their rate expired.
    pub aged: ClassSet,
}

#[derive(Debug)]
struct ClassRateLimiter {
    /// Configured rate limit; the line rate if none is configured.
    configured: BitRate,
    is_line: bool,
    limiter: RateLimiter,
}

impl ClassRateLimiters {
    /// Creates limiters at these rates for classes of a port of rate `line`, and at the peer's for those of `regulator`; `slack` bounds
    /// the time that a late poll makes up.
    pub fn new(
        line: BitRate,
        slack: Span,
        rates: [Option<BitRate>; CLASSES],
        regulator: &TxRegulator,
    ) -> ClassRateLimiters {
        let configured = Class::ALL.into_iter().filter(|class| rates[class.index()].is_some());
        let rated = regulator.rated_classes();
        let limited = rated | ClassSet::from_iter(configured);
        ClassRateLimiters {
            classes: (!limited.is_empty()).then(|| ClassRateLimiter::of_all(line, slack, rates)),
            version: 0,
            limited,
            rated,
            aged: ClassSet::EMPTY,
            ages_at: Time::NEVER,
        }
    }

    /// Allocates limiters for classes without one, so that [`ClassRateLimiters::set_rates`] can set them later without allocating.
    pub fn allocate(&mut self, line: BitRate, slack: Span) {
        self.classes.get_or_insert_with(|| ClassRateLimiter::of_all(line, slack, [None; CLASSES]));
    }

    /// Limits classes to these rates from `now` on, and to the line's where there is none. A lower rate set by the peer still
    /// applies. The rest of a frame on the wire passes at the new rate.
    ///
    /// # Panics
    /// In debug builds, if a class is to have a limit and has no limiter: [`ClassRateLimiters::allocate`].
    pub fn set_rates(&mut self, now: Time, line: BitRate, rates: [Option<BitRate>; CLASSES]) {
        debug_assert!(self.classes.is_some() || rates.iter().all(Option::is_none), "no limiters allocated");
        let Some(classes) = &mut self.classes else { return };
        for (class, (limit, rate)) in Class::ALL.into_iter().zip(classes.iter_mut().zip(rates)) {
            let was_limited = self.limited.contains(class);
            (limit.configured, limit.is_line) = (rate.unwrap_or(line), rate.is_none());
            if self.rated.contains(class) {
                continue;
            }
            limit.limiter.set_rate(now, limit.configured);
            if rate.is_some() && !was_limited {
                limit.limiter.give_up_before(now);
            }
            if rate.is_some() { self.limited.insert(class) } else { self.limited.remove(class) }
        }
        // Makes `follow` cut the peer's rates to the new limits.
        self.ages_at = now;
    }

    /// Sets the port's rate to `line` from `now` on, and cuts limits to it. Not for a port whose peer sets rates, which are parts of
    /// the line's.
    ///
    /// # Panics
    /// In debug builds, if the peer sets any.
    pub fn set_line(&mut self, now: Time, line: BitRate) {
        debug_assert!(self.rated.is_empty(), "a port under GFC keeps its rate");
        for ClassRateLimiter { configured, is_line, limiter } in
            self.classes.iter_mut().flat_map(|classes| classes.iter_mut())
        {
            if *is_line {
                *configured = line;
            }
            limiter.set_line(now, line);
            limiter.set_rate(now, *configured);
        }
    }

    /// Returns the classes that have a limiter.
    pub fn limited(&self) -> ClassSet {
        self.limited
    }

    /// Applies the peer's changed rates at `now`, and ends expired ones.
    #[inline]
    pub fn follow(&mut self, now: Time, regulator: &TxRegulator) -> RateUpdate {
        if self.rated.is_empty() {
            return RateUpdate::default();
        }
        let Some(rates) = regulator.rates() else { return RateUpdate::default() };
        let version = rates.version();
        // A message that repeats an expired rate does not change the version.
        if version == self.version && self.aged.is_empty() && now < self.ages_at {
            return RateUpdate::default();
        }
        let aged = self.take_over(now, rates);
        let followed = RateUpdate { changed: version != self.version, aged: aged & !self.aged };
        (self.version, self.aged) = (version, aged);
        followed
    }

    /// Sets the limiters to the peer's rates; returns the classes whose rate has expired.
    #[inline(never)]
    fn take_over(&mut self, now: Time, rates: &ClassRates) -> ClassSet {
        let Some(classes) = &mut self.classes else { return ClassSet::EMPTY };
        let mut aged = ClassSet::EMPTY;
        self.ages_at = Time::NEVER;
        for class in self.rated.iter() {
            let ClassRateLimiter { configured, limiter, .. } = &mut classes[class.index()];
            let advertised = rates.advertised(class);
            if advertised.until <= now {
                aged.insert(class);
                limiter.set_rate(now, *configured);
            } else {
                self.ages_at = self.ages_at.min(advertised.until);
                limiter.set_rate(now, advertised.rate.min(*configured));
            }
        }
        aged
    }

    /// Updates the limiters at the beginning of each poll, where polls may be late. `waited` are the classes that at their last
    /// poll had a frame held back by a rate alone.
    ///
    /// A configured rate is to be met, so such classes catch up as their port does. A lower rate of the peer is an upper bound:
    /// its classes make up at most the base, and a peer whose queue runs low allows more.
    #[inline]
    pub fn poll(&mut self, late: &LatePollTracker, waited: ClassSet) {
        let Some(classes) = &mut self.classes else { return };
        for class in self.limited.iter() {
            let ClassRateLimiter { configured, limiter, .. } = &mut classes[class.index()];
            let level = match waited.contains(class) {
                true if limiter.rate() < *configured => CatchUpLevel::Base,
                true => CatchUpLevel::Bound,
                false => CatchUpLevel::Idle,
            };
            limiter.give_up_before(late.floor(level));
        }
    }

    /// Returns whether no class has a limit.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.limited.is_empty()
    }

    /// Returns the classes among `classes` that have to wait.
    #[inline]
    pub fn waiting(&self, now: Time, classes: ClassSet) -> ClassSet {
        let limited = classes & self.limited;
        if limited.is_empty() {
            return ClassSet::EMPTY;
        }
        let waiting = self.limiters(limited).filter(|(_, limiter)| !limiter.is_free(now));
        ClassSet::from_iter(waiting.map(|(class, _)| class))
    }

    /// Counts a frame of `wire` bytes on the wire; returns whether the class has to wait now.
    #[inline]
    pub fn send(&mut self, now: Time, class: Class, wire: Bytes) -> bool {
        if !self.limited.contains(class) {
            return false;
        }
        let Some(classes) = &mut self.classes else { return false };
        let limiter = &mut classes[class.index()].limiter;
        limiter.send(now, wire);
        !limiter.is_free(now)
    }

    /// Counts frames of `wire` bytes together, sent one after the other at `now`, if the class would not have to wait even behind
    /// all of them, and so not between them. Otherwise counts nothing. Returns whether they are counted.
    #[inline]
    pub fn send_all(&mut self, now: Time, class: Class, wire: Bytes) -> bool {
        if !self.limited.contains(class) {
            return true;
        }
        let Some(classes) = &mut self.classes else { return true };
        let limiter = &mut classes[class.index()].limiter;
        let mut behind = limiter.clone();
        behind.send(now, wire);
        let is_free = behind.is_free(now);
        if is_free {
            *limiter = behind;
        }
        is_free
    }

    /// Returns R_r of a class; `None` without a limit.
    pub fn rate(&self, class: Class) -> Option<BitRate> {
        self.limiters(self.limited & class.alone()).map(|(_, limiter)| limiter.rate()).next()
    }

    /// Returns the instant at which the first of `classes`, all waiting, may send: at its rate, or because the rate expires.
    #[inline]
    pub fn next_wakeup(&self, classes: ClassSet, regulator: &TxRegulator) -> Time {
        if classes.is_empty() {
            return Time::NEVER;
        }
        let free_at = self.limiters(classes).map(|(_, limiter)| limiter.free_at()).min().unwrap_or(Time::NEVER);
        let rated = classes & self.rated & !self.aged;
        if rated.is_empty() {
            return free_at;
        }
        let Some(rates) = regulator.rates() else { return free_at };
        rated.iter().map(|class| rates.advertised(class).until).fold(free_at, Time::min)
    }

    /// Returns the limiters of these classes, all limited.
    fn limiters(&self, classes: ClassSet) -> impl Iterator<Item = (Class, &RateLimiter)> {
        let limits = self.classes.iter();
        limits.flat_map(move |limits| classes.iter().map(|class| (class, &limits[class.index()].limiter)))
    }
}

impl ClassRateLimiter {
    /// Creates the limiters of all classes, at these rates or the line's.
    fn of_all(line: BitRate, slack: Span, rates: [Option<BitRate>; CLASSES]) -> Box<[ClassRateLimiter; CLASSES]> {
        Box::new(rates.map(|rate| {
            let (configured, mut limiter) = (rate.unwrap_or(line), RateLimiter::new(line, slack));
            limiter.set_rate(Time::ZERO, configured);
            ClassRateLimiter { configured, is_line: rate.is_none(), limiter }
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::PortFlowControl;
    use crate::gfc::StageTable;
    use crate::kinds::{GfcBuffer, NoFlowControl};
    use weir_wire::mac_control::{ControlFrame, PfcFrame};

    const LINE: BitRate = BitRate::gbps(10);
    const SLOW: Class = Class::new(3);

    fn only(class: Class, rate: BitRate) -> [Option<BitRate>; CLASSES] {
        let mut rates = [None; CLASSES];
        rates[class.index()] = Some(rate);
        rates
    }

    #[test]
    fn only_limited_classes_wait() {
        let fast = Class::new(0);
        let free = TxRegulator::new(&PortFlowControl::new(NoFlowControl), LINE, ClassSet::EMPTY);
        let mut limits = ClassRateLimiters::new(LINE, Span::ZERO, only(SLOW, BitRate::gbps(1)), &free);
        assert_eq!(limits.waiting(Time::ZERO, ClassSet::ALL), ClassSet::EMPTY);
        // 12.304 us at 1 Gb/s.
        let frame = Bytes::new(1_538);
        assert!(limits.send(Time::ZERO, SLOW, frame) && !limits.send(Time::ZERO, fast, frame));
        assert_eq!(limits.waiting(Time::from_nanos(12_303), ClassSet::ALL), SLOW.alone());
        assert_eq!(limits.next_wakeup(SLOW.alone(), &free), Time::from_nanos(12_304));
        assert_eq!(limits.waiting(Time::from_nanos(12_304), ClassSet::ALL), ClassSet::EMPTY);
    }

    /// 20 ms after the last poll, of which all may be made up.
    #[test]
    fn a_configured_rate_is_caught_up_and_the_peers_is_not() {
        let stages = StageTable::without_guarantee(Bytes::mb(1), Bytes::kb(750), LINE).unwrap();
        let peer = TxRegulator::new(
            &PortFlowControl::new(GfcBuffer { stages, refresh: Span::from_micros(50), ageing: Span::from_secs(1) }),
            LINE,
            SLOW.alone(),
        );
        let other = Class::new(1);
        let (base, most) = (Span::from_micros(200), Span::from_millis(100));
        let sent = |waited: ClassSet, stage: u16| {
            let mut limits = ClassRateLimiters::new(LINE, most, only(other, BitRate::mbps(100)), &peer);
            let mut late = LatePollTracker::new(crate::CatchUp { base, most, memory: None });
            let mut now = Time::ZERO + Span::from_secs(1);
            peer.handle(now, &ControlFrame::Pfc(PfcFrame { enabled: ClassSet::ALL, times: [stage; CLASSES] }));
            late.poll(now);
            limits.follow(now, &peer);
            for class in [SLOW, other] {
                limits.poll(&late, ClassSet::EMPTY);
                while !limits.send(now, class, Bytes::new(1_538)) {}
            }
            now += Span::from_millis(20);
            late.poll(now);
            limits.poll(&late, waited);
            [SLOW, other].map(|class| {
                let mut frames = 1;
                while !limits.send(now, class, Bytes::new(1_538)) {
                    frames += 1;
                }
                frames
            })
        };
        // 20 ms are 16,254 frames at 10 Gb/s, 162 at 100 Mb/s; 200 us are 41 at 2.5 Gb/s, 1 at 100 Mb/s.
        let both = SLOW.alone() | other.alone();
        let [line, limited] = sent(both, 0);
        assert!((16_253..=16_256).contains(&line) && (162..=164).contains(&limited), "{line}, {limited}");
        let [slowed, limited] = sent(both, 2);
        assert!((41..=42).contains(&slowed) && (162..=164).contains(&limited), "{slowed}, {limited}");
        let [line, limited] = sent(ClassSet::EMPTY, 0);
        assert!((162..=164).contains(&line) && (1..=3).contains(&limited), "idle: {line}, {limited}");
    }

    proptest! {
        /// A batch counts as its frames do one by one, to a picosecond each, and only if none would have to wait.
        #[test]
        fn all_at_once_as_one_by_one(
            mbps in 1..10_000u64,
            frames in prop::collection::vec(84..9_000u64, 1..64),
            slack_ns in 0..2_000_000u64,
            before in 0..3usize,
        ) {
            let free = TxRegulator::new(&PortFlowControl::new(NoFlowControl), LINE, ClassSet::EMPTY);
            let limits = || {
                let rates = only(SLOW, BitRate::mbps(mbps));
                ClassRateLimiters::new(LINE, Span::from_nanos(slack_ns), rates, &free)
            };
            let free_at = |limits: &ClassRateLimiters| limits.next_wakeup(SLOW.alone(), &free);
            let now = Time::ZERO + Span::from_millis(10);
            let (mut rows, mut each) = (limits(), limits());
            for limits in [&mut rows, &mut each] {
                for _ in 0..before {
                    limits.send(now, SLOW, Bytes::new(1_538));
                }
            }
            let was_free_at = free_at(&rows);
            let went = rows.send_all(now, SLOW, Bytes::new(frames.iter().sum()));
            let waits: Vec<bool> = frames.iter().map(|wire| each.send(now, SLOW, Bytes::new(*wire))).collect();
            let (at_once, one_by_one) = (free_at(&rows), free_at(&each));
            if went {
                prop_assert!(at_once <= one_by_one && one_by_one.since(at_once).as_picos() < frames.len() as u64);
                prop_assert!(waits[..frames.len() - 1].iter().all(|waits| !waits));
            } else {
                prop_assert_eq!(at_once, was_free_at, "nothing is counted");
                prop_assert!(waits[frames.len() - 1]);
            }
            prop_assert!(rows.send_all(now, Class::new(0), Bytes::mb(1)), "a class without a limit");
        }
    }

    #[test]
    fn a_limit_is_cut_to_the_lines_new_rate_and_comes_back() {
        let free = TxRegulator::new(&PortFlowControl::new(NoFlowControl), LINE, ClassSet::EMPTY);
        let mut limits = ClassRateLimiters::new(LINE, Span::ZERO, only(SLOW, BitRate::gbps(3)), &free);
        limits.set_line(Time::ZERO, BitRate::gbps(1));
        assert_eq!(limits.rate(SLOW), Some(BitRate::gbps(1)));
        limits.send(Time::ZERO, SLOW, Bytes::new(1_500));
        assert_eq!(limits.next_wakeup(SLOW.alone(), &free), Time::from_nanos(12_000));
        limits.set_line(Time::from_nanos(6_000), BitRate::gbps(25));
        assert_eq!(limits.rate(SLOW), Some(BitRate::gbps(3)), "its own");
        assert_eq!(limits.next_wakeup(SLOW.alone(), &free), Time::from_nanos(6_000 + 2_000));
        let mut none = ClassRateLimiters::new(LINE, Span::ZERO, [None; CLASSES], &free);
        none.set_line(Time::ZERO, BitRate::gbps(1));
        assert!(none.are_none());
    }

    #[test]
    fn the_peers_rate_and_the_configured_one_both_hold() {
        let stages = StageTable::without_guarantee(Bytes::mb(1), Bytes::kb(750), LINE).unwrap();
        let (refresh, ageing) = (Span::from_micros(50), Span::from_millis(3));
        let peer = TxRegulator::new(&PortFlowControl::new(GfcBuffer { stages, refresh, ageing }), LINE, SLOW.alone());
        let mut limits = ClassRateLimiters::new(LINE, Span::ZERO, only(SLOW, BitRate::gbps(3)), &peer);
        let mut advertised = |stage: u16| {
            peer.handle(Time::ZERO, &ControlFrame::Pfc(PfcFrame { enabled: ClassSet::ALL, times: [stage; CLASSES] }));
            let RateUpdate { changed, .. } = limits.follow(Time::ZERO, &peer);
            assert_eq!(limits.rate(Class::new(0)), None, "a class without GFC");
            (limits.rate(SLOW).unwrap(), changed)
        };
        assert_eq!(advertised(0), (BitRate::gbps(3), false));
        assert_eq!(advertised(1), (BitRate::gbps(3), true));
        assert_eq!(advertised(2), (BitRate::mbps(2_500), true));
        assert_eq!(advertised(2), (BitRate::mbps(2_500), false));
        assert_eq!(advertised(0), (BitRate::gbps(3), true));
    }

    #[test]
    fn a_rate_that_has_aged_is_followed_and_so_is_the_next_message() {
        let stages = StageTable::without_guarantee(Bytes::mb(1), Bytes::kb(750), LINE).unwrap();
        let (refresh, ageing) = (Span::from_micros(50), Span::from_millis(3));
        let peer = TxRegulator::new(&PortFlowControl::new(GfcBuffer { stages, refresh, ageing }), LINE, SLOW.alone());
        let mut limits = ClassRateLimiters::new(LINE, Span::ZERO, [None; CLASSES], &peer);
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let advertise =
            |now| peer.handle(now, &ControlFrame::Pfc(PfcFrame { enabled: ClassSet::ALL, times: [19; CLASSES] }));
        advertise(ms(0));
        assert_eq!(limits.follow(ms(0), &peer), RateUpdate { changed: true, aged: ClassSet::EMPTY });
        // A frame at 19 kb/s takes 0.6 s, but the stage is over before.
        assert!(limits.send(ms(0), SLOW, Bytes::new(1_538)));
        assert_eq!(limits.next_wakeup(SLOW.alone(), &peer), ms(3));
        advertise(ms(2));
        assert_eq!(
            (limits.follow(ms(3), &peer), limits.next_wakeup(SLOW.alone(), &peer)),
            (RateUpdate::default(), ms(5))
        );
        assert_eq!(limits.waiting(ms(4), ClassSet::ALL), SLOW.alone());
        assert_eq!(limits.follow(ms(5), &peer), RateUpdate { changed: false, aged: SLOW.alone() });
        assert_eq!((limits.rate(SLOW), limits.follow(ms(6), &peer)), (Some(LINE), RateUpdate::default()));
        // The rest of the wait passes at the line's rate.
        assert_eq!(limits.waiting(ms(5) + Span::from_micros(2), ClassSet::ALL), ClassSet::EMPTY);
        // The next message equals the previous one.
        advertise(ms(7));
        assert_eq!(limits.follow(ms(7), &peer), RateUpdate::default());
        assert!(limits.rate(SLOW).unwrap() < BitRate::mbps(1));
    }
}
