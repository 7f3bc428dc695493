//! Methods of a [`Port`] on an interface of the kernel.

use std::sync::Arc;

use crate::error::PortError;
use crate::netdev::{DRIVER, MTU_MAX, Netdev, NetdevOptions};
use crate::port::Port;
use crate::port_config::PortConfig;
use crate::queue::{RxQueue, TxQueue};
use crate::runtime::Runtime;

impl Port {
    /// Attaches a network interface of the kernel through packet sockets of this crate (needs CAP_NET_RAW). The port has one receive and
    /// one transmit queue and uses none of DPDK's port ids.
    ///
    /// Frames pass as they are on the wire: fragments are not reassembled, VLAN tags keep their type, checksums that a local sender left to
    /// the device are completed. The interface refuses frames longer than its MTU and one tag of type 0x8100.
    ///
    /// The kernel still answers for the interface's own addresses, so give it none. Switch off GRO, LRO and a peer's segmentation offload:
    /// frames of several segments are dropped and counted in [`crate::PortStats::ierrors`].
    ///
    /// # Errors
    /// [`PortError::Attach`]: no such interface, or no permission.
    pub fn attach_netdev(interface: &str, options: NetdevOptions) -> Result<Port, PortError> {
        let runtime = Runtime::current().ok_or_else(|| PortError::NoEal(interface.to_owned()))?;
        if options.mtu > MTU_MAX {
            let (mtu, max) = (options.mtu, MTU_MAX);
            return Err(PortError::Mtu { port: interface.to_owned(), mtu, min: 0, max });
        }
        let failed = |errno| PortError::Attach { devargs: format!("{} {interface}", DRIVER), errno };
        let netdev = Netdev::open(interface, options).map_err(failed)?;
        Ok(Port::of_netdev(runtime, netdev, interface))
    }

    /// Reattaches a netdev port whose interface was removed to the interface that has its name now. Queues keep running; counters and
    /// frames in the receive ring stay. False if the interface is there, and for all other ports.
    ///
    /// # Errors
    /// ENODEV if there is no interface of the name (yet).
    pub fn reattach(&self) -> Result<bool, PortError> {
        let started = self.is_started();
        match self.netdev() {
            Some(netdev) => netdev.reattach(started).map_err(|errno| self.failed("attaching again", errno)),
            None => Ok(false),
        }
    }

    /// Creates the queues. [`NetdevOptions`] set the receive ring's length, the interface its MTU: `config` changes neither.
    pub(crate) fn configure_netdev(
        &self,
        netdev: &Netdev,
        config: &PortConfig<'_>,
    ) -> Result<(Vec<RxQueue>, Vec<TxQueue>), PortError> {
        let queues = netdev.queues(config.rx_pool, config.tx_desc);
        let (receiver, transmitter) = queues.map_err(|errno| self.failed("receive ring", errno))?;
        netdev.set_promiscuous(config.promiscuous).map_err(|errno| self.failed("promiscuous mode", errno))?;
        let rx = (config.rx_queues > 0).then(|| RxQueue::of_netdev(Arc::clone(&self.shared), receiver));
        let tx = (config.tx_queues > 0).then(|| TxQueue::of_netdev(Arc::clone(&self.shared), transmitter));
        Ok((rx.into_iter().collect(), tx.into_iter().collect()))
    }
}
