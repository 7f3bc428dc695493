//! Memory, locked memory, address space and open files: a run's needs, compared with the limits of this process and machine.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use weir_config::{Device, PortConfig, SwitchConfig};
use weir_dpdk_io::{free_hugepage_bytes, netdev_ring_bytes};

use crate::checks::{CAP_IPC_LOCK, has_capability};
use crate::devices::ring_slots_of;
use crate::error::DriverError;
use crate::memory::Memory;
use crate::nics::{DeviceIssue, IovaAccess, Sysfs};

/// Resources that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceNeeds {
    /// Bytes of DPDK's memory: `-m`.
    pub(crate) memory: u64,
    /// Placement of that memory in hugepages.
    pub(crate) in_hugepages: bool,
    /// Locking of that memory: by VFIO for an IOMMU, or by the kernel's driver (ibverbs).
    pub(crate) is_locked: bool,
    /// Bytes of receive rings of network interfaces, which the kernel keeps.
    pub(crate) rings: u64,
    /// Open files.
    pub(crate) files: u64,
}

/// Limits of this process and machine. `None` is no limit, or one that can't be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceLimits {
    /// Bytes that can be had without swapping (`MemAvailable`).
    available: Option<u64>,
    /// Control groups with a limit of memory, from the process's own up: the limit's file, and the bytes left below the limit.
    groups: Vec<(PathBuf, u64)>,
    /// RLIMIT_MEMLOCK, which holds for a process without CAP_IPC_LOCK.
    locked: Option<u64>,
    /// RLIMIT_AS.
    addresses: Option<u64>,
    /// RLIMIT_NOFILE.
    files: Option<u64>,
    /// Bytes of addresses that DPDK reserves for hugepages.
    hugepage_addresses: u64,
}

/// Open files of a process with one lcore and no port: 17, as measured, and 32 for clients, a record and a restart.
const FILES: u64 = 17 + 32;
const MIB: u64 = 1 << 20;
/// Addresses of programs, libraries and threads. A run with 114 MiB of DPDK's memory and 64 MiB of rings starts with 439 MiB.
const ADDRESSES: u64 = 256 << 20;
/// Addresses that DPDK reserves for each size of hugepages on each NUMA node (RTE_MAX_MEM_MB_PER_TYPE).
const HUGEPAGE_ADDRESSES: u64 = 64 << 30;

/// Checks that this machine and the limits of this process have room for these switches with this packet memory.
///
/// # Errors
/// [`DriverError::Shortages`] names each shortage, and the command that ends it.
pub fn check_limits(switches: &[SwitchConfig], memory: &Memory) -> Result<(), DriverError> {
    ResourceNeeds::of_switches(switches, memory).check()
}

impl ResourceNeeds {
    /// Counts the needs of these switches with this packet memory.
    fn of_switches(switches: &[SwitchConfig], memory: &Memory) -> ResourceNeeds {
        let ports = || switches.iter().flat_map(|switch| &switch.ports);
        let nics =
            ports().filter_map(|port| if let Device::Pci(pci) = &port.device { Some(&*pci.address) } else { None });
        let rings = switches.iter().flat_map(|switch| switch.ports.iter().map(|port| ring_bytes(switch, port)));
        ResourceNeeds {
            rings: rings.sum(),
            files: FILES + ports().map(|port| files_of(&port.device)).sum::<u64>(),
            ..ResourceNeeds::of_dpdk(memory.megabytes(), nics)
        }
    }

