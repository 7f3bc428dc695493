//! What machine this is.

use std::fs;

/// CPU, cores, kernel, DPDK: what a figure is to be read with.
pub(crate) fn description() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches([' ', '\t', ':']);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{model}, {} CPUs, Linux {}, {}",
        weir_dpdk_io::cpu::allowed().len(),
        kernel.trim(),
        weir_dpdk_io::version()
    )
}
