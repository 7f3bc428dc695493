//! Emulated hosts: an RDMA NIC with its congestion control, the RoCEv2 frames that it sends, and TCP.
//!
//! Sans-I/O, as the switch is: a host takes frames and `now`, and answers what to send and when to ask again. The same host
//! runs in virtual time and, with the same RoCEv2 frames, on a real port.
//!
//! ```
//! use weir_nic::rocev2::{Dscp, Ecn, Operation, Packet, Part, Psn, QueuePair, Repr, Reth, source_port};
//! use weir_units::MacAddr;
//!
//! // The only packet of an RDMA WRITE of 64 bytes.
//! let part = Part::Only(Reth { virtual_address: 0x1000, remote_key: 7, message_bytes: 64 });
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
//!     operation: Operation::Write { part, ack_request: true },
//! };
//! let mut frame = [0; 256];
//! let length = write.write(&[0xa5; 64], &mut frame).unwrap();
//! let packet = Packet::new(&frame[..length]).unwrap();
//! assert_eq!((Repr::read(&packet).unwrap(), packet.payload().len()), (write, 64));
//! assert!(packet.icrc_holds());
//! ```

#![forbid(unsafe_code)]

pub mod host;
pub mod rocev2;
pub mod tcp;
