//! Measurements of the switch, for `weir bench` and for benchmarks.
//!
//! | module | measures |
//! |---|---|
//! | [`forwarding`] | packets per CPU-second of one lcore and of several, between ports that need no NIC |
//! | [`bursts`] | CPU time of an lcore per packet in small bursts |
//! | [`rfc2544`] | throughput, latency and longest bursts between two ports of a switch file |
//! | [`memif_tester`] | rate and latency of a forwarder in another process |
//! | [`pause`] | delay until a PAUSE is sent and until it is obeyed |
//! | [`idle`] | CPU time of an lcore without work, and the latency of a lone frame |
//!
//! The last four have a generator on a CPU of its own, which is part of this crate. It sends numbered frames at a rate and
//! identifies received frames by their numbers. [`search`] finds the highest rate that is carried.
//!
//! Each report names its machine ([`machine`]) and the CPU time that other processes used meanwhile.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use weir_bench::search::{Search, TrialVerdict};
//!
//! // The highest rate that a switch carries which drops beyond 7.3 M frames a second, to a hundredth.
//! let search = Search { resolution: 0.01, trials: 1, least: 0.1 };
//! let trial = |rate: f64| Ok::<_, Infallible>(if rate <= 7.3 { TrialVerdict::Carried } else { TrialVerdict::Lost });
//! let found = search.highest(14.88, trial)?;
//! assert!(found.value.is_some_and(|rate| (7.2..=7.3).contains(&rate)));
//! # Ok::<(), Infallible>(())
//! ```

#![forbid(unsafe_code)]

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
mod ports_alone;
pub mod rfc2544;
pub mod search;
mod sequence;
mod spread;
mod testbed;
mod tester;

pub use error::BenchError;
pub use frames::{Formats, Traffic};
pub use interrupted::{Interrupted, NextMeasurement, ProgressCallback};
pub use latency::{Bucket, Latency};
pub use spread::Spread;
