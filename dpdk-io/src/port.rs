//! Ethernet devices: found or attached, configured, started, closed.

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use weir_dpdk_sys as sys;

use crate::device::{DeviceInfo, LinkStatus, PauseState, text};
use crate::error::{Errno, PortError};
use crate::mbuf::HEADROOM;
use crate::mempool::FRAME_OVERHEAD;
use crate::netdev::{self, Netdev};
use crate::port_config::PortConfig;
use crate::port_shared::{NO_DPDK_PORT, PortShared};
use crate::queue::{RxQueue, TxQueue};
use crate::ring_pair::RingPair;
use crate::runtime::{Runtime, lock};
use crate::xdp_sockets::XdpSockets;

/// An Ethernet device that this value alone controls.
///
/// Order of calls: [`Port::attach`] (or [`Port::by_name`], [`crate::ring_pair`]),
/// [`Port::configure`], [`Port::start`], [`Port::take_over_flow_control`]. The
/// queues that `configure` returns may go to other threads. `stop`,
/// `configure` and `close` need all of them dropped, for a queue must not be
/// polled meanwhile.
///
/// When the port and its queues are gone the device is stopped and closed; a
/// virtual device, or one that `attach` probed, is detached as well.
///
/// A port is DPDK's, or a network interface of the kernel that this crate drives
/// itself ([`Port::attach_netdev`]); callers see no other difference than the
/// driver's name.
#[derive(Debug)]
pub struct Port {
    pub(crate) shared: Arc<PortShared>,
    /// State of the device's own PFC after it was to be switched off.
    pub(crate) priority_pause: PauseState,
    /// Makes a port `!Sync`: one thread at a time reads the device and closes it.
    pub(crate) _one_thread: PhantomData<Cell<()>>,
}

/// Ports that this DPDK can have in a process; it is built with the number (`RTE_MAX_ETHPORTS`).
pub const PORTS_MAX: usize = sys::WEIR_MAX_PORTS as usize;

/// One line of [`Port::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEntry {
    /// DPDK's port number.
    pub id: u16,
    /// Device name, e.g. `net_null0` or `0000:81:00.0`.
    pub name: String,
    /// Driver name, e.g. `net_null`.
    pub driver: String,
    /// True if a [`Port`] of this process owns the device.
    pub in_use: bool,
}

/// Queue pairs that the peer of a port has enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledQueues {
    /// Queues that the guest receives from, which are the port's transmit queues.
    pub receives: QueueSet,
    /// Queues that the guest may send to, which are the port's receive queues, limited to those that the port has.
    pub sends: QueueSet,
}

/// A set of queues. Queues from 63 on share a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSet(u64);

impl QueueSet {
    /// Returns true if the set contains a queue.
    pub fn contains(self, queue: u16) -> bool {
        self.0 >> u32::from(queue).min(sys::WEIR_QUEUE_BEYOND) & 1 == 1
    }

    /// Smallest enabled queue number from `queue` on.
    pub fn first_from(self, queue: u16) -> Option<u16> {
        let left = self.0.checked_shr(u32::from(queue)).unwrap_or(0);
        (left != 0).then(|| queue + left.trailing_zeros() as u16)
    }
}

impl Port {
    /// Attaches a device: device arguments like `net_null0,size=64` (see
    /// [`crate::vdev`]) or a PCI address. A device that EAL has already is taken.
    ///
    /// # Errors
    /// [`PortError::Attach`] names the arguments; DPDK's reason is on stderr.
    pub fn attach(spec: &str) -> Result<Port, PortError> {
        let runtime = Runtime::current().ok_or_else(|| PortError::NoEal(spec.to_owned()))?;
        let failed = |errno| PortError::Attach { devargs: spec.to_owned(), errno };
        let devargs = CString::new(spec).map_err(|_| failed(Errno(libc::EINVAL)))?;
        let mut id = 0;
        let mut attached = 0;
        // SAFETY: EAL runs; the string is NUL-terminated, the others writable.
        let ret = unsafe { sys::weir_port_attach(devargs.as_ptr(), &mut id, &mut attached) };
        if ret != 0 {
            return Err(failed(Errno::from_return(ret)));
        }
        Port::claim(runtime, id, attached != 0, None)
    }

