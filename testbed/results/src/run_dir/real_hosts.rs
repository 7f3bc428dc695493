//! Results of real hosts and of the programs that sent their flows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Report of the program that sent a flow between real hosts. Rates and times are the scenario's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSummary {
    /// Name of the program: `ib_write_bw`, `iperf3`.
    pub tool: String,
    /// Command of the client.
    pub command: String,
    /// Mean payload rate while the program sent, in bits a second; null of a latency test.
    pub rate_bps: Option<u64>,
    /// Delay of the program's start after the planned instant; null if not reported.
    pub late_ns: Option<i64>,
    /// Segments retransmitted by TCP; null of RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Statistics of the TCP connection from the client's kernel; null of RDMA, and without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionSummary>,
    /// Times of a latency test, or TCP's round trip times, by their names in the report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times_ns: BTreeMap<String, u64>,
}

/// Sample statistics of a TCP connection. Times are the scenario's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSummary {
    /// Number of samples.
    pub samples: u64,
    /// Mean congestion window, in segments.
    pub cwnd_mean: u64,
    /// Largest congestion window, in segments.
    pub cwnd_max: u64,
    /// Mean smoothed round trip time.
    pub rtt_mean_ns: u64,
    /// Longest smoothed round trip time.
    pub rtt_max_ns: u64,
    /// Segments retransmitted up to the last sample.
    pub retransmits: u64,
}

/// Results of a real host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealHostSummary {
    /// Name of the host.
    pub name: String,
    /// Access to the host: `vm`, `netns` or `ssh`.
    pub backend: String,
    /// Whether Weir's NIC model was between the host and the switch.
    pub has_nic_model: bool,
    /// Kernel version.
    pub kernel: String,
    /// Interface on the switch's link.
    pub interface: String,
    /// RDMA device, if any.
    pub rdma: Option<String>,
    /// Counters of the kernel and the NIC that changed during the run: `rdma.rcvd_seq_err`, `nstat.IpExtInCEPkts`,
    /// `nic.rx_prio3_pause`.
    pub counters: BTreeMap<String, u64>,
}

impl RealHostSummary {
    /// Returns a counter's change, 0 if it did not change.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}
