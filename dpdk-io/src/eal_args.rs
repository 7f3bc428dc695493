//! Builds the EAL's command line, and picks the memory mode that fits the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Source of DPDK's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryMode {
    /// [`MemoryMode::InMemory`] if enough hugepages are free, else
    /// [`MemoryMode::NoHuge`].
    #[default]
    Auto,
    /// Hugepages that no other process sees (`--in-memory`).
    InMemory,
    /// Ordinary pages (`--no-huge`): slower with many buffers, needs nothing.
    NoHuge,
    /// Hugepages that secondary processes can map, as `dpdk-dumpcap` needs them.
    /// Their files stay in `/dev/hugepages` until the next start with the same
    /// file prefix.
    Shared,
}

/// Builder of EAL arguments, the program's name first.
///
/// Without [`EalArgs::file_prefix`] the process stands alone: no shared
/// configuration and no telemetry socket, so any number of them, of any user,
/// run side by side. With a prefix, telemetry is on under
/// `/var/run/dpdk/PREFIX`.
#[derive(Clone, Debug)]
pub struct EalArgs {
    program: String,
    lcores: Vec<(u32, u32)>,
    devices: Vec<String>,
    memory: MemoryMode,
    memory_mb: u32,
    file_prefix: Option<String>,
    log_level: String,
    telemetry: bool,
    extra: Vec<String>,
}

impl EalArgs {
    /// One lcore floats over all CPUs that the process may use, no PCI device
    /// is probed, 256 MiB of memory, messages from `notice` up go to stderr.
    pub fn new(program: impl Into<String>) -> EalArgs {
        EalArgs {
            program: program.into(),
            lcores: Vec::new(),
            devices: Vec::new(),
            memory: MemoryMode::Auto,
            memory_mb: 256,
            file_prefix: None,
            log_level: "notice".to_owned(),
            telemetry: true,
            extra: Vec::new(),
        }
    }

    /// Pairs of lcore id and the CPU it is pinned to; the lowest id is the main
    /// lcore, which runs the calling thread. Two lcores may name the same CPU.
    pub fn lcores(mut self, lcores: &[(u32, u32)]) -> EalArgs {
        self.lcores = lcores.to_vec();
        self
    }

    /// Probe this PCI device, e.g. `0000:81:00.0`, and no other.
    pub fn allow_pci(mut self, address: impl Into<String>) -> EalArgs {
        self.devices.push(address.into());
        self
    }

    /// Sets the source of DPDK's memory.
    pub fn memory(mut self, mode: MemoryMode) -> EalArgs {
        self.memory = mode;
        self
    }

    /// Sets the memory needed, in MiB: free memory that [`MemoryMode::Auto`] requires, and size of `--no-huge` memory. See
    /// [`crate::mempool_bytes`]; leave a fifth more.
    pub fn memory_mb(mut self, megabytes: u32) -> EalArgs {
        self.memory_mb = megabytes;
        self
    }

    /// Name under which other processes (telemetry, capture) find this one.
    pub fn file_prefix(mut self, prefix: impl Into<String>) -> EalArgs {
        self.file_prefix = Some(prefix.into());
        self
    }

    /// DPDK's `--log-level`, e.g. `notice`, `debug` or `lib.eal:info`.
    pub fn log_level(mut self, level: impl Into<String>) -> EalArgs {
        self.log_level = level.into();
        self
    }

    /// Whether a process with a file prefix opens the telemetry socket.
    pub fn telemetry(mut self, on: bool) -> EalArgs {
        self.telemetry = on;
        self
    }

    /// Appends arguments after the builder's own, so that they override them.
    pub fn extra<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> EalArgs {
        self.extra.extend(args.into_iter().map(Into::into));
        self
    }

    /// The memory mode that [`EalArgs::build`] will use: never `Auto`.
    fn effective_memory(&self) -> MemoryMode {
        match self.memory {
            MemoryMode::Auto if self.extra.iter().any(|arg| arg == "--in-memory") => MemoryMode::InMemory,
            MemoryMode::Auto if self.extra.iter().any(|arg| arg == "--no-huge") => MemoryMode::NoHuge,
            MemoryMode::Auto if free_hugepage_bytes() >= u64::from(self.memory_mb) << 20 => MemoryMode::InMemory,
            MemoryMode::Auto => MemoryMode::NoHuge,
            mode => mode,
        }
    }

