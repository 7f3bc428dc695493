//! The rates that a port's peer allows its classes.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use weir_units::{BitRate, CLASSES, Class};

use crate::RATE_MIN;

/// The rate of each class's limiter, handed from the lcore that receives a port's messages to the one that transmits.
///
/// One writer. The transmitter asks [`Rates::version`] at each poll, one load, and only when it has moved sets its limiters
/// from [`Rates::rate`]. It may see a rate a poll late, as it may see a message a poll late.
#[derive(Debug)]
pub struct Rates {
    /// In b/s, never zero.
    rates: [AtomicU64; CLASSES],
    version: AtomicU32,
}

impl Rates {
    /// All classes at the line rate.
    pub fn new(line: BitRate) -> Rates {
        Rates { rates: std::array::from_fn(|_| AtomicU64::new(line.as_bps())), version: AtomicU32::new(0) }
    }

    /// The rate of a class; never below [`RATE_MIN`].
    #[inline]
    pub fn rate(&self, class: Class) -> BitRate {
        // Relaxed: each rate stands alone; `version` orders them for those who want them all.
        BitRate::bps(self.rates[class.index()].load(Ordering::Relaxed))
    }

    /// Moves whenever a rate does. Read before the rates: what is then missed moves it again.
    #[inline]
    pub fn version(&self) -> u32 {
        // Acquire; pairs with Release in `set`: who sees the version sees the rate that it stands for.
        self.version.load(Ordering::Acquire)
    }

    /// Sets the rate of a class.
    pub(super) fn set(&self, class: Class, rate: BitRate) {
        let rate = rate.max(RATE_MIN).as_bps();
        // One writer, so load and store need not be one operation.
        if self.rates[class.index()].load(Ordering::Relaxed) != rate {
            self.rates[class.index()].store(rate, Ordering::Relaxed);
            let next = self.version.load(Ordering::Relaxed).wrapping_add(1);
            // Release; pairs with Acquire in `version`.
            self.version.store(next, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_moves_with_the_rates_and_only_then() {
        let rates = Rates::new(BitRate::gbps(10));
        assert_eq!((rates.version(), rates.rate(Class::new(7))), (0, BitRate::gbps(10)));
        rates.set(Class::new(3), BitRate::gbps(5));
        rates.set(Class::new(3), BitRate::gbps(5));
        assert_eq!((rates.version(), rates.rate(Class::new(3))), (1, BitRate::gbps(5)));
        rates.set(Class::new(3), BitRate::bps(1));
        assert_eq!(rates.rate(Class::new(3)), RATE_MIN);
    }
}
