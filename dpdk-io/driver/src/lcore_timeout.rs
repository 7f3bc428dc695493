//! Timeout of a control thread that waits for lcores, extended while the machine keeps them from their CPUs.
//!
//! An lcore that shares its CPU may not run for many seconds: `sched_yield` costs it a time slice on some kernels, however short its poll
//! was. So the timeout depends on the lcores' progress, not on the clock alone.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_dpdk_io::Backoff;

use crate::cpu_use::CpuUse;
use crate::lcore_loop::LcoreStats;

/// Longest time for an answer by an lcore that runs.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest wait for lcores that do not run.
const AT_MOST: Duration = Duration::from_secs(300);
/// Polls after which an lcore must have answered all pending requests.
const POLLS: u64 = 1_000;
/// Longest time that counts between two checks: a control thread that was suspended for longer, maybe with its whole machine, has not
/// waited.
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Interval at which the lcores' progress is checked.
const SLOW: Duration = Duration::from_secs(1);

/// Waits for lcores, a little at each call.
#[derive(Debug)]
pub(crate) struct LcoreTimeout {
    /// Each lcore's CPU, and its loop's statistics.
    lcores: Vec<(u32, Arc<LcoreStats>)>,
    began: Instant,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    looked: Instant,
    /// Time that counts.
    waited: Duration,
    /// Time of the next check.
    look_at: Duration,
    /// Lcores' statistics at the first check.
    before: Vec<(u64, CpuUse)>,
    is_over: bool,
}

/// Progress of an lcore since the first check.
#[derive(Clone, Copy, Debug)]
struct LcoreProgress {
    polls: u64,
    /// Time for which it ran; `None` where the kernel does not report it.
    ran: Option<Duration>,
}

impl LcoreProgress {
    /// Returns true if the lcore could have answered: it polled often enough, or ran for long within one poll.
    fn could_answer(self) -> bool {
        self.polls >= POLLS || self.ran.is_none_or(|ran| ran >= ANSWER_WITHIN)
    }
}

impl LcoreTimeout {
    pub(crate) fn new(lcores: Vec<(u32, Arc<LcoreStats>)>) -> LcoreTimeout {
        let now = Instant::now();
        let state = State {
            backoff: Backoff::default(),
            looked: now,
            waited: Duration::ZERO,
            look_at: SLOW,
            before: Vec::new(),
            is_over: false,
        };
        LcoreTimeout { lcores, began: now, state: RefCell::new(state) }
    }

    /// Waits a little. Returns true if the wait is to go on.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.backoff.snooze();
        let now = Instant::now();
        let since_last = now.duration_since(state.looked);
        state.waited += since_last.min(LOOK_MAX);
        state.looked = now;
        if state.waited >= state.look_at {
            state.look_at = state.waited + SLOW;
            if state.before.is_empty() {
                state.before = self.uses().collect();
            }
            let could_answer = self.progress(&state.before).all(LcoreProgress::could_answer);
            let waited = now.duration_since(self.began);
            state.is_over = state.waited >= ANSWER_WITHIN && could_answer || waited >= AT_MOST;
        }
        !state.is_over
    }

    /// Describes the wait and each lcore's progress.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("in {:.0} s", self.began.elapsed().as_secs_f64());
        for ((cpu, _), LcoreProgress { polls, ran }) in
            self.lcores.iter().zip(self.progress(&self.state.borrow().before))
        {
            let _ = write!(text, "; the lcore on CPU {cpu} polled {polls} times");
            if let Some(ran) = ran {
                let _ = write!(text, ", and had its CPU for {:.1} s", ran.as_secs_f64());
            }
        }
        text
    }

    fn uses(&self) -> impl Iterator<Item = (u64, CpuUse)> {
        self.lcores.iter().map(|(cpu, stats)| (stats.polls().0, stats.cpu_use(*cpu)))
    }

    fn progress(&self, before: &[(u64, CpuUse)]) -> impl Iterator<Item = LcoreProgress> {
        let since = |((polls, now), (polls_before, before)): ((u64, CpuUse), &(u64, CpuUse))| LcoreProgress {
            polls: polls - polls_before,
            ran: now.since(before).ran,
        };
        self.uses().zip(before).map(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lcore_that_does_not_run_is_waited_for() {
        let ran = |secs| Some(Duration::from_secs(secs));
        let could_answer = |polls, ran| LcoreProgress { polls, ran }.could_answer();
        // Others have its CPU, or all but a little of it.
        assert!(!could_answer(0, ran(0)));
        assert!(!could_answer(POLLS - 1, ran(29)));
        // It polls and does not answer; its poll does not end; the kernel does not tell.
        assert!(could_answer(POLLS, ran(0)));
        assert!(could_answer(0, ran(30)));
        assert!(could_answer(0, None));
    }

    #[test]
    fn lcores_are_first_checked_after_a_second_and_described() {
        let timeout = LcoreTimeout::new(vec![(7, Arc::default())]);
        while timeout.state.borrow().before.is_empty() {
            assert!(timeout.wait());
        }
        assert!(timeout.began.elapsed() >= SLOW);
        let text = timeout.describe();
        assert!(text.contains("the lcore on CPU 7 polled 0 times"), "{text}");
    }
}
