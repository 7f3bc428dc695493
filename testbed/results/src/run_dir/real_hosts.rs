//! What real hosts, and the programs that sent their flows, told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the program that sent a flow between real hosts told of it. Rates and times are the scenario's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSummary {
    /// The program: `ib_write_bw`, `iperf3`.
    pub tool: String,
    /// The client's command.
    pub command: String,
    /// Its mean rate of payload, while it sent, in bits a second; null of a test of latency.
    pub rate_bps: Option<u64>,
    /// How much later than asked it began; null where it did not tell.
    pub late_ns: Option<i64>,
    /// Segments that TCP sent again; null of RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// What the client's kernel told of TCP's connection while it sent; null of RDMA, and where it told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionSummary>,
    /// What a test of latency, or TCP of its round trip, told, by its names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times_ns: BTreeMap<String, u64>,
}

/// What samples showed of a TCP connection. Times are the scenario's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSummary {
    /// How many samples.
    pub samples: u64,
    /// The congestion window in segments, on average,
    pub cwnd_mean: u64,
    /// and at most.
    pub cwnd_max: u64,
    /// The smoothed round trip on average,
    pub rtt_mean_ns: u64,
    /// and at most.
    pub rtt_max_ns: u64,
    /// Segments retransmitted up to the last sample.
    pub retransmits: u64,
}

/// A real host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealHostSummary {
    /// Its name.
    pub name: String,
    /// How it was reached: `vm`, `netns` or `ssh`.
    pub reach: String,
    /// Whether Weir's NIC stood between it and the switch.
    pub has_nic_model: bool,
    /// Its kernel.
    pub kernel: String,
    /// Its interface on the switch.
    pub interface: String,
    /// Its RDMA device, if it has one.
    pub rdma: Option<String>,
    /// What its kernel and NIC counted during the run, without what stayed as it was: `rdma.rcvd_seq_err`, `nstat.IpExtInCEPkts`,
    /// `nic.rx_prio3_pause`.
    pub counters: BTreeMap<String, u64>,
}

impl RealHostSummary {
    /// A counter, 0 if it stayed as it was.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}
