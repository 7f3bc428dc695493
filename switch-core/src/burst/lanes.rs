//! Ports whose device has several transmit queues: each class leaves by one of them, and a queue that takes nothing holds back
//! its own classes alone.

mod sending;

use arrayvec::ArrayVec;
use weir_units::{CLASSES, Class, ClassSet};

use super::staged::Staged;

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
