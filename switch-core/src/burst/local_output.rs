//! Output of an lcore that forwards and transmits: to its own ports at once, to other lcores by rings.

use weir_mmu::BurstRequest;
use weir_units::Time;

use super::burst_output::BurstOutput;
use super::forwarder::TxRings;
use crate::forwarding::AdmittedSink;
use crate::packet::{Burst, Packet, QueuedPacket};
use crate::transmission::Transmission;

/// Next stage of frames admitted on an lcore that also transmits.
#[derive(Debug)]
pub(super) struct LocalOutput<'l, P> {
    /// Transmit side of the lcore's own ports.
    pub(super) transmission: &'l mut Transmission<P, BurstOutput<P>>,
    /// Rings to the lcores of other ports.
    pub(super) rings: &'l mut TxRings<P, true>,
}

impl<P: Packet> AdmittedSink<P> for LocalOutput<'_, P> {
    const OBEYS_CONTROL: bool = true;

    #[inline]
    fn take(&mut self, now: Time, admitted: impl Iterator<Item = QueuedPacket<P>>) {
        for queued in admitted {
            match self.rings.remote_ring_mut(&queued) {
                None => self.transmission.enqueue(now, queued),
                Some(output) => output.stage(queued),
            }
        }
        self.rings.hand_over();
    }

    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, request: &BurstRequest) {
        if self.rings.are_own(request.routes()) {
            return self.transmission.enqueue_all(packets, request);
        }
        if self.rings.hand_over_all(packets, request) {
            return;
        }
        self.take(now, QueuedPacket::all(packets, request));
    }
}
