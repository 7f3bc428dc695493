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
    /// `dpdk-testpmd` in this mode, with this many frames a burst.
    Testpmd(&'static str, usize),
    /// DPDK's `l3fwd`, built for this many frames a burst.
    L3fwd(usize),
    OpenVswitch,
}

impl Peer {
    pub(crate) const ADDRESSES_SWAPPED: [Peer; 2] = [Peer::Testpmd("macswap", LONG), Peer::Testpmd("5tswap", LONG)];
    pub(crate) const ALL: [Peer; 8] = [
        Peer::Testpmd("io", SHORT),
        Peer::Testpmd("io", LONG),
        Peer::Testpmd("macswap", SHORT),
        Peer::Testpmd("macswap", LONG),
        Peer::Testpmd("5tswap", LONG),
        Peer::L3fwd(SHORT),
        Peer::L3fwd(LONG),
        Peer::OpenVswitch,
    ];

    /// Whether its rate is that of the ports alone.
    pub(crate) fn is_of_ports_alone(self) -> bool {
        matches!(self, Peer::Testpmd("io", _))
    }

    pub(crate) fn name(self) -> String {
        match self {
            Peer::Testpmd(mode, burst) => format!("testpmd {mode} {burst}"),
            Peer::L3fwd(burst) => format!("l3fwd LPM {burst}"),
            Peer::OpenVswitch => "Open vSwitch".to_owned(),
        }
    }

    /// Packets per CPU-second of its forwarding thread; `None` if it is not there or does not run.
    pub(crate) fn rate(self, ground: &PeerConfig, span: Duration) -> Option<f64> {
        match self {
            Peer::Testpmd(mode, burst) => testpmd::rate(mode, burst, ground, span),
            Peer::L3fwd(burst) => l3fwd::rate(&folder(l3fwd_variable(burst))?, ground, span),
            Peer::OpenVswitch => openvswitch::rate(&folder(OPEN_VSWITCH)?, ground, span),
        }
    }

    /// Starts it between two memif ports; `None` if it is not there.
    pub(crate) fn start(self, ground: &PeerConfig) -> Option<Forwarder> {
        Some(match self {
            Peer::Testpmd(mode, burst) => Forwarder::Plain(testpmd::start(mode, burst, ground)?),
            Peer::L3fwd(burst) => Forwarder::L3fwd(L3fwd::start(&folder(l3fwd_variable(burst))?, ground)?),
            // It takes memif ports, and forwards nothing between them.
            Peer::OpenVswitch => return None,
        })
    }

    /// What to do where it does not run.
    pub(crate) fn wants(self) -> &'static str {
        match self {
            Peer::Testpmd(..) => "is dpdk-testpmd there? (apt-get install dpdk-dev)",
            Peer::L3fwd(LONG) => {
                "does WEIR_L3FWD_64 name a copy of that folder, built with MAX_PKT_BURST 64? (docs/PERFORMANCE.md)"
            }
            Peer::L3fwd(_) => {
                "does WEIR_L3FWD name DPDK's folder examples/l3fwd, with build/l3fwd in it? (docs/PERFORMANCE.md)"
            }
            Peer::OpenVswitch => {
                "does WEIR_OPENVSWITCH name the root that Debian's packages of Open vSwitch are unpacked in? (docs/PERFORMANCE.md)"
            }
        }
    }
}

/// Frames of a burst: the default of DPDK's programs, and those of a burst of Weir.
pub(crate) const SHORT: usize = 32;
pub(crate) const LONG: usize = 64;

/// Variable of the environment that names DPDK's folder `examples/l3fwd`, built for such bursts.
fn l3fwd_variable(burst: usize) -> &'static str {
    if burst == LONG { "WEIR_L3FWD_64" } else { "WEIR_L3FWD" }
}

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
