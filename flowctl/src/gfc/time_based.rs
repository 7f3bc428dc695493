//! Time-based GFC: CBFC's periodic message, which sets a rate instead of a limit (gfc 5.2).
//!
//! The downstream side is CBFC's, [`cbfc::BlockCounters`](crate::cbfc::BlockCounters) and
//! [`cbfc::Advertiser`](crate::cbfc::Advertiser), unchanged.

use weir_units::{Bytes, Class, Span, Time};
use weir_wire::mac_control::CreditFrame;

use super::{ClassRates, RateMapping};
use crate::cbfc::{BLOCK, CreditCounters};

/// Rate adjuster of the upstream side: turns the remaining credit into the rates of the classes' limiters.
///
/// Written by the one lcore that receives on the port, except [`TimeRateAdjuster::handle_sent`], which the transmitter calls; the
/// transmitter also reads [`TimeRateAdjuster::rates`]. A rate holds until the next message, or until the last one expires. Without credit a
/// class has [`RATE_MIN`](crate::RATE_MIN), or stops if [configured so](TimeRateAdjuster::with_stop).
#[derive(Debug)]
pub struct TimeRateAdjuster {
    mapping: RateMapping,
    /// Buffer B. Credit covers its whole blocks; the remainder counts as occupied, so that a queue without credit is full.
    buffer: Bytes,
    /// Lifetime of a rate that is not repeated.
    ageing: Span,
    credits: CreditCounters,
    rates: ClassRates,
    stops: bool,
}

impl TimeRateAdjuster {
    /// Creates an adjuster with all classes at the line rate. `buffer` is the B of the peer's [`cbfc::BlockCounters`](crate::cbfc::BlockCounters).
    ///
    /// # Panics
    /// If B_m of the mapping is more than the buffer.
    pub fn new(mapping: RateMapping, buffer: Bytes, ageing: Span) -> TimeRateAdjuster {
        assert!(mapping.b_m() <= buffer, "no queue may grow beyond its buffer");
        let (rates, credits) = (ClassRates::new(mapping.line()), CreditCounters::new(buffer));
        TimeRateAdjuster { rates, mapping, buffer, ageing, credits, stops: false }
    }

    /// Makes each frame need credit, as under CBFC: a queue of B_m stops its sender, and so does a peer before its first message.
    pub fn with_stop(self) -> TimeRateAdjuster {
        TimeRateAdjuster { stops: true, ..self }
    }

    /// Returns whether a frame needs credit.
    pub fn stops(&self) -> bool {
        self.stops
    }

    /// Obeys a message received at `now`: each class in it whose limit is not stale gets the rate of its queue, until the rate
    /// expires. A repeated limit may give another rate: frames sent since have made the queue longer.
    pub fn handle_credit(&self, now: Time, frame: &CreditFrame) {
        for class in self.credits.handle_credit(frame).iter() {
            self.rates.set(class, self.mapping.rate(self.queue(class)), now.saturating_add(self.ageing));
        }
    }

