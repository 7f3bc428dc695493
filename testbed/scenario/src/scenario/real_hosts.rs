//! Real hosts: access to them, and the tools that send their flows.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use weir_nic::host::Verb;

/// Access to a real host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// `"vm"`: a guest that is booted for the runs, at a vhost-user port.
    Vm {
        /// Memory in MB.
        memory_mb: u64,
        /// Queue pairs of its NIC; frames of class c leave by queue c modulo this.
        queues: u8,
    },
    /// `"netns"`: a network namespace of this machine, made for the runs, at a veth pair.
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

/// A host and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealHost {
    /// Access to the host.
    pub reach: Reach,
    /// Whether Weir's NIC stands between the host and the switch's port; a machine that ssh reaches has its own.
    pub has_nic_model: bool,
}

/// A test of perftest.
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

/// perftest program of a flow between real hosts, other than TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTool {
    /// The test.
    pub test: PerfTest,
    /// Number of queue pairs.
    pub queue_pairs: u16,
    /// Messages that the receiver of `ib_send_bw` has buffers for; as many as perftest has by itself if `None`.
    pub receive_depth: Option<u16>,
}

/// Real part of a scenario, by the places of its hosts and flows.
#[derive(Clone, Debug, Default)]
pub struct RealPlan {
    /// The hosts that are; none that is emulated.
    pub hosts: Vec<Option<RealHost>>,
    /// Tool of each flow, if its hosts are real.
    pub flows: Vec<FlowTool>,
    /// Location of the hosts' ports.
    pub ports: RealPorts,
}

/// Location of the real hosts' ports on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealPorts {
    /// The folder of the sockets.
    pub folder: PathBuf,
    /// Number that distinguishes the interfaces of this process from those of others.
    pub process: u32,
}

impl PerfTest {
    /// All tests.
    pub const ALL: [PerfTest; 4] = [PerfTest::WriteBw, PerfTest::SendBw, PerfTest::ReadBw, PerfTest::SendLat];

    /// The program.
    pub fn name(self) -> &'static str {
        match self {
            PerfTest::WriteBw => "ib_write_bw",
            PerfTest::SendBw => "ib_send_bw",
            PerfTest::ReadBw => "ib_read_bw",
            PerfTest::SendLat => "ib_send_lat",
        }
    }

    /// Returns the verb that carries a host's messages.
    pub fn verb(self) -> Verb {
        match self {
            PerfTest::WriteBw | PerfTest::ReadBw => Verb::Write,
            PerfTest::SendBw | PerfTest::SendLat => Verb::Send,
        }
    }
}

impl Default for FlowTool {
    fn default() -> FlowTool {
        FlowTool { test: PerfTest::default(), queue_pairs: 1, receive_depth: None }
    }
}

impl Reach {
    /// Returns the name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Reach::Vm { .. } => "vm",
            Reach::Netns => "netns",
            Reach::Ssh { .. } => "ssh",
        }
    }
}

impl RealPorts {
    /// The socket of a guest's port, by the host's place.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.folder.join(format!("h{host}.sock"))
    }

    /// The switch's end of a namespace's veth pair, by the host's place.
    pub fn interface(&self, host: usize) -> String {
        format!("wr{}n{host}", self.process)
    }
}

impl RealPlan {
    /// Whether the host of this place is real.
    pub fn is_real(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(Option::is_some)
    }
}
