//! LLDP frames of a running switch, for the control thread.

use std::sync::PoisonError;

use weir_units::PortId;

use super::RunningSwitches;
use crate::frame::Frame;
use crate::lldp::LldpChannel;

/// Channels of a switch's lcores; empty without LLDP.
#[derive(Debug, Default)]
pub(super) struct LldpChannels {
    pub(super) channels: Vec<LldpChannel>,
    /// Index of the lcore that transmits on each port.
    pub(super) transmitter_of: Vec<usize>,
}

impl RunningSwitches {
    /// Sends a frame of LLDP by a port of switch `index`, once the port accepts it. Returns false if packet memory or the lcore's ring is
    /// exhausted.
    pub fn send_lldp(&self, index: usize, port: PortId, frame: &[u8]) -> bool {
        let mut own = self.switches[index].lldp.lock().unwrap_or_else(PoisonError::into_inner);
        let LldpChannels { channels, transmitter_of } = &mut *own;
        let Some(channel) = channels.get_mut(transmitter_of[port.index()]) else { return false };
        let Some(mut mbuf) = self.store.data.alloc() else { return false };
        let Some(bytes) = mbuf.append(frame.len() as u16) else { return false };
        bytes.copy_from_slice(frame);
        let is_posted = channel.send(port, Frame(mbuf));
        self.control.notify();
        is_posted
    }

    /// Takes the LLDP frames that switch `index` received since the last call, with their ports. Has lcores offer frames again that their
    /// ports did not accept. Call it periodically.
    pub fn take_lldp(&self, index: usize) -> Vec<(PortId, Vec<u8>)> {
        let mut own = self.switches[index].lldp.lock().unwrap_or_else(PoisonError::into_inner);
        if own.channels.iter().any(LldpChannel::is_pending) {
            self.control.notify();
        }
        let channels = own.channels.iter_mut();
        let frames = channels.flat_map(|channel| std::iter::from_fn(|| channel.take()).take(crate::lldp::RECEIVED_MAX));
        frames.map(|(port, frame)| (port, frame.0.data().to_vec())).collect()
    }
}
