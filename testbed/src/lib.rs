//! Everything around a switch under test: emulated RDMA hosts, links, and the directory that a run leaves behind.
//!
//! Hosts and links are sans-I/O, as the switch is: they take frames and `now`, and answer what to send and when to
//! ask again. The same host runs in virtual time and, with the same RoCEv2 frames, on a real port.
//!
//! | module | is |
//! |---|---|
//! | [`rocev2`] | the frames |
//! | [`host`] | an RDMA host |
//! | [`tcp`] | the two ends of a TCP connection, with Cubic or DCTCP |
//! | [`link`] | a link: its propagation delay, and what is made to go wrong on it |
//! | [`scenario`] | switches, links, hosts and flows: what a backend runs |
//! | [`scenario::file`] | the same as a TOML file, with runs that differ in the switches' settings |
//! | [`import`] | experiments of other tools, made into scenarios |
//! | [`workload`] | who sends what to whom when: flow sizes, arrivals, patterns |
//! | [`victim`] | the victim experiment of the SPFC paper, as a scenario |
//! | [`topology`] | fabrics of switches, hosts and links, and the shortest ways through them |
//! | [`sim`] | the backend that runs scenarios in virtual time |
//! | [`deadlock`] | finds queues of a fabric that wait for each other in a circle |
//! | `dpdk` (feature `dpdk`) | the backend that runs scenarios with real frames on DPDK ports |
//! | [`record`] | what both backends write down while they run |
//! | [`measure`] | what comes of it: completion times, slowdowns, how near queues came to a PAUSE |
//! | [`run_dir`] | the files that a run leaves behind |
//! | [`plot`] | draws figures |

#![forbid(unsafe_code)]

pub mod deadlock;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod host;
pub mod import;
pub mod link;
pub mod measure;
pub mod plot;
pub mod record;
pub mod rocev2;
pub mod run_dir;
pub mod scenario;
pub mod sim;
pub mod tcp;
pub mod topology;
pub mod victim;
pub mod workload;
