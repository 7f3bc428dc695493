//! Emulated hosts: an RDMA NIC with its congestion control, the RoCEv2 frames that it sends, and TCP.
//!
//! Sans-I/O, as the switch is: a host takes frames and `now`, and answers what to send and when to ask again. The same host
//! runs in virtual time and, with the same RoCEv2 frames, on a real port.

#![forbid(unsafe_code)]

pub mod host;
pub mod tcp;