    /// Counts the needs of DPDK with `memory_mb` MiB of memory and these NICs, before any port is opened.
    pub(crate) fn of_dpdk<'a>(memory_mb: u32, mut nics: impl Iterator<Item = &'a str>) -> ResourceNeeds {
        let memory = u64::from(memory_mb) << 20;
        let system = Sysfs::here();
        let is_locked = nics.any(|address| {
            let access = system.nic(address).and_then(|facts| facts.access());
            matches!(access, Some(IovaAccess::Iommu | IovaAccess::Shared))
        });
        ResourceNeeds { memory, in_hugepages: free_hugepage_bytes() >= memory, is_locked, rings: 0, files: FILES }
    }

    /// Compares the needs with the limits of this process and machine.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        let short = self.findings(&ResourceLimits::here());
        if short.is_empty() { Ok(()) } else { Err(DriverError::Shortages(short)) }
    }

    fn findings(&self, limits: &ResourceLimits) -> Vec<DeviceIssue> {
        // Hugepages are in neither MemAvailable nor a control group's memory.
        let ordinary = if self.in_hugepages { 0 } else { self.memory };
        let mut short = Vec::new();
        let mut compare = |needs: u64, has: Option<u64>, finding: &dyn Fn(u64, u64) -> DeviceIssue| {
            short.extend(has.filter(|has| needs > *has).map(|has| finding(needs, has)));
        };
        let smaller = "make [buffer] size smaller, or mean_frame or cell_bytes larger";
        compare(ordinary + self.rings, limits.available, &|needs, has| DeviceIssue {
            message: format!(
                "packet memory takes {} MiB, and {} MiB are available on this machine",
                needs.div_ceil(MIB),
                has.div_ceil(MIB)
            ),
            help: format!("{smaller}; or end what has the memory: ps -eo rss,pid,comm --sort -rss | head"),
        });
        for (file, left) in &limits.groups {
            compare(ordinary, Some(*left), &|needs, has| DeviceIssue {
                message: format!(
                    "packet memory takes {} MiB, and the control group's limit leaves {} MiB ({})",
                    needs.div_ceil(MIB),
                    has.div_ceil(MIB),
                    file.display()
                ),
                help: format!(
                    "{smaller}; or raise the limit: MemoryMax= of a unit, --memory of a container, or write it into {}",
                    file.display()
                ),
            });
        }
        let locked = if self.is_locked { self.memory } else { 0 };
        compare(locked, limits.locked, &|needs, has| DeviceIssue {
            message: format!(
                "NICs read and write packet memory, so that {} MiB have to be locked, and this process may lock {} KiB (ulimit -l)",
                needs.div_ceil(MIB),
                has >> 10
            ),
            help:
                "for this shell: sudo prlimit --pid $$ --memlock=unlimited; for a user: `USER - memlock unlimited` in \
                   /etc/security/limits.conf, and log in anew; for a unit of systemd: LimitMEMLOCK=infinity"
                    .to_owned(),
        });
        let of_memory = if self.in_hugepages { limits.hugepage_addresses } else { self.memory };
        compare(ADDRESSES + self.rings + of_memory, limits.addresses, &|needs, has| DeviceIssue {
            message: format!(
                "a run takes {} MiB of addresses, and this process may have {} MiB (ulimit -v)",
                needs.div_ceil(MIB),
                has.div_ceil(MIB)
            ),
            help: "ulimit -v unlimited, in the shell; LimitAS=infinity in a unit of systemd".to_owned(),
        });
        compare(self.files, limits.files, &|needs, has| DeviceIssue {
            message: format!("a run has up to {needs} files open, and this process may have {has} (ulimit -n)"),
            help: format!("ulimit -n {needs}, in the shell; LimitNOFILE={needs} in a unit of systemd"),
        });
        short
    }
}

impl ResourceLimits {
    fn here() -> ResourceLimits {
        let soft = |resource| getrlimit(resource).current;
        let locked = if has_capability(CAP_IPC_LOCK) { None } else { soft(Resource::Memlock) };
        let sizes = entries("/sys/kernel/mm/hugepages", "hugepages-");
        let nodes = entries("/sys/devices/system/node", "node").max(1);
        ResourceLimits {
            available: fs::read_to_string("/proc/meminfo")
                .ok()
                .and_then(|text| field(&text, "MemAvailable:"))
                .map(|kb| kb << 10),
            groups: groups(Path::new("/")),
            locked,
            addresses: soft(Resource::As),
            files: soft(Resource::Nofile),
            hugepage_addresses: HUGEPAGE_ADDRESSES * sizes * nodes,
        }
    }
}

/// Bytes of the receive ring that the kernel keeps for a port.
fn ring_bytes(switch: &SwitchConfig, port: &PortConfig) -> u64 {
    let mtu = switch.mtu.get() as u16;
    if matches!(port.device, Device::AfPacket(_)) { netdev_ring_bytes(mtu, ring_slots_of(port.rate, mtu)) } else { 0 }
}

/// Open files of a port's device, as measured: of vhost-user with a guest of one queue pair, of a NIC with vfio's group, device and
/// interrupts.
fn files_of(device: &Device) -> u64 {
    match device {
        Device::AfPacket(_) => 4,
        Device::Tap(_) => 7,
        Device::VhostUser(_) => 12,
        Device::Pci(_) | Device::AfXdp(_) | Device::Memif { .. } => 8,
        Device::Pcap { .. } => 2,
        Device::Null { .. } | Device::Ring(_) | Device::Replay(_) | Device::CloneOf(_) => 0,
    }
}

