//! Wire formats, each decoded and encoded in one place.
//!
//! | module | is |
//! |---|---|
//! | [`digest`] | utilisation of a frame's path, in two bytes |
//! | [`ethernet`] | Ethernet, VLAN tags, and the class and ECN of IPv4 and IPv6 |
//! | [`flow_hash`] | hash of the fields that all frames of a flow share |
//! | [`lldp`] | LLDP, and DCBX's configuration of PFC and ETS |
//! | [`loop_guard`] | frames that find loops |
//! | [`mac_control`] | PAUSE, PFC, stages of GFC, credits of CBFC, queue lengths |
//! | [`rocev2`] | RDMA over UDP and IPv4 |
//! | [`trailer`] | in-band telemetry behind an IP packet |
//!
//! ```
//! use weir_wire::rocev2::{Dscp, Ecn, Operation, Packet, PacketPosition, Psn, QueuePair, Repr, Reth, source_port};
//! use weir_units::MacAddr;
//!
//! // The only packet of an RDMA WRITE of 64 bytes.
//! let position = PacketPosition::Only(Reth { virtual_address: 0x1000, remote_key: 7, message_bytes: 64 });
//! let (local, remote) = (QueuePair::new(0x11), QueuePair::new(0x12));
//! let write = Repr {
//!     destination: MacAddr([2, 0, 0, 0, 0, 2]),
//!     source: MacAddr([2, 0, 0, 0, 0, 1]),
//!     destination_ip: [10, 0, 0, 2].into(),
//!     source_ip: [10, 0, 0, 1].into(),
//!     dscp: Dscp::new(26),
//!     ecn: Ecn::Ect0,
//!     source_port: source_port(local, remote),
//!     queue_pair: remote,
//!     psn: Psn::new(0),
//!     operation: Operation::Write { position, ack_request: true },
//! };
//! let mut frame = [0; 256];
//! let length = write.write(&[0xa5; 64], &mut frame).unwrap();
//! let packet = Packet::new(&frame[..length]).unwrap();
//! assert_eq!((Repr::read(&packet).unwrap(), packet.payload().len()), (write, 64));
//! assert!(packet.icrc_holds());
//! ```

#![forbid(unsafe_code)]

pub mod digest;
pub mod ethernet;
pub mod flow_hash;
mod header_key;
pub mod lldp;
pub mod loop_guard;
pub mod mac_control;
pub mod rocev2;
pub mod trailer;

pub use header_key::{HeaderKey, header_key};
