//! Scheduler statistics of an lcore's thread and CPU, from the kernel. Read by the control thread: each read takes system calls.

use std::fs;
use std::time::Duration;

use weir_dpdk_io::cpu;

/// Scheduler statistics of an lcore's thread and CPU; `None` where the kernel does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Time for which the thread ran.
    pub ran: Option<Duration>,
    /// Time for which the thread was ready to run while others had the CPU.
    pub waited: Option<Duration>,
    /// Involuntary context switches of the thread.
    pub preempted: Option<u64>,
    /// Time for which a hypervisor had the CPU while a thread on it was ready to run (steal time).
    pub stolen: Option<Duration>,
}

impl CpuUse {
    /// CPU use of the thread of this number in this process, on this CPU, since they began.
    pub(crate) fn read(thread: u32, cpu: u32) -> CpuUse {
        let of_thread = |file: &str| fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok();
        let schedstat = of_thread("schedstat");
        CpuUse {
            ran: schedstat.as_deref().and_then(|text| nanos(text, 0)),
            waited: schedstat.as_deref().and_then(|text| nanos(text, 1)),
            preempted: of_thread("status").and_then(|text| preempted(&text)),
            stolen: fs::read_to_string("/proc/stat").ok().and_then(|text| stolen(&text, cpu)),
        }
    }

    /// Time for which the thread was ready to run and did not, because of other threads or a hypervisor.
    pub fn kept_from_cpu(&self) -> Duration {
        self.waited.unwrap_or_default() + self.stolen.unwrap_or_default()
    }

    /// Difference from the earlier statistics `before`.
    pub fn since(&self, before: &CpuUse) -> CpuUse {
        let span = |now: Option<Duration>, before: Option<Duration>| Some(now?.saturating_sub(before?));
        CpuUse {
            ran: span(self.ran, before.ran),
            waited: span(self.waited, before.waited),
            preempted: self.preempted.zip(before.preempted).map(|(now, before)| now.saturating_sub(before)),
            stolen: span(self.stolen, before.stolen),
        }
    }
}

/// `schedstat` has the time on a CPU and the time of waiting for one, in nanoseconds, and the number of time slices.
fn nanos(schedstat: &str, place: usize) -> Option<Duration> {
    schedstat.split_whitespace().nth(place)?.parse().ok().map(Duration::from_nanos)
}

fn preempted(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// `cpuN user nice system idle iowait irq softirq steal …`, in ticks.
fn stolen(stat: &str, cpu: u32) -> Option<Duration> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let ticks: u64 = line.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / cpu::proc_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        assert_eq!(nanos("204060127 28003421 311\n", 0), Some(Duration::from_nanos(204_060_127)));
        assert_eq!(nanos("204060127 28003421 311\n", 1), Some(Duration::from_nanos(28_003_421)));
        assert_eq!(nanos("", 1), None);
        let status = "Name:\tlcore\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t345\n";
        assert_eq!(preempted(status), Some(345));
        let stat = "cpu  9 9 9 9 9 9 9 900 0 0\ncpu1 9 9 9 9 9 9 9 100 0 0\ncpu10 9 9 9 9 9 9 9 700 0 0\nintr 5\n";
        let ticks = |n: u64| Some(Duration::from_millis(n * 1_000 / cpu::proc_ticks_per_second()));
        assert_eq!((stolen(stat, 1), stolen(stat, 10), stolen(stat, 2)), (ticks(100), ticks(700), None));
        assert_eq!(stolen("cpu1 1 2 3\n", 1), None);
    }

    #[test]
    fn this_thread_is_known() {
        let now = CpuUse::read(cpu::thread_id(), cpu::current().unwrap());
        assert!(now.preempted.is_some(), "{now:?}");
        assert_eq!(CpuUse::read(0, u32::MAX), CpuUse::default());
    }
}
