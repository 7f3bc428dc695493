//! Common configuration of the programs that are compared.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_bench::memif_tester::INTERFACES;

/// Their ports, their CPU, and their memory.
pub(crate) struct PeerConfig<'a> {
    pub(crate) ports: &'a PeerPorts,
    pub(crate) lcore: u32,
    pub(crate) hugepages: bool,
}

/// Two ports of a program.
pub(crate) struct PeerPorts {
    /// Devices, as DPDK's option `--vdev` names them.
    pub(crate) devices: [String; 2],
    /// Whether received packets have their type, as a NIC's have.
    pub(crate) have_types: bool,
    /// Variables of the program's environment.
    environment: Vec<(&'static str, OsString)>,
}

impl PeerPorts {
    /// Passes the ports' environment to the program.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }
}

/// Library that gives a program the ports of Weir's measurements. A program that does not preload it can't have them, as DPDK's distributions
/// have no headers for drivers.
pub(crate) struct ReplayLibrary(PathBuf);

impl ReplayLibrary {
    /// Builds the library into a directory, with the compiler that Weir's build needs too.
    ///
    /// # Panics
    /// If it can't be built.
    pub(crate) fn build(directory: &Path) -> ReplayLibrary {
        let library = directory.join("replay_ports.so");
        let status = Command::new("sh")
            .args(["-c", BUILD, "sh"])
            .arg(&library)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dpdk-io/dpdk-sys/src"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/forwarding"))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{} was not built", library.display());
        ReplayLibrary(library)
    }

    /// Returns ports that receive these frames for ever, and drop what is sent.
    pub(crate) fn ports(&self, captures: &[PathBuf; 2]) -> PeerPorts {
        let mut files = captures[0].clone().into_os_string();
        files.push(":");
        files.push(&captures[1]);
        let environment = vec![("LD_PRELOAD", self.0.clone().into_os_string()), ("WEIR_REPLAY", files)];
        PeerPorts { devices: [0, 1].map(|n| format!("net_null{n}")), have_types: true, environment }
    }
}

/// Flags of `dpdk-sys/build.rs`. Arguments: the library, the folder of `replay.c`, and that of this file.
const BUILD: &str = r#"exec "${CC:-cc}" -std=gnu11 -O2 -shared -fPIC -D_GNU_SOURCE -DALLOW_EXPERIMENTAL_API \
    $(pkg-config --cflags libdpdk) -I"$2" -o "$1" "$3/replay_ports.c" "$2/replay.c" $(pkg-config --libs libdpdk)"#;

/// Ports that are the other ends of a generator's.
pub(crate) fn sharing_memory(socket: &Path) -> PeerPorts {
    let device = |id| format!("net_memif{id},role=client,id={id},socket={},socket-abstract=no", socket.display());
    PeerPorts { devices: INTERFACES.map(device), have_types: false, environment: Vec::new() }
}
