//! Ports whose device has several transmit queues: each class leaves by one of them, and a queue that takes nothing holds back
//! its own classes alone.

use arrayvec::ArrayVec;
use weir_mmu::Leaving;
use weir_units::{CLASSES, Class, ClassSet, Time};

use super::bursts::Bursts;
use super::staged::Staged;
use crate::packet::{Packet, PortOutput, transmit_rows_as_burst};
use crate::transmission::Transmission;

/// The transmit queue that frames of a class leave by, of so many: their class modulo that.
pub fn queue_of_class(class: Class, queues: u8) -> u8 {
    class.index() as u8 % queues
}

/// The classes whose frames leave by one of so many transmit queues.
pub fn classes_of_queue(queue: u8, queues: u8) -> ClassSet {
    Class::ALL.into_iter().filter(|class| queue_of_class(*class, queues) == queue).collect()
}

/// What the transmit queues of a port are offered.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    /// The classes of each queue.
    classes: ArrayVec<ClassSet, CLASSES>,
    /// What each queue is offered. A queue's classes are not staged while it has not taken all of it.
    offered: ArrayVec<Staged<P>, CLASSES>,
}

impl<P> Lanes<P> {
    /// `None` for a port with one queue.
    pub(super) fn of(queues: u8) -> Option<Box<Lanes<P>>> {
        let classes = |queue| classes_of_queue(queue, queues);
        (queues > 1).then(|| {
            let offered = (0..queues).map(|_| Staged::default()).collect();
            Box::new(Lanes { classes: (0..queues).map(classes).collect(), offered })
        })
    }

    /// Frames that no queue has taken yet.
    pub(super) fn held(&self) -> usize {
        self.offered.iter().map(|offered| offered.len()).sum()
    }

    /// The credit blocks of a class's frames.
    pub(super) fn blocks_of(&self, class: Class) -> u32 {
        self.offered.iter().map(|offered| offered.blocks_of(class)).sum()
    }

    /// What each queue is offered, to be given up.
    pub(super) fn offered_mut(&mut self) -> impl Iterator<Item = &mut Staged<P>> {
        self.offered.iter_mut().filter(|offered| !offered.is_empty())
    }

    /// Parts what is staged by queue; leaves it empty. The queues have room: only classes whose queue was empty are staged.
    fn take_over(&mut self, staged: &mut Staged<P>) {
        let queues = self.offered.len() as u8;
        staged.drain(|queued| {
            self.offered[usize::from(queue_of_class(queued.charged.egress.class(), queues))].push(queued);
        });
    }
}

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Offers each queue of a port its frames, those staged last, and releases what it accepts; returns how many went. From the
    /// first frame on whose class the peer pauses a queue keeps what it was offered.
    #[inline(never)]
    pub(super) fn send_lanes<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        let Some(mut lanes) = port.own.lanes.take() else { return 0 };
        if let Some(mut staged) = port.own.staged.take() {
            lanes.take_over(&mut staged);
            self.manner.spare.push(staged);
        }
        // What a watchdog would drop was taken from its queue before the storm.
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
