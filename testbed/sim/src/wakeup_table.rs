//! Wake-up times of nodes.

use weir_units::Time;

/// Wake-up table of the nodes of one phase. Due nodes are listed once per window, in which most of a busy fabric is
/// due, but wake-ups are set many times. So setting one is cheap, and listing scans blocks of nodes.
#[derive(Debug)]
pub(super) struct WakeupTable {
    due: Box<[Time]>,
    /// Earliest time of each block, or a lower bound.
    blocks: Box<[Time]>,
    /// True if a node may have been postponed since the block times were computed.
    is_stale: bool,
}

const BLOCK: usize = 64;

impl WakeupTable {
    pub(super) fn new(nodes: usize) -> WakeupTable {
        let blocks = nodes.div_ceil(BLOCK);
        WakeupTable { due: vec![Time::NEVER; nodes].into(), blocks: vec![Time::NEVER; blocks].into(), is_stale: false }
    }

    /// Returns the earliest wake-up time; [`Time::NEVER`] if there is none.
    pub(super) fn first(&mut self) -> Time {
        if std::mem::take(&mut self.is_stale) {
            let earliest = |block: &[Time]| block.iter().copied().min().unwrap_or(Time::NEVER);
            self.blocks.iter_mut().zip(self.due.chunks(BLOCK)).for_each(|(first, block)| *first = earliest(block));
        }
        self.blocks.iter().copied().min().unwrap_or(Time::NEVER)
    }

    pub(super) fn due(&self, node: usize) -> Time {
        self.due[node]
    }

    /// Lists the nodes due by `limit`.
    pub(super) fn list_due(&self, limit: Time, due: &mut Vec<u32>) {
        due.clear();
        let blocks = self.blocks.iter().zip(self.due.chunks(BLOCK)).zip((0..).step_by(BLOCK));
        for ((_, block), first) in blocks.filter(|((earliest, _), _)| **earliest <= limit) {
            due.extend(block.iter().zip(first..).filter(|(at, _)| **at <= limit).map(|(_, node)| node));
        }
    }

    /// Sets the wake-up time of a node, replacing the earlier setting.
    #[inline]
    pub(super) fn set(&mut self, node: usize, at: Time) {
        self.is_stale = true;
        self.due[node] = at;
        let earliest = &mut self.blocks[node / BLOCK];
        *earliest = at.min(*earliest);
    }

    /// Makes a node wake at `at` or earlier.
    #[inline]
    pub(super) fn wake(&mut self, node: usize, at: Time) {
        let due = &mut self.due[node];
        *due = at.min(*due);
        let earliest = &mut self.blocks[node / BLOCK];
        *earliest = at.min(*earliest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a linear scan.
        #[test]
        fn those_due_are_listed_and_the_first_is_the_earliest(
            nodes in 1..200usize,
            steps in prop::collection::vec((any::<usize>(), 0..20u64, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let mut table = WakeupTable::new(nodes);
            let mut model = vec![Time::NEVER; nodes];
            let mut due = Vec::new();
            for (node, at, forward, looks) in steps {
                let (node, at) = (node % nodes, Time::from_nanos(at));
                if forward {
                    table.wake(node, at);
                    model[node] = model[node].min(at);
                } else {
                    table.set(node, at);
                    model[node] = at;
                }
                if looks {
                    prop_assert_eq!(table.first(), *model.iter().min().unwrap());
                }
                table.list_due(at, &mut due);
                prop_assert!(due.iter().copied().eq((0..).zip(&model).filter(|(_, of)| **of <= at).map(|(who, _)| who)));
            }
        }
    }
}
