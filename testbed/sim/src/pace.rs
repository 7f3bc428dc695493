//! How many threads run a fabric, by what is measured.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How many threads run a scenario. Its results are the same for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// As many as make it faster, and so many at most.
    UpTo(NonZeroUsize),
    /// So many, whether that is faster or not, as far as there are switches for them.
    Exactly(NonZeroUsize),
}

/// Watches how long turns take, and says how many threads there should be.
///
/// One thread begins, and is measured. If its turns are long enough to be shared out, they are; and if that is not faster, one
/// thread goes on, and others are tried again later, as load comes and goes.
#[derive(Debug)]
pub(super) struct Pace {
    threads: Threads,
    /// The most threads that the fabric has work for.
    most: usize,
    /// When time began that counts; `None` outside of turns.
    since: Option<Instant>,
    /// Since the last review: time, turns, and how many nodes had been woken then.
    wall: Duration,
    turns: u64,
    woken: u64,
    /// For turns of several threads: the longest one's time, and all together.
    longest: Duration,
    all: Duration,
    /// Time in all.
    now: Duration,
    /// Nanoseconds for each node that was woken, on one thread.
    alone: Option<f64>,
    trial: Option<Trial>,
    /// Until then one thread goes on; and for how long the next time.
    alone_until: Duration,
    alone_for: Duration,
    /// When the nodes may be dealt out anew.
    deal_after: Duration,
    deal_every: Duration,
}

/// What several threads have done since they began.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// The first reviews, in which caches are cold, do not count.
    reviews: u32,
    wall: Duration,
    woken: u64,
}

/// A review is due when nodes have been woken so many times: that takes milliseconds.
const WOKEN: u64 = 20_000;
/// So often it is looked whether they have.
const LOOK_EVERY: u64 = 16;
/// A thread's share of a turn takes so long at least: handing it over, and waiting for the last, takes a few microseconds.
const SHARE_MIN: Duration = Duration::from_micros(12);
/// Reviews that do not count, and those that do.
const WARM_UP: u32 = 1;
const COUNTED: u32 = 4;
/// Several threads have to be faster than one by so much.
const GAIN_MIN: f64 = 1.08;
/// After a vain trial one thread goes on for so long, twice as long each time up to this.
const ALONE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(4)];
/// Threads that wait for the longest lose so much, and nodes are dealt out anew.
const WAITING_MAX: f64 = 0.04;
/// That is not done more often than this, and twice as seldom each time up to this.
const DEAL: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(640)];

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            threads: Threads::ONE,
            most: 1,
            since: None,
            wall: Duration::ZERO,
            turns: 0,
            woken: 0,
            longest: Duration::ZERO,
            all: Duration::ZERO,
            now: Duration::ZERO,
            alone: None,
            trial: None,
            alone_until: Duration::ZERO,
            alone_for: ALONE[0],
            deal_after: Duration::ZERO,
            deal_every: DEAL[0],
        }
    }
}

impl Threads {
    /// One thread.
    pub const ONE: Threads = Threads::UpTo(NonZeroUsize::MIN);

