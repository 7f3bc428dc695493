//! Choice of the number of threads by measurement.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Number of threads that run a scenario. Results are the same for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Upper limit; fewer threads run if that is faster.
    UpTo(NonZeroUsize),
    /// Exact number, limited only by the fabric's switches.
    Exactly(NonZeroUsize),
}

/// Controller of the number of threads, by the duration of windows.
///
/// The run starts on one thread, which is measured. Windows long enough to be shared are then run by several threads.
/// If that is not faster, the run returns to one thread and tries several again later, as the load varies.
#[derive(Debug)]
pub(super) struct ThreadTuner {
    threads: Threads,
    /// Largest number of threads useful for the fabric.
    threads_max: usize,
    /// Start of the time not yet counted; `None` outside of windows.
    since: Option<Instant>,
    /// Wall time and windows since the last review, and wake-ups up to then.
    wall: Duration,
    windows: u64,
    woken: u64,
    /// Time of the longest thread and of all threads together, over windows since the last review.
    longest: Duration,
    all: Duration,
    /// Total wall time.
    now: Duration,
    /// Time per wake-up on one thread, in ns.
    single_thread_cost: Option<f64>,
    trial: Option<TuningTrial>,
    /// End of the current single-threaded period, and length of the next one.
    single_thread_until: Duration,
    single_thread_period: Duration,
    /// Earliest next repartition, and the interval after it.
    repartition_after: Duration,
    repartition_every: Duration,
}

/// Measurement of several threads since they started.
#[derive(Clone, Copy, Debug, Default)]
struct TuningTrial {
    /// Number of reviews; the first `WARM_UP` don't count because caches are cold.
    reviews: u32,
    wall: Duration,
    woken: u64,
}

/// Wake-ups per review: a few milliseconds of work.
const WAKEUPS_PER_REVIEW: u64 = 20_000;
/// Windows between two checks of the number of wake-ups.
const CHECK_EVERY: u64 = 16;
/// Smallest share of a window per thread. Handing it over and waiting for the last thread take a few microseconds.
const SHARE_MIN: Duration = Duration::from_micros(12);
/// Reviews that don't count, and reviews that do, per measurement of several threads.
const WARM_UP: u32 = 1;
const COUNTED: u32 = 4;
/// Smallest speed-up for which several threads are kept.
const GAIN_MIN: f64 = 1.08;
/// Shortest and longest single-threaded period after a futile trial; it doubles each time.
const SINGLE_THREAD_PERIOD: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(4)];
/// Largest tolerated share of time spent waiting for the longest thread; beyond it nodes are repartitioned.
const WAITING_MAX: f64 = 0.04;
/// Shortest and longest interval between repartitions; it doubles each time.
const REPARTITION_EVERY: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(640)];
/// Smallest time between two repartitions, in durations of the first one: seconds for a fabric of 65,536 hosts.
const REPARTITION_SHARE: u32 = 20;

impl Default for ThreadTuner {
    fn default() -> ThreadTuner {
        ThreadTuner {
            threads: Threads::ONE,
            threads_max: 1,
            since: None,
            wall: Duration::ZERO,
            windows: 0,
            woken: 0,
            longest: Duration::ZERO,
            all: Duration::ZERO,
            now: Duration::ZERO,
            single_thread_cost: None,
            trial: None,
            single_thread_until: Duration::ZERO,
            single_thread_period: SINGLE_THREAD_PERIOD[0],
            repartition_after: Duration::ZERO,
            repartition_every: REPARTITION_EVERY[0],
        }
    }
}

impl Threads {
    /// One thread.
    pub const ONE: Threads = Threads::UpTo(NonZeroUsize::MIN);