/// Limits of memory of the process's control groups, of either version, below a root: each with the bytes that are left. Page cache
/// and caches of the kernel's own count as left, since the kernel drops them first.
fn groups(root: &Path) -> Vec<(PathBuf, u64)> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (own, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut found = Vec::new();
    for line in mounts.lines() {
        // ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE SUPEROPTIONS.
        let Some((mount, kind)) = line.split_once(" - ") else { continue };
        let (mount, kind): (Vec<&str>, Vec<&str>) = (mount.split(' ').collect(), kind.split(' ').collect());
        let [_, _, _, from, at, ..] = mount[..] else { continue };
        let has_memory = kind.get(2).is_some_and(|options| options.split(',').any(|option| option == "memory"));
        let (is_own, names): (fn(&str) -> bool, [&str; 4]) = match kind[0] {
            "cgroup2" => (str::is_empty, ["memory.max", "memory.current", "inactive_file", "active_file"]),
            "cgroup" if has_memory => (
                |controllers| controllers.split(',').any(|controller| controller == "memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"],
            ),
            _ => continue,
        };
        // HIERARCHY:CONTROLLERS:PATH.
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_own(controllers).then_some(path)
        });
        let Some(path) = path else { continue };
        let top = root.join(at.trim_start_matches('/'));
        let below = Path::new(path).strip_prefix(from).unwrap_or(Path::new(""));
        found.extend(
            top.join(below)
                .ancestors()
                .take_while(|group| group.starts_with(&top))
                .filter_map(|group| left(group, names)),
        );
    }
    found
}

/// The file with a group's limit, and the bytes that it leaves; `None` without a limit.
fn left(group: &Path, [limit, usage, inactive, active]: [&str; 4]) -> Option<(PathBuf, u64)> {
    let file = group.join(limit);
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limit = number(&file)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    // Version 1 does not tell the last.
    let cache = [inactive, active, "slab_reclaimable"].into_iter().filter_map(|name| field(&stat, name)).sum();
    let used = number(&group.join(usage)).unwrap_or(0).saturating_sub(cache);
    Some((file, limit.saturating_sub(used)))
}

/// A number behind a name, at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut fields| if fields.next()? == name { fields.next()?.parse().ok() } else { None })
}

