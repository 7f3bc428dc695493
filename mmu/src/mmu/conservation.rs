//! Conservation of bytes: the counts of queues and pools agree.

use weir_units::{Class, PortId, QueueId, Time};

use super::Mmu;

impl Mmu {
    /// Checks that ingress occupancy equals egress lengths and fits the buffer, and that pool usage equals the sum over queues. Holds between
    /// any two calls on one thread; of several lcores, while none runs.
    ///
    /// # Errors
    /// Describes the values that differ.
    pub fn check_conservation(&self, now: Time) -> Result<(), String> {
        let layout = self.layout();
        let ports = || (0..layout.ports().len() as u16).map(PortId);
        let queues = || ports().flat_map(|port| Class::ALL.map(|class| QueueId::new(port, class)));
        let held: u64 = queues().map(|queue| self.held(queue).get()).sum();
        let waiting: u64 = queues().map(|queue| self.egress_length(queue)).sum();
        if held != waiting {
            return Err(format!("ingress queues hold {held} B, egress queues {waiting} B"));
        }
        if held > layout.charges_max().get() {
            return Err(format!("{held} B in a buffer of {}", layout.charges_max()));
        }
        let (mut shared, mut headroom, mut lossy) = (0, 0, 0);
        for queue in queues().filter(|queue| self.held(*queue).get() > 0) {
            let part = self.ingress_usage(queue, now);
            shared += part.shared.get();
            headroom += part.headroom.get();
            if !layout.is_lossless(queue.port(), queue.class()) {
                lossy += part.shared.get();
            }
        }
        let pools = [
            ("shared", shared, Some(self.pool_usage())),
            ("headroom", headroom, self.headroom_pool_usage()),
            ("egress lossy", lossy, self.egress_lossy_pool_usage()),
        ];
        for (name, held, pool) in pools {
            if let Some(pool) = pool
                && pool.used.get() != held
            {
                return Err(format!("queues hold {held} B of the {name} pool, but it counts {}", pool.used));
            }
        }
        Ok(())
    }
}
