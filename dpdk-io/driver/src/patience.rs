//! Timeout of a control thread that waits for lcores, extended while the machine keeps them from their CPUs.
//!
//! An lcore that shares its CPU may not run for many seconds: `sched_yield` costs it a time slice on some kernels, however short its poll
//! was. So the timeout depends on the lcores' progress, not on the clock alone.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_dpdk_io::Naps;

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
pub(crate) struct Patience {
    /// Each lcore's CPU, and its loop's statistics.
    lcores: Vec<(u32, Arc<LcoreStats>)>,
    began: Instant,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    naps: Naps,
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
struct Done {
    polls: u64,
    /// Time for which it ran; `None` where the kernel does not report it.
    ran: Option<Duration>,
}

impl Done {
    /// Returns true if the lcore could have answered: it polled often enough, or ran for long within one poll.
    fn had_its_chance(self) -> bool {
        self.polls >= POLLS || self.ran.is_none_or(|ran| ran >= ANSWER_WITHIN)
    }
}

impl Patience {
    pub(crate) fn new(lcores: Vec<(u32, Arc<LcoreStats>)>) -> Patience {
        let now = Instant::now();
        let state = State {
            naps: Naps::default(),
            looked: now,
            waited: Duration::ZERO,
            look_at: SLOW,
            before: Vec::new(),
            is_over: false,
        };
        Patience { lcores, began: now, state: RefCell::new(state) }
    }

    /// Waits a little; says whether to go on.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.naps.nap();
        let now = Instant::now();
        let since_last = now.duration_since(state.looked);
        state.waited += since_last.min(LOOK_MAX);
        state.looked = now;
        if state.waited >= state.look_at {
            state.look_at = state.waited + SLOW;
            if state.before.is_empty() {
                state.before = self.uses().collect();
            }
            let had_its_chance = self.done(&state.before).all(Done::had_its_chance);
            let waited = now.duration_since(self.began);
            state.is_over = state.waited >= ANSWER_WITHIN && had_its_chance || waited >= AT_MOST;
        }
        !state.is_over
    }

    /// Describes the wait and each lcore's progress.
    pub(crate) fn told(&self) -> String {
        let mut told = format!("in {:.0} s", self.began.elapsed().as_secs_f64());
        for ((cpu, _), Done { polls, ran }) in self.lcores.iter().zip(self.done(&self.state.borrow().before)) {
            let _ = write!(told, "; the lcore on CPU {cpu} polled {polls} times");
            if let Some(ran) = ran {
                let _ = write!(told, ", and had its CPU for {:.1} s", ran.as_secs_f64());
            }
        }
        told
    }

    fn uses(&self) -> impl Iterator<Item = (u64, CpuUse)> {
        self.lcores.iter().map(|(cpu, stats)| (stats.polls().0, stats.cpu_use(*cpu)))
    }

    fn done(&self, before: &[(u64, CpuUse)]) -> impl Iterator<Item = Done> {
        let since = |((polls, now), (polls_before, before)): ((u64, CpuUse), &(u64, CpuUse))| Done {
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
        let had_its_chance = |polls, ran| Done { polls, ran }.had_its_chance();
        // Others have its CPU, or all but a little of it.
        assert!(!had_its_chance(0, ran(0)));
        assert!(!had_its_chance(POLLS - 1, ran(29)));
        // It polls and does not answer; its poll does not end; the kernel does not tell.
        assert!(had_its_chance(POLLS, ran(0)));
        assert!(had_its_chance(0, ran(30)));
        assert!(had_its_chance(0, None));
    }

    #[test]
    fn a_second_is_waited_without_a_look_and_what_lcores_did_is_told() {
        let patience = Patience::new(vec![(7, Arc::default())]);
        while patience.state.borrow().before.is_empty() {
            assert!(patience.wait());
        }
        assert!(patience.began.elapsed() >= SLOW);
        let told = patience.told();
        assert!(told.contains("the lcore on CPU 7 polled 0 times"), "{told}");
    }
}
