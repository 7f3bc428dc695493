//! Load balancer: assigns logical processes (LPs) to threads.
//!
//! There are more LPs than threads, so moving an LP evens out the load. An LP's duration in a window predicts the next
//! one, since messages last for many windows.

use std::time::Duration;

/// Thread of each LP, for the windows of each phase.
#[derive(Debug, Default)]
pub(super) struct LoadBalancer {
    phases: [PhaseAssignment; 2],
    load: Vec<u64>,
}

#[derive(Debug, Default)]
struct PhaseAssignment {
    thread: Vec<u32>,
    /// Smoothed duration of each LP, in ns.
    durations: Vec<u64>,
}

/// Inverse of the smallest gain for which an LP moves: the longest thread must become shorter by more than 1/100 of the
/// mean.
const GAIN_MIN: u64 = 100;

impl LoadBalancer {
    /// Assigns LPs to threads round-robin, which spreads those with hosts: they come first.
    pub(super) fn new(lps: usize, threads: usize) -> LoadBalancer {
        let thread: Vec<u32> = (0..lps).map(|lp| (lp % threads) as u32).collect();
        let phase_assignment = || PhaseAssignment { thread: thread.clone(), durations: vec![0; lps] };
        LoadBalancer { phases: [phase_assignment(), phase_assignment()], load: vec![0; threads] }
    }

    pub(super) fn threads(&self) -> usize {
        self.load.len()
    }

    /// Returns the thread of each LP in the next window of a phase.
    pub(super) fn threads_of(&self, phase: usize) -> &[u32] {
        &self.phases[phase].thread
    }

    /// Records the duration of each LP in a window of a phase, and rebalances its next window. Returns the time of the
    /// longest thread, and of all threads together.
    pub(super) fn record_durations(&mut self, phase: usize, took: impl Iterator<Item = Duration>) -> [Duration; 2] {
        let LoadBalancer { phases, load } = self;
        let PhaseAssignment { thread, durations } = &mut phases[phase];
        load.fill(0);
        for ((took, duration), thread) in took.zip(&mut *durations).zip(&*thread) {
            let took = took.as_nanos() as u64;
            load[*thread as usize] += took;
            // Exponential average with weight 1/2.
            *duration = (*duration + took) / 2;
        }
        let [longest, all] = [load.iter().copied().max().unwrap_or(0), load.iter().sum()];
        rebalance(thread, durations, load);
        [longest, all].map(Duration::from_nanos)
    }
}

/// Moves LPs from the busiest thread to the least busy one, or exchanges two, while the gain is large enough.
fn rebalance(thread: &mut [u32], durations: &[u64], load: &mut [u64]) {
    load.fill(0);
    thread.iter().zip(durations).for_each(|(thread, duration)| load[*thread as usize] += duration);
    let all: u64 = load.iter().sum();
    for _ in 0..load.len() {
        let by_load = |thread: &usize| load[*thread];
        let (Some(most), Some(least)) = ((0..load.len()).max_by_key(by_load), (0..load.len()).min_by_key(by_load))
        else {
            return;
        };
        let (high, low) = (load[most], load[least]);
        // The best move is half of the difference, which equalises both.
        let longest = |moves: u64| (high - moves).max(low + moves);
        let mut best: Option<(usize, Option<usize>, u64)> = None;
        for one in (0..thread.len()).filter(|lp| thread[*lp] as usize == most) {
            let others = (0..thread.len()).filter(|lp| thread[*lp] as usize == least).map(Some);
            for other in others.chain([None]) {
                let Some(moves) = durations[one].checked_sub(other.map_or(0, |other| durations[other])) else {
                    continue;
                };
                if best.is_none_or(|(_, _, best)| longest(moves) < longest(best)) {
                    best = Some((one, other, moves));
                }
            }
        }
        let Some((one, other, moves)) = best else { return };
        if high.saturating_sub(longest(moves)) * load.len() as u64 * GAIN_MIN <= all {
            return;
        }
        (load[most], load[least]) = (high - moves, low + moves);
        thread[one] = least as u32;
        if let Some(other) = other {
            thread[other] = most as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(shares: &mut LoadBalancer, turns: usize, takes: &[u64]) -> [Duration; 2] {
        let took = || takes.iter().map(|us| Duration::from_micros(*us));
        (0..turns).map(|_| shares.record_durations(0, took())).last().unwrap()
    }

    #[test]
    fn each_thread_has_as_many_parts_at_first() {
        assert_eq!(LoadBalancer::new(6, 2).threads_of(1), [0, 1, 0, 1, 0, 1]);
        assert_eq!(LoadBalancer::new(3, 3).threads_of(0), [0, 1, 2]);
        assert_eq!(LoadBalancer::new(5, 2).threads_of(0), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn parts_go_where_less_is_to_do() {
        let mut shares = LoadBalancer::new(6, 2);
        let of = |longest, all| [longest, all].map(Duration::from_micros);
        let busy = [60, 10, 20, 10, 20, 20];
        assert_eq!(turns(&mut shares, 1, &busy), of(100, 140));
        assert_eq!(turns(&mut shares, 1, &busy), of(70, 140));
        assert_eq!(shares.threads_of(1), [0, 1, 0, 1, 0, 1], "the other side's turns are others");
        // The load shifts to another LP.
        assert_eq!(turns(&mut shares, 8, &[10, 10, 20, 60, 20, 20]), of(70, 140));
    }

    #[test]
    fn what_gains_nothing_stays() {
        let mut shares = LoadBalancer::new(4, 2);
        turns(&mut shares, 10, &[1_000, 1_000, 1_004, 1_002]);
        assert_eq!(shares.threads_of(0), [0, 1, 0, 1]);
        let mut one_each = LoadBalancer::new(3, 3);
        turns(&mut one_each, 10, &[100, 200, 900]);
        assert_eq!(one_each.threads_of(0), [0, 1, 2], "no part can be halved");
    }
}
