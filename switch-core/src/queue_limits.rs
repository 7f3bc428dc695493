//! Rate limits of a port's egress queues.

use weir_flowctl::RateLimiter;
use weir_units::{BitRate, CLASSES, Class, Span, Time};

/// The rate limiters of one port's queues, for those that have one.
#[derive(Debug)]
pub struct QueueLimits {
    limited: u8,
    limiters: [RateLimiter; CLASSES],
}

impl QueueLimits {
    /// Limits at these rates for queues of a port of rate `line`; `slack` is how far a late poll may catch up.
    pub fn new(line: BitRate, slack: Span, rates: [Option<BitRate>; CLASSES]) -> QueueLimits {
        let limited = Class::ALL.into_iter().filter(|class| rates[class.index()].is_some());
        QueueLimits {
            limited: limited.fold(0, |mask, class| mask | class.bit()),
            limiters: rates.map(|rate| {
                let mut limiter = RateLimiter::new(line, slack);
                rate.inspect(|rate| limiter.set_rate(Time::ZERO, *rate));
                limiter
            }),
        }
    }

    /// Those of `classes` that have to wait.
    #[inline]
    pub fn waiting(&self, now: Time, classes: u8) -> u8 {
        let limited = classes & self.limited;
        if limited == 0 {
            return 0;
        }
        let waiting = Class::in_mask(limited).filter(|class| !self.limiters[class.index()].is_free(now));
        waiting.fold(0, |mask, class| mask | class.bit())
    }

    /// Counts a frame of this length without FCS; says whether the class has to wait now.
    #[inline]
    pub fn send(&mut self, now: Time, class: Class, frame_bytes: u32) -> bool {
        if self.limited & class.bit() == 0 {
            return false;
        }
        let limiter = &mut self.limiters[class.index()];
        limiter.send(now, frame_bytes);
        !limiter.is_free(now)
    }

    /// When the first of `classes`, all waiting, may send.
    pub fn next_wakeup(&self, classes: u8) -> Time {
        Class::in_mask(classes).map(|class| self.limiters[class.index()].free_at()).min().unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limited_classes_wait() {
        let (fast, slow) = (Class::new(0), Class::new(3));
        let mut rates = [None; CLASSES];
        rates[slow.index()] = Some(BitRate::gbps(1));
        let mut limits = QueueLimits::new(BitRate::gbps(10), Span::ZERO, rates);
        assert_eq!(limits.waiting(Time::ZERO, 0xff), 0);
        // 1,514 bytes and FCS, preamble and gap are 1,538: 12.304 us at 1 Gb/s.
        assert!(limits.send(Time::ZERO, slow, 1_514) && !limits.send(Time::ZERO, fast, 1_514));
        assert_eq!(limits.waiting(Time::from_nanos(12_303), 0xff), slow.bit());
        assert_eq!(limits.next_wakeup(slow.bit()), Time::from_nanos(12_304));
        assert_eq!(limits.waiting(Time::from_nanos(12_304), 0xff), 0);
    }
}
