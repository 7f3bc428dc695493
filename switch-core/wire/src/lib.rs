//! The formats on the wire, each read and written in one place.
//!
//! | module | is |
//! |---|---|
//! | [`ethernet`] | Ethernet, VLAN tags, and the class and ECN of IPv4 and IPv6 |
//! | [`flow_hash`] | what a flow's frames have in common |
//! | [`mac_control`] | PAUSE, PFC, stages of GFC, credits of CBFC, queues' lengths |
//! | [`rocev2`] | RDMA over UDP and IPv4 |
//! | [`trailer`] | in-band telemetry behind an IP packet |

#![forbid(unsafe_code)]

pub mod ethernet;
pub mod flow_hash;
pub mod mac_control;
pub mod rocev2;
pub mod trailer;
