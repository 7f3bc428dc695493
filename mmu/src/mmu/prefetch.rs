//! Prefetch of cache lines that packets will touch, for one lcore that runs many switches, none of which stays in its cache.

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_units::{ClassSet, PortId, QueueId};

use super::Mmu;

impl Mmu {
    /// Prefetches the data common to all packets.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_index(from_ref(&self.shared), 0);
        prefetch_index(from_ref(&self.ingress), 0);
        prefetch_index(from_ref(&self.flags), 0);
    }

    /// Prefetches the data of packets of these classes that enter or leave by this port.
    #[inline]
    pub fn prefetch_port(&self, port: PortId, classes: ClassSet) {
        prefetch_index(&self.ports, port.index());
        for class in classes.iter() {
            let queue = QueueId::new(port, class).index();
            prefetch_index(&self.ingress, queue);
            self.egress.prefetch(queue);
        }
    }
}