    /// Counts a sent frame of this length (without FCS).
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        self.credits.handle_sent(class, frame_bytes);
    }

    /// Counts frames as [`TimeRateAdjuster::handle_sent`].
    #[inline]
    pub fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        self.credits.handle_all_sent(class, frames);
    }

    /// Returns the estimate of q, `B − (FCCL − FCTBS)`: the peer's queue, frames on the wire, and frames sent while the last
    /// message was in flight. Returns the whole buffer once more was sent than there was credit for.
    pub fn queue(&self, class: Class) -> Bytes {
        self.buffer.saturating_sub(BLOCK * u64::from(self.credits.credit(class)))
    }

    /// Sets all classes to the line rate from `now` on and removes their credit; called by the transmitter.
    pub fn reset(&self, now: Time) {
        self.credits.reset();
        self.rates.expire_all(now);
    }

    /// Returns the classes' rates.
    pub fn rates(&self) -> &ClassRates {
        &self.rates
    }

    /// Returns the credit state, for its counts.
    pub fn credits(&self) -> &CreditCounters {
        &self.credits
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{BitRate, CLASSES};

    use super::*;
    use crate::RATE_MIN;

    const LINE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);
    const NOW: Time = Time::from_nanos(1_000);
    const AGEING: Span = Span::from_micros(100);

    fn adjuster() -> TimeRateAdjuster {
        let mapping = RateMapping::without_guarantee(Bytes::mb(1), Bytes::kb(492), LINE).unwrap();
        TimeRateAdjuster::new(mapping, Bytes::mb(1), AGEING)
    }

    /// A message with credit for this many bytes from the start.
    fn credit(bytes: u64) -> CreditFrame {
        CreditFrame { enabled: CLASS.alone(), limits: [(bytes / 64) as u32; CLASSES], ..CreditFrame::default() }
    }

    /// Frames of 64 blocks.
    fn send(adjuster: &TimeRateAdjuster, bytes: u64) {
        (0..bytes / 4_096).for_each(|_| adjuster.handle_sent(CLASS, 4_092));
    }

    #[test]
    fn the_rate_follows_the_credit_left() {
        let adjuster = adjuster();
        adjuster.handle_credit(NOW, &credit(1_000_000));
        assert_eq!((adjuster.queue(CLASS), adjuster.rates().rate(NOW, CLASS)), (Bytes::ZERO, LINE));
        send(&adjuster, 746_000);
        assert_eq!(adjuster.rates().rate(NOW, CLASS), LINE, "a rate changes with a message");
        adjuster.handle_credit(NOW, &credit(1_000_000));
        let rate = adjuster.rates().rate(NOW, CLASS);
        let queue = adjuster.queue(CLASS).get();
        assert_eq!(queue, 182 * 4_096);
        assert_eq!(rate.as_bps(), 10_000_000_000 * (1_000_000 - queue) / 508_000);
        assert_eq!(adjuster.rates().rate(NOW, Class::new(0)), LINE);
    }

    #[test]
    fn stale_messages_change_no_rate() {
        let adjuster = adjuster();
        adjuster.handle_credit(NOW, &credit(1_000_000));
        send(&adjuster, 900_000);
        adjuster.handle_credit(NOW, &credit(1_500_000));
        let version = adjuster.rates().version();
        adjuster.handle_credit(NOW, &credit(1_000_000));
        assert_eq!((adjuster.rates().version(), adjuster.credits().stale()), (version, 1));
    }

    #[test]
    fn credit_that_has_run_out_is_the_least_rate() {
        // A buffer of whole blocks, and one of which 63 B are in none: at 10 Gb/s they would be worth a megabit a second.
        for b_m in [Bytes::mb(1), Bytes::new(1_000_063)] {
            let mapping = RateMapping::without_guarantee(b_m, Bytes::kb(492), LINE).unwrap();
            let adjuster = TimeRateAdjuster::new(mapping, b_m, AGEING);
            adjuster.handle_credit(NOW, &credit(1_000_000));
            send(&adjuster, 1_100_000);
            adjuster.handle_credit(NOW, &credit(1_000_000));
            assert_eq!((adjuster.queue(CLASS), adjuster.rates().rate(NOW, CLASS)), (b_m, RATE_MIN));
        }
    }

    #[test]
    fn a_rate_ages_and_a_stale_message_does_not_put_that_off() {
        let adjuster = adjuster();
        send(&adjuster, 900_000);
        adjuster.handle_credit(NOW, &credit(1_000_000));
        let slow = adjuster.rates().rate(NOW, CLASS);
        adjuster.handle_credit(NOW + Span::from_micros(50), &credit(900_000));
        let rate = |us| adjuster.rates().rate(NOW + Span::from_micros(us), CLASS);
        assert!(slow < LINE);
        assert_eq!((rate(99), rate(100)), (slow, LINE));
    }
}
