//! In debug builds: whether frames and bytes are accounted for while a scenario runs, and not only at its end.
//!
//! Frames are counted on each wire at every event, and in each half of a switch after each of its windows. Bytes, and all books
//! together, take longer to add up. These hold between any two instants, however far each node has got, and are looked at after a
//! window, now and then.

use weir_switch_core::Shared;
use weir_units::{Class, PortId, QueueId, Time};

use super::{Sim, balance};

/// The buffer of one switch is looked at once in so many windows, each in its turn;
const BUFFER_EVERY: u64 = 32;
/// the books of one switch likewise,
const SWITCH_EVERY: u64 = 128;
/// and all together in so many.
const ALL_EVERY: u64 = 1_000;

impl Sim {
    /// Looks at what a window has left.
    ///
    /// # Panics
    /// If anything is not accounted for: a fault of the program.
    pub(super) fn audit(&mut self) {
        self.audited += 1;
        let windows = self.audited;
        if windows.is_multiple_of(BUFFER_EVERY) {
            let switch = (windows / BUFFER_EVERY) as usize % self.parts.switches();
            let now = self.clock_of(switch);
            let whole = bytes_add_up(self.parts.switch(switch).shared(), now);
            whole.unwrap_or_else(|what| panic!("switch {switch} at {now:?}: {what}"));
        }
        if windows.is_multiple_of(SWITCH_EVERY) {
            let switch = (windows / SWITCH_EVERY) as usize % self.parts.switches();
            let now = self.clock_of(switch);
            let report = self.parts.switch_mut(switch).report(now);
            balance::of_switch(switch, &report).unwrap_or_else(|what| panic!("at {now:?}: {what}"));
        }
        if windows.is_multiple_of(ALL_EVERY) {
            let clocks: Vec<Time> = (0..self.parts.switches()).map(|switch| self.clock_of(switch)).collect();
            let reports: Vec<_> =
                (0..).zip(clocks).map(|(switch, now)| self.parts.switch_mut(switch).report(now)).collect();
            balance::frames(self, &reports).unwrap_or_else(|what| panic!("between {:?}: {what}", self.clocks));
        }
    }

    /// How far a switch has got.
    fn clock_of(&self, switch: usize) -> Time {
        self.clocks[self.parts.sides().of(switch)]
    }
}

/// Whether a buffer's queues hold what its pools say, and what is to leave is what has come.
fn bytes_add_up(switch: &Shared, now: Time) -> Result<(), String> {
    let mmu = &switch.mmu;
    let ports = || (0..mmu.layout().ports().len() as u16).map(PortId);
    let queues = || ports().flat_map(|port| Class::ALL.map(|class| QueueId::new(port, class)));
    let held: u64 = queues().map(|queue| mmu.held(queue).get()).sum();
    let waiting: u64 = queues().map(|queue| mmu.egress_length(queue)).sum();
    if held != waiting {
        return Err(format!("ingress queues hold {held} B, egress queues {waiting} B"));
    }
    if held > mmu.layout().size().get() {
        return Err(format!("{held} B in a buffer of {}", mmu.layout().size()));
    }
    let (mut shared, mut headroom, mut lossy) = (0, 0, 0);
    for queue in queues().filter(|queue| mmu.held(*queue).get() > 0) {
        let part = mmu.ingress_use(queue, now);
        shared += part.shared.get();
        headroom += part.headroom.get();
        if !mmu.layout().is_lossless(queue.port(), queue.class()) {
            lossy += part.shared.get();
        }
    }
    let pools = [
        ("shared", shared, Some(mmu.pool_use())),
        ("headroom", headroom, mmu.headroom_pool_use()),
        ("egress lossy", lossy, mmu.egress_lossy_pool_use()),
    ];
    for (name, held, pool) in pools {
        if let Some(pool) = pool
            && pool.used.get() != held
        {
            return Err(format!("queues hold {held} B of the {name} pool, which says {}", pool.used));
        }
    }
    Ok(())
}
