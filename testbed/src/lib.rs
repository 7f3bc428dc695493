//! Everything around a switch under test: emulated RDMA hosts, links, and the directory that a run leaves behind.
//!
//! Hosts and links are sans-I/O, as the switch is: they take frames and `now`, and answer what to send and when to
//! ask again. The same host runs in virtual time and, with the same RoCEv2 frames, on a real port.

#![forbid(unsafe_code)]

pub mod host;
pub mod link;
mod pacer;
pub mod rocev2;
pub mod run_dir;
