//! The programs that Weir is compared with.

use std::path::PathBuf;
use std::time::Duration;

use crate::{l3fwd, openvswitch, testpmd};

/// What all programs have in common: the frames that their ports receive, their CPU, their memory, and their time.
pub(crate) struct Ground<'a> {
    pub(crate) captures: &'a [PathBuf; 2],
    pub(crate) lcore: u32,
    pub(crate) hugepages: bool,
    pub(crate) span: Duration,
}

/// Another program that forwards between two ports.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Peer {
    /// `dpdk-testpmd` in this mode.
    Testpmd(&'static str),
    L3fwd,
    OpenVswitch,
}

impl Peer {
    pub(crate) const ADDRESSES_SWAPPED: [Peer; 2] = [Peer::Testpmd("macswap"), Peer::Testpmd("5tswap")];
    pub(crate) const ALL: [Peer; 5] =
        [Peer::Testpmd("io"), Peer::Testpmd("macswap"), Peer::Testpmd("5tswap"), Peer::L3fwd, Peer::OpenVswitch];

    pub(crate) fn name(self) -> String {
        match self {
            Peer::Testpmd(mode) => format!("testpmd {mode}"),
            Peer::L3fwd => "l3fwd LPM".to_owned(),
            Peer::OpenVswitch => "Open vSwitch".to_owned(),
        }
    }

    /// Packets per CPU-second of its forwarding thread; `None` if it is not there or does not run.
    pub(crate) fn rate(self, ground: &Ground) -> Option<f64> {
        let &Ground { captures, lcore, hugepages, span } = ground;
        // Where scripts/peers put programs.
        let folder = || std::env::var_os("WEIR_PEERS").map(PathBuf::from);
        match self {
            Peer::Testpmd(mode) => testpmd::rate(mode, captures, lcore, hugepages, span),
            Peer::L3fwd => l3fwd::rate(&folder()?, captures, lcore, hugepages, span),
            Peer::OpenVswitch => openvswitch::rate(&folder()?, captures, lcore, hugepages, span),
        }
    }

    /// What to do where it does not run.
    pub(crate) fn wants(self) -> &'static str {
        match self {
            Peer::Testpmd(_) => "is dpdk-testpmd there? (apt-get install dpdk-dev)",
            Peer::L3fwd | Peer::OpenVswitch => {
                "is it there? (`make bench-peers` gets it and says what is missing; or scripts/peers FOLDER, and WEIR_PEERS=FOLDER)"
            }
        }
    }
}