    /// Takes a port that EAL has already, by its device name.
    ///
    /// # Errors
    /// If there is none, or a [`Port`] owns it.
    pub fn by_name(name: &str) -> Result<Port, PortError> {
        let runtime = Runtime::current().ok_or_else(|| PortError::NoEal(name.to_owned()))?;
        let not_found = || PortError::NotFound(name.to_owned());
        let c_name = CString::new(name).map_err(|_| not_found())?;
        let mut id = 0;
        // SAFETY: EAL runs; the string is NUL-terminated, `id` writable.
        let ret = unsafe { sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) };
        if ret != 0 {
            return Err(not_found());
        }
        Port::claim(runtime, id, false, None)
    }

    /// List of all DPDK ports in this process. Empty before [`crate::Eal::init`].
    pub fn list() -> Vec<PortEntry> {
        let Some(runtime) = Runtime::current() else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        let mut from = 0;
        loop {
            // SAFETY: EAL runs.
            let id = unsafe { sys::rte_eth_find_next(from) };
            if u32::from(id) >= sys::WEIR_MAX_PORTS {
                break;
            }
            if let Ok(info) = raw_info(id) {
                entries.push(PortEntry {
                    id,
                    name: text(&info.name),
                    driver: text(&info.driver),
                    in_use: runtime.owns_port(id),
                });
            }
            from = id + 1;
        }
        entries
    }

    pub(crate) fn of_netdev(runtime: Arc<Runtime>, netdev: Netdev, name: &str) -> Port {
        Port {
            shared: Arc::new(PortShared {
                id: NO_DPDK_PORT,
                netdev: Some(netdev),
                name: name.to_owned(),
                detach: false,
                is_vhost: false,
                closed: AtomicBool::new(false),
                started: AtomicBool::new(false),
                receives_in_segments: AtomicBool::new(false),
                pools: Mutex::new(Vec::new()),
                xdp: Mutex::default(),
                rings: None,
                runtime,
            }),
            priority_pause: PauseState::Unknown,
            _one_thread: PhantomData,
        }
    }

    pub(crate) fn claim(
        runtime: Arc<Runtime>,
        id: u16,
        attached: bool,
        rings: Option<(Arc<RingPair>, usize)>,
    ) -> Result<Port, PortError> {
        let info = raw_info(id);
        let name = info.as_ref().map_or_else(|_| id.to_string(), |info| text(&info.name));
        if !runtime.claim_port(id) {
            return Err(PortError::InUse(name));
        }
        let is_virtual = info.as_ref().is_ok_and(|info| text(&info.bus) == "vdev");
        let is_vhost = info.is_ok_and(|info| text(&info.driver) == VHOST_DRIVER);
        Ok(Port {
            shared: Arc::new(PortShared {
                id,
                netdev: None,
                name,
                detach: attached || is_virtual,
                is_vhost,
                closed: AtomicBool::new(false),
                started: AtomicBool::new(false),
                receives_in_segments: AtomicBool::new(false),
                pools: Mutex::new(Vec::new()),
                xdp: Mutex::default(),
                rings,
                runtime,
            }),
            priority_pause: PauseState::Unknown,
            _one_thread: PhantomData,
        })
    }

    /// Configures the port and hands out its queues; a started port is stopped
    /// first. Pools of earlier configurations stay alive with the port.
    ///
    /// # Errors
    /// [`PortError::QueuesHeld`] while queues of an earlier call live; limits of
    /// the device; [`PortError::Driver`]. After an error, configure again
    /// before `start`.
    pub fn configure(&mut self, config: PortConfig<'_>) -> Result<(Vec<RxQueue>, Vec<TxQueue>), PortError> {
        self.no_queues_held("configure")?;
        self.stop()?;
        let info = self.device_info()?;
        self.check_limits(&config, &info)?;
        // Before the driver learns of the pool, so that an error cannot leave
        // it with one that is gone.
        lock(&self.shared.pools).push(config.rx_pool.clone());
        if let Some(netdev) = self.netdev() {
            return self.configure_netdev(netdev, &config);
        }

        let mut conf = sys::weir_port_conf {
            rx_queues: config.rx_queues,
            tx_queues: config.tx_queues,
            rx_desc: config.rx_desc,
            tx_desc: config.tx_desc,
            mtu: config.mtu.map_or(0, |mtu| info.mtu_with_tags(mtu)),
        };
        let mut step: c_int = 0;
        if self.shared.is_vhost {
            // Before the guest can connect, which it may as soon as the driver has the socket.
            // SAFETY: the port is ours.
            let ret = unsafe { sys::weir_vhost_watch(self.id()) };
            self.check("queue events", ret)?;
        }
        // Looking for sockets is only worth it where the driver opens any.
        let sockets_before = (info.driver == XDP_DRIVER).then(XdpSockets::of_process);
        // SAFETY: the port is ours, stopped, and has no queue handles; the pool
        // outlives it (kept above).
        let ret = unsafe { sys::weir_port_configure(self.id(), &mut conf, config.rx_pool.as_ptr(), &mut step) };
        self.check(configure_step(step), ret)?;
        if let Some(before) = sockets_before {
            *lock(&self.shared.xdp) = XdpSockets::of_process().since(&before);
        }
        self.set_promiscuous(config.promiscuous)?;

        let rx = (0..config.rx_queues).map(|queue| RxQueue::new(Arc::clone(&self.shared), queue)).collect();
        let tx = (0..config.tx_queues).map(|queue| TxQueue::new(Arc::clone(&self.shared), queue)).collect();
        tracing::debug!(port = self.name(), rx_desc = conf.rx_desc, tx_desc = conf.tx_desc, "configured");
        Ok((rx, tx))
    }

    /// Has queue 0 receive copies of these frames for ever, in turn, whenever it is polled, in place of the device's if there are any. If it
    /// `discards`, sent frames are freed; a PAUSE or PFC frame among them stops the received frames until it is resumed. To be called once,
    /// after [`Port::configure`] and before [`Port::start`]. The device counts none of these frames.
    ///
    /// # Errors
    /// [`PortError::Driver`]: nothing to do, a frame that fits no mbuf of the port's pool, no memory, or a second call.
    pub fn replay<F: AsRef<[u8]>>(&mut self, all: &[F], discards: bool) -> Result<(), PortError> {
        let invalid = || self.failed("replay", Errno(libc::EINVAL));
        let pool = lock(&self.shared.pools).last().cloned().ok_or_else(invalid)?;
        let room = usize::from(pool.data_room().saturating_sub(HEADROOM));
        let (mut lines, mut frames) = (Vec::new(), Vec::new());
        for frame in all.iter().map(AsRef::as_ref) {
            let length = u16::try_from(frame.len()).map_err(|_| invalid())?;
            if frame.len().max(REPLAY_LINE) > room {
                return Err(invalid());
            }
            let line = u32::try_from(lines.len() / REPLAY_LINE).map_err(|_| invalid())?;
            frames.push(sys::weir_replay_frame { line, length, packet_type: 0 });
            let end = lines.len() + frame.len().max(1);
            lines.extend(frame);
            lines.resize(end.next_multiple_of(REPLAY_LINE), 0);
        }
        let count = u32::try_from(frames.len()).map_err(|_| invalid())?;
        // SAFETY: the port is ours, configured and not polled. The shim copies both arrays. Each frame's bytes are in `lines`, a whole line
        // at least, and fit an mbuf of a pool that lives as long as the port.
        let ret = unsafe {
            let (lines, bytes, discards) = (lines.as_ptr(), lines.len(), c_int::from(discards));
            sys::weir_port_replay(self.id(), pool.as_ptr(), lines, bytes, frames.as_ptr(), count, discards)
        };
        self.check("replay", ret)
    }

    /// Starts the device; its queues give and take nothing before.
    ///
    /// # Errors
    /// The driver's.
    pub fn start(&mut self) -> Result<(), PortError> {
        if self.is_started() {
            return Ok(());
        }
        if let Some(netdev) = self.netdev() {
            netdev.start().map_err(|errno| self.failed("start", errno))?;
        } else {
            // SAFETY: the port is ours; its queues do not call DPDK before `started`.
            let ret = unsafe { sys::rte_eth_dev_start(self.id()) };
            self.check("start", ret)?;
            // SAFETY: the port is ours, and nobody polls it before `started`.
            unsafe { sys::weir_port_replay_start(self.id()) };
            // SAFETY: the port is ours, and has a receive queue.
            let receives_in_segments = unsafe { sys::weir_port_scatters(self.id()) != 0 };
            self.shared.receives_in_segments.store(receives_in_segments, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in the queues' `is_started`, so that
        // they see `receives_in_segments`, and the burst functions that the start installed.
        self.shared.started.store(true, Ordering::Release);
        Ok(())
    }

    /// Stops the device, which frees the frames in its queues.
    ///
    /// # Errors
    /// [`PortError::QueuesHeld`], or the driver's.
    pub fn stop(&mut self) -> Result<(), PortError> {
        if !self.is_started() {
            return Ok(());
        }
        self.no_queues_held("stop")?;
        let ret = self.shared.stop();
        self.check("stop", ret)
    }

    /// Stops and closes the device, and detaches it. Drop does the same and logs errors.
    ///
    /// # Errors
    /// [`PortError::QueuesHeld`] (the device closes with the last queue), or the driver's.
    pub fn close(self) -> Result<(), PortError> {
        self.no_queues_held("close")?;
        let ret = self.shared.close();
        self.check("close", ret)
    }

    /// Returns true if the device was removed: its NIC was unplugged or given to another driver, or its driver reports it gone. Never for a
    /// netdev port.
    pub fn is_removed(&self) -> bool {
        self.shared.is_removed()
    }

    /// Closes a removed device and returns it to the kernel. False while queues are held; true once it is closed. No other call on the port
    /// is valid then.
    ///
    /// # Errors
    /// The driver's; the port is closed all the same.
    pub fn release(&self) -> Result<bool, PortError> {
        if !self.is_removed() || self.shared.queues_are_held() {
            return Ok(false);
        }
        let ret = self.shared.close();
        self.check("release", ret).map(|()| true)
    }

    /// Mbufs that the device may keep for good when it is closed, at most: DPDK's
    /// driver for AF_XDP does not give back those of its fill queues, nor those
    /// that wait in its completion queues. 0 for all others.
    pub fn mbufs_kept_max(&self) -> u32 {
        if self.driver_name() != XDP_DRIVER {
            return 0;
        }
        let queues = lock(&self.shared.xdp).len() as u32;
        queues * (AF_XDP_FILL_MBUFS + AF_XDP_COMPLETION_MBUFS)
    }

    /// Returns true if the port is started.
    pub fn is_started(&self) -> bool {
        self.shared.is_started()
    }

    /// DPDK's port number. A netdev port has none: its operations branch before this call.
    pub(crate) fn id(&self) -> u16 {
        debug_assert!(self.shared.netdev.is_none(), "a netdev port has no port number of DPDK's");
        self.shared.id
    }

    /// The kernel's interface, if the port is one.
    pub(crate) fn netdev(&self) -> Option<&Netdev> {
        self.shared.netdev.as_ref()
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The driver's name, e.g. `net_ixgbe`; empty if the device is gone.
    pub fn driver_name(&self) -> String {
        if self.netdev().is_some() {
            return netdev::DRIVER.to_owned();
        }
        raw_info(self.id()).map_or_else(|_| String::new(), |info| text(&info.driver))
    }

    /// Returns the device's identity and capabilities.
    ///
    /// # Errors
    /// The driver's.
    pub fn device_info(&self) -> Result<DeviceInfo, PortError> {
        if let Some(netdev) = self.netdev() {
            return Ok(netdev.info());
        }
        let info = raw_info(self.id()).map_err(|errno| self.failed("device information", errno))?;
        let (mtu, mtu_overhead) = DeviceInfo::limits(info.min_mtu, info.max_mtu, info.max_rx_pktlen);
        Ok(DeviceInfo {
            driver: text(&info.driver),
            bus: text(&info.bus),
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            rx_desc: (info.min_rx_desc, info.max_rx_desc),
            tx_desc: (info.min_tx_desc, info.max_tx_desc),
            mtu,
            mtu_overhead,
            receive_buffer_min: info.min_rx_bufsize,
            if_index: (info.if_index != 0).then_some(info.if_index),
        })
    }

    /// NUMA node; `None` if the device belongs to none.
    pub fn socket(&self) -> Option<u32> {
        if self.netdev().is_some() {
            return None;
        }
        // SAFETY: EAL runs; a wrong id gives an error.
        u32::try_from(unsafe { sys::rte_eth_dev_socket_id(self.id()) }).ok()
    }

    /// Link state as the driver knows it now, without waiting. A netdev port's is
    /// the interface's: down if that is down, without carrier, or gone.
    ///
    /// # Errors
    /// The driver's.
    pub fn link(&self) -> Result<LinkStatus, PortError> {
        if let Some(netdev) = self.netdev() {
            return Ok(netdev.link());
        }
        let mut link = sys::weir_link::default();
        // SAFETY: `link` is writable.
        let ret = unsafe { sys::weir_port_link(self.id(), &mut link) };
        self.check("link state", ret)?;
        Ok(LinkStatus {
            up: link.up != 0,
            speed_mbps: (link.speed_known != 0).then_some(link.speed_mbps),
            full_duplex: link.full_duplex != 0,
        })
    }

    /// Queues that the peer of a vhost port has enabled just now; `None` for other ports, whose queues are always there.
    pub fn enabled_queues(&self) -> Option<EnabledQueues> {
        let queues = |guest_sends| QueueSet(self.shared.guest_queues(guest_sends));
        self.shared.is_vhost.then(|| EnabledQueues { receives: queues(false), sends: queues(true) })
    }

    /// Switches the link on or off, queues running.
    ///
    /// # Errors
    /// The driver's, often that it is not supported: a netdev's is its
    /// administrator's.
    pub fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        if self.netdev().is_some() {
            return Err(self.failed("setting the link", Errno(libc::ENOTSUP)));
        }
        // SAFETY: the port is ours.
        let ret = unsafe {
            if up { sys::rte_eth_dev_set_link_up(self.id()) } else { sys::rte_eth_dev_set_link_down(self.id()) }
        };
        self.check("setting the link", ret)
    }

    /// The port's own address.
    ///
    /// # Errors
    /// The driver's.
    pub fn mac(&self) -> Result<[u8; 6], PortError> {
        if let Some(netdev) = self.netdev() {
            return netdev.mac().map_err(|errno| self.failed("reading the MAC address", errno));
        }
        let mut mac = [0; 6];
        // SAFETY: six writable bytes.
        let ret = unsafe { sys::weir_port_mac(self.id(), mac.as_mut_ptr()) };
        self.check("reading the MAC address", ret)?;
        Ok(mac)
    }

    /// Sets the port's own address.
    ///
    /// # Errors
    /// The driver's, e.g. for a multicast address; a netdev's is not changed.
    pub fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), PortError> {
        if self.netdev().is_some() {
            return Err(self.failed("setting the MAC address", Errno(libc::ENOTSUP)));
        }
        // SAFETY: six readable bytes.
        let ret = unsafe { sys::weir_port_set_mac(self.id(), mac.as_ptr()) };
        self.check("setting the MAC address", ret)
    }

    /// Bytes of payload in the largest frame.
    ///
    /// # Errors
    /// The driver's.
    pub fn mtu(&self) -> Result<u16, PortError> {
        if let Some(netdev) = self.netdev() {
            return netdev.mtu().map_err(|errno| self.failed("reading the MTU", errno));
        }
        let mut mtu = 0;
        // SAFETY: `mtu` is writable.
        let ret = unsafe { sys::rte_eth_dev_get_mtu(self.id(), &mut mtu) };
        self.check("reading the MTU", ret)?;
        Ok(mtu)
    }

    /// The longest frame, in bytes without FCS, that the device takes; `None` where its limits can't be read.
    pub fn frame_bytes_max(&self) -> Option<u32> {
        Some(self.device_info().ok()?.frame_bytes_max(self.mtu().ok()?))
    }

    /// Whether frames to any address are received.
    pub fn promiscuous(&self) -> bool {
        if let Some(netdev) = self.netdev() {
            return netdev.promiscuous();
        }
        // SAFETY: reads a flag.
        unsafe { sys::rte_eth_promiscuous_get(self.id()) == 1 }
    }

    /// Sets promiscuous mode. Drivers without address filters receive all frames; a driver that does not know the call is no error.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        if let Some(netdev) = self.netdev() {
            return netdev.set_promiscuous(on).map_err(|errno| self.failed("promiscuous mode", errno));
        }
        // SAFETY: the port is ours.
        let ret = unsafe {
            if on { sys::rte_eth_promiscuous_enable(self.id()) } else { sys::rte_eth_promiscuous_disable(self.id()) }
        };
        self.check_supported("promiscuous mode", ret)
    }

    fn no_queues_held(&self, what: &'static str) -> Result<(), PortError> {
        if self.shared.queues_are_held() { Err(PortError::QueuesHeld(self.name().to_owned(), what)) } else { Ok(()) }
    }

    fn check_limits(&self, config: &PortConfig<'_>, info: &DeviceInfo) -> Result<(), PortError> {
        for (direction, asked, max) in
            [("RX", config.rx_queues, info.max_rx_queues), ("TX", config.tx_queues, info.max_tx_queues)]
        {
            if u32::from(asked) > max {
                return Err(PortError::TooManyQueues { port: self.name().to_owned(), direction, asked, max });
            }
        }
        if info.bus == "pci" && !config.rx_pool.is_for_devices() {
            return Err(PortError::NoDeviceMemory { port: self.name().to_owned() });
        }
        let Some(mtu) = config.mtu.or(self.netdev().map(Netdev::frame_mtu)) else { return Ok(()) };
        if mtu < info.mtu.0 || mtu > info.mtu.1 {
            return Err(PortError::Mtu { port: self.name().to_owned(), mtu, min: info.mtu.0, max: info.mtu.1 });
        }
        let frame = (u32::from(mtu) + FRAME_OVERHEAD).max(info.receive_buffer_min);
        let needed = frame + u32::from(crate::mbuf::HEADROOM);
        let data_room = config.rx_pool.data_room();
        if needed > u32::from(data_room) {
            return Err(PortError::DataRoom { port: self.name().to_owned(), mtu, needed, data_room });
        }
        Ok(())
    }

    pub(crate) fn check(&self, step: &'static str, ret: c_int) -> Result<(), PortError> {
        if ret == 0 { Ok(()) } else { Err(self.failed(step, Errno::from_return(ret))) }
    }

    fn check_supported(&self, step: &'static str, ret: c_int) -> Result<(), PortError> {
        if ret != 0 && Errno::from_return(ret).is_unsupported() {
            tracing::debug!(port = self.name(), "{step} is not supported");
            return Ok(());
        }
        self.check(step, ret)
    }

    pub(crate) fn failed(&self, step: &'static str, errno: Errno) -> PortError {
        PortError::Driver { port: self.name().to_owned(), step, errno }
    }
}

