//! Experiments, as people run them: scenarios, sweeps of them, the papers' figures, and reports on what came of it.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the runs of a scenario file, compared |
//! | [`sweep`] | many runs with parameters varied, as one table |
//! | [`reproduce`] | a paper's figure: its numbers beside ours, and whether its findings hold |
//! | [`report`] | the results of runs as one page |
//! | [`real_frames`] | how the program comes by DPDK, which this crate does not know |

#![forbid(unsafe_code)]

pub mod experiment;
mod failure;
pub mod files;
pub mod real_frames;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod sweep;
pub mod switches;
pub mod table;

pub use failure::Failure;
