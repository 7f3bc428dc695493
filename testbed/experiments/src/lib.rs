//! Experiments: scenarios, sweeps of scenarios, the papers' figures, and reports on results.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the runs of a scenario file, compared |
//! | [`sweep`] | many runs with parameters varied, as one table |
//! | [`reproduce`] | a paper's figure: its numbers compared with Weir's, and a verdict on its findings |
//! | [`sweep::plot`] | figures of a sweep |
//! | [`report`] | the results of runs as one page |
//! | [`record`] | captured messages, converted to a scenario |
//! | [`plugin`] | checks of plug-ins that another program adds |
//! | [`real_frames`] | the trait by which a program supplies DPDK, which this crate does not depend on |
//!
//! Functions take the arguments of the command line:
//!
//! ```
//! use clap::Parser;
//! use weir_experiments::run::{RunArguments, run};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     run: RunArguments,
//! }
//!
//! let folder = tempfile::tempdir().unwrap();
//! let (file, output) = (folder.path().join("incast.toml"), folder.path().join("out"));
//! let text = r#"
//! [scenario]
//! end = "1ms"
//! [topology]
//! kind = "single"
//! hosts = 3
//! rate = "25Gbps"
//! delay = "1us"
//! [switch.buffer]
//! size = "1MB"
//! [switch.classes]
//! preset = "roce"
//! [switch.pfc]
//! reaction = "0s"
//! [[workloads]]
//! kind = "incast"
//! class = 3
//! sizes = "64KB"
//! receivers = ["H2"]
//! "#;
//! std::fs::write(&file, text).unwrap();
//! let line = ["weir".as_ref(), file.as_os_str(), "--backend".as_ref(), "sim".as_ref(), "-o".as_ref(), output.as_os_str()];
//! assert!(run(&Arguments::parse_from(line).run).is_ok());
//! assert!(output.join("incast/summary.json").exists());
//! ```

#![forbid(unsafe_code)]

mod cdf;
mod color;
pub mod compare;
pub mod experiment;
mod failure;
pub mod files;
mod picture;
pub mod plugin;
pub mod progress;
pub mod real_frames;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod run;
mod slurm;
pub mod sweep;
pub mod switches;
pub mod table;

pub use color::has_color;
pub use failure::Failure;