fn raw_info(id: u16) -> Result<sys::weir_port_info, Errno> {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut info: sys::weir_port_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; a wrong id gives an error.
    let ret = unsafe { sys::weir_port_info(id, &mut info) };
    if ret == 0 { Ok(info) } else { Err(Errno::from_return(ret)) }
}

fn configure_step(step: c_int) -> &'static str {
    match u32::try_from(step).unwrap_or(0) {
        sys::WEIR_STEP_INFO => "device information",
        sys::WEIR_STEP_DESCRIPTORS => "descriptor counts",
        sys::WEIR_STEP_RX_QUEUE => "receive queue setup",
        sys::WEIR_STEP_TX_QUEUE => "transmit queue setup",
        _ => "configure",
    }
}

/// The driver whose ports have AF_XDP sockets.
/// Unit of the frames' places in [`Port::replay`], in bytes.
const REPLAY_LINE: usize = 64;
const XDP_DRIVER: &str = "net_af_xdp";
/// The driver whose ports have guests.
const VHOST_DRIVER: &str = "net_vhost";

/// Mbufs in the fill queue of `net_af_xdp`, and slots of a completion queue (`XSK_RING_CONS__DEFAULT_NUM_DESCS`).
const AF_XDP_FILL_MBUFS: u32 = 2048;
const AF_XDP_COMPLETION_MBUFS: u32 = 2048;

const _: () = assert!(PORTS_MAX < NO_DPDK_PORT as usize);
