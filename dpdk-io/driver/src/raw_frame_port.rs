//! Ports of a program that is no switch, frame by frame: a tester's.

use weir_config::Device;
use weir_dpdk_io::{Batch, MAX_BURST, Mempool};

use crate::devices::{Devices, OpenPort, close};
use crate::error::DriverError;
use crate::memory::{CACHE, Memory, pool};
use crate::runtime::Runtime;

/// Port that sends and receives whole frames, from the destination address on, without FCS. Any one thread uses it.
#[derive(Debug)]
pub struct RawFramePort {
    /// Gone only when the port is dropped.
    open: Option<OpenPort>,
    pool: Mempool,
    received: Batch,
}

impl RawFramePort {
    /// Opens these devices, each with an MTU.
    ///
    /// # Errors
    /// The devices', or a lack of memory.
    pub fn open_all(
        _runtime: &Runtime,
        devices: &[Device],
        mtu: u16,
        memory: &Memory,
    ) -> Result<Vec<RawFramePort>, DriverError> {
        let pool = pool("weir_tester", memory.mbufs(), CACHE, memory.data_room, memory.for_devices)?;
        let mut all = Devices::default();
        let mut open = |device: &Device| {
            let open = all.open_device(device, mtu, &pool)?;
            Ok(RawFramePort { open: Some(open), pool: pool.clone(), received: Batch::new() })
        };
        devices.iter().map(&mut open).collect()
    }

    fn port_mut(&mut self) -> &mut OpenPort {
        self.open.as_mut().expect("open until it is dropped")
    }

    /// Hands a frame to the device; false if it does not fit now.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let mut batch = Batch::new();
        let Some(mut mbuf) = self.pool.alloc() else { return false };
        if !u16::try_from(frame.len()).is_ok_and(|length| mbuf.set_len(length)) {
            return false;
        }
        mbuf.data_mut().copy_from_slice(frame);
        // An empty batch has room.
        let _ = batch.push(mbuf);
        self.port_mut().tx.send(&mut batch) == 1
    }

    /// Calls `each` with the frames that have arrived, a burst at most.
    pub fn receive(&mut self, each: &mut dyn FnMut(&[u8])) {
        let RawFramePort { open, received, .. } = self;
        let Some(open) = open else { return };
        open.rx.receive(received, MAX_BURST);
        for mbuf in received.drain() {
            each(mbuf.data());
        }
    }

    /// Frames that the device reports as lost so far, both ways. 0 where it does not count.
    pub fn lost(&self) -> u64 {
        let stats = self.open.as_ref().and_then(|open| open.port.stats().ok()).unwrap_or_default();
        stats.imissed + stats.ierrors + stats.rx_nombuf + stats.oerrors
    }

    /// Takes the link down, or up.
    ///
    /// # Errors
    /// The driver's, often that it is not supported.
    pub fn set_link_up(&mut self, up: bool) -> Result<(), DriverError> {
        Ok(self.port_mut().port.set_link(up)?)
    }

    /// Returns true while the link is up.
    pub fn link_up(&self) -> bool {
        self.open.as_ref().and_then(|open| open.port.link().ok()).is_some_and(|link| link.up)
    }

    /// Speed of the link in Mb/s, if the device knows it.
    pub fn speed_mbps(&self) -> Option<u32> {
        self.open.as_ref()?.port.link().ok()?.speed_mbps
    }
}

impl Drop for RawFramePort {
    fn drop(&mut self) {
        self.received.clear();
        if let Some(OpenPort { rx, tx, more, control, port }) = self.open.take() {
            drop((rx, tx, more, control));
            close(port);
        }
    }
}
