//! Offers of frames to a port's transmit queues, independently of each other.

use weir_mmu::Leaving;
use weir_units::{ClassSet, Time};

use crate::burst::bursts::Bursts;
use crate::packet::{Packet, PortOutput, transmit_rows_as_burst};
use crate::transmission::Transmission;

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Offers each queue of a port its frames, with those staged last, and releases the accepted ones; returns the number sent. Each
    /// queue's offer ends before the first frame of a class that the peer pauses.
    #[inline(never)]
    pub(in crate::burst) fn send_lanes<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        let Some(mut lanes) = port.own.lanes.take() else { return 0 };
        if let Some(mut staged) = port.own.staged.take() {
            lanes.take_over(&mut staged);
            self.manner.spare.push(staged);
        }
        // Frames that a watchdog would drop left their queue before the storm.
        let paused = port.paused - port.watchdogs.dropping();
        let (id, mut blocked, mut total) = (port.id, ClassSet::EMPTY, 0);
        for queue in 0..lanes.offered.len() {
            let offered = &mut lanes.offered[queue];
            let open = offered.before(paused);
            if open > 0 {
                let sent = transmit_rows_as_burst(&mut offered.front(open), |burst| {
                    let limit = burst.len();
                    driver.transmit_by(id, queue as u8, burst, limit)
                });
                let mut leaving = Leaving::default();
                self.account(now, offered, sent, &mut leaving);
                self.shared.mmu.release_leaving(now, &mut leaving);
                offered.forget_front(sent);
                total += sent;
            }
            if !offered.is_empty() {
                blocked |= lanes.classes[queue];
            }
        }
        let port = &mut self.ports[index];
        port.own.blocked = blocked;
        port.own.lanes = Some(lanes);
        total
    }
}
