//! The programs that Weir is compared with.

use std::path::PathBuf;
use std::time::Duration;

use crate::ground::PeerConfig;
use crate::l3fwd::{self, L3fwd};
use crate::processes::Daemon;
use crate::{openvswitch, testpmd};

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
    pub(crate) fn rate(self, ground: &PeerConfig, span: Duration) -> Option<f64> {
        match self {
            Peer::Testpmd(mode) => testpmd::rate(mode, ground, span),
            Peer::L3fwd => l3fwd::rate(&folder(L3FWD)?, ground, span),
            Peer::OpenVswitch => openvswitch::rate(&folder(OPEN_VSWITCH)?, ground, span),
        }
    }

    /// Starts it between two memif ports; `None` if it is not there.
    pub(crate) fn start(self, ground: &PeerConfig) -> Option<Forwarder> {
        Some(match self {
            Peer::Testpmd(mode) => Forwarder::Plain(testpmd::start(mode, ground)?),
            Peer::L3fwd => Forwarder::L3fwd(L3fwd::start(&folder(L3FWD)?, ground)?),
            // It takes memif ports, and forwards nothing between them.
            Peer::OpenVswitch => return None,
        })
    }

    /// What to do where it does not run.
    pub(crate) fn wants(self) -> &'static str {
        match self {
            Peer::Testpmd(_) => "is dpdk-testpmd there? (apt-get install dpdk-dev)",
            Peer::L3fwd => {
                "does WEIR_L3FWD name DPDK's folder examples/l3fwd, with build/l3fwd in it? (docs/PERFORMANCE.md)"
            }
            Peer::OpenVswitch => {
                "does WEIR_OPENVSWITCH name the root that Debian's packages of Open vSwitch are unpacked in? (docs/PERFORMANCE.md)"
            }
        }
    }
}

/// Variable of the environment that names DPDK's folder `examples/l3fwd`, built.
const L3FWD: &str = "WEIR_L3FWD";
/// Variable of the environment that names the root below which Open vSwitch lies.
const OPEN_VSWITCH: &str = "WEIR_OPENVSWITCH";

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// A program that forwards until this is dropped.
pub(crate) enum Forwarder {
    /// One that leaves nothing behind.
    Plain(Daemon),
    L3fwd(L3fwd),
}

impl Forwarder {
    /// The process that forwards.
    pub(crate) fn process(&mut self) -> &mut Daemon {
        match self {
            Forwarder::Plain(daemon) => daemon,
            Forwarder::L3fwd(l3fwd) => &mut l3fwd.daemon,
        }
    }
}
