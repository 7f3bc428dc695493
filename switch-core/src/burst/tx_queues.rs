//! Ports whose device has several transmit queues: each class leaves by one of them, and a full queue holds back only its own classes.

mod sending;

use arrayvec::ArrayVec;
use weir_units::{CLASSES, Class, ClassSet};

use super::tx_batch::TxBatch;

/// Returns the transmit queue of a class: the class modulo `queues`.
pub fn queue_of_class(class: Class, queues: u8) -> u8 {
    class.index() as u8 % queues
}

/// Returns the classes of one of `queues` transmit queues.
pub fn classes_of_queue(queue: u8, queues: u8) -> ClassSet {
    Class::ALL.into_iter().filter(|class| queue_of_class(*class, queues) == queue).collect()
}

/// Frames offered to the transmit queues of a port.
#[derive(Debug)]
pub(super) struct TxQueueBatches<P> {
    classes: ArrayVec<ClassSet, CLASSES>,
    /// Frames offered to each queue. A queue's classes are not staged until it has accepted all of them.
    offered: ArrayVec<TxBatch<P>, CLASSES>,
}

impl<P> TxQueueBatches<P> {
    /// Returns the queues' state; `None` for a port with one queue.
    pub(super) fn for_queues(queues: u8) -> Option<Box<TxQueueBatches<P>>> {
        let classes = |queue| classes_of_queue(queue, queues);
        (queues > 1).then(|| {
            let offered = (0..queues).map(|_| TxBatch::default()).collect();
            Box::new(TxQueueBatches { classes: (0..queues).map(classes).collect(), offered })
        })
    }

    /// Returns the number of frames that no queue has accepted yet.
    pub(super) fn held(&self) -> usize {
        self.offered.iter().map(|offered| offered.len()).sum()
    }

    /// Returns the credit blocks of a class's frames.
    pub(super) fn blocks_of(&self, class: Class, count_of: impl Fn(u32) -> u32) -> u32 {
        self.offered.iter().map(|offered| offered.blocks_of(class, &count_of)).sum()
    }

    /// Returns the frames offered to each queue, for a caller that drops them.
    pub(super) fn offered_mut(&mut self) -> impl Iterator<Item = &mut TxBatch<P>> {
        self.offered.iter_mut().filter(|offered| !offered.is_empty())
    }

    /// Distributes the staged frames to the queues. The queues have room: only classes whose queue was empty are staged.
    fn take_over(&mut self, staged: &mut TxBatch<P>) {
        let queues = self.offered.len() as u8;
        staged.drain(|queued| {
            self.offered[usize::from(queue_of_class(queued.charged.egress.class(), queues))].push(queued);
        });
    }
}
