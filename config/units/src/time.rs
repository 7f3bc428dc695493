//! Instants and spans, in picoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Instant, in picoseconds since the start of its clock.
///
/// The switch never reads a clock: a driver passes `now`. All instants of one switch come from one clock, which a driver may run slower
/// than real time (time dilation).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// Length of time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// Start of the clock.
    pub const ZERO: Time = Time(0);
    /// Instant later than any in a run; used as "no deadline".
    pub const NEVER: Time = Time(u64::MAX);

    /// Creates the instant `ps` picoseconds after the clock's start.
    pub const fn from_picos(ps: u64) -> Time {
        Time(ps)
    }

    /// Creates the instant `ns` nanoseconds after the clock's start.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns * 1_000)
    }

    /// Picoseconds since the clock's start.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds since the clock's start, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Span from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Computes `self + span`, at most [`Time::NEVER`].
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// Computes `self - span`, at least [`Time::ZERO`].
    pub const fn saturating_sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// Zero span.
    pub const ZERO: Span = Span(0);

    /// Creates a span of `ps` picoseconds.
    pub const fn from_picos(ps: u64) -> Span {
        Span(ps)
    }

    /// Creates a span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns * 1_000)
    }

    /// Creates a span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us * 1_000_000)
    }

    /// Creates a span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000_000)
    }

    /// Creates a span of `s` seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000_000_000_000)
    }

    /// Picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds as a float, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// Computes `self - other`, or zero if negative.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Divides the span, rounded down.
    pub const fn divided_by(self, divisor: u64) -> Span {
        Span(self.0 / divisor)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        self.0 += other.0;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0 - other.0)
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        Span(self.0 * factor)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Span::add)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Span(self.0))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Span {
    /// Formats in the largest unit in which the span is at least 1, with up to three decimals: `1.5us`, `90us`, `2s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.pad("0s"),
            ps if ps >= 1_000_000_000_000 => (1_000_000_000_000, "s"),
            ps if ps >= 1_000_000_000 => (1_000_000_000, "ms"),
            ps if ps >= 1_000_000 => (1_000_000, "us"),
            ps if ps >= 1_000 => (1_000, "ns"),
            _ => (1, "ps"),
        };
        f.pad(&format!("{}{name}", crate::decimal::decimal(self.0, unit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_the_unit_that_fits() {
        assert_eq!(Span::from_nanos(1_500).to_string(), "1.5us");
        assert_eq!(Span::from_micros(90).to_string(), "90us");
        assert_eq!(Span::from_secs(2).to_string(), "2s");
        assert_eq!(Span::from_picos(80).to_string(), "80ps");
        assert_eq!(Span::ZERO.to_string(), "0s");
    }

    #[test]
    fn since_stops_at_zero() {
        assert_eq!(Time::ZERO.since(Time::from_nanos(3)), Span::ZERO);
        assert_eq!(Time::NEVER.saturating_add(Span::from_secs(1)), Time::NEVER);
    }
}
