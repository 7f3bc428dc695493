//! How a control thread waits for an lcore.

use std::thread;
use std::time::Duration;

/// The shortest nap, and the longest. An answer comes within microseconds from an lcore that has its CPU.
const NAP: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];
/// A nap takes one of so many parts of the time that was slept before.
const PARTS: u32 = 8;

/// Naps between looks at what an lcore does, longer and longer.
///
/// While an lcore waits for its CPU, many short naps keep it waiting: a thread that wakes thousands of times a second beside a busy one of
/// its process had Linux 6.18's scheduler take no account of what the process used, and nothing else on that CPU ran for up to 98 s.
#[derive(Debug, Default)]
pub struct Naps {
    slept: Duration,
}

impl Naps {
    /// Sleeps for a while, or until the thread is unparked.
    pub fn nap(&mut self) {
        let nap = self.next();
        thread::park_timeout(nap);
        self.slept += nap;
    }

    fn next(&self) -> Duration {
        (self.slept / PARTS).clamp(NAP[0], NAP[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_to_the_longest() {
        let after = |us| Naps { slept: Duration::from_micros(us) }.next();
        assert_eq!([0, 400, 8_000, 1_000_000].map(after), [50, 50, 1_000, 5_000].map(Duration::from_micros));
        let mut naps = Naps::default();
        naps.nap();
        assert_eq!(naps.slept, NAP[0]);
    }
}
