//! Real hosts: access to them, and the tools that send their flows.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use weir_nic::host::RdmaOperation;

/// Access to a real host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostBackend {
    /// `"vm"`: a guest at a vhost-user port, booted for the runs.
    Vm {
        /// Memory in MB.
        memory_mb: u64,
        /// Queue pairs of the guest's NIC; frames of class c use queue c modulo this number.
        queues: u8,
    },
    /// `"netns"`: a network namespace of this machine at a veth pair, created for the runs.
    Netns,
    /// `"ssh"`: a machine that `ssh` reaches, cabled to the port's device.
    Ssh {
        /// SSH target: `root@server1`.
        target: String,
        /// Interface at the cable.
        interface: String,
        /// RDMA device; by default that of the interface.
        rdma: Option<String>,
        /// IP address of the interface; by default the scenario's.
        ip: Option<Ipv4Addr>,
    },
}

/// Host, and the access to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealHost {
    /// Access to the host.
    pub backend: HostBackend,
    /// Whether Weir's NIC model is between the host and the switch's port; a machine that ssh reaches has its own NIC.
    pub has_nic_model: bool,
}

/// Test of perftest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PerfTest {
    /// `ib_write_bw`.
    #[default]
    WriteBw,
    /// `ib_send_bw`.
    SendBw,
    /// `ib_read_bw`.
    ReadBw,
    /// `ib_send_lat`.
    SendLat,
}

/// Test and parameters of a flow of perftest between real hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTool {
    /// The test.
    pub test: PerfTest,
    /// Number of queue pairs.
    pub queue_pairs: u16,
    /// Messages for which the receiver of `ib_send_bw` has buffers; `None` for perftest's default.
    pub receive_depth: Option<u16>,
}

/// Real part of a scenario, by the indices of its hosts and flows.
#[derive(Clone, Debug, Default)]
pub struct RealPlan {
    /// Real hosts; `None` for an emulated host.
    pub hosts: Vec<Option<RealHost>>,
    /// Tool of each flow, if its hosts are real.
    pub flows: Vec<FlowTool>,
    /// Location of the hosts' ports.
    pub ports: RealPorts,
}

/// Location of the real hosts' ports on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealPorts {
    /// Folder of the sockets.
    pub folder: PathBuf,
    /// Number that distinguishes the interfaces of this process from those of others.
    pub process: u32,
}

impl PerfTest {
    /// Programs, each with its test.
    pub(crate) const NAMES: &[(&str, PerfTest)] = &[
        ("ib_write_bw", PerfTest::WriteBw),
        ("ib_send_bw", PerfTest::SendBw),
        ("ib_read_bw", PerfTest::ReadBw),
        ("ib_send_lat", PerfTest::SendLat),
    ];

    /// Name of the program.
    pub fn name(self) -> &'static str {
        match self {
            PerfTest::WriteBw => "ib_write_bw",
            PerfTest::SendBw => "ib_send_bw",
            PerfTest::ReadBw => "ib_read_bw",
            PerfTest::SendLat => "ib_send_lat",
        }
    }

    /// Returns the verb that carries a host's messages.
    pub fn verb(self) -> RdmaOperation {
        match self {
            PerfTest::WriteBw | PerfTest::ReadBw => RdmaOperation::Write,
            PerfTest::SendBw | PerfTest::SendLat => RdmaOperation::Send,
        }
    }
}

impl Default for FlowTool {
    fn default() -> FlowTool {
        FlowTool { test: PerfTest::default(), queue_pairs: 1, receive_depth: None }
    }
}

impl HostBackend {
    /// Returns the name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            HostBackend::Vm { .. } => "vm",
            HostBackend::Netns => "netns",
            HostBackend::Ssh { .. } => "ssh",
        }
    }
}

impl RealPorts {
    /// Path of the socket of a guest's port, by host index.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.folder.join(format!("h{host}.sock"))
    }

    /// Name of the switch's end of a namespace's veth pair, by host index.
    pub fn interface(&self, host: usize) -> String {
        format!("wr{}n{host}", self.process)
    }
}

impl RealPlan {
    /// Whether this host is real.
    pub fn is_real(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(Option::is_some)
    }
}
