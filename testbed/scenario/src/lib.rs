//! Descriptions of experiments: switches, links, hosts, flows and workloads.
//!
//! | module | is |
//! |---|---|
//! | [`Scenario`] | switches, links, hosts and flows, for a backend to run |
//! | [`mod@file`] | scenarios as TOML files, with runs that differ in the switches' settings |
//! | [`topology`] | fabrics of switches, hosts and links, and the shortest paths through them |
//! | [`workload`] | workloads: flow sizes, arrivals, patterns |
//! | [`link`] | faults of links, and their propagation delay |
//! | [`import`] | experiments of other tools, as scenarios |
//! | [`victim`] | the victim experiment of the SPFC paper, as a scenario |
//!
//! ```
//! use std::path::Path;
//! use weir_scenario::file;
//!
//! let text = r#"
//! [scenario]
//! end = "1ms"
//!
//! [topology]
//! kind = "single"
//! hosts = 4
//! rate = "25Gbps"
//! delay = "1us"
//!
//! [switch.buffer]
//! size = "1MB"
//!
//! [switch.classes]
//! preset = "roce"
//!
//! [switch.pfc]
//! reaction = "0s"
//!
//! [[workloads]]
//! kind = "incast"
//! class = 3
//! sizes = "64KB"
//! receivers = ["H3"]
//! "#;
//! let runs = file::parse(Path::new("incast.toml"), text).map_err(|errors| errors.render(false)).unwrap();
//! let scenario = &runs[0].scenario;
//! assert_eq!((scenario.hosts.len(), scenario.traffic[0].messages().len()), (4, 3));
//! ```

#![forbid(unsafe_code)]

mod data_file;
pub mod import;
pub mod link;
mod port_ref;
mod scenario;
pub mod topology;
pub mod victim;
pub mod workload;

pub use port_ref::{LinkPeer, PortRef};
pub use scenario::*;
