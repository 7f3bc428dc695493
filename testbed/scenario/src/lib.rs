//! What an experiment is, before anything runs: switches, links, hosts and flows, and who sends what to whom when.
//!
//! | module | is |
//! |---|---|
//! | [`Scenario`] | switches, links, hosts and flows: what a backend runs |
//! | [`mod@file`] | the same as a TOML file, with runs that differ in the switches' settings |
//! | [`topology`] | fabrics of switches, hosts and links, and the shortest ways through them |
//! | [`workload`] | who sends what to whom when: flow sizes, arrivals, patterns |
//! | [`link`] | what is made to go wrong on a link |
//! | [`import`] | experiments of other tools, made into scenarios |
//! | [`victim`] | the victim experiment of the SPFC paper, as a scenario |

#![forbid(unsafe_code)]

pub mod import;
pub mod link;
mod scenario;
pub mod topology;
pub mod victim;
pub mod workload;

pub use scenario::*;
