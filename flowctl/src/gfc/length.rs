//! Conceptual GFC: the downstream port advertises each queue's length on every change, and the upstream port sends at the rate of
//! the linear mapping (gfc 4.1).
//!
//! The paper's feedback is continuous. Here messages have a minimum spacing, which leaves room for data and adds to the feedback
//! delay.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::QueueLengthFrame;

use super::{ClassRates, RateMapping};

/// Downstream side: decides which frame is due for the queues' lengths.
///
/// A frame is due at the first poll, when a queue's length has changed and `period` has passed since the last frame, and after
/// `refresh` without change. The peer drops a length that is not repeated, and a message lost while queues drain would leave it
/// slow until then.
///
/// Call [`LengthGenerator::poll`], send the returned frame, and confirm with [`LengthGenerator::handle_sent`]; a frame that could not be
/// sent is due again at the next poll.
#[derive(Debug)]
pub struct LengthGenerator {
    /// Classes under GFC.
    classes: ClassSet,
    period: Span,
    refresh: Span,
    advertised: [u32; CLASSES],
    /// Earliest instant of the next frame.
    free_at: Time,
    refresh_at: Time,
}

impl LengthGenerator {
    /// Returns the default minimum spacing of frames, 1,250 byte times: 1 us at 10 Gb/s. A frame takes 84, 6.7 % of the link.
    pub fn period_by_default(rate: BitRate) -> Span {
        rate.time_for(Bytes::new(1_250))
    }

    /// Creates a generator for `classes`, with at least `period` and at most `refresh` between frames.
    ///
    /// # Panics
    /// If `period` or `refresh` is zero.
    pub fn new(classes: ClassSet, period: Span, refresh: Span) -> LengthGenerator {
        assert!(period > Span::ZERO && refresh > Span::ZERO, "a message without pause would fill the link");
        LengthGenerator {
            classes,
            period,
            refresh,
            advertised: [0; CLASSES],
            free_at: Time::ZERO,
            refresh_at: Time::ZERO,
        }
    }

    /// Returns the frame due at `now` for these queue lengths; all classes under GFC are in it.
    #[inline]
    pub fn poll(&self, now: Time, queues: &[Bytes; CLASSES]) -> Option<QueueLengthFrame> {
        if now < self.free_at {
            return None;
        }
        let changed = |class: Class| length(queues[class.index()]) != self.advertised[class.index()];
        (now >= self.refresh_at || self.classes.iter().any(changed)).then(|| self.frame(queues)).flatten()
    }

    fn frame(&self, queues: &[Bytes; CLASSES]) -> Option<QueueLengthFrame> {
        let mut lengths = [0; CLASSES];
        self.classes.iter().for_each(|class| lengths[class.index()] = length(queues[class.index()]));
        (!self.classes.is_empty()).then_some(QueueLengthFrame { enabled: self.classes, lengths })
    }

    /// Records that a frame from [`LengthGenerator::poll`] was sent at `now`.
    pub fn handle_sent(&mut self, now: Time, frame: &QueueLengthFrame) {
        self.advertised = frame.lengths;
        self.free_at = now.saturating_add(self.period);
        self.refresh_at = now.saturating_add(self.refresh);
    }

    /// Resets the state to the start, with the first message due at `at`.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.advertised, self.free_at, self.refresh_at) = ([0; CLASSES], at, at);
    }

    /// Returns the instant at which a frame may be due without further change: the end of the minimum spacing, or the refresh.
    pub fn next_wakeup(&self, now: Time) -> Time {
        if now < self.free_at { self.free_at } else { self.refresh_at }
    }
}

/// Length for a frame's field; saturates.
fn length(queue: Bytes) -> u32 {
    u32::try_from(queue.get()).unwrap_or(u32::MAX)
}

/// Upstream side: turns received lengths into the rates of the classes' limiters.
///
/// Written by the one lcore that receives on the port; the transmitting lcore reads [`LengthRateAdjuster::rates`]. A rate holds until the
/// next message, or until its length expires.
#[derive(Debug)]
pub struct LengthRateAdjuster {
    mapping: RateMapping,
    /// Lifetime of a length that is not repeated.
    ageing: Span,
    rates: ClassRates,
}

