//! Real hosts: guests that this machine boots, network namespaces, and machines that ssh reaches; and what is run on them.
//!
//! [`guest`] makes, boots and ends guests, which `weir vm` shows to a user. [`Experiment`] has the real hosts of a scenario send its flows
//! through switches that run, by perftest and iperf3, and reads what these and the hosts' kernels counted. [`check`] tells what a
//! host lacks for that.

#![forbid(unsafe_code)]

mod access;
pub mod check;
mod counters;
pub mod exchange;
mod experiment;
pub mod guest;
mod host;
mod iperf3;
mod netns;
mod perftest;
mod probe;
mod script;
mod sockets;

pub use experiment::{ConnectionSample, CounterRow, Experiment, Outcome, Session, perftest_port};

use guest::GuestError;

/// Why real hosts don't do what a scenario asks of them.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The scenario asks for what real hosts can't do.
    #[error("{0}")]
    Scenario(String),
    /// A guest.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A host can't be made or reached, or refused a command.
    #[error("host {host}: {why}")]
    Host {
        /// Its name.
        host: String,
        /// Why.
        why: String,
    },
}

impl HostError {
    fn of(host: &str, why: impl Into<String>) -> HostError {
        HostError::Host { host: host.to_owned(), why: why.into() }
    }
}
