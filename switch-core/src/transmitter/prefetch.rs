//! What frames will touch on their way out, asked for ahead of them: for a driver that has many switches on one lcore, none of
//! which stays in its cache. What a step needs to know where to look, the step before has fetched.

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_units::{ClassSet, PortId, QueueId};

use super::Transmitter;

impl<P> Transmitter<P> {
    /// The first step: the transmitter itself.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_index(from_ref(&self.shared), 0);
        prefetch_index(from_ref(&self.counters), 0);
        prefetch_index(from_ref(&self.queues), 0);
        self.markers.iter().step_by(2).for_each(|marker| prefetch_index(from_ref(marker), 0));
    }

    /// The second step: what there is of a port and of its queues of these classes. All ports are served here.
    #[inline]
    pub fn prefetch_port(&self, port: PortId, classes: ClassSet) {
        prefetch_index(&self.position_of, port.index());
        if let Some(port) = self.ports.get(port.index()) {
            prefetch_index(from_ref(&port.id), 0);
            prefetch_index(from_ref(&port.scheduler), 0);
            prefetch_index(from_ref(&port.watchdogs), 0);
        }
        for class in classes.iter() {
            self.counters.prefetch(QueueId::new(port, class));
            self.queues.prefetch(QueueId::new(port, class));
        }
    }

    /// The third step: the frames that are next.
    #[inline]
    pub fn prefetch_frames(&self, port: PortId, classes: ClassSet) {
        classes.iter().for_each(|class| self.queues.prefetch_front(QueueId::new(port, class)));
    }
}
