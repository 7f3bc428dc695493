//! What machine this is, and who else had its CPUs.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_dpdk_driver::{LcoreStats, Runtime};
use weir_dpdk_io::cpu;

/// CPU, cores, kernel, DPDK: what a figure is to be read with.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The kernel's version.
    pub kernel: String,
    /// DPDK's version.
    pub dpdk: String,
    /// The pages that packet memory lies in, once DPDK runs.
    pub pages: Option<&'static str>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.unwrap_or("unknown CPU").trim_start_matches([' ', '\t', ':']).to_owned(),
            cpus: cpu::allowed().len(),
            kernel: kernel.trim().to_owned(),
            dpdk: weir_dpdk_io::version(),
            pages: None,
        }
    }

    /// The machine with DPDK started on it.
    pub fn with(runtime: &Runtime) -> Machine {
        let pages = if runtime.eal().has_hugepages() { "hugepages" } else { "ordinary pages" };
        Machine { pages: Some(pages), ..Machine::here() }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} CPUs, Linux {}, {}", self.cpu, self.cpus, self.kernel, self.dpdk)?;
        self.pages.map_or(Ok(()), |pages| write!(f, ", packet memory in {pages}"))
    }
}

/// Who else had the machine's CPUs in some time, as shares of all CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Neighbours {
    /// How long that was, in seconds.
    pub wall_s: f64,
    /// CPU time that other processes and the kernel used, in percent.
    pub others_percent: f64,
    /// CPU time that a hypervisor took while something was ready to run, in percent.
    pub stolen_percent: f64,
}

/// Looks at the machine's CPU time from its start on.
#[derive(Debug)]
pub struct NeighbourWatch {
    started: Instant,
    before: CpuTicks,
    own_before: u64,
}

impl NeighbourWatch {
    /// Starts to watch.
    pub fn start() -> NeighbourWatch {
        NeighbourWatch { started: Instant::now(), before: CpuTicks::now(), own_before: own_ticks() }
    }

    /// What came since the start.
    pub fn read(&self) -> Neighbours {
        let (now, own) = (CpuTicks::now(), own_ticks());
        let total = (now.total.saturating_sub(self.before.total)).max(1) as f64;
        let busy = now.busy.saturating_sub(self.before.busy);
        let others = busy.saturating_sub(own.saturating_sub(self.own_before));
        Neighbours {
            wall_s: self.started.elapsed().as_secs_f64(),
            others_percent: others as f64 * 100.0 / total,
            stolen_percent: now.stolen.saturating_sub(self.before.stolen) as f64 * 100.0 / total,
        }
    }
}

impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in these {:.0} s others used {:.0} % of all CPU time, and a hypervisor took {:.1} %",
            self.wall_s, self.others_percent, self.stolen_percent
        )
    }
}

/// [Time](weir_dpdk_driver::CpuUse::kept_from_cpu) that kept lcores from their CPUs.
pub(crate) fn kept_from_cpu(lcores: &[(u32, impl AsRef<LcoreStats>)]) -> Duration {
    lcores.iter().map(|(cpu, stats)| stats.as_ref().cpu_use(*cpu).kept_from_cpu()).sum()
}

/// CPUs that share a core with this one, itself left out; none where the kernel does not tell.
pub(crate) fn siblings(cpu: u32) -> Vec<u32> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let all = cpu_list(&fs::read_to_string(file).unwrap_or_default());
    all.into_iter().filter(|other| *other != cpu).collect()
}

/// `0,2-3`.
fn cpu_list(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

/// All CPUs' time since the machine was started, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuTicks {
    total: u64,
    busy: u64,
    stolen: u64,
}

impl CpuTicks {
    fn now() -> CpuTicks {
        CpuTicks::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// `cpu user nice system idle iowait irq softirq steal …`.
    fn of(stat: &str) -> CpuTicks {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks[..] else { return CpuTicks::default() };
        let busy = user + nice + system + irq + softirq;
        CpuTicks { total: busy + idle + iowait + stolen, busy, stolen }
    }
}

/// CPU time of this process, in ticks: fields 14 and 15 of its `stat`, behind a name that may have blanks.
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
        let ticks = CpuTicks::of("cpu  10 1 5 80 4 2 3 7 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        assert_eq!(ticks, CpuTicks { total: 112, busy: 21, stolen: 7 });
        assert_eq!(CpuTicks::of("nothing"), CpuTicks::default());
        assert_eq!((cpu_list("0\n"), cpu_list("1,4-6\n"), cpu_list("")), (vec![0], vec![1, 4, 5, 6], vec![]));
    }

    #[test]
    fn own_work_is_no_neighbours() {
        let watch = NeighbourWatch::start();
        let before = own_ticks();
        let mut sum = 0u64;
        while own_ticks() < before + 5 {
            sum = std::hint::black_box(sum + 1);
        }
        let read = watch.read();
        assert!(read.wall_s > 0.0 && (0.0..=100.0).contains(&read.others_percent), "{read:?}");
    }
}
