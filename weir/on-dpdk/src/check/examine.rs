//! `weir doctor`: resources of this machine, and missing requirements, with a file or without.

use std::fs;
use std::path::Path;

use weir_config::{ConfigError, ConfigErrors, Device, SwitchConfig};
use weir_dpdk_driver::{DriverError, Memory, Placement, Sysfs};
use weir_dpdk_io::cpu;
use weir_experiments::real_frames::{CheckResult, Health};

use super::{interfaces, losses};

/// Examines this machine for these switches.
pub(crate) fn examine(switches: &[SwitchConfig]) -> Vec<CheckResult> {
    let mut findings = vec![cpus(), hugepages(switches), iommu(switches), tools()];
    if !switches.is_empty() {
        of_files(switches, &mut findings);
    }
    findings
}

fn cpus() -> CheckResult {
    let allowed = cpu::allowed();
    let about = "CPUs";
    let message = format!("this process may use {}", allowed.len());
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if allowed.len() < 2 {
        let mend = "taskset -c 0-3 weir run FILE, or a machine with more";
        return CheckResult::bad(Health::Warning, about, format!("{message}: others will delay its polls"), mend);
    }
    match isolated.trim() {
        "" => {
            let mend = isolation(&allowed);
            CheckResult::bad(Health::Warning, about, format!("{message}, and none is kept free of others' work"), mend)
        }
        isolated => CheckResult::good(about, format!("{message}; {isolated} are kept free of others' work")),
    }
}

/// Describes how to isolate up to two of these CPUs: the last, as the kernel's own work is mostly on the first.
fn isolation(allowed: &[u32]) -> String {
    let kept: Vec<String> =
        allowed[(allowed.len() - (allowed.len() / 2).min(2))..].iter().map(u32::to_string).collect();
    let (line, file) = (kept.join(","), kept.join(", "));
    format!(
        "isolcpus={line} on the kernel's command line, and [lcores] cores = [{file}], for links of 10 Gb/s and more"
    )
}