    /// The arguments for [`crate::Eal::init`].
    pub fn build(&self) -> Vec<String> {
        let mut args = vec![self.program.clone(), self.lcore_argument()];
        if self.devices.is_empty() {
            args.push("--no-pci".to_owned());
        }
        for device in &self.devices {
            args.extend(["-a".to_owned(), device.clone()]);
        }
        self.push_memory(&mut args);
        let runtime_dir_works = self.file_prefix.is_some() && runtime_dir_is_usable();
        match &self.file_prefix {
            Some(prefix) if runtime_dir_works => args.push(format!("--file-prefix={prefix}")),
            // EAL would stop for a runtime directory that it cannot write, or
            // for a process of the same prefix. `--in-memory` implies this one,
            // and shared memory rules it out.
            _ if self.effective_memory() == MemoryMode::NoHuge => {
                args.push("--no-shconf".to_owned());
            }
            _ => {}
        }
        if !self.telemetry || !runtime_dir_works {
            args.push("--no-telemetry".to_owned());
        }
        args.push(format!("--log-level={}", self.log_level));
        args.extend(self.extra.iter().cloned());
        args
    }

    fn lcore_argument(&self) -> String {
        if self.lcores.is_empty() {
            let cpus: Vec<String> = crate::cpu::allowed().iter().map(u32::to_string).collect();
            return format!("--lcores=0@({})", cpus.join(","));
        }
        let pairs: Vec<String> = self.lcores.iter().map(|(lcore, cpu)| format!("{lcore}@{cpu}")).collect();
        format!("--lcores={}", pairs.join(","))
    }

    fn push_memory(&self, args: &mut Vec<String>) {
        match self.effective_memory() {
            MemoryMode::NoHuge => {
                if !self.extra.iter().any(|arg| arg == "--no-huge") {
                    args.push("--no-huge".to_owned());
                }
                args.extend(["-m".to_owned(), self.memory_mb.to_string()]);
            }
            MemoryMode::InMemory => {
                if !self.extra.iter().any(|arg| arg == "--in-memory") {
                    args.push("--in-memory".to_owned());
                }
                // vhost offers each memory segment to the guest as a region,
                // and a guest takes few: one file for many pages.
                args.push("--single-file-segments".to_owned());
            }
            MemoryMode::Shared => {}
            MemoryMode::Auto => unreachable!("effective_memory resolves Auto"),
        }
    }
}

/// Bytes of hugepages of any size that are free now.
pub fn free_hugepage_bytes() -> u64 {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    sizes
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let kilobytes = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let free = fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
            Some(kilobytes.parse::<u64>().ok()? * 1024 * free.trim().parse::<u64>().ok()?)
        })
        .sum()
}

/// Whether EAL can make its directory where it will look for one.
fn runtime_dir_is_usable() -> bool {
    // SAFETY: geteuid and getuid only read the process's credentials.
    let (user, effective) = unsafe { (libc::getuid(), libc::geteuid()) };
    let base = if user == 0 {
        PathBuf::from("/var/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| "/tmp".into(), PathBuf::from)
    };
    let dpdk = base.join("dpdk");
    if !dpdk.exists() {
        return is_writable(&base);
    }
    use std::os::unix::fs::MetadataExt;
    fs::metadata(&dpdk).is_ok_and(|meta| meta.uid() == effective) && is_writable(&dpdk)
}

fn is_writable(dir: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `path` is NUL-terminated and outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standalone_process_shares_nothing() {
        let args = EalArgs::new("weir").memory(MemoryMode::NoHuge).build();
        assert_eq!(args[0], "weir");
        for expected in ["--no-pci", "--no-huge", "--no-shconf", "--no-telemetry"] {
            assert!(args.iter().any(|arg| arg == expected), "{expected} in {args:?}");
        }
        assert!(!args.iter().any(|arg| arg == "--in-memory"));
    }

    #[test]
    fn in_memory_never_meets_no_huge() {
        let args = EalArgs::new("weir").extra(["--in-memory"]).build();
        assert!(!args.iter().any(|arg| arg == "--no-huge"));
        assert_eq!(args.iter().filter(|arg| *arg == "--in-memory").count(), 1);
    }

    #[test]
    fn lcores_and_devices_and_extra_come_in_order() {
        let args = EalArgs::new("weir")
            .lcores(&[(0, 2), (1, 3)])
            .allow_pci("0000:81:00.0")
            .extra(["--log-level=debug"])
            .build();
        assert_eq!(args[1], "--lcores=0@2,1@3");
        assert!(args.windows(2).any(|pair| pair == ["-a", "0000:81:00.0"]));
        assert!(!args.iter().any(|arg| arg == "--no-pci"));
        assert_eq!(args.last().map(String::as_str), Some("--log-level=debug"));
    }
}
