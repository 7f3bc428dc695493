//! Output of an lcore that forwards and transmits: to its own ports at once, to other lcores by rings.

use weir_mmu::Intake;
use weir_units::Time;

use super::bursts::Bursts;
use super::forwarder::Rings;
use crate::forwarding::Onward;
use crate::packet::{Burst, Packet, Queued};
use crate::transmission::Transmission;

/// Next stage of frames admitted on an lcore that also transmits.
#[derive(Debug)]
pub(super) struct OwnPorts<'l, P> {
    /// Transmit side of the lcore's own ports.
    pub(super) transmission: &'l mut Transmission<P, Bursts<P>>,
    /// Rings to the lcores of other ports.
    pub(super) rings: &'l mut Rings<P, true>,
}

impl<P: Packet> Onward<P> for OwnPorts<'_, P> {
    const OBEYS_CONTROL: bool = true;

    #[inline]
    fn take(&mut self, now: Time, admitted: impl Iterator<Item = Queued<P>>) {
        for queued in admitted {
            match self.rings.to(&queued) {
                None => self.transmission.enqueue(now, queued),
                Some(output) => output.stage(queued),
            }
        }
        self.rings.hand_over();
    }

    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, intake: &Intake) {
        if intake.bundles().iter().all(|bundle| self.rings.is_own(bundle.egress.port())) {
            return self.transmission.enqueue_all(now, packets, intake);
        }
        if self.rings.hand_over_all(packets, intake) {
            return;
        }
        self.take(now, Queued::all(packets, intake));
    }
}
