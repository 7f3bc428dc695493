//! Safe, owning DPDK types: the only crate of Weir with `unsafe` code.
//!
//! It moves frames and knows nothing of switching. Types:
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
//! | [`LossMeter`] | losses of a port's device, by cause |
//! | [`NetdevEvents`], [`Interface`] | the kernel's interfaces |
//!
//! # Ownership
//! An [`Mbuf`] or [`Batch`] frees its packets on drop. I/O never drops a
//! frame: [`TxQueue::send`] leaves refused packets in the batch.
//! Queues keep their port open, ports keep their receive pools, and both keep
//! the runtime: drop the [`Eal`] last (as the first local variable of `main`
//! it is). If something outlives it, its `Drop` leaves DPDK as it is and says
//! so in the log; nothing dangles.
//!
//! # Threads
//! Only the thread that called [`Eal::init`] launches lcores. Pools are
//! quickest on EAL lcores, which have a cache of free mbufs each; any other
//! thread may allocate and free, more slowly.
//!
//! # Example
//! A frame over a pair of ports in memory, without hugepages or root:
//!
//! ```standalone_crate
//! use weir_dpdk_io::{Batch, Eal, EalArgs, MemoryMode, Mempool, MempoolConfig, PortConfig, ring_pair};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cpu = weir_dpdk_io::cpu::allowed()[0];
//! let args = EalArgs::new("example").lcores(&[(0, cpu)]).memory(MemoryMode::NoHuge).memory_mb(64).build();
//! let _eal = Eal::init(&args)?;
//! let pool = Mempool::new("frames", MempoolConfig { count: 511, cache: 0, ..MempoolConfig::default() })?;
//! let (mut left, mut right) = ring_pair("wire", 128)?;
//! let (_, mut transmit) = left.configure(PortConfig::new(&pool))?;
//! let (mut receive, _) = right.configure(PortConfig::new(&pool))?;
//! left.start()?;
//! right.start()?;
//!
//! let mut frame = pool.alloc().expect("a free mbuf");
//! frame.append(60).expect("room for it").fill(0xa5);
//! let mut batch = Batch::new();
//! batch.push(frame).expect("an empty batch");
//! assert_eq!((transmit[0].send(&mut batch), batch.len()), (1, 0));
//! assert_eq!(receive[0].receive(&mut batch, 32), 1);
//! assert!(batch.iter().all(|frame| frame.data() == [0xa5; 60]));
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod backoff;
mod batch;
mod clock;
pub mod cpu;
mod device;
mod eal;
mod eal_args;
mod error;
mod flow_control;
mod interrupts;
mod kernel_pause;
mod lcore;
mod losses;
mod mbuf;
mod mempool;
mod netdev;
mod netdev_port;
mod netlink;
mod pdump;
mod port;
mod port_config;
mod port_shared;
mod queue;
mod ring_pair;
mod ring_port;
mod runtime;
mod rx_interrupts;
pub mod vdev;
mod xdp_sockets;
mod xstats;

pub use backoff::Backoff;
pub use batch::{Batch, Drain, MAX_BURST};
pub use clock::Clock;
pub use device::{DeviceInfo, LinkStatus, PauseState, PortStats};
pub use eal::{BUILT_FOR, Eal, IovaMode, version};
pub use eal_args::{EalArgs, MemoryMode, free_hugepage_bytes};
pub use error::{EalError, Errno, MempoolError, PdumpError, PortError};
pub use flow_control::{DeviceFlowControl, FlowControlReport, FlowControlStep, InterfaceNic, MacControlTransmit};
pub use lcore::{Lcore, LcoreHandle, LcorePanic};
pub use losses::{DeviceLosses, DriverCounters, LossCause, LossMeter, Losses, driver_counters};
pub use mbuf::{HEADROOM, Mbuf};
pub use mempool::{
    DEFAULT_DATA_ROOM, FreeMbufLocation, Mempool, MempoolConfig, MempoolLayout, PIECED_MAX, data_room_for,
    mempool_bytes,
};
pub use netdev::{NetdevOptions, netdev_is_running, netdev_ring_bytes, netdev_speed_mbps, ring_slots};
pub use netlink::{Interface, InterfaceCounters, NetdevEvent, NetdevEvents};
pub use pdump::pdump_init;
pub use port::{EnabledQueues, PORTS_MAX, Port, PortEntry, QueueSet};
pub use port_config::PortConfig;
pub use queue::{RxQueue, TxQueue};
pub use ring_port::{RingEnd, ring_pair, ring_port};
pub use rx_interrupts::{RxInterrupt, RxInterrupts, WakeReason};
