//! Frames that are given up instead of sent.

use weir_units::{ClassSet, QueueId, Time};

use super::{Manner, Transmission};
use crate::counters::DropReason;
use crate::packet::{Direction, Packet, PacketStore};

impl<P: Packet, M: Manner<P>> Transmission<P, M> {
    /// Gives up what a port is offered, and up to `limit` frames with what waits in its queues, counting them; returns how many.
    pub(super) fn discard_port(
        &mut self,
        now: Time,
        index: usize,
        reason: DropReason,
        limit: usize,
        note: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let Transmission { shared, ports, counters, manner, .. } = self;
        let discarded = manner.give_up(&mut ports[index].own, |packets, departures| {
            for (packet, departure) in packets.iter().zip(departures) {
                note(packet, departure.egress);
                counters.drop(departure.egress, reason);
            }
            shared.mmu.release(now, departures);
        });
        discarded + self.discard_queues(now, index, ClassSet::ALL, reason, limit.saturating_sub(discarded), note)
    }

    /// Gives up everything that ports are offered, or that waits in queues, counting it; returns how much.
    pub(crate) fn discard_ports(&mut self, now: Time, reason: DropReason) -> usize {
        (0..self.ports.len()).map(|index| self.discard_port(now, index, reason, usize::MAX, &mut |_, _| {})).sum()
    }

    /// Gives up to `limit` frames up that wait in the queues of these classes.
    pub(super) fn discard_queues(
        &mut self,
        now: Time,
        index: usize,
        classes: ClassSet,
        reason: DropReason,
        limit: usize,
        note: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = 0;
        for class in (port.backlog & classes).iter() {
            let queue = QueueId::new(port.id, class);
            while discarded < limit
                && let Some(queued) = self.queues.pop(queue)
            {
                note(&queued.packet, queue);
                self.counters.drop(queue, reason);
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

/// Tells the driver of frames that are given up, in which queue each waited.
pub(super) fn noting<P>(now: Time, reason: DropReason, driver: &mut impl PacketStore<P>) -> impl FnMut(&P, QueueId) {
    move |packet, queue| driver.note_drop(now, packet, queue, Direction::Outbound, reason)
}