    /// Creates [`Threads::UpTo`]; 0 counts as 1.
    pub fn up_to(most: usize) -> Threads {
        Threads::UpTo(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
    }

    /// Creates [`Threads::UpTo`] the number of CPUs available to this process.
    pub fn all() -> Threads {
        Threads::UpTo(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// Creates [`Threads::Exactly`]; 0 counts as 1.
    pub fn exactly(count: usize) -> Threads {
        Threads::Exactly(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
    }

    fn max(self) -> usize {
        let (Threads::UpTo(most) | Threads::Exactly(most)) = self;
        most.get()
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::ONE
    }
}

impl ThreadTuner {
    /// Sets the requested threads, and the largest number useful for the fabric.
    pub(super) fn set_threads(&mut self, threads: Threads, most: usize) {
        (self.threads, self.threads_max, self.trial) = (threads, most.max(1), None);
    }

    /// Returns the number of threads to switch to at once, if the current number is not allowed.
    pub(super) fn required_threads(&self, threads: usize) -> Option<usize> {
        let count = self.threads.max().min(self.threads_max);
        let is_due = match self.threads {
            Threads::Exactly(_) => threads != count,
            Threads::UpTo(_) => threads > count,
        };
        is_due.then_some(count)
    }

    /// Starts counting time.
    pub(super) fn begin(&mut self) {
        if self.is_tuning() {
            self.since = Some(Instant::now());
        }
    }

    /// Stops counting time.
    pub(super) fn end(&mut self) {
        self.wall += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn is_tuning(&self) -> bool {
        self.threads.max().min(self.threads_max) > 1
    }

    /// Records a window of several threads: the time of the longest thread, and of all together.
    #[inline]
    pub(super) fn record_window(&mut self, [longest, all]: [Duration; 2]) {
        self.longest += longest;
        self.all += all;
    }

    /// Counts a window; returns whether a review may be due.
    #[inline]
    pub(super) fn is_review_due(&mut self) -> bool {
        self.windows += 1;
        self.windows.is_multiple_of(CHECK_EVERY) && self.is_tuning()
    }

    /// Reviews the time since the last review, given the current number of threads and the wake-ups since the start.
    /// Returns the number of threads to repartition for, if necessary.
    pub(super) fn review(&mut self, threads: usize, woken: u64) -> Option<usize> {
        let done = woken - self.woken;
        if done < WAKEUPS_PER_REVIEW {
            return None;
        }
        if let Some(since) = &mut self.since {
            let now = Instant::now();
            self.wall += now - std::mem::replace(since, now);
        }
        let (wall, windows) = (std::mem::take(&mut self.wall), std::mem::take(&mut self.windows));
        let [longest, all] = [&mut self.longest, &mut self.all].map(std::mem::take);
        self.woken = woken;
        self.now += wall;
        let window = wall.div_f64(windows as f64);
        let wanted = match (self.threads, threads) {
            (Threads::UpTo(_), 1) => self.more_threads(window, wall.as_nanos() as f64 / done as f64),
            (Threads::UpTo(_), _) => self.fewer_threads(window * threads as u32, wall, done),
            (Threads::Exactly(_), _) => None,
        };
        wanted.or_else(|| self.is_unbalanced(threads, longest, all).then_some(threads))
    }

    /// Returns the number of threads to try while a single thread runs.
    fn more_threads(&mut self, window: Duration, cost: f64) -> Option<usize> {
        // Exponential average, since the first windows are slow; the last ones are the reference.
        self.single_thread_cost = Some(self.single_thread_cost.map_or(cost, |alone| (alone + cost) / 2.0));
        let count = (window.as_nanos() / SHARE_MIN.as_nanos()) as usize;
        let count = count.min(self.threads.max()).min(self.threads_max);
        if count < 2 || self.now < self.single_thread_until {
            return None;
        }
        self.trial = Some(TuningTrial::default());
        (self.repartition_every, self.repartition_after) = (REPARTITION_EVERY[0], self.now + REPARTITION_EVERY[0]);
        Some(count)
    }

    /// Returns 1 if one thread would be faster than the several that run. `window` is the approximate work in a window.
    fn fewer_threads(&mut self, window: Duration, wall: Duration, done: u64) -> Option<usize> {
        let trial = self.trial.get_or_insert_default();
        trial.reviews += 1;
        if trial.reviews > WARM_UP {
            trial.wall += wall;
            trial.woken += done;
        }
        let is_short = window < SHARE_MIN;
        if !is_short && trial.reviews < WARM_UP + COUNTED {
            return None;
        }
        let cost = trial.wall.as_nanos() as f64 / trial.woken.max(1) as f64;
        let is_futile = self.single_thread_cost.is_some_and(|alone| cost * GAIN_MIN > alone);
        if !is_short && !is_futile {
            // Starts a new measurement: the load changes, and so do other processes on the machine.
            *trial = TuningTrial { reviews: WARM_UP, ..TuningTrial::default() };
            self.single_thread_period = SINGLE_THREAD_PERIOD[0];
            return None;
        }
        (self.trial, self.single_thread_cost) = (None, None);
        self.single_thread_until = self.now + self.single_thread_period;
        self.single_thread_period = (self.single_thread_period * 2).min(SINGLE_THREAD_PERIOD[1]);
        Some(1)
    }

    /// Records the duration of a repartition, which delays the next one.
    pub(super) fn record_repartition(&mut self, duration: Duration) {
        let earliest = self.now + duration * REPARTITION_SHARE;
        self.repartition_after = self.repartition_after.max(earliest);
        self.single_thread_until = self.single_thread_until.max(earliest);
    }

    /// Whether threads wait too long for the longest.
    fn is_unbalanced(&mut self, threads: usize, longest: Duration, all: Duration) -> bool {
        let mean = all.as_secs_f64() / threads as f64;
        let is_due =
            threads > 1 && self.now >= self.repartition_after && longest.as_secs_f64() > mean * (1.0 + WAITING_MAX);
        if is_due {
            self.repartition_every = (self.repartition_every * 2).min(REPARTITION_EVERY[1]);
            self.repartition_after = self.now + self.repartition_every;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Each review covers 1,000 windows with 40 wake-ups each.
    struct Run {
        pace: ThreadTuner,
        threads: usize,
        woken: u64,
    }

    impl Run {
        fn new(threads: Threads) -> Run {
            let mut pace = ThreadTuner::default();
            pace.set_threads(threads, 16);
            Run { pace, threads: 1, woken: 0 }
        }

        /// Reviews windows of this duration, of which the longest thread takes `uneven` times the mean.
        fn review(&mut self, turn: impl Fn(usize) -> Duration, uneven: f64) -> usize {
            let turn = turn(self.threads);
            self.woken += 40_000;
            (self.pace.wall, self.pace.windows) = (turn * 1_000, 1_000);
            (self.pace.longest, self.pace.all) = (turn * 1_000, (turn * 1_000 * self.threads as u32).div_f64(uneven));
            if let Some(threads) = self.pace.review(self.threads, self.woken) {
                self.threads = threads;
            }
            self.threads
        }
    }

    #[test]
    fn threads_that_gain_stay() {
        let mut run = Run::new(Threads::up_to(4));
        let turn = |threads: usize| 200 * US / threads as u32;
        let threads: Vec<usize> = (0..20).map(|_| run.review(turn, 1.0)).collect();
        assert_eq!(threads, [4; 20]);
    }

    #[test]
    fn short_turns_are_not_shared_out() {
        let mut run = Run::new(Threads::up_to(4));
        assert!((0..100).all(|_| run.review(|_| 20 * US, 1.0) == 1));
        assert_eq!(run.review(|_| 40 * US, 1.0), 3, "each has 12 us");
    }

    #[test]
    fn threads_that_gain_nothing_are_given_up_and_tried_again_ever_more_rarely() {
        let mut run = Run::new(Threads::up_to(2));
        let tried: Vec<bool> = (0..2_000).map(|_| run.review(|_| 200 * US, 1.0) == 2).collect();
        let trials = tried.windows(2).filter(|pair| !pair[0] && pair[1]).count() + usize::from(tried[0]);
        let reviews = tried.iter().filter(|has| **has).count();
        assert!((70..=95).contains(&trials), "{trials} in 400 s: every 5 s in the end");
        assert_eq!(reviews, trials * (WARM_UP + COUNTED) as usize);
    }

    #[test]
    fn uneven_threads_are_repartitioned_now_and_then() {
        let mut run = Run::new(Threads::exactly(2));
        run.threads = 2;
        let mut repartitions = 0;
        for _ in 0..100 {
            run.woken += 40_000;
            (run.pace.wall, run.pace.windows) = (10_000 * US, 100);
            (run.pace.longest, run.pace.all) = (10_000 * US, 18_000 * US);
            repartitions += u32::from(run.pace.review(2, run.woken) == Some(2));
        }
        assert!((3..=8).contains(&repartitions), "{repartitions} times in a second");
        assert_eq!(run.review(|_| 100 * US, 1.0), 2);
    }

    #[test]
    fn a_long_repartition_delays_the_next_one() {
        let mut run = Run::new(Threads::up_to(4));
        assert_eq!(run.review(|_| 200 * US, 1.0), 4);
        run.pace.record_repartition(Duration::from_millis(500));
        let due = run.pace.repartition_after;
        // 50 ms each, with one thread twice as long as the mean.
        (0..18).for_each(|_| assert_eq!(run.review(|_| 50 * US, 2.0), 4));
        assert_eq!(run.pace.repartition_after, due, "ten seconds later");
    }

    #[test]
    fn one_thread_is_not_watched() {
        assert!(!Run::new(Threads::ONE).pace.is_tuning());
        assert_eq!(Run::new(Threads::exactly(3)).pace.required_threads(1), Some(3));
        assert_eq!(Run::new(Threads::up_to(3)).pace.required_threads(5), Some(3));
        assert_eq!(Run::new(Threads::up_to(3)).pace.required_threads(1), None);
    }
}
