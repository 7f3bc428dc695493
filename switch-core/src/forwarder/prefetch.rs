//! What frames will touch on their way to the MMU, asked for ahead of them: for a driver that has many switches on one lcore, none
//! of which stays in its cache. What a step needs to know where to look, the step before has fetched.

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_units::{ClassSet, PortId, QueueId};

use super::Forwarder;

impl<P> Forwarder<P> {
    /// The classes of which frames have come one by one.
    #[inline]
    pub fn classes_seen(&self) -> ClassSet {
        self.seen
    }

    /// The first step: the forwarder itself.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_index(from_ref(&self.shared), 0);
        prefetch_index(from_ref(&self.counters), 0);
        prefetch_index(from_ref(&self.admitted), 0);
    }

    /// The second step: the switch's common parts,
    #[inline]
    pub fn prefetch_shared(&self) {
        self.shared.prefetch();
    }

    /// and what is counted at a port.
    #[inline]
    pub fn prefetch_counters(&self, port: PortId) {
        self.seen.iter().for_each(|class| self.counters.prefetch(QueueId::new(port, class)));
    }

    /// The third step: where stations are,
    #[inline]
    pub fn prefetch_routes(&self) {
        self.shared.fdb.prefetch();
    }

    /// and what the common parts have of a port.
    #[inline]
    pub fn prefetch_port(&self, port: PortId) {
        self.shared.prefetch_port(port, self.seen);
    }
}
