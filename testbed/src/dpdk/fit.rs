//! How much slower than real time this machine must run a scenario.

use std::thread;
use std::time::{Duration, Instant};

use weir_dpdk_io::cpu;

/// How long the machine is watched.
const WATCH: Duration = Duration::from_millis(400);
/// How late, in scenario time, a poll may be: twice the propagation delay of the shortest link in the experiments. Switch
/// and hosts are polled in turn on one lcore, so they are late together.
const LATE: Duration = Duration::from_micros(2);
/// Below this many times slower a small machine does not move the frames; above, a run takes longer than people wait.
const RANGE: std::ops::RangeInclusive<u32> = 300..=1_500;
/// Dilations are whole hundreds, so that runs on like machines are alike.
const STEP: u32 = 100;
/// The CPUs that are watched; more do not run the experiments.
const CPUS_MAX: usize = 4;

/// The time dilation that fits this machine: such that its usual interruptions of a polling loop (the 99.9th percentile of the
/// gaps between polls) stay below two microseconds of scenario time. The rare longest ones are what headroom is for.
pub fn fitting_dilation() -> u32 {
    let watchers: Vec<_> =
        cpu::allowed().into_iter().take(CPUS_MAX).map(|cpu| thread::spawn(move || usual_gap(cpu))).collect();
    let gap = watchers.into_iter().filter_map(|watcher| watcher.join().ok()).max().unwrap_or(Duration::ZERO);
    let factor = gap.as_nanos().div_ceil(LATE.as_nanos()) as u32;
    factor.next_multiple_of(STEP).clamp(*RANGE.start(), *RANGE.end())
}

/// Polls the clock on a CPU, giving way as an idle lcore does; the 99.9th percentile over the time of the gaps between two
/// polls, i.e. a random instant falls into a longer gap with a probability of a thousandth.
fn usual_gap(cpu: u32) -> Duration {
    // Where it can't be pinned, wherever it runs will do.
    let _ = cpu::set_affinity(&[cpu]);
    let start = Instant::now();
    let (mut last, mut gaps) = (start, Vec::with_capacity(1 << 16));
    while last.duration_since(start) < WATCH {
        thread::yield_now();
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > Duration::from_micros(5) && gaps.len() < gaps.capacity() {
            gaps.push(gap);
        }
        last = now;
    }
    gaps.sort_unstable();
    let mut beyond = WATCH / 1_000;
    while let Some(gap) = gaps.pop() {
        match beyond.checked_sub(gap) {
            Some(rest) => beyond = rest,
            None => return gap,
        }
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_dilation_fits() {
        let dilation = fitting_dilation();
        assert!(RANGE.contains(&dilation) && dilation.is_multiple_of(STEP), "{dilation}");
    }
}
