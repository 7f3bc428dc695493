//! Safe, owning DPDK types: the only crate of Weir with `unsafe` code.
//!
//! It moves frames and knows nothing of switching. What it wraps:
//!
//! | type | is |
//! |---|---|
//! | [`Eal`], [`EalArgs`] | the DPDK runtime, one per process |
//! | [`Lcore`], [`LcoreHandle`] | pinned worker threads |
//! | [`Mempool`] | fixed-size packet buffers |
//! | [`Mbuf`], [`Batch`] | one owned packet, and a short array of them |
//! | [`Port`], [`RxQueue`], [`TxQueue`] | an Ethernet device and its queues |
//! | [`ring_port`], [`ring_pair`], [`vdev`] | devices without hardware |
//! | [`Port::attach_netdev`] | an interface of the kernel, without DPDK's driver |
//! | [`Clock`] | calibrated time-stamp counter |
//! | [`LossMeter`] | what a port's device lost, by cause |
//! | [`NetdevEvents`], [`Interface`] | the kernel's interfaces |
//!
//! # Ownership
//! An [`Mbuf`] or [`Batch`] frees what it holds on drop. I/O never drops a
//! frame: [`TxQueue::send`] leaves what the device did not take in the batch.
//! Queues keep their port open, ports keep their receive pools, and both keep
//! the runtime: drop the [`Eal`] last (as the first local variable of `main`
//! it is). If something outlives it, its `Drop` leaves DPDK as it is and says
//! so in the log; nothing dangles.
//!
//! # Threads
//! Only the thread that called [`Eal::init`] launches lcores. Pools are
//! quickest on EAL lcores, which have a cache of free mbufs each; any other
//! thread may allocate and free, more slowly.

#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod batch;
mod clock;
pub mod cpu;
mod eal;
mod eal_args;
mod error;
mod flow_control;
mod kernel_pause;
mod lcore;
mod losses;
mod mbuf;
mod mempool;
mod netdev;
mod netlink;
mod pdump;
mod port;
mod port_config;
mod queue;
mod ring_port;
pub mod vdev;
mod xdp_sockets;
mod xstats;

pub use batch::{Batch, Drain, MAX_BURST};
pub use clock::Clock;
pub use eal::{Eal, IoAddresses, version};
pub use eal_args::{EalArgs, MemoryMode, free_hugepage_bytes};
pub use error::{EalError, Errno, MempoolError, PdumpError, PortError};
pub use flow_control::{DeviceFlowControl, FlowControlReport, FlowControlStep, MacControlTransmit, PauseState};
pub use lcore::{Lcore, LcoreHandle, LcorePanic};
pub use losses::{DeviceLosses, DriverKnowledge, LossCause, LossMeter, Losses, driver_knowledge};
pub use mbuf::Mbuf;
pub use mempool::{DEFAULT_DATA_ROOM, HEADROOM, Mempool, MempoolConfig, Placement, data_room_for, mempool_bytes};
pub use netdev::{NetdevOptions, netdev_speed_mbps, ring_slots};
pub use netlink::{Interface, InterfaceCounters, NetdevEvent, NetdevEvents};
pub use pdump::pdump_init;
pub use port::{DeviceInfo, Link, PORTS_MAX, PeerQueues, Port, PortEntry, QueueSet};
pub use port_config::PortConfig;
pub use queue::{RxQueue, TxQueue};
pub use ring_port::{RingEnd, ring_pair, ring_port};
pub use xstats::PortStats;
