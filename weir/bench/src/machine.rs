//! Description of the machine, and CPU time used by other processes.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_dpdk_driver::{LcoreStats, Runtime};
use weir_dpdk_io::cpu;

/// Machine of a measurement: CPU, kernel, and DPDK.
#[derive(Clone, Debug, Serialize)]
pub struct HostInfo {
    /// Model name of the CPU.
    pub cpu: String,
    /// Number of CPUs that this process may use.
    pub cpus: usize,
    /// Kernel version.
    pub kernel: String,
    /// DPDK version.
    pub dpdk: String,
    /// Kind of pages of packet memory; `None` before DPDK runs.
    pub pages: Option<&'static str>,
}

impl HostInfo {
    /// Describes this machine.
    pub fn here() -> HostInfo {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        HostInfo {
            cpu: model.unwrap_or("unknown CPU").trim_start_matches([' ', '\t', ':']).to_owned(),
            cpus: cpu::allowed().len(),
            kernel: kernel.trim().to_owned(),
            dpdk: weir_dpdk_io::version(),
            pages: None,
        }
    }

    /// Describes this machine and the pages of the running DPDK.
    pub fn with_dpdk(runtime: &Runtime) -> HostInfo {
        let pages = if runtime.eal().has_hugepages() { "hugepages" } else { "ordinary pages" };
        HostInfo { pages: Some(pages), ..HostInfo::here() }
    }
}

impl fmt::Display for HostInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} CPUs, Linux {}, {}", self.cpu, self.cpus, self.kernel, self.dpdk)?;
        self.pages.map_or(Ok(()), |pages| write!(f, ", packet memory in {pages}"))
    }
}

/// CPU time of other processes and of a hypervisor during a measurement, as shares of all CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HostLoad {
    /// Duration of the measurement, in seconds.
    pub wall_s: f64,
    /// CPU time of other processes and the kernel, in percent.
    pub others_percent: f64,
    /// CPU time that a hypervisor took while something was ready to run, in percent.
    pub stolen_percent: f64,
}

/// Measurement of the machine's CPU time since a start.
#[derive(Debug)]
pub struct HostLoadMeter {
    started: Instant,
    before: CpuTicks,
    own_before: u64,
}

impl HostLoadMeter {
    /// Starts the measurement.
    pub fn start() -> HostLoadMeter {
        HostLoadMeter { started: Instant::now(), before: CpuTicks::now(), own_before: own_ticks() }
    }

    /// Returns the CPU time used since the start.
    pub fn read(&self) -> HostLoad {
        let (now, own) = (CpuTicks::now(), own_ticks());
        let total = (now.total.saturating_sub(self.before.total)).max(1) as f64;
        let busy = now.busy.saturating_sub(self.before.busy);
        let others = busy.saturating_sub(own.saturating_sub(self.own_before));
        HostLoad {
            wall_s: self.started.elapsed().as_secs_f64(),
            others_percent: others as f64 * 100.0 / total,
            stolen_percent: now.stolen.saturating_sub(self.before.stolen) as f64 * 100.0 / total,
        }
    }
}

impl fmt::Display for HostLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in these {:.0} s others used {:.0} % of all CPU time, and a hypervisor took {:.1} %",
            self.wall_s, self.others_percent, self.stolen_percent
        )
    }
}

/// Returns the lcores' total [time off their CPUs](weir_dpdk_driver::CpuUse::kept_from_cpu).
pub(crate) fn kept_from_cpu(lcores: &[(u32, impl AsRef<LcoreStats>)]) -> Duration {
    lcores.iter().map(|(cpu, stats)| stats.as_ref().cpu_use(*cpu).kept_from_cpu()).sum()
}

/// Returns the other CPUs of this CPU's core; empty if the kernel does not report them.
pub(crate) fn siblings(cpu: u32) -> Vec<u32> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let all = cpu_list(&fs::read_to_string(file).unwrap_or_default());
    all.into_iter().filter(|other| *other != cpu).collect()
}

/// Parses a kernel CPU list, such as `0,2-3`.
fn cpu_list(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

/// Time of all CPUs since boot, in kernel ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuTicks {
    total: u64,
    busy: u64,
    stolen: u64,
}

impl CpuTicks {
    fn now() -> CpuTicks {
        CpuTicks::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Parses the first line of `/proc/stat`: `cpu user nice system idle iowait irq softirq steal …`.
    fn parse(stat: &str) -> CpuTicks {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks[..] else { return CpuTicks::default() };
        let busy = user + nice + system + irq + softirq;
        CpuTicks { total: busy + idle + iowait + stolen, busy, stolen }
    }
}

/// Returns this process's CPU time in ticks: fields 14 and 15 of its `stat`, after a name that may contain blanks.
fn own_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some((_, behind_name)) = stat.rsplit_once(')') else { return 0 };
    behind_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let ticks = CpuTicks::parse("cpu  10 1 5 80 4 2 3 7 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        assert_eq!(ticks, CpuTicks { total: 112, busy: 21, stolen: 7 });
        assert_eq!(CpuTicks::parse("nothing"), CpuTicks::default());
        assert_eq!((cpu_list("0\n"), cpu_list("1,4-6\n"), cpu_list("")), (vec![0], vec![1, 4, 5, 6], vec![]));
    }

    #[test]
    fn own_work_is_no_neighbours() {
        let watch = HostLoadMeter::start();
        let before = own_ticks();
        let mut sum = 0u64;
        while own_ticks() < before + 5 {
            sum = std::hint::black_box(sum + 1);
        }
        let read = watch.read();
        assert!(read.wall_s > 0.0 && (0.0..=100.0).contains(&read.others_percent), "{read:?}");
    }
}
