//! Back-off of a control thread that waits for an lcore.

use std::thread;
use std::time::Duration;

/// The shortest nap, and the longest. An answer comes within microseconds from an lcore that has its CPU.
const NAP: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];
/// Divisor of the time slept so far that gives the next nap.
const PARTS: u32 = 8;

/// Back-off: naps between checks of an lcore's progress, each longer than the last.
///
/// Many short naps would keep an lcore from its CPU. A thread that woke thousands of times a second next to a busy thread of its process
/// made Linux 6.18's scheduler not account the process's CPU time. Nothing else on that CPU ran for up to 98 s.
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
