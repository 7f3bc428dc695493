//! Results of a run: its record, the measures computed from the record, and the run directory.
//!
//! | module | content |
//! |---|---|
//! | [`record`] | record of a run, kept by every backend |
//! | [`deadlock`] | detector of cycles of queues that wait for each other |
//! | [`standstill`] | detector of queues that hold frames and hardly send |
//! | [`feedback`] | feedback delays of flow control across a link |
//! | [`measure`] | completion times, slowdowns, and the queue nearest to a PAUSE |
//! | [`run_dir`] | files of a run's directory |
//! | [`plot`] | figures |
//!
//! ```
//! use weir_results::run_dir::Distribution;
//!
//! // Percentiles are exact, by nearest rank.
//! let mut completion_times: Vec<u64> = (1..=1_000).rev().collect();
//! let all = Distribution::from_values(&mut completion_times, 0).unwrap();
//! assert_eq!([all.mean, all.p50, all.p99, all.max], [500, 500, 990, 1_000].map(Some));
//! // With 20 more that did not finish, the 99th is one of these.
//! let all = Distribution::from_values(&mut completion_times, 20).unwrap();
//! assert_eq!([all.mean, all.p50, all.p99, all.max], [None, Some(510), None, None]);
//! ```

#![forbid(unsafe_code)]

pub mod deadlock;
pub mod feedback;
pub mod measure;
pub mod plot;
mod ports;
pub mod record;
pub mod run_dir;
pub mod standstill;
