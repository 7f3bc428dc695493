//! How much slower than real time this machine must run a scenario.

use std::thread;
use std::time::{Duration, Instant};

use weir_dpdk_io::cpu;
use weir_units::{BitRate, Bytes};

/// How long the machine is watched.
const WATCH: Duration = Duration::from_millis(400);
/// What may pass at line rate while a poll is late: small beside the thresholds of the experiments. Switch and hosts are
/// polled in turn on one lcore, so they are late together.
const LATE: Bytes = Bytes::kb(25);
/// Real rates that links are slowed down to: more than the fastest a small machine does not carry on a dozen links; at less
/// than the slowest a run takes longer than people wait.
const FASTEST: BitRate = BitRate::mbps(333);
const SLOWEST: BitRate = BitRate::mbps(66);
/// Dilations are multiples of this, so that runs on like machines are alike.
const STEP: u32 = 10;
/// The CPUs that are watched; more do not run the experiments.
const CPUS_MAX: usize = 4;

/// The time dilation that fits this machine for links of this rate: such that in its usual interruptions of a polling loop
/// no more than some frames pass. The rare longest ones are what headroom is for.
pub fn fitting_dilation(rate: BitRate) -> u32 {
    let cpus = cpu::allowed().into_iter().take(CPUS_MAX);
    let watchers: Vec<_> = cpus.map(|cpu| thread::spawn(move || usual_gap(cpu))).collect();
    let gap = watchers.into_iter().filter_map(|watcher| watcher.join().ok()).max().unwrap_or(Duration::ZERO);
    let late = rate.time_for(LATE).as_nanos().max(1);
    let factor = gap.as_nanos().div_ceil(u128::from(late)) as u64;
    let times_faster = |real: BitRate| rate.as_bps().div_ceil(real.as_bps()).max(1);
    let factor = factor.clamp(times_faster(FASTEST), times_faster(SLOWEST)) as u32;
    factor.next_multiple_of(STEP)
}

/// Polls the clock on a CPU, giving way as an idle lcore does; the 99.9th percentile over time of the gaps between two
/// polls: a random instant falls into a longer one with a probability of a thousandth.
fn usual_gap(cpu: u32) -> Duration {
    /// Shorter gaps are polls as they should be.
    const GAP_MIN: Duration = Duration::from_micros(5);
    // Where it can't be pinned, wherever it runs will do.
    let _ = cpu::set_affinity(&[cpu]);
    let start = Instant::now();
    let (mut last, mut gaps) = (start, Vec::new());
    while last.duration_since(start) < WATCH {
        thread::yield_now();
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > GAP_MIN {
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
    fn slow_links_need_less_dilation() {
        assert!((310..=1_520).contains(&fitting_dilation(BitRate::gbps(100))));
        assert!((40..=160).contains(&fitting_dilation(BitRate::gbps(10))));
        assert!(fitting_dilation(BitRate::mbps(10)) <= 10);
    }
}
