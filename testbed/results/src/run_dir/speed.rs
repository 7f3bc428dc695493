//! `speed.json`: speed of a run in virtual time on this machine.

use serde::{Deserialize, Serialize};

/// Speed of the run on this machine. No other result of a run in virtual time depends on the machine. Further fields, as older programs
/// wrote them, are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    /// Wall-clock time, in milliseconds.
    pub wall_ms: u64,
    /// CPU time of all the run's threads, in milliseconds; null if the system does not report it.
    pub cpu_ms: Option<u64>,
    /// Frames sent on all links, including control frames.
    pub packet_hops: u64,
    /// Packet-hops per second of CPU time.
    pub packet_hops_per_cpu_second: Option<u64>,
    /// Number of wakeups of switches and hosts.
    pub wakeups: u64,
    /// Most threads that ran simultaneously.
    #[serde(default)]
    pub threads: usize,
}
