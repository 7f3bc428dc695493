//! Event queue of a switch's ports.

use prefetch_index::prefetch_index;
use weir_units::{LargePortSet, PortBitmap, Time};

/// Event queue of a fixed number of components, with at most one wake-up each.
///
/// Tournament tree: each node holds the earlier child. Rescheduling costs O(log n) in either direction and leaves no
/// stale entries. At the same instant the lowest component comes first.
#[derive(Debug)]
pub(super) struct EventQueue {
    /// Tree in an array: the root is 1, and the children of `n` are `2n` and `2n + 1`. The leaves are last, a power of
    /// two of them.
    tree: Box<[EventKey]>,
    /// Time and component of the earliest wake-up.
    first_due: Time,
    first_component: u32,
}

/// Wake-up packed into one integer, so that a minimum is one comparison: time in ps, with the component in the lowest
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey(u64);

impl EventKey {
    /// Bits for the most ports that a switch may have. The other bits hold 75 minutes of simulated time; a scenario has
    /// 1,000 s at most.
    const COMPONENT_BITS: u32 = LargePortSet::PORTS_MAX.ilog2();
    const NEVER: EventKey = EventKey(u64::MAX);

    #[inline]
    fn new(at: Time, component: usize) -> EventKey {
        debug_assert!(component < 1 << Self::COMPONENT_BITS);
        // A wake-up later than any scenario's end never comes.
        if at.as_picos() >= u64::MAX >> Self::COMPONENT_BITS {
            return EventKey::NEVER;
        }
        EventKey(at.as_picos() << Self::COMPONENT_BITS | component as u64)
    }

    #[inline]
    fn time(self) -> Time {
        if self == EventKey::NEVER { Time::NEVER } else { Time::from_picos(self.0 >> Self::COMPONENT_BITS) }
    }

    #[inline]
    fn component(self) -> u32 {
        (self.0 & ((1 << Self::COMPONENT_BITS) - 1)) as u32
    }
}

impl EventQueue {
    pub(super) fn new(components: usize) -> EventQueue {
        let leaves = components.next_power_of_two();
        EventQueue { tree: vec![EventKey::NEVER; 2 * leaves].into(), first_due: Time::NEVER, first_component: 0 }
    }

    /// Returns the earliest wake-up's time and component; [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn first(&self) -> (Time, usize) {
        (self.first_due, self.first_component as usize)
    }

    /// Prefetches the first 16 cache lines of the tree.
    #[inline]
    pub(super) fn prefetch(&self) {
        const LINE: usize = 64 / size_of::<EventKey>();
        (0..self.tree.len().min(16 * LINE)).step_by(LINE).for_each(|node| prefetch_index(&self.tree, node));
    }

    /// Sets the wake-up of a component, replacing the earlier setting.
    #[inline]
    pub(super) fn set(&mut self, component: usize, at: Time) {
        let mut node = self.tree.len() / 2 + component;
        let mut first = EventKey::new(at, component);
        // If a node is unchanged, so are its ancestors.
        while self.tree[node] != first {
            self.tree[node] = first;
            if node == 1 {
                (self.first_due, self.first_component) = (first.time(), first.component());
                return;
            }
            first = first.min(self.tree[node ^ 1]);
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a linear scan.
        #[test]
        fn the_first_is_the_earliest_and_of_those_the_lowest(
            components in 1..40usize,
            steps in prop::collection::vec((any::<usize>(), prop_oneof![8 => 0..20u64, 1 => Just(u64::MAX)]), 0..200),
        ) {
            let mut queue = EventQueue::new(components);
            let mut model = vec![Time::NEVER; components];
            for (who, at) in steps {
                let at = if at == u64::MAX { Time::NEVER } else { Time::from_nanos(at) };
                let who = who % components;
                queue.set(who, at);
                model[who] = at;
                let first = model.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!(queue.first().0, first.0);
                prop_assert!(first.0 == Time::NEVER || queue.first() == first);
            }
        }
    }
}
