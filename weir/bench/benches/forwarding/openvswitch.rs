//! Open vSwitch with DPDK on the same ports: a bridge that learns addresses (the action NORMAL). It has a database, sockets and a
//! network namespace of its own, so that a switch of the system is left alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::ground::PeerConfig;
use crate::processes::{self, Daemon};

/// Time for flows to be learned before anything is counted.
const LEARN: Duration = Duration::from_millis(200);

/// Packets per CPU-second of its forwarding thread; `None` if it is not unpacked or does not run.
pub(crate) fn rate(folder: &Path, ground: &PeerConfig, span: Duration) -> Option<f64> {
    OpenVswitch::start(folder, ground)?.measure(span)
}

/// A running Open vSwitch. What ends it comes before the folder of its files.
struct OpenVswitch {
    switch: Daemon,
    _database: Daemon,
    at: Installation,
}

impl OpenVswitch {
    fn start(folder: &Path, ground: &PeerConfig) -> Option<OpenVswitch> {
        let at = Installation { programs: folder.to_owned(), home: tempfile::tempdir().ok()? };
        let schema = at.programs.join("usr/share/openvswitch/vswitch.ovsschema");
        succeed(at.command("usr/bin/ovsdb-tool").arg("create").arg(at.file("conf.db")).arg(schema))?;
        let mut database = at.daemon("usr/sbin/ovsdb-server", "db");
        database.arg(format!("--remote=p{}", at.database())).arg(at.file("conf.db"));
        let mut database = Daemon::start(&mut database)?;
        database.wait_until(|| at.file("db.sock").exists().then_some(()))?;
        at.configure(ground)?;
        let mut switch = at.daemon("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "switch");
        ground.ports.prepare(&mut switch);
        let switch = Daemon::start(switch.arg(at.database()))?;
        Some(OpenVswitch { switch, _database: database, at })
    }

    fn measure(mut self, span: Duration) -> Option<f64> {
        let OpenVswitch { switch, at, .. } = &mut self;
        switch.wait_until(|| at.sent().filter(|sent| sent.iter().all(|&packets| packets > 0)))?;
        std::thread::sleep(LEARN);
        processes::rate_over(span, || {
            let cpu_time_ns = processes::cpu_time_ns(switch.pid(), |name| name.starts_with("pmd-c"))?;
            Some((at.sent()?.iter().sum(), cpu_time_ns))
        })
    }
}

/// Where its programs are, and where it keeps its files.
struct Installation {
    programs: PathBuf,
    home: TempDir,
}

impl Installation {
    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn database(&self) -> String {
        format!("unix:{}", self.file("db.sock").display())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        self.settle(&mut command);
        command
    }

    /// A daemon that stays in the foreground. In its own network namespace the interfaces that it makes are seen by nobody else.
    fn daemon(&self, program: &str, name: &str) -> Command {
        let mut command = Command::new("unshare");
        command.arg("--net");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.arg(self.programs.join(program)).args(["-vconsole:off", "-vsyslog:off"]);
        for (option, ending) in [("pidfile", "pid"), ("unixctl", "ctl")] {
            command.arg(format!("--{option}={}", self.file(&format!("{name}.{ending}")).display()));
        }
        self.settle(&mut command);
        command
    }

    /// Sets a program's folders to these files, and silences it.
    fn settle(&self, command: &mut Command) {
        for variable in
            ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"]
        {
            command.env(variable, self.home.path());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }

    /// Writes the switch's configuration into its database: one bridge, two ports, one forwarding thread.
    fn configure(&self, &PeerConfig { ports, lcore, hugepages }: &PeerConfig) -> Option<()> {
        let memory = if hugepages { "--in-memory" } else { "--no-huge --legacy-mem --no-shconf -m 600" };
        let other = u32::from(lcore == 0);
        let mut command = self.command("usr/bin/ovs-vsctl");
        command.args(["-vsyslog:off", "--no-wait", &format!("--db={}", self.database()), "--", "init"]);
        command.args(["--", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true"]);
        command.arg(format!("other_config:dpdk-extra=\"--no-pci {memory}\""));
        command.arg(format!("other_config:dpdk-lcore-mask={}", mask(other)));
        command.arg(format!("other_config:pmd-cpu-mask={}", mask(lcore)));
        // Else it takes a quarter of a million buffers for all ports.
        command.arg("other_config:per-port-memory=true");
        command.args(["--", "add-br", "bench", "--", "set", "Bridge", "bench", "datapath_type=netdev"]);
        for (n, device) in ports.devices.iter().enumerate() {
            let port = format!("p{n}");
            command.args(["--", "add-port", "bench", &port, "--", "set", "Interface", &port, "type=dpdk"]);
            command.arg(format!("options:dpdk-devargs=\"{device}\""));
        }
        succeed(&mut command)
    }

    /// Packets sent so far by each of the two ports.
    fn sent(&self) -> Option<[u64; 2]> {
        let mut command = self.command("usr/bin/ovs-appctl");
        command.arg("-t").arg(self.file("switch.ctl")).args(["dpctl/show", "--statistics"]);
        let told = String::from_utf8(command.stdout(Stdio::piped()).output().ok()?.stdout).ok()?;
        // Ports of its own, which are no devices of DPDK, come first.
        let sent = |port: &str| {
            let (_, told) = told.split_once(&format!(": {port} (dpdk"))?;
            told.split_once("TX packets:")?.1.split_whitespace().next()?.parse().ok()
        };
        Some([sent("p0")?, sent("p1")?])
    }
}

fn succeed(command: &mut Command) -> Option<()> {
    command.status().ok()?.success().then_some(())
}

/// The mask of one CPU, in hexadecimal digits.
fn mask(cpu: u32) -> String {
    format!("{:x}{}", 1 << (cpu % 4), "0".repeat(cpu as usize / 4))
}
