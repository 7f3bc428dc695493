//! `speed.json`: how long a machine took for a run in virtual time.

use serde::{Deserialize, Serialize};

/// How long the machine took. Nothing else of a run in virtual time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Time that passed, in milliseconds.
    pub wall_ms: u64,
    /// Time that the run's threads were on a CPU, all together; null if the system does not tell.
    pub cpu_ms: Option<u64>,
    /// Frames put on any link, flow control's too.
    pub packet_hops: u64,
    /// Packet-hops in a second of CPU time.
    pub packet_hops_per_cpu_second: Option<u64>,
    /// How often a switch or host was woken.
    pub wakeups: u64,
    /// The most threads that ran it at once.
    #[serde(default)]
    pub threads: usize,
    /// What its checkpoints took, if it was to write some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointSpeed>,
}

/// What the checkpoints of a run took, since it was begun or resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointSpeed {
    /// How many were written.
    pub count: u64,
    /// The size of the largest.
    pub bytes_max: u64,
    /// For how long the run stood still for one, at most, in milliseconds.
    pub ms_max: u64,
}
