//! Results of a run: the record kept while it runs, the measures taken from it, and the directory that it leaves.
//!
//! | module | is |
//! |---|---|
//! | [`record`] | the record that every backend keeps while it runs |
//! | [`deadlock`] | finds queues of a fabric that wait for each other in a circle |
//! | [`feedback`] | how long flow control takes across a link |
//! | [`measure`] | completion times, slowdowns, how near queues came to a PAUSE |
//! | [`run_dir`] | the files that a run leaves behind |
//! | [`plot`] | draws figures |
//!
//! ```
//! use weir_results::run_dir::Distribution;
//!
//! // Percentiles are exact, by nearest rank.
//! let mut completion_times: Vec<u64> = (1..=1_000).rev().collect();
//! let told = Distribution::of(&mut completion_times, 0).unwrap();
//! assert_eq!([told.mean, told.p50, told.p99, told.max], [500, 500, 990, 1_000].map(Some));
//! // With 20 more that did not finish, the 99th is one of these.
//! let told = Distribution::of(&mut completion_times, 20).unwrap();
//! assert_eq!([told.mean, told.p50, told.p99, told.max], [None, Some(510), None, None]);
//! ```

#![forbid(unsafe_code)]

pub mod deadlock;
pub mod feedback;
pub mod measure;
pub mod plot;
mod ports;
pub mod record;
pub mod run_dir;