impl LengthRateAdjuster {
    /// Creates an adjuster with all classes at the line rate.
    pub fn new(mapping: RateMapping, ageing: Span) -> LengthRateAdjuster {
        LengthRateAdjuster { rates: ClassRates::new(mapping.line()), mapping, ageing }
    }

    /// Obeys a message received at `now`: each class in it gets the rate of its queue, until the length expires.
    pub fn handle_frame(&self, now: Time, frame: &QueueLengthFrame) {
        for class in frame.enabled.iter() {
            let queue = Bytes::new(u64::from(frame.lengths[class.index()]));
            self.rates.set(class, self.mapping.rate(queue), now.saturating_add(self.ageing));
        }
    }

    /// Sets all classes to the line rate from `now` on; called by the transmitter.
    pub fn reset(&self, now: Time) {
        self.rates.expire_all(now);
    }

    /// Returns the classes' rates.
    pub fn rates(&self) -> &ClassRates {
        &self.rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RATE_MIN;

    const LINE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn queue(bytes: u64) -> [Bytes; CLASSES] {
        [Bytes::new(bytes); CLASSES]
    }

    fn generator() -> LengthGenerator {
        LengthGenerator::new(CLASS.alone(), Span::from_micros(1), Span::from_micros(50))
    }

    fn send(generator: &mut LengthGenerator, now: Time, bytes: u64) -> Option<u32> {
        let frame = generator.poll(now, &queue(bytes))?;
        generator.handle_sent(now, &frame);
        assert_eq!(frame.enabled, CLASS.alone());
        assert!(Class::ALL.into_iter().all(|class| class == CLASS || frame.lengths[class.index()] == 0));
        Some(frame.lengths[CLASS.index()])
    }

    #[test]
    fn each_change_is_advertised_once_and_none_too_soon() {
        let mut generator = generator();
        assert_eq!(send(&mut generator, at(0), 0), Some(0), "the first corrects the peer");
        assert_eq!(generator.next_wakeup(at(0)), at(1_000));
        assert_eq!(send(&mut generator, at(300), 1_500), None);
        assert_eq!(send(&mut generator, at(1_000), 3_000), Some(3_000));
        assert_eq!(send(&mut generator, at(2_500), 3_000), None, "no change");
        assert_eq!(generator.next_wakeup(at(2_500)), at(51_000));
        assert_eq!(send(&mut generator, at(2_600), 2_999), Some(2_999));
        assert_eq!(send(&mut generator, at(52_599), 2_999), None);
        assert_eq!(send(&mut generator, at(52_600), 2_999), Some(2_999), "repeated");
    }

    #[test]
    fn what_was_not_sent_is_due_again() {
        let mut generator = generator();
        assert!(generator.poll(at(0), &queue(0)).is_some() && generator.poll(at(5), &queue(7)).is_some());
        assert_eq!(send(&mut generator, at(5), 7), Some(7));
        assert_eq!(
            LengthGenerator::new(ClassSet::EMPTY, Span::from_micros(1), Span::from_micros(1)).poll(at(0), &queue(9)),
            None
        );
    }

    #[test]
    fn a_message_each_microsecond_at_10_gbps() {
        assert_eq!(LengthGenerator::period_by_default(LINE), Span::from_micros(1));
    }

    /// Example of gfc 4.1: 100 KB, B_0 = 50 KB.
    #[test]
    fn the_rate_is_that_of_the_length() {
        let mapping = RateMapping::without_guarantee(Bytes::kb(100), Bytes::kb(50), LINE).unwrap();
        let adjuster = LengthRateAdjuster::new(mapping, Span::from_micros(100));
        let rate = |length: u32| {
            adjuster.handle_frame(at(0), &QueueLengthFrame { enabled: CLASS.alone(), lengths: [length; CLASSES] });
            adjuster.rates().rate(at(99_999), CLASS)
        };
        assert_eq!(
            [0, 50_000, 75_000, 90_000].map(|length| rate(length).as_bps() / 1_000_000),
            [10_000, 10_000, 5_000, 2_000]
        );
        assert_eq!(rate(u32::MAX), RATE_MIN);
        assert_eq!(adjuster.rates().rate(at(0), Class::new(0)), LINE, "a class without a message");
        assert_eq!(adjuster.rates().rate(at(100_000), CLASS), LINE, "a length has expired");
    }
}
