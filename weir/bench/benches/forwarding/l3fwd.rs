//! DPDK's `l3fwd` on the same ports: it looks IPv4 destinations up by longest prefix and rewrites addresses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket};

use crate::ground::PeerConfig;
use crate::processes::{self, Daemon};

/// A running l3fwd, until this is dropped. Frames to 198.18.N.0/24 leave by port N.
pub(crate) struct L3fwd {
    pub(crate) daemon: Daemon,
    prefix: String,
}

/// Packets per CPU-second of its forwarding thread; `None` if it is not built or does not run.
pub(crate) fn rate(examples: &Path, ground: &PeerConfig, span: Duration) -> Option<f64> {
    L3fwd::start(examples, ground)?.measure(span)
}

impl L3fwd {
    /// Starts `build/l3fwd` of the folder `examples`.
    pub(crate) fn start(examples: &Path, &PeerConfig { ports, lcore, hugepages }: &PeerConfig) -> Option<L3fwd> {
        let prefix = format!("weir-l3fwd-{}", std::process::id());
        let mut command = Command::new(examples.join("build/l3fwd"));
        command.args(["-l", &lcore.to_string(), "--no-pci", "--file-prefix", &prefix]);
        command.args(if hugepages { vec!["--in-memory"] } else { vec!["--no-huge", "-m", "600"] });
        command.args(ports.devices.iter().map(|port| format!("--vdev={port}")));
        ports.prepare(&mut command);
        let queues = format!("--config=(0,0,{lcore}),(1,0,{lcore})");
        command.args(["--", "-p", "0x3", "-P", "--lookup=lpm", &queues]);
        command.args((!ports.have_types).then_some("--parse-ptype"));
        for (key, file) in [("--rule_ipv4", "lpm_default_v4.cfg"), ("--rule_ipv6", "lpm_default_v6.cfg")] {
            command.arg(format!("{key}={}", examples.join(file).display()));
        }
        let daemon = Daemon::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
        Some(L3fwd { daemon, prefix })
    }

    fn measure(&mut self, span: Duration) -> Option<f64> {
        let address = SocketAddrUnix::new(runtime_folder(&self.prefix).join("dpdk_telemetry.v2")).ok()?;
        let telemetry = self.daemon.wait_until(|| Telemetry::connect(&address))?;
        // Its tables are made, and its ports started, after telemetry answers.
        self.daemon.wait_until(|| telemetry.sent().filter(|sent| *sent > 0))?;
        // The main thread forwards.
        let pid = self.daemon.pid();
        processes::rate_over(span, || Some((telemetry.sent()?, processes::cpu_time_of_main_ns(pid)?)))
    }
}

impl Drop for L3fwd {
    fn drop(&mut self) {
        self.daemon.end();
        let _ = fs::remove_dir_all(runtime_folder(&self.prefix));
    }
}

/// Where DPDK keeps a process's files.
fn runtime_folder(prefix: &str) -> PathBuf {
    let base = if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    };
    base.join("dpdk").join(prefix)
}

/// DPDK's telemetry socket, which reports the packets that l3fwd's ports sent: it prints no counters itself.
struct Telemetry(OwnedFd);

impl Telemetry {
    fn connect(address: &SocketAddrUnix) -> Option<Telemetry> {
        let telemetry = Telemetry(socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).ok()?);
        connect(&telemetry.0, address).ok()?;
        // The socket introduces itself first.
        telemetry.receive().ok()?;
        Some(telemetry)
    }

    /// Packets sent on both ports so far.
    fn sent(&self) -> Option<u64> {
        (0..2).map(|port| self.sent_by(port)).sum()
    }

    fn sent_by(&self, port: u8) -> Option<u64> {
        send(&self.0, format!("/ethdev/stats,{port}").as_bytes(), SendFlags::empty()).ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&self.receive().ok()?).ok()?;
        answer["/ethdev/stats"]["opackets"].as_u64()
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; 16 << 10];
        let (length, _) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        answer.truncate(length);
        Ok(answer)
    }
}
