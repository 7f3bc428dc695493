//! Departures in windows of fixed length: SPFC's rate counter with its state holder, and ABM's drain rate.

use weir_units::{Span, Time};

use crate::sync::{AtomicU64, Ordering};

/// Bytes departed in the current and in the last window, in one word that any lcore may add to.
///
/// Windows are aligned to the clock's zero, so no lcore has to end a window. A reader or writer compares window numbers and sees whether
/// the counts belong to this window, the last one, or an older one, and then count as zero. The number is kept modulo 2^16: after a silence
/// of just that many windows, old counts can pass for current ones for a few windows.
#[derive(Debug, Default)]
pub struct Departures(AtomicU64);

/// Division of time into windows.
#[derive(Clone, Copy, Debug)]
pub struct WindowClock {
    length_picos: u64,
}

/// Unpacked [`Departures`]; counts saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WindowCounts {
    window: u16,
    last: u32,
    current: u32,
}

/// Length of a queue at the end of the last complete window, in one word that any lcore may change.
///
/// No lcore reads the queue when a window ends: the first event in the next window finds the length after the last event before it.
#[derive(Debug, Default)]
pub(crate) struct WindowEndLength(AtomicU64);

impl WindowEndLength {
    const LENGTH_MAX: u64 = (1 << 24) - 1;

    /// Records the queue's length after an event. Relaxed: the length orders no other memory.
    #[inline]
    pub(crate) fn note(&self, windows: WindowClock, now: Time, length: u64) {
        let number = windows.number(now);
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let counts = WindowCounts::unpack(word);
            let last = if counts.window == number { counts.last } else { counts.current };
            let next = WindowCounts { window: number, last, current: length.min(Self::LENGTH_MAX) as u32 }.pack();
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Length at the end of the last complete window, capped at 16 MiB.
    #[inline]
    pub(crate) fn at_last_window_end(&self, windows: WindowClock, now: Time) -> u64 {
        let counts = WindowCounts::unpack(self.0.load(Ordering::Relaxed));
        u64::from(if counts.window == windows.number(now) { counts.last } else { counts.current })
    }
}

impl WindowClock {
    /// Creates windows of this length.
    ///
    /// # Panics
    /// If the length is zero.
    pub fn new(length: Span) -> WindowClock {
        assert!(length > Span::ZERO, "a window has a length");
        WindowClock { length_picos: length.as_picos() }
    }

    /// Maximum bytes counted in a window: counts saturate here.
    pub const BYTES_MAX: u64 = WindowCounts::MAX as u64;

    #[inline]
    fn number(self, now: Time) -> u16 {
        (now.as_picos() / self.length_picos) as u16
    }
}

impl Departures {
    /// Adds bytes that depart now. Relaxed: the count orders no other memory.
    #[inline]
    pub fn add(&self, windows: WindowClock, now: Time, bytes: u64) {
        let window = windows.number(now);
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let counts = WindowCounts::unpack(word).advance_to(window);
            let current = (u64::from(counts.current) + bytes).min(u64::from(WindowCounts::MAX)) as u32;
            let next = WindowCounts { current, ..counts }.pack();
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Bytes that departed in the last complete window.
    #[inline]
    pub(crate) fn in_last_window(&self, windows: WindowClock, now: Time) -> u64 {
        u64::from(WindowCounts::unpack(self.0.load(Ordering::Relaxed)).advance_to(windows.number(now)).last)
    }

    /// Maximum of the bytes that departed in the last complete window and so far in the current one.
    #[inline]
    pub(crate) fn in_last_window_or_this(&self, windows: WindowClock, now: Time) -> u64 {
        let counts = WindowCounts::unpack(self.0.load(Ordering::Relaxed)).advance_to(windows.number(now));
        u64::from(counts.last.max(counts.current))
    }
}

impl WindowCounts {
    const BITS: u32 = 24;
    const MAX: u32 = (1 << Self::BITS) - 1;

    /// Advances the counts to a window. An lcore with a slightly older clock reading gets the newer window.
    #[inline]
    fn advance_to(self, window: u16) -> WindowCounts {
        const BEHIND_MAX: u16 = 8;
        match window.wrapping_sub(self.window) {
            0 => self,
            1 => WindowCounts { window, last: self.current, current: 0 },
            ahead if ahead.wrapping_neg() <= BEHIND_MAX && (self.last, self.current) != (0, 0) => self,
            _ => WindowCounts { window, last: 0, current: 0 },
        }
    }

    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.window) << (2 * Self::BITS) | u64::from(self.last) << Self::BITS | u64::from(self.current)
    }

    #[inline]
    fn unpack(word: u64) -> WindowCounts {
        WindowCounts {
            window: (word >> (2 * Self::BITS)) as u16,
            last: (word >> Self::BITS) as u32 & Self::MAX,
            current: word as u32 & Self::MAX,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    #[test]
    fn a_window_is_read_when_it_has_ended() {
        let (windows, departures) = (WindowClock::new(Span::from_micros(80)), Departures::default());
        departures.add(windows, at(10), 1_000);
        departures.add(windows, at(79), 500);
        assert_eq!(departures.in_last_window(windows, at(79)), 0);
        assert_eq!(departures.in_last_window(windows, at(80)), 1_500);
        departures.add(windows, at(90), 7);
        assert_eq!(departures.in_last_window(windows, at(159)), 1_500);
        assert_eq!(departures.in_last_window(windows, at(160)), 7);
        // A window in which nothing departed.
        assert_eq!(departures.in_last_window(windows, at(240)), 0);
    }

    #[test]
    fn counts_saturate_and_survive_a_wrap() {
        let (windows, departures) = (WindowClock::new(Span::from_micros(1)), Departures::default());
        departures.add(windows, at(65_535), u64::from(u32::MAX));
        departures.add(windows, at(65_535), 1);
        assert_eq!(departures.in_last_window(windows, at(65_536)), WindowClock::BYTES_MAX);
    }

    #[test]
    fn a_clock_slightly_behind_changes_nothing() {
        let (windows, departures) = (WindowClock::new(Span::from_micros(10)), Departures::default());
        departures.add(windows, at(20), 100);
        departures.add(windows, at(19), 50);
        assert_eq!(departures.in_last_window(windows, at(30)), 150);
    }
}