fn hugepages(switches: &[SwitchConfig]) -> CheckResult {
    let read = |name: &str| {
        let path = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").join(name);
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let (all, free) = (read("nr_hugepages"), read("free_hugepages"));
    let memory = Memory::for_switches(switches, 1, 0);
    let needed = if switches.is_empty() { 512 } else { memory.hugepages() as u64 };
    let about = "hugepages";
    let message = format!("{free} of {all} pages of 2 MiB are free, {needed} are needed");
    let mend = format!("echo {needed} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    if free >= needed {
        return CheckResult::good(about, message);
    }
    let has_nics = switches.iter().flat_map(|switch| &switch.ports).any(|port| matches!(port.device, Device::Pci(_)));
    let why = if has_nics || switches.is_empty() { "NICs are slower without" } else { "no port of these needs them" };
    match has_nics || switches.is_empty() {
        true => CheckResult::bad(Health::Warning, about, format!("{message}: {why}"), mend),
        false => CheckResult::good(about, format!("{free} of {all} pages of 2 MiB are free; {why}")),
    }
}

fn iommu(switches: &[SwitchConfig]) -> CheckResult {
    let groups = fs::read_dir("/sys/kernel/iommu_groups").map_or(0, |groups| groups.count());
    let has_nics = switches.iter().flat_map(|switch| &switch.ports).any(|port| matches!(port.device, Device::Pci(_)));
    let about = "IOMMU";
    match (groups, has_nics || switches.is_empty()) {
        (0, true) => {
            let mend = "switch VT-d or AMD-Vi on in the firmware, and write intel_iommu=on iommu=pt on the kernel's command line";
            CheckResult::bad(
                Health::Warning,
                about,
                "there are no groups: NICs can be had by physical addresses alone",
                mend,
            )
        }
        (0, false) => CheckResult::good(about, "none, and no port of these needs one"),
        (groups, _) => CheckResult::good(about, format!("{groups} groups")),
    }
}

fn tools() -> CheckResult {
    let wanted = [
        ("dpdk-devbind.py", "dpdk"),
        ("ethtool", "ethtool"),
        ("dcb", "iproute2"),
        ("tshark", "tshark"),
        ("lspci", "pciutils"),
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    let (there, missing): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(name, _)| is_there(name));
    let names = |tools: &[(&str, &str)]| tools.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if missing.is_empty() {
        return CheckResult::good("tools", names(&there));
    }
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    let mend = format!("apt-get install {}", packages.join(" "));
    CheckResult::bad(Health::Warning, "tools", format!("{} are not installed", names(&missing)), mend)
}

fn of_files(switches: &[SwitchConfig], findings: &mut Vec<CheckResult>) {
    let placement = Placement::new(switches, &cpu::allowed(), 0);
    let cpus = placement.as_ref().map(|placement| placement.cpus.clone()).unwrap_or_default();
    match placement {
        Ok(placement) => findings.push(CheckResult::good("lcores", format!("on CPUs {:?}", placement.cpus))),
        Err(error) => findings.extend(lacking("lcores", error)),
    }
    let memory = Memory::for_switches(switches, cpus.len().max(1), 0);
    match weir_dpdk_driver::check_limits(switches, &memory) {
        Ok(()) => findings
            .push(CheckResult::good("memory and limits", "enough memory, locked memory, addresses and open files")),
        Err(error) => findings.extend(lacking("memory and limits", error)),
    }
    let checked = weir_dpdk_driver::check_machine(switches).map_err(DriverError::from);
    match checked {
        Ok(()) => findings.push(CheckResult::good("devices", "all that the files name are here, and may be used")),
        Err(error) => findings.extend(lacking("devices", error)),
    }
    match weir_dpdk_driver::check_devices(switches) {
        Ok(stale) => findings.extend(stale.iter().map(|socket| {
            let message = format!("{} is left by an instance that is dead; weir run removes it", socket.display());
            CheckResult::good("devices", message)
        })),
        Err(error) => findings.extend(lacking("devices", error.into())),
    }
    let system = Sysfs::here();
    let nodes: Vec<u32> = cpus.iter().filter_map(|cpu| system.node_of_cpu(*cpu)).collect();
    for switch in switches {
        for port in &switch.ports {
            let found = match &port.device {
                Device::Pci(pci) => system.nic(&pci.address).iter().flat_map(|facts| facts.warnings(&nodes)).collect(),
                _ => interfaces::warnings(switch, port),
            };
            for found in found {
                findings.push(CheckResult::bad(
                    Health::Warning,
                    format!("port {}", port.name),
                    found.message,
                    found.help,
                ));
            }
        }
        for unknown in losses::unknown_losses(switch) {
            findings.push(CheckResult::good(format!("switch {}", switch.name), unknown));
        }
    }
}

/// One result for each error, with its place.
fn lacking(about: &str, error: DriverError) -> Vec<CheckResult> {
    let of_configs = |errors: &ConfigErrors| {
        let finding = |error: &ConfigError| {
            let place = error.line().map_or_else(|| error.file().to_owned(), |line| format!("{}:{line}", error.file()));
            CheckResult::bad(Health::Error, format!("{about}, {place}"), error.message(), error.help_text())
        };
        errors.iter().map(finding).collect()
    };
    match error {
        DriverError::Config(errors) => of_configs(&errors),
        DriverError::Shortages(short) => {
            short.into_iter().map(|found| CheckResult::bad(Health::Error, about, found.message, found.help)).collect()
        }
        other => vec![CheckResult::bad(Health::Error, about, other.to_string(), "see weir check FILE")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_to_be_kept_free_are_there() {
        assert!(isolation(&[0, 1]).starts_with("isolcpus=1 on") && isolation(&[0, 1]).contains("cores = [1],"));
        assert!(isolation(&[0, 1, 2, 3, 8]).starts_with("isolcpus=3,8 on"));
    }
}