    /// As many as make it faster, and `most` at most; one, if that is 0.
    pub fn up_to(most: usize) -> Threads {
        Threads::UpTo(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
    }

    /// As many as make it faster, of those that the CPUs allow that this process may use.
    pub fn all() -> Threads {
        Threads::UpTo(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// `count`, whether that is faster or not; one, if that is 0.
    pub fn exactly(count: usize) -> Threads {
        Threads::Exactly(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
    }

    fn most(self) -> usize {
        let (Threads::UpTo(most) | Threads::Exactly(most)) = self;
        most.get()
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::ONE
    }
}

impl Pace {
    /// For a fabric that has work for so many at most.
    pub(super) fn set_threads(&mut self, threads: Threads, most: usize) {
        (self.threads, self.most, self.trial) = (threads, most.max(1), None);
    }

    /// How many threads there must be, if there are not.
    pub(super) fn at_once(&self, threads: usize) -> Option<usize> {
        let count = self.threads.most().min(self.most);
        let is_due = match self.threads {
            Threads::Exactly(_) => threads != count,
            Threads::UpTo(_) => threads > count,
        };
        is_due.then_some(count)
    }

    /// Turns begin.
    pub(super) fn begin(&mut self) {
        if self.is_watching() {
            self.since = Some(Instant::now());
        }
    }

    /// Turns end, for a while.
    pub(super) fn end(&mut self) {
        self.wall += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn is_watching(&self) -> bool {
        self.threads.most().min(self.most) > 1
    }

    /// How long a turn of several threads took: the longest, and all together.
    #[inline]
    pub(super) fn note_turn(&mut self, [longest, all]: [Duration; 2]) {
        self.longest += longest;
        self.all += all;
    }

    /// After each turn: whether it may be time for a review.
    #[inline]
    pub(super) fn is_review_due(&mut self) -> bool {
        self.turns += 1;
        self.turns.is_multiple_of(LOOK_EVERY) && self.is_watching()
    }

    /// Looks at what has been since the last time. There are so many threads, and so many nodes have been woken from the start.
    /// Returns how many threads there should be, if nodes are to be dealt out anew.
    pub(super) fn review(&mut self, threads: usize, woken: u64) -> Option<usize> {
        let done = woken - self.woken;
        if done < WOKEN {
            return None;
        }
        if let Some(since) = &mut self.since {
            let now = Instant::now();
            self.wall += now - std::mem::replace(since, now);
        }
        let (wall, turns) = (std::mem::take(&mut self.wall), std::mem::take(&mut self.turns));
        let [longest, all] = [&mut self.longest, &mut self.all].map(std::mem::take);
        self.woken = woken;
        self.now += wall;
        let turn = wall.div_f64(turns as f64);
        let wanted = match (self.threads, threads) {
            (Threads::UpTo(_), 1) => self.more(turn, wall.as_nanos() as f64 / done as f64),
            (Threads::UpTo(_), _) => self.fewer(turn * threads as u32, wall, done),
            (Threads::Exactly(_), _) => None,
        };
        wanted.or_else(|| self.uneven(threads, longest, all).then_some(threads))
    }

    /// One thread runs all: whether more may be faster, and how many.
    fn more(&mut self, turn: Duration, cost: f64) -> Option<usize> {
        // What comes first is slow, and what comes last is what is compared with.
        self.alone = Some(self.alone.map_or(cost, |alone| (alone + cost) / 2.0));
        let count = (turn.as_nanos() / SHARE_MIN.as_nanos()) as usize;
        let count = count.min(self.threads.most()).min(self.most);
        if count < 2 || self.now < self.alone_until {
            return None;
        }
        self.trial = Some(Trial::default());
        (self.deal_every, self.deal_after) = (DEAL[0], self.now + DEAL[0]);
        Some(count)
    }

    /// Several threads run it: whether one would be faster. A turn has so much work about.
    fn fewer(&mut self, turn: Duration, wall: Duration, done: u64) -> Option<usize> {
        let trial = self.trial.get_or_insert_default();
        trial.reviews += 1;
        if trial.reviews > WARM_UP {
            trial.wall += wall;
            trial.woken += done;
        }
        let is_short = turn < SHARE_MIN;
        if !is_short && trial.reviews < WARM_UP + COUNTED {
            return None;
        }
        let cost = trial.wall.as_nanos() as f64 / trial.woken.max(1) as f64;
        let is_vain = self.alone.is_some_and(|alone| cost * GAIN_MIN > alone);
        if !is_short && !is_vain {
            // Load changes, and what else the machine does.
            *trial = Trial { reviews: WARM_UP, ..Trial::default() };
            self.alone_for = ALONE[0];
            return None;
        }
        (self.trial, self.alone) = (None, None);
        self.alone_until = self.now + self.alone_for;
        self.alone_for = (self.alone_for * 2).min(ALONE[1]);
        Some(1)
    }

    /// Whether threads wait too long for the longest.
    fn uneven(&mut self, threads: usize, longest: Duration, all: Duration) -> bool {
        let mean = all.as_secs_f64() / threads as f64;
        let is_due = threads > 1 && self.now >= self.deal_after && longest.as_secs_f64() > mean * (1.0 + WAITING_MAX);
        if is_due {
            self.deal_every = (self.deal_every * 2).min(DEAL[1]);
            self.deal_after = self.now + self.deal_every;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Each review is of 1,000 turns, in which 40 nodes are woken.
    struct Run {
        pace: Pace,
        threads: usize,
        woken: u64,
    }

    impl Run {
        fn new(threads: Threads) -> Run {
            let mut pace = Pace::default();
            pace.set_threads(threads, 16);
            Run { pace, threads: 1, woken: 0 }
        }

        /// For turns that take so long by so many threads, of which one takes longer than the mean by this.
        fn review(&mut self, turn: impl Fn(usize) -> Duration, uneven: f64) -> usize {
            let turn = turn(self.threads);
            self.woken += 40_000;
            (self.pace.wall, self.pace.turns) = (turn * 1_000, 1_000);
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
    fn threads_that_gain_nothing_are_given_up_and_tried_again_ever_more_seldom() {
        let mut run = Run::new(Threads::up_to(2));
        let tried: Vec<bool> = (0..2_000).map(|_| run.review(|_| 200 * US, 1.0) == 2).collect();
        let trials = tried.windows(2).filter(|pair| !pair[0] && pair[1]).count() + usize::from(tried[0]);
        let reviews = tried.iter().filter(|has| **has).count();
        assert!((70..=95).contains(&trials), "{trials} in 400 s: every 5 s in the end");
        assert_eq!(reviews, trials * (WARM_UP + COUNTED) as usize);
    }

    #[test]
    fn uneven_threads_are_dealt_out_anew_now_and_then() {
        let mut run = Run::new(Threads::exactly(2));
        run.threads = 2;
        let mut dealt = 0;
        for _ in 0..100 {
            run.woken += 40_000;
            (run.pace.wall, run.pace.turns) = (10_000 * US, 100);
            (run.pace.longest, run.pace.all) = (10_000 * US, 18_000 * US);
            dealt += u32::from(run.pace.review(2, run.woken) == Some(2));
        }
        assert!((3..=8).contains(&dealt), "{dealt} times in a second");
        assert_eq!(run.review(|_| 100 * US, 1.0), 2);
    }

    #[test]
    fn one_thread_is_not_watched() {
        assert!(!Run::new(Threads::ONE).pace.is_watching());
        assert_eq!(Run::new(Threads::exactly(3)).pace.at_once(1), Some(3));
        assert_eq!(Run::new(Threads::up_to(3)).pace.at_once(5), Some(3));
        assert_eq!(Run::new(Threads::up_to(3)).pace.at_once(1), None);
    }
}
