//! Back-off of a control thread that waits for an lcore.

use std::thread;
use std::time::Duration;

/// Shortest and longest sleep. An lcore that has its CPU answers within microseconds.
const SLEEP_RANGE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];
/// Divisor of the time slept so far that gives the next sleep.
const SLEEP_DIVISOR: u32 = 8;

/// Back-off: sleeps between checks of an lcore's progress, each longer than the last.
///
/// Many short sleeps would keep an lcore from its CPU. A thread that woke thousands of times a second next to a busy thread of its process
/// made Linux 6.18's scheduler not account the process's CPU time. Nothing else on that CPU ran for up to 98 s.
#[derive(Debug, Default)]
pub struct Backoff {
    slept: Duration,
}

impl Backoff {
    /// Sleeps for a while, or until the thread is unparked.
    pub fn snooze(&mut self) {
        let sleep = self.next();
        thread::park_timeout(sleep);
        self.slept += sleep;
    }

    fn next(&self) -> Duration {
        (self.slept / SLEEP_DIVISOR).clamp(SLEEP_RANGE[0], SLEEP_RANGE[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_to_the_longest() {
        let after = |us| Backoff { slept: Duration::from_micros(us) }.next();
        assert_eq!([0, 400, 8_000, 1_000_000].map(after), [50, 50, 1_000, 5_000].map(Duration::from_micros));
        let mut backoff = Backoff::default();
        backoff.snooze();
        assert_eq!(backoff.slept, SLEEP_RANGE[0]);
    }
}
