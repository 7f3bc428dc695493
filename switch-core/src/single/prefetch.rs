//! What frames will touch, asked for ahead of them: for a driver that has many switches on one lcore, none of which stays in its
//! cache. Three steps, each of which knows where to look from what the step before has fetched: [`Pipeline::prefetch`];
//! [`Pipeline::prefetch_common`] and [`Pipeline::prefetch_port`]; [`Pipeline::prefetch_routes`] and [`Pipeline::prefetch_frames`].

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_units::{PortId, QueueId, SetOfPorts};

use super::Pipeline;

impl<P, S: SetOfPorts> Pipeline<P, S> {
    /// The first step: the pipeline itself.
    #[inline]
    pub fn prefetch(&self) {
        let Pipeline { forwarding, transmission, .. } = self;
        prefetch_index(from_ref(&forwarding.shared), 0);
        prefetch_index(from_ref(&forwarding.counters), 0);
        prefetch_index(from_ref(&transmission.shared), 0);
        prefetch_index(from_ref(&transmission.counters), 0);
        prefetch_index(from_ref(&transmission.queues), 0);
        transmission.markers.iter().step_by(2).for_each(|marker| prefetch_index(from_ref(marker), 0));
    }

    /// The second step: what the switch has once,
    #[inline]
    pub fn prefetch_common(&self) {
        self.forwarding.shared.prefetch();
    }

    /// and what it has of a port and of its queues.
    #[inline]
    pub fn prefetch_port(&self, port: PortId) {
        let Pipeline { seen, forwarding, transmission, .. } = self;
        seen.iter().for_each(|class| forwarding.counters.prefetch(QueueId::new(port, class)));
        prefetch_index(&transmission.position_of, port.index());
        if let Some(port) = transmission.ports.get(port.index()) {
            prefetch_index(from_ref(&port.id), 0);
            prefetch_index(from_ref(&port.scheduler), 0);
            prefetch_index(from_ref(&port.watchdogs), 0);
        }
        for class in seen.iter() {
            transmission.counters.prefetch(QueueId::new(port, class));
            transmission.queues.prefetch(QueueId::new(port, class));
        }
    }

    /// The third step: where stations are,
    #[inline]
    pub fn prefetch_routes(&self) {
        self.forwarding.shared.fdb.prefetch();
    }

    /// and the frames that are next at a port.
    #[inline]
    pub fn prefetch_frames(&self, port: PortId) {
        self.forwarding.shared.prefetch_port(port, self.seen);
        self.seen.iter().for_each(|class| self.transmission.queues.prefetch_front(QueueId::new(port, class)));
    }
}
