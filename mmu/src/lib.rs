//! Memory management unit: decides which packets the shared buffer admits, and which senders must pause.
//!
//! The MMU only counts; packets are stored once, elsewhere in the switch. Each packet is charged to its **ingress queue** (port of arrival,
//! class) and to its **egress queue** (port of departure, class). An ingress queue is a counter with three segments: *private* (ρ, its
//! own), *shared* (w_s, bounded by the policy's threshold T(t)) and *headroom* (Φ, for packets that still arrive after a PAUSE).
//!
//! Calls for a packet:
//! 1. [`Mmu::admit_burst`] on the lcore that received the packet: places it, or refuses it with a [`DropReason`];
//! 2. [`Mmu::release`] on the lcore that sent the packet;
//! 3. meanwhile [`Mmu::off_classes`] returns the classes that the port's peer should pause, for the port's transmitter.
//!
//! All calls are lock-free and allocate nothing after construction: any number of lcores release while others admit. **One lcore at a time
//! admits packets of a given ingress port** (a port is polled by one lcore), the holder of the port's [`PortWriter`]. Releases and sweeps
//! of its queues may run on any lcore.
//!
//! Each policy is one file under [`policy`]; no other module depends on its name.
//!
//! ```
//! use weir_mmu::policy::DynamicThreshold;
//! use weir_mmu::{Admission, BufferLayout, BufferRequest, Headroom, Mmu, PortLayout, Xon};
//! use weir_units::{Alpha, Bytes, Class, ClassSet, PortId, QueueId, Time};
//!
//! // Two ports of one lossless class, with 10 KB of headroom each; the rest of 100 KB is shared.
//! let class = Class::new(3);
//! let mut port = PortLayout { lossless: class.alone(), ..PortLayout::default() };
//! port.headroom[class.index()] = Bytes::new(10_000);
//! let layout = BufferLayout::new(Bytes::new(100_000), vec![port; 2], Headroom::PerQueue).unwrap();
//! let alpha: Alpha = "1/4".parse().unwrap();
//! let mmu = Mmu::new(layout, Box::new(DynamicThreshold::new(alpha)), Xon::default(), alpha);
//!
//! // Packets of 1,000 B from port 0 to port 1, until port 0 should pause its peer.
//! let mut writer = mmu.writer(PortId(0)).expect("given out once");
//! let (ingress, egress) = (QueueId::new(PortId(0), class), QueueId::new(PortId(1), class));
//! let packet = BufferRequest { ingress, egress, bytes: 1_000 };
//! let mut admitted = Vec::new();
//! while mmu.off_classes(PortId(0), ClassSet::EMPTY).is_empty() {
//!     let (admission, _) = mmu.admit_one(&mut writer, Time::ZERO, &packet);
//!     assert!(matches!(admission, Admission::Admit(_)));
//!     admitted.push(packet);
//! }
//! // w = α · (80 KB − w) at 16 KB.
//! assert!((16..=18).contains(&admitted.len()), "{}", admitted.len());
//!
//! admitted.iter().for_each(|packet| mmu.release_one(Time::ZERO, packet));
//! assert_eq!((mmu.off_classes(PortId(0), class.alone()), mmu.pool_usage().used), (ClassSet::EMPTY, Bytes::ZERO));
//! ```

#![forbid(unsafe_code)]

mod atomics;
mod charge;
#[cfg(not(loom))]
pub mod conformance;
mod ecn;
mod egress_queue;
mod ingress_queue;
mod layout;
mod loan;
mod low_pass;
mod mmu;
mod occupancy;
mod padded_rows;
pub mod policy;
mod pool;
mod signal;
mod single_writer;
mod sync;
mod watermark;
mod xon;

#[cfg(all(test, loom))]
mod loom_models;

/// Doctest of the example in the tutorial on policies.
#[cfg(doctest)]
#[doc = include_str!("../../docs/TUTORIAL_POLICY.md")]
struct PoliciesPage;

pub use charge::{Charge, Charges};
pub use ecn::EcnMarker;
pub use layout::{BufferLayout, Headroom, LayoutError, PortLayout};
pub use mmu::{
    Admission, BURST_REQUEST_MAX, BufferRelease, BufferRequest, BurstRequest, DepartureBatch, Mmu, PendingBytes,
    PendingReleases, PoolUsage, PoolWatermarks, QueueOccupancy, QueueUsage, QueueWatermarks, RouteGroup, RouteTotal,
    Segment,
};
pub use policy::BufferPolicy;
pub use single_writer::PortWriter;
pub use weir_units::DropReason;
pub use xon::Xon;
