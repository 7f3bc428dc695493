//! Emulated hosts: an RDMA NIC with congestion control and RoCEv2 frames, and TCP.
//!
//! A host is sans-I/O: it takes frames and `now`, and returns frames to send and the instant of the next call. One host
//! runs in virtual time and, with the same RoCEv2 frames, on a real port.
//!
//! ```
//! use weir_nic::host::CongestionControlChoice;
//! use weir_units::{BitRate, Span};
//!
//! // Presets by name, for a line rate and the longest round trip without queues.
//! let preset = |name| CongestionControlChoice::preset(name, BitRate::gbps(100), Span::from_micros(13));
//! assert_eq!(preset("dcqcn").unwrap().name(), "dcqcn");
//! assert!(preset("hpcc").unwrap().wants_telemetry());
//! assert!(preset("vegas").is_none());
//! ```

#![forbid(unsafe_code)]

mod delay_line;
pub mod host;
pub mod model;
pub mod parameters;
pub mod program;
pub mod tcp;

pub use delay_line::DelayLine;

use weir_reader::{Gauge, Plugin};

/// Returns the gauges of flows: those of all RDMA and TCP congestion controls, after the common ones. Names may repeat.
/// Closes the registries: no kind can be added from now on.
pub fn flow_gauges() -> impl Iterator<Item = &'static Gauge> {
    let of_rdma = host::congestion::kinds().flat_map(Plugin::gauges);
    let of_tcp = tcp::kinds().flat_map(Plugin::gauges);
    host::congestion::GAUGES.iter().chain(tcp::GAUGES).chain(of_rdma).chain(of_tcp)
}
