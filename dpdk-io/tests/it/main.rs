//! Tests on DPDK's virtual devices, in one program. EAL starts once a process, so that each runs itself again in a process of its own.

mod af_packet;
mod common;
mod eal;
mod mbuf;
mod ports;
mod vhost;
