//! Measures, before anything runs, for how long this machine keeps a polling loop from its CPU.

use std::time::Duration;

use weir_dpdk_io::{Clock, cpu};
use weir_units::{Span, Time};

/// Time that covers a scheduler's tick and another task's slice.
pub const MEASURING_TIME: Duration = Duration::from_millis(100);

/// The longest gap between two reads of the clock on any of these CPUs, all polled at once for `during`. A busy machine's
/// rarer, longer gaps are not among them.
pub fn measure(cpus: &[u32], during: Duration) -> Span {
    let on_cpu = |cpu: u32| {
        std::thread::spawn(move || {
            // Where it can't be pinned, it is measured where it is.
            let _ = cpu::set_affinity(&[cpu]);
            longest_gap(&Clock::new(), Span::from_nanos(during.as_nanos() as u64))
        })
    };
    let threads: Vec<_> = cpus.iter().copied().map(on_cpu).collect();
    threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(Span::ZERO)
}

fn longest_gap(clock: &Clock, during: Span) -> Span {
    let start = Time::from_picos(clock.now_ps());
    let (mut last, mut longest) = (start, Span::ZERO);
    while last.since(start) < during {
        cpu::pause();
        let now = Time::from_picos(clock.now_ps());
        longest = longest.max(now.since(last));
        last = now;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_there_and_no_longer_than_the_time() {
        let cpus = cpu::allowed();
        let during = Duration::from_millis(5);
        let started = std::time::Instant::now();
        let gap = measure(&cpus, during);
        assert!(gap > Span::ZERO && u128::from(gap.as_nanos()) <= started.elapsed().as_nanos(), "{gap}");
    }
}
