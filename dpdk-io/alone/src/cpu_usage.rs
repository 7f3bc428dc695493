//! CPU use of the whole machine during a test, from the kernel's statistics.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// CPU times at an instant, in ticks; zeros where the kernel reports nothing.
pub(crate) struct CpuTimes {
    at: Instant,
    /// Time of all processes, in user mode and in the kernel.
    busy: u64,
    /// Time taken by a hypervisor.
    stolen: u64,
    /// Time of this process and its awaited children.
    own: u64,
}

/// CPU use between two instants.
#[derive(Debug, PartialEq)]
pub(crate) struct CpuUsage {
    span: Duration,
    cpus: usize,
    /// CPU time of others, and of a hypervisor.
    others: Duration,
    stolen: Duration,
    /// Programs that were ready to run, on average over the last minute.
    load: String,
}

impl CpuTimes {
    pub(crate) fn read() -> CpuTimes {
        let (busy, stolen) = fs::read_to_string("/proc/stat").ok().and_then(|stat| of_cpus(&stat)).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| of_process(&stat)).unwrap_or_default();
        CpuTimes { at: Instant::now(), busy, stolen, own }
    }

    pub(crate) fn since(&self, before: &CpuTimes) -> CpuUsage {
        let busy = self.busy.saturating_sub(before.busy);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        CpuUsage {
            span: self.at - before.at,
            cpus: available_parallelism().map_or(1, |cpus| cpus.get()),
            others: in_time(busy.saturating_sub(self.own.saturating_sub(before.own))),
            stolen: in_time(self.stolen.saturating_sub(before.stolen)),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for CpuUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.span.as_secs_f64() * self.cpus as f64;
        let [others, stolen] = [self.others, self.stolen].map(|taken| taken.as_secs_f64() * 100.0 / all);
        write!(
            f,
            "in {:.1} s others took {others:.0} % of {} CPUs and a hypervisor {stolen:.1} %, load {}",
            self.span.as_secs_f64(),
            self.cpus,
            self.load
        )
    }
}

/// Parses `cpu user nice system idle iowait irq softirq steal …` into busy and stolen time.
fn of_cpus(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq, steal))
}

/// `pid (name) state …`: user and system time of the process are the words 14 and 15, its children's the two behind them.
fn of_process(stat: &str) -> Option<u64> {
    // The name may have anything in it.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields = behind_name.split_whitespace().skip(11).take(4);
    fields.map(|word| word.parse::<u64>().ok()).sum()
}

fn in_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        assert_eq!(of_cpus("cpu  10 20 30 999 999 4 5 6 7 8\ncpu0 1 1 1 1\n"), Some((69, 6)));
        assert_eq!(of_cpus("cpu  10 20\n"), None);
        let stat = "7 (a ) b) S 1 1 1 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 1 0 9 9 9";
        assert_eq!(of_process(stat), Some(127));
        assert_eq!(of_process(""), None);
    }

    #[test]
    fn cpu_usage_includes_other_processes() {
        let ticks = rustix::param::clock_ticks_per_second();
        let at = Instant::now();
        let before = CpuTimes { at, busy: 0, stolen: 0, own: 0 };
        let now = CpuTimes { at: at + Duration::from_secs(10), busy: 12 * ticks, stolen: ticks, own: 7 * ticks };
        let taken = now.since(&before);
        assert_eq!((taken.others, taken.stolen), (Duration::from_secs(5), Duration::from_secs(1)));
        let text = CpuUsage { cpus: 2, load: "1.50".to_owned(), ..taken }.to_string();
        assert_eq!(text, "in 10.0 s others took 25 % of 2 CPUs and a hypervisor 5.0 %, load 1.50");
    }
}
