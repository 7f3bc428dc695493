//! Time dilation at which this machine can run a scenario.

use std::thread;
use std::time::{Duration, Instant};

use weir_dpdk_io::cpu;
use weir_units::{BitRate, Bytes};

const WATCH: Duration = Duration::from_millis(400);
/// Data that may pass at line rate during a late poll: small compared with the thresholds of the experiments. Switch
/// and hosts are polled in turn on one lcore, so they are late together.
const LATE: Bytes = Bytes::kb(25);
/// Limits of the real rate to which links are slowed down. A small machine does not carry more than the fastest on a
/// dozen links; below the slowest, runs take too long.
const FASTEST: BitRate = BitRate::mbps(333);
const SLOWEST: BitRate = BitRate::mbps(66);
/// Step of dilations, so that similar machines get the same one.
const STEP: u32 = 10;
/// Largest number of CPUs measured; the experiments run on no more.
const CPUS_MAX: usize = 4;

/// Returns the time dilation for links of this rate on this machine. During its usual interruptions of a polling loop,
/// at most 25 KB pass; headroom covers the rare longest ones.
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

/// Returns the usual gap between two polls of the clock on a CPU, yielding like an idle lcore: the 99.9th percentile
/// over time. A random instant falls into a longer gap with probability 0.001.
fn usual_gap(cpu: u32) -> Duration {
    /// Shortest gap recorded; shorter ones are regular polls.
    const GAP_MIN: Duration = Duration::from_micros(5);
    // If the thread can't be pinned, any CPU will do.
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
