//! Reasons for which a frame is dropped.

/// Reason why a frame was dropped. Every lost frame has exactly one, and each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// A lossless frame found its headroom full: the peer ignored PAUSE, or headroom is too small.
    HeadroomViolation,
    /// A lossy frame found its egress queue at the threshold.
    EgressThreshold,
    /// A lossy frame found the shared segment full.
    SharedFull,
    /// The frame is too short for a header, or has a group address as source.
    Malformed,
    /// The frame is longer than the MTU allows, so the headroom rule does not cover it.
    Oversize,
    /// The destination is in 01-80-C2-00-00-00 to -0F, which bridges never forward.
    LinkLocal,
    /// The destination is behind the ingress port.
    SamePort,
    /// The egress port has no link or is closed.
    PortDown,
    /// The egress queue or the ingress queue is in a PFC storm.
    PfcWatchdog,
    /// Packet memory is exhausted, for a copy or for an admitted frame. That is a fault of the set-up, since the pool is sized for the
    /// buffer.
    NoMemory,
    /// The frame was held when the switch was stopped.
    Shutdown,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [DropReason; 11] = [
        DropReason::HeadroomViolation,
        DropReason::EgressThreshold,
        DropReason::SharedFull,
        DropReason::Malformed,
        DropReason::Oversize,
        DropReason::LinkLocal,
        DropReason::SamePort,
        DropReason::PortDown,
        DropReason::PfcWatchdog,
        DropReason::NoMemory,
        DropReason::Shutdown,
    ];

    /// Returns the name of the reason in summaries.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::HeadroomViolation => "headroom_violation",
            DropReason::EgressThreshold => "egress_threshold",
            DropReason::SharedFull => "shared_full",
            DropReason::Malformed => "malformed",
            DropReason::Oversize => "oversize",
            DropReason::LinkLocal => "link_local",
            DropReason::SamePort => "same_port",
            DropReason::PortDown => "port_down",
            DropReason::PfcWatchdog => "pfc_watchdog",
            DropReason::NoMemory => "no_memory",
            DropReason::Shutdown => "shutdown",
        }
    }
}
