//! Prefetching for a driver that has many switches on one lcore, none of which stays in its cache. Each of the three steps uses addresses
//! that the previous one has fetched: [`Pipeline::prefetch`]; [`Pipeline::prefetch_common`] and [`Pipeline::prefetch_port`];
//! [`Pipeline::prefetch_routes`] and [`Pipeline::prefetch_frames`].

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_units::{PortBitmap, PortId, QueueId};

use super::Pipeline;

impl<P, S: PortBitmap> Pipeline<P, S> {
    /// Prefetches the pipeline itself (step 1).
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

    /// Prefetches state that the switch has once (step 2).
    #[inline]
    pub fn prefetch_common(&self) {
        self.forwarding.shared.prefetch();
    }

    /// Prefetches the state of a port and its queues (step 2).
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

    /// Prefetches the locations of stations (step 3).
    #[inline]
    pub fn prefetch_routes(&self) {
        self.forwarding.shared.fdb.prefetch();
    }

    /// Prefetches the next frames of a port (step 3).
    #[inline]
    pub fn prefetch_frames(&self, port: PortId) {
        self.forwarding.shared.prefetch_port(port, self.seen);
        self.seen.iter().for_each(|class| self.transmission.queues.prefetch_front(QueueId::new(port, class)));
    }
}
