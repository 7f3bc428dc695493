//! Time-based GFC: CBFC's message each period, which sets a rate in place of a limit (gfc 5.2).
//!
//! The downstream side is CBFC's, [`cbfc::Receiver`](crate::cbfc::Receiver) and
//! [`cbfc::Advertiser`](crate::cbfc::Advertiser), as it is.

use weir_units::archive::SharedState;
use weir_units::{Bytes, Class, Span, Time};
use weir_wire::mac_control::CreditFrame;

use super::{Mapping, Rates};
use crate::cbfc::{BLOCK, Sender};

/// The upstream side: turns the credit left into the rates of the classes' limiters.
///
/// Written by the one lcore that receives on the port, but for [`Adjuster::handle_sent`], which is the transmitter's; that one
/// reads [`Adjuster::rates`]. A rate holds until the next message, or until the last one has aged; it is never zero, so credit
/// that has run out slows a class to [`RATE_MIN`](crate::RATE_MIN) and does not stop it, unless [told to](Adjuster::with_stop).
#[derive(Debug, SharedState)]
pub struct Adjuster {
    #[state(same)]
    mapping: Mapping,
    /// B. Credit is for its whole blocks; that what they leave counts as taken makes a queue without credit a full one.
    #[state(same)]
    buffer: Bytes,
    /// Lifetime of a rate that no message sets again.
    #[state(same)]
    ageing: Span,
    credits: Sender,
    rates: Rates,
    #[state(same)]
    stops: bool,
}

impl Adjuster {
    /// All classes at the line rate. `buffer` is the B of the peer's [`cbfc::Receiver`](crate::cbfc::Receiver).
    ///
    /// # Panics
    /// If B_m of the mapping is more than the buffer.
    pub fn new(mapping: Mapping, buffer: Bytes, ageing: Span) -> Adjuster {
        assert!(mapping.b_m() <= buffer, "no queue may grow beyond its buffer");
        let (rates, credits) = (Rates::new(mapping.line()), Sender::new(buffer));
        Adjuster { rates, mapping, buffer, ageing, credits, stops: false }
    }

    /// A frame needs credit, as under CBFC: a queue of B_m stops its sender, and so does a peer that has told none yet.
    pub fn with_stop(self) -> Adjuster {
        Adjuster { stops: true, ..self }
    }

    /// Whether a frame needs credit.
    pub fn stops(&self) -> bool {
        self.stops
    }

    /// Obeys a message received at `now`: each class that it names, unless it is stale, goes to the rate of its queue, until that
    /// has aged. A repeated limit is no repeated message: what was sent since has made the queue longer.
    pub fn handle_credit(&self, now: Time, frame: &CreditFrame) {
        for class in self.credits.handle_credit(frame).iter() {
            self.rates.set(class, self.mapping.rate(self.queue(class)), now.saturating_add(self.ageing));
        }
    }

    /// Counts a frame of this length (without FCS) that is sent.
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        self.credits.handle_sent(class, frame_bytes);
    }

    /// [`Adjuster::handle_sent`] of some frames.
    #[inline]
    pub fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        self.credits.handle_all_sent(class, frames);
    }

    /// q as seen from here, `B − (FCCL − FCTBS)`: the peer's queue, what is on the wire, and what was sent while the last message
    /// was on its way. The whole buffer once more is sent than there was credit for.
    pub fn queue(&self, class: Class) -> Bytes {
        self.buffer.saturating_sub(BLOCK * u64::from(self.credits.credit(class)))
    }

    /// All classes at the line rate from `now` on, and without credit: called by the transmitter.
    pub fn forget(&self, now: Time) {
        self.credits.forget();
        self.rates.forget(now);
    }

    /// Returns the classes' rates.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The credit itself, for its counts.
    pub fn credits(&self) -> &Sender {
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

    fn adjuster() -> Adjuster {
        let mapping = Mapping::without_guarantee(Bytes::mb(1), Bytes::kb(492), LINE).unwrap();
        Adjuster::new(mapping, Bytes::mb(1), AGEING)
    }

    /// A message with credit for this many bytes from the start.
    fn credit(bytes: u64) -> CreditFrame {
        CreditFrame { enabled: CLASS.alone(), limits: [(bytes / 64) as u32; CLASSES], ..CreditFrame::default() }
    }

    /// Frames of 64 blocks.
    fn send(adjuster: &Adjuster, bytes: u64) {
        (0..bytes / 4_096).for_each(|_| adjuster.handle_sent(CLASS, 4_092));
    }

    #[test]
    fn the_rate_follows_the_credit_left() {
        let adjuster = adjuster();
        adjuster.handle_credit(NOW, &credit(1_000_000));
        assert_eq!((adjuster.queue(CLASS), adjuster.rates().at(NOW, CLASS)), (Bytes::ZERO, LINE));
        send(&adjuster, 746_000);
        assert_eq!(adjuster.rates().at(NOW, CLASS), LINE, "a rate changes with a message");
        adjuster.handle_credit(NOW, &credit(1_000_000));
        let rate = adjuster.rates().at(NOW, CLASS);
        let queue = adjuster.queue(CLASS).get();
        assert_eq!(queue, 182 * 4_096);
        assert_eq!(rate.as_bps(), 10_000_000_000 * (1_000_000 - queue) / 508_000);
        assert_eq!(adjuster.rates().at(NOW, Class::new(0)), LINE);
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
            let mapping = Mapping::without_guarantee(b_m, Bytes::kb(492), LINE).unwrap();
            let adjuster = Adjuster::new(mapping, b_m, AGEING);
            adjuster.handle_credit(NOW, &credit(1_000_000));
            send(&adjuster, 1_100_000);
            adjuster.handle_credit(NOW, &credit(1_000_000));
            assert_eq!((adjuster.queue(CLASS), adjuster.rates().at(NOW, CLASS)), (b_m, RATE_MIN));
        }
    }

    #[test]
    fn a_rate_ages_and_a_stale_message_does_not_put_that_off() {
        let adjuster = adjuster();
        send(&adjuster, 900_000);
        adjuster.handle_credit(NOW, &credit(1_000_000));
        let slow = adjuster.rates().at(NOW, CLASS);
        adjuster.handle_credit(NOW + Span::from_micros(50), &credit(900_000));
        let rate = |us| adjuster.rates().at(NOW + Span::from_micros(us), CLASS);
        assert!(slow < LINE);
        assert_eq!((rate(99), rate(100)), (slow, LINE));
    }
}
