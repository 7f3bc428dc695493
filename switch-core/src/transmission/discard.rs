//! Drops of frames on the transmit side.

use weir_units::{ClassSet, QueueId, Time};

use super::{Transmission, TransmitMode};
use crate::counters::DropReason;
use crate::packet::{Direction, Packet, PacketAllocator};

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    /// Drops a port's offered frames, and up to `limit` frames together with those in its queues, and counts them; returns their number.
    pub(super) fn discard_port(
        &mut self,
        now: Time,
        index: usize,
        reason: DropReason,
        limit: usize,
        on_drop: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let Transmission { shared, ports, counters, mode, .. } = self;
        let discarded = mode.discard_offered(&mut ports[index].own, |packets, departures| {
            for (packet, departure) in packets.iter().zip(departures) {
                on_drop(packet, departure.egress);
                counters.count_drop(departure.egress, reason);
            }
            shared.mmu.release(now, departures);
        });
        discarded + self.discard_queues(now, index, ClassSet::ALL, reason, limit.saturating_sub(discarded), on_drop)
    }

    /// Drops and counts all offered and queued frames; returns their number.
    pub(crate) fn discard_ports(&mut self, now: Time, reason: DropReason) -> usize {
        (0..self.ports.len()).map(|index| self.discard_port(now, index, reason, usize::MAX, &mut |_, _| {})).sum()
    }

    /// Drops up to `limit` queued frames of these classes; returns their number.
    pub(super) fn discard_queues(
        &mut self,
        now: Time,
        index: usize,
        classes: ClassSet,
        reason: DropReason,
        limit: usize,
        on_drop: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = 0;
        for class in (port.backlog & classes).iter() {
            let queue = QueueId::new(port.id, class);
            while discarded < limit
                && let Some(queued) = self.queues.pop(queue)
            {
                on_drop(&queued.packet, queue);
                self.counters.count_drop(queue, reason);
                self.shared.mmu.release(now, &[queued.charged]);
                discarded += 1;
            }
            if self.queues.is_empty(queue) {
                port.backlog.remove(class);
                port.scheduler.handle_empty(class);
            }
        }
        discarded
    }
}

/// Returns a callback that reports dropped frames to the driver, each with its egress queue.
pub(super) fn drop_reporter<P>(
    now: Time,
    reason: DropReason,
    driver: &mut impl PacketAllocator<P>,
) -> impl FnMut(&P, QueueId) {
    move |packet, queue| driver.on_drop(now, packet, queue, Direction::Outbound, reason)
}
