//! Workloads: messages of hosts, from distributions of sizes and processes of arrivals.
//!
//! | item | is |
//! |---|---|
//! | [`SizeCdf`] | a distribution of sizes, from a file or built in |
//! | [`Poisson`] | every host sends at a load, independently of the others |
//! | [`Incast`] | bursts of many hosts to one |
//! | [`ClosedLoop`] | hosts with a constant number of outstanding messages |
//! | [`Pairs`] | pairs of hosts: one to one, all to all, permutations |
//! | [`Collective`] | collective operations of parallel jobs |
//! | [`MessageGraph`] | messages that start on receipts and after computations, such as those of schedules and connection matrices |
//! | [`list::read`] | messages of a CSV file |
//! | [`merge`] | several workloads as one |
//!
//! Lists are sorted by start. Equal parameters and seeds give equal messages on every machine: sums and products of
//! `f64` are exact in the same way everywhere, and the logarithm is `libm`'s.

mod closed_loop;
mod collective;
mod connection_matrix;
mod error;
mod goal;
mod graph;
mod incast;
mod instants;
pub mod list;
mod load;
mod merge;
mod pairs;
mod peers;
mod poisson;
mod rng;
mod size_cdf;

use weir_units::{Bytes, Time};

pub use closed_loop::{ClosedLoop, ClosedLoopConfig};
pub use collective::Collective;
pub(crate) use collective::{CollectiveConfig, RankSteps, ReceiveCost};
pub(crate) use connection_matrix::ConnectionMatrix;
pub use error::WorkloadError;
pub(crate) use error::{ScheduleError, SchedulePlace};
pub(crate) use goal::GoalSchedule;
pub(crate) use graph::GraphDraft;
pub use graph::{GraphError, GraphRank, MessageGraph};
pub use incast::{Incast, Senders};
pub use instants::Instants;
pub use load::{Load, LoadFraming};
pub use merge::{Merge, merge};
pub use pairs::Pairs;
pub use peers::Peers;
pub use poisson::{Poisson, PoissonMessages};
pub use rng::Rng;
pub use size_cdf::{CdfError, CdfErrorKind, SizeCdf};

/// Message to be sent; a flow in the papers' terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Start: the instant at which the sending host gets the message.
    pub start: Time,
    /// Sending host, by its number.
    pub from: u32,
    /// Receiving host, by its number; never the sending one.
    pub to: u32,
    /// Payload in bytes, without any header; never zero.
    pub size: Bytes,
}

/// Random number streams of a seed. A host's stream is its purpose's number plus the host's.
mod stream {
    pub(super) const POISSON: u64 = 1 << 32;
    pub(super) const CLOSED_LOOP: u64 = 2 << 32;
    pub(super) const INCAST: u64 = 1;
    pub(super) const INSTANTS: u64 = 2;
    pub(super) const PERMUTATION: u64 = 3;
    pub(super) const PAIRS: u64 = 4;
}

const _: () = assert!(size_of::<Message>() <= 32, "runs keep millions of them");

#[cfg(test)]
mod tests;
