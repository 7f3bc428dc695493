//! The rates that a port's peer allows its classes.

use weir_units::archive::SharedState;
use weir_units::{BitRate, CLASSES, Class, Time};

use crate::RATE_MIN;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The rate of each class's limiter, handed from the lcore that receives a port's messages to the one that transmits.
///
/// A rate below the line's holds until a time, which each message of the peer puts off: [`Rates::at`]. So a class is never held
/// down by a peer that has gone, or never spoke GFC.
///
/// One writer; the transmitter only ends rates, where a link goes. It asks [`Rates::version`] at each poll, one load, and only when
/// that has moved, or a rate's time has come, sets its limiters. It may see a rate a poll late, as it may see a message a poll late.
#[derive(Debug, SharedState)]
pub struct Rates {
    #[state(same)]
    line: BitRate,
    /// In b/s, never zero.
    rates: [AtomicU64; CLASSES],
    /// Until when each holds, in picoseconds. The line rate holds for ever.
    until: [AtomicU64; CLASSES],
    version: AtomicU32,
}

/// A rate that a peer told, and until when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Never below [`RATE_MIN`].
    pub rate: BitRate,
    /// [`Time::NEVER`] for the line rate.
    pub until: Time,
}

impl Rates {
    /// All classes at the line rate.
    pub fn new(line: BitRate) -> Rates {
        Rates {
            line,
            rates: std::array::from_fn(|_| AtomicU64::new(line.as_bps())),
            until: std::array::from_fn(|_| AtomicU64::new(Time::NEVER.as_picos())),
            version: AtomicU32::new(0),
        }
    }

    /// The rate of a class at `now`, never below [`RATE_MIN`]: the line rate once the time of what was told is over.
    pub fn at(&self, now: Time, class: Class) -> BitRate {
        let told = self.told(class);
        if told.until <= now { self.line } else { told.rate }
    }

    /// What the peer told last for a class.
    #[inline]
    pub fn told(&self, class: Class) -> Told {
        // Relaxed: a rate that is seen with another one's time moves `version` after it, and is looked at again.
        Told {
            until: Time::from_picos(self.until[class.index()].load(Ordering::Relaxed)),
            rate: BitRate::bps(self.rates[class.index()].load(Ordering::Relaxed)),
        }
    }

    /// Moves whenever a rate does. Read before the rates: what is then missed moves it again.
    #[inline]
    pub fn version(&self) -> u32 {
        // Acquire; pairs with Release in `set`: who sees the version sees the rate that it stands for.
        self.version.load(Ordering::Acquire)
    }

    /// Sets the rate of a class until then; one below [`RATE_MIN`] is that. Called by the lcore that receives the peer's messages.
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

    /// What was told ends at `now`, as if it had aged: all classes have the line rate. Called by the transmitter; a rate that is
    /// being set meanwhile holds or ends, and is never without an end.
    pub fn forget(&self, now: Time) {
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
        let (rates, until) = (Rates::new(LINE), Time::from_nanos(500));
        assert_eq!((rates.version(), rates.at(Time::ZERO, Class::new(7))), (0, LINE));
        rates.set(CLASS, BitRate::gbps(5), until);
        rates.set(CLASS, BitRate::gbps(5), until);
        assert_eq!((rates.version(), rates.at(Time::ZERO, CLASS)), (1, BitRate::gbps(5)));
        rates.set(CLASS, BitRate::bps(1), until);
        assert_eq!(rates.told(CLASS), Told { rate: RATE_MIN, until });
    }

    #[test]
    fn rates_that_are_forgotten_are_the_lines_and_move_the_version() {
        let rates = Rates::new(LINE);
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(500));
        rates.forget(Time::from_nanos(300));
        let at = |ns| rates.at(Time::from_nanos(ns), CLASS);
        assert_eq!((rates.version(), at(300), rates.at(Time::ZERO, Class::new(0))), (2, LINE, LINE));
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(900));
        assert_eq!(at(300), BitRate::gbps(5), "told anew");
    }

    #[test]
    fn a_rate_ends_at_its_time_and_the_line_rate_never() {
        let rates = Rates::new(LINE);
        let at = |ns| rates.at(Time::from_nanos(ns), CLASS);
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(500));
        assert_eq!((at(499), at(500)), (BitRate::gbps(5), LINE));
        rates.set(CLASS, BitRate::gbps(5), Time::from_nanos(900));
        assert_eq!((at(500), rates.version()), (BitRate::gbps(5), 1));
        rates.set(CLASS, LINE, Time::from_nanos(950));
        assert_eq!(rates.told(CLASS), Told { rate: LINE, until: Time::NEVER });
    }
}
