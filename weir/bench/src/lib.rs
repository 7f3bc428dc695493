//! Measurements of the switch: what `weir bench` runs, and benchmarks besides.
//!
//! | module | measures |
//! |---|---|
//! | [`forwarding`] | packets per CPU-second of one lcore and of several, between ports that need no NIC |
//! | [`bursts`] | what a packet takes of an lcore where few come at a time |
//! | [`rfc2544`] | throughput, latency and longest bursts between two ports of a switch file |
//! | [`memif_tester`] | rate and latency of a forwarder in another process |
//! | [`pause`] | how long a PAUSE takes to be sent and to be obeyed |
//! | [`idle`] | CPU time of an lcore without work, and what that adds to the latency of a lone frame |
//!
//! The last four have a generator on a CPU of its own. It is part of this crate: numbered frames at a rate, told apart by
//! their numbers when they come back. [`search`] finds the highest rate that is carried.
//!
//! No figure is told without the machine that it was taken on ([`machine`]), and what others took of its CPUs meanwhile.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use weir_bench::search::{Search, Verdict};
//!
//! // The highest rate that a switch carries which drops beyond 7.3 M frames a second, to a hundredth.
//! let search = Search { resolution: 0.01, trials: 1, least: 0.1 };
//! let trial = |rate: f64| Ok::<_, Infallible>(if rate <= 7.3 { Verdict::Carried } else { Verdict::Lost });
//! let found = search.highest(14.88, trial)?;
//! assert!(found.value.is_some_and(|rate| (7.2..=7.3).contains(&rate)));
//! # Ok::<(), Infallible>(())
//! ```

#![forbid(unsafe_code)]

mod bed;
pub mod bursts;
pub mod cabled;
mod error;
pub mod forwarding;
mod frames;
pub mod idle;
mod interrupted;
pub mod latency;
pub mod machine;
pub mod memif_tester;
pub mod pause;
pub mod rfc2544;
pub mod search;
mod sequence;
mod spread;
mod tester;

pub use error::BenchError;
pub use frames::{Formats, Traffic};
pub use interrupted::{Interrupted, Next, Tell};
pub use latency::{Bucket, Latency};
pub use spread::Spread;
