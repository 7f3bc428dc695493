//! Real hosts: guests booted on this machine, network namespaces, and machines reached by ssh; and the programs run on them.
//!
//! [`guest`] creates, boots and ends guests, which `weir vm` exposes to users. [`RealHostSet`] makes the real hosts of a
//! scenario send its flows through running switches, with perftest and iperf3, and reads the counters of these programs and
//! of the hosts' kernels. [`check`] reports missing prerequisites of a host.
//!
//! [`perftest_handshake`] exchanges the connection parameters of two perftest ends, and needs no host:
//!
//! ```
//! use weir_hosts::perftest_handshake::{PerftestHandshake, Keys, Role};
//! use weir_nic::host::RdmaOperation;
//!
//! let keys = |queue_pair, host| {
//!     Keys { queue_pair, psn: 0, remote_key: 0, virtual_address: 0, gid: [0; 16] }.with_ip([10, 0, 0, host].into())
//! };
//! let mut client = PerftestHandshake::new(Role::Client, RdmaOperation::Write, keys(17, 1), 1_024);
//! let mut server = PerftestHandshake::new(Role::Server, RdmaOperation::Write, keys(18, 2), 1_024);
//! loop {
//!     let (there, back) = (client.poll_transmit(), server.poll_transmit());
//!     if there.is_none() && back.is_none() {
//!         break;
//!     }
//!     there.map_or(Ok(()), |message| server.handle(&message))?;
//!     back.map_or(Ok(()), |message| client.handle(&message))?;
//! }
//! assert_eq!(client.peer().map(|keys| keys.queue_pair), Some(18));
//! assert_eq!(server.peer().and_then(Keys::ip), Some([10, 0, 0, 1].into()));
//! # Ok::<(), weir_hosts::perftest_handshake::HandshakeError>(())
//! ```

#![forbid(unsafe_code)]

mod access;
pub mod check;
mod counters;
pub mod guest;
mod host;
mod iperf3;
mod netns;
mod nonblocking;
mod perftest;
pub mod perftest_handshake;
mod probe;
mod ranks;
mod real_host_set;
mod script;
mod sockets;

pub use ranks::{RankArrival, RankConnection, RankEnds, RankHost, RankNetwork};
pub use real_host_set::{ConnectionSample, CounterRow, RealHostSet, RealHostsResult, Session, perftest_port};

use guest::GuestError;

/// Error of real hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The scenario is unsupported by real hosts.
    #[error("{0}")]
    Scenario(String),
    /// A guest failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A host can't be created or reached, or a command failed.
    #[error("host {host}: {why}")]
    Host {
        /// Name of the host.
        host: String,
        /// Reason of the failure.
        why: String,
    },
}

impl HostError {
    fn for_host(host: &str, why: impl Into<String>) -> HostError {
        HostError::Host { host: host.to_owned(), why: why.into() }
    }
}