/// Counts the entries of a folder whose name begins so and goes on with a digit.
fn entries(folder: &str, begins: &str) -> u64 {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_meant =
        |name: &str| name.strip_prefix(begins).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    names.filter(|name| name.to_str().is_some_and(is_meant)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const NEEDS: ResourceNeeds =
        ResourceNeeds { memory: 56 * GIB, in_hugepages: false, is_locked: false, rings: GIB, files: 60 };

    fn short(needs: &ResourceNeeds, limits: &ResourceLimits) -> Vec<String> {
        let line = |found: DeviceIssue| format!("{} -> {}", found.message, found.help);
        needs.findings(limits).into_iter().map(line).collect()
    }

    #[test]
    fn memory_is_what_is_available_and_hugepages_are_apart() {
        let limits = ResourceLimits { available: Some(22 * GIB), ..ResourceLimits::default() };
        let lines = short(&NEEDS, &limits);
        assert!(lines.len() == 1 && lines[0].contains("takes 58368 MiB, and 22528 MiB are available"), "{lines:?}");
        assert!(lines[0].contains("make [buffer] size smaller"), "{lines:?}");
        assert_eq!(short(&NEEDS, &ResourceLimits { available: Some(57 * GIB), ..ResourceLimits::default() }), [""; 0]);
        assert_eq!(short(&ResourceNeeds { in_hugepages: true, ..NEEDS }, &limits), [""; 0]);
    }

    #[test]
    fn nics_lock_all_packet_memory() {
        let limits = ResourceLimits { locked: Some(8192 << 10), ..ResourceLimits::default() };
        assert_eq!(short(&NEEDS, &limits), [""; 0]);
        for in_hugepages in [false, true] {
            let lines = short(&ResourceNeeds { is_locked: true, in_hugepages, ..NEEDS }, &limits);
            assert!(lines.len() == 1 && lines[0].contains("57344 MiB have to be locked"), "{lines:?}");
            assert!(lines[0].contains("may lock 8192 KiB (ulimit -l)"), "{lines:?}");
            for command in ["prlimit --pid $$ --memlock", "limits.conf", "LimitMEMLOCK=infinity"] {
                assert!(lines[0].contains(command), "{command}: {lines:?}");
            }
        }
        assert_eq!(short(&ResourceNeeds { is_locked: true, ..NEEDS }, &ResourceLimits::default()), [""; 0]);
    }

    #[test]
    fn addresses_and_files_are_counted() {
        let limits = ResourceLimits { addresses: Some(2 * GIB), files: Some(59), ..ResourceLimits::default() };
        let lines = short(&NEEDS, &limits);
        assert!(
            lines[0].contains("58624 MiB of addresses, and this process may have 2048 MiB (ulimit -v)"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("up to 60 files open, and this process may have 59") && lines[1].contains("ulimit -n 60"),
            "{lines:?}"
        );
        let small = ResourceNeeds { memory: GIB / 2, rings: 0, files: 59, ..NEEDS };
        assert_eq!(short(&small, &limits), [""; 0]);
        let reserved = ResourceLimits { hugepage_addresses: 64 * GIB, ..limits };
        assert!(short(&ResourceNeeds { in_hugepages: true, ..small }, &reserved)[0].contains("65792 MiB of addresses"));
    }

    #[test]
    fn each_parent_of_a_group_limits_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("proc/self/cgroup", "4:cpu,memory:/a/b\n1:name=systemd:/a\n0::/top/own\n");
        write(
            "proc/self/mountinfo",
            "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,cpu,memory\n36 31 0:33 / /cg/pids rw - cgroup cgroup rw,pids\n\
             37 31 0:34 / /cg2 rw - cgroup2 none rw\n",
        );
        write("cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        write("cg/memory/a/memory.limit_in_bytes", "1000000\n");
        write("cg/memory/a/memory.usage_in_bytes", "900000\n");
        write("cg/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\ntotal_active_file 50000\n");
        write("cg2/top/own/memory.max", "max\n");
        write("cg2/top/memory.max", "500\n");
        write("cg2/top/memory.current", "700\n");
        write("cg2/memory.max", "500\n");
        write("cg2/memory.current", "700\n");
        write("cg2/memory.stat", "inactive_file 100\nactive_file 50\nslab_reclaimable 150\n");
        let found = groups(root.path());
        let left: Vec<u64> = found.iter().map(|(_, left)| *left).collect();
        assert_eq!(left, [9_223_372_036_854_771_712, 350_000, 0, 100], "{found:?}");
        let limits = ResourceLimits { groups: found, ..ResourceLimits::default() };
        let lines = short(&NEEDS, &limits);
        assert!(
            lines.len() == 3 && lines[1].contains("leaves 0 MiB") && lines[1].contains("cg2/top/memory.max"),
            "{lines:?}"
        );
        assert!(lines[1].contains("MemoryMax="), "{lines:?}");
    }

    #[test]
    fn needs_follow_the_buffer_and_the_ports() {
        let needs = |buffer: &str, device: &str| {
            let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\n{device} = \"{name}\"\nrate = \"1Gbps\"\n");
            let text = format!("[buffer]\n{buffer}\n{}{}", port("a"), port("b"));
            let switches = [weir_config::parse("lab", &text).unwrap()];
            ResourceNeeds::of_switches(&switches, &Memory::for_switches(&switches, 1, 0))
        };
        let small = needs("size = \"1MB\"", "ring");
        assert!(small.memory > 64 << 20 && small.memory < GIB / 2, "{small:?}");
        assert_eq!((small.rings, small.files, small.is_locked), (0, FILES, false));
        let interfaces = needs("size = \"1MB\"", "af_packet");
        // 20,000 slots of 1.6 KB at 1 Gb/s.
        assert!(interfaces.rings > 60 << 20 && interfaces.rings <= 64 << 20, "{interfaces:?}");
        assert_eq!(interfaces.files, FILES + 8);
        let large = needs("size = \"2000MB\"\nmean_frame = \"exact\"", "ring");
        assert!(large.memory > 56 * GIB, "{large:?}");
        let lines = short(
            &ResourceNeeds { in_hugepages: false, ..large },
            &ResourceLimits { available: Some(24 * GIB), ..ResourceLimits::default() },
        );
        assert!(lines.len() == 1 && lines[0].contains("24576 MiB are available"), "{lines:?}");
    }
}
