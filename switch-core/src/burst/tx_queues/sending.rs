//! Offers of frames to a port's transmit queues, independently of each other.

use weir_mmu::PendingReleases;
use weir_units::{ClassSet, Time};

use crate::burst::burst_output::BurstOutput;
use crate::packet::{Packet, PortOutput, transmit_runs_as_burst};
use crate::transmission::Transmission;

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Offers each queue of a port its frames, with those staged last, and releases the accepted ones; returns the number sent. Each
    /// queue's offer ends before the first frame of a class that the peer pauses.
    #[inline(never)]
    pub(in crate::burst) fn send_tx_queues<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        let Some(mut tx_queues) = port.own.tx_queues.take() else { return 0 };
        if let Some(mut staged) = port.own.staged.take() {
            tx_queues.take_over(&mut staged);
            self.mode.spare.push(staged);
        }
        // Frames that a watchdog would drop left their queue before the storm.
        let paused = port.paused - port.watchdogs.dropping();
        let (id, mut blocked, mut total) = (port.id, ClassSet::EMPTY, 0);
        for queue in 0..tx_queues.offered.len() {
            let offered = &mut tx_queues.offered[queue];
            let open = offered.count_before(paused);
            if open > 0 {
                let sent = transmit_runs_as_burst(&mut offered.front(open), |burst| {
                    let limit = burst.len();
                    driver.transmit_by(id, queue as u8, burst, limit)
                });
                let mut releases = PendingReleases::default();
                self.account(now, offered, sent, &mut releases);
                self.shared.mmu.flush_pending_releases(now, &mut releases);
                offered.remove_front(sent);
                total += sent;
            }
            if !offered.is_empty() {
                blocked |= tx_queues.classes[queue];
            }
        }
        let port = &mut self.ports[index];
        port.own.blocked = blocked;
        port.own.tx_queues = Some(tx_queues);
        total
    }
}
