//! Reasons for which a frame is dropped.

/// Declares an enum of drop reasons. A reason has a description, for its documentation and the reference, and a name in summaries.
#[macro_export]
macro_rules! drop_reasons {
    ($(#[$attribute:meta])* pub enum $reasons:ident { $($(#[doc = $help:literal])+ $reason:ident = $name:literal,)+ }) => {
        $(#[$attribute])*
        pub enum $reasons {
            $($(#[doc = $help])+ $reason,)+
        }

        impl $reasons {
            /// All reasons, in the order of their counters.
            pub const ALL: [$reasons; $reasons::COUNT] = [$($reasons::$reason),+];
            /// Number of reasons.
            pub const COUNT: usize = [$($name),+].len();

            /// Returns the name of the reason in summaries.
            pub const fn name(self) -> &'static str {
                match self {
                    $($reasons::$reason => $name,)+
                }
            }

            /// Returns the description, for the reference.
            pub const fn help(self) -> &'static str {
                match self {
                    $($reasons::$reason => concat!($($help),+).trim_ascii(),)+
                }
            }
        }
    };
}

drop_reasons! {
    /// Reason why a frame was dropped. Every lost frame has exactly one, and each has a counter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum DropReason {
        /// A lossless frame found its headroom full: the peer ignored PAUSE, or headroom is too small.
        HeadroomViolation = "headroom_violation",
        /// A lossy frame found its egress queue at the threshold.
        EgressThreshold = "egress_threshold",
        /// A lossy frame found the shared segment full.
        SharedFull = "shared_full",
        /// The frame is too short for a header, or has a group address as source.
        Malformed = "malformed",
        /// The frame is longer than the MTU allows, so the headroom rule does not cover it.
        Oversize = "oversize",
        /// The destination is in 01-80-C2-00-00-00 to -0F, which bridges never forward.
        LinkLocal = "link_local",
        /// The ingress port is no member of the frame's VLAN, or an untagged frame has none; or the VLAN has no other member.
        VlanFilter = "vlan_filter",
        /// The destination is behind the ingress port.
        SamePort = "same_port",
        /// The egress port has no link or is closed.
        PortDown = "port_down",
        /// The egress queue is in a PFC storm, or the queue of its number at the ingress port.
        PfcWatchdog = "pfc_watchdog",
        /// The ingress port floods more than `storm_control` allows.
        StormControl = "storm_control",
        /// Packet memory is exhausted, for a copy or for an admitted frame. That is a fault of the set-up, since the pool is sized for the
        /// buffer.
        NoMemory = "no_memory",
        /// The frame was held when the switch was stopped.
        Shutdown = "shutdown",
    }
}
