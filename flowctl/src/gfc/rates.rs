//! Rates that a port's peer allows its classes.

use weir_units::{BitRate, CLASSES, Class, Time};

use crate::RATE_MIN;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Rates of the classes' limiters, passed from the receiving to the transmitting lcore of a port.
///
/// A rate below the line rate expires unless the peer repeats it: [`ClassRates::rate`]. A peer that has gone, or does not use GFC, thus
/// never slows a class permanently.
///
/// One writer; the transmitter only ends rates when a link goes down. The transmitter loads [`ClassRates::version`] at each poll, and sets
/// its limiters only if the version changed or a rate expired. A rate may be seen a poll late, as a message may.
#[derive(Debug)]
pub struct ClassRates {
    line: BitRate,
    /// Rates in b/s, never zero.
    rates: [AtomicU64; CLASSES],
    /// Expiry of each rate, in picoseconds. The line rate never expires.
    until: [AtomicU64; CLASSES],
    version: AtomicU32,
}

/// Rate advertised by a peer, with its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedRate {
    /// Rate, at least [`RATE_MIN`].
    pub rate: BitRate,
    /// Expiry; [`Time::NEVER`] for the line rate.
    pub until: Time,
}

impl ClassRates {
    /// Creates rates with all classes at the line rate.
    pub fn new(line: BitRate) -> ClassRates {
        ClassRates {
            line,
            rates: std::array::from_fn(|_| AtomicU64::new(line.as_bps())),
            until: std::array::from_fn(|_| AtomicU64::new(Time::NEVER.as_picos())),
            version: AtomicU32::new(0),
        }
    }

    /// Returns a class's rate at `now`, at least [`RATE_MIN`]; the line rate after expiry.
    pub fn rate(&self, now: Time, class: Class) -> BitRate {
        let advertised = self.advertised(class);
        if advertised.until <= now { self.line } else { advertised.rate }
    }

    /// Returns the rate last advertised for a class.
    #[inline]
    pub fn advertised(&self, class: Class) -> AdvertisedRate {
        // Relaxed: a rate seen with another one's expiry changes `version` afterwards, and is read again.
        AdvertisedRate {
            until: Time::from_picos(self.until[class.index()].load(Ordering::Relaxed)),
            rate: BitRate::bps(self.rates[class.index()].load(Ordering::Relaxed)),
        }
    }

    /// Returns the version, which changes with each rate. Read it before the rates: a missed change increments it again.
    #[inline]
    pub fn version(&self) -> u32 {
        // Acquire; pairs with Release in `set`: who sees the version sees the rate that it stands for.
        self.version.load(Ordering::Acquire)
    }

    /// Sets a class's rate until its expiry, raised to [`RATE_MIN`]. Called by the lcore that receives the peer's messages.
    pub fn set(&self, class: Class, rate: BitRate, until: Time) {
        let rate = rate.max(RATE_MIN);
        let until = if rate >= self.line { Time::NEVER } else { until };
        self.until[class.index()].store(until.as_picos(), Ordering::Relaxed);
        // One writer, so load and store need not be one operation.
        if self.rates[class.index()].load(Ordering::Relaxed) != rate.as_bps() {
            self.rates[class.index()].store(rate.as_bps(), Ordering::Relaxed);
            self.move_version();
        }
    }

    /// Ends all advertised rates at `now`, as if expired: all classes have the line rate. Called by the transmitter; a rate set
    /// concurrently holds or ends, and always has an expiry.
    pub fn expire_all(&self, now: Time) {
        for until in &self.until {
            if until.load(Ordering::Relaxed) != Time::NEVER.as_picos() {
                until.fetch_min(now.as_picos(), Ordering::Relaxed);
            }
        }
        self.move_version();
    }

    fn move_version(&self) {
        // One operation, as the transmitter does it too. Release; pairs with Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class::new(3);
    const LINE: BitRate = BitRate::gbps(10);

    #[test]
    fn the_version_moves_with_the_rates_and_only_then() {
        let (rates, until) = (ClassRates::new(LINE), Time::from_nanos(500));
        assert_eq!((rates.version(), rates.rate(Time::ZERO, Class::new(7))), (0, LINE));
        rates.set(CLASS, BitRate::gbps(5), until);
        rates.set(CLASS, BitRate::gbps(5), until);
        assert_eq!((rates.version(), rates.rate(Time::ZERO, CLASS)), (1, BitRate::gbps(5)));
        rates.set(CLASS, BitRate::bps(1), until);
        assert_eq!(rates.advertised(CLASS), AdvertisedRate { rate: RATE_MIN, until });
    }

    #[test]
    fn rates_that_are_forgotten_are_the_lines_and_move_the_version() {
        let rates = ClassRates::new(LINE);
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(500));
        rates.expire_all(Time::from_nanos(300));
        let at = |ns| rates.rate(Time::from_nanos(ns), CLASS);
        assert_eq!((rates.version(), at(300), rates.rate(Time::ZERO, Class::new(0))), (2, LINE, LINE));
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(900));
        assert_eq!(at(300), BitRate::gbps(5), "advertised again");
    }

    #[test]
    fn a_rate_ends_at_its_time_and_the_line_rate_never() {
        let rates = ClassRates::new(LINE);
        let at = |ns| rates.rate(Time::from_nanos(ns), CLASS);
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(500));
        assert_eq!((at(499), at(500)), (BitRate::gbps(5), LINE));
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(900));
        assert_eq!((at(500), rates.version()), (BitRate::gbps(5), 1));
        rates.set(CLASS, LINE, Time::from_nanos(950));
        assert_eq!(rates.advertised(CLASS), AdvertisedRate { rate: LINE, until: Time::NEVER });
    }
}
