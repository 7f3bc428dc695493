//! Event queue of a switch's ports.

use prefetch_index::prefetch_index;
use weir_units::archive::State;
use weir_units::{SetOfPorts, Time, WidePortSet};

/// Event queue of a fixed number of components, with at most one wake-up each.
///
/// Tournament tree: each node holds the earlier child. Rescheduling costs O(log n) in either direction and leaves no
/// stale entries. At the same instant the lowest component comes first.
#[derive(Debug, State)]
pub(super) struct Agenda {
    /// Tree in an array: the root is 1, and the children of `n` are `2n` and `2n + 1`. The leaves are last, a power of
    /// two of them.
    knots: Box<[Wakeup]>,
    /// Time and component of the earliest wake-up.
    first_due: Time,
    first_of_all: u32,
}

/// Wake-up packed into one integer, so that a minimum is one comparison: time in ps, with the component in the lowest
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, State)]
struct Wakeup(u64);

impl Wakeup {
    /// Bits for the most ports that a switch may have. The other bits hold 75 minutes of simulated time; a scenario has
    /// 1,000 s at most.
    const COMPONENT_BITS: u32 = WidePortSet::PORTS_MAX.ilog2();
    const NEVER: Wakeup = Wakeup(u64::MAX);

    #[inline]
    fn new(at: Time, who: usize) -> Wakeup {
        debug_assert!(who < 1 << Self::COMPONENT_BITS);
        // A wake-up later than any scenario's end never comes.
        if at.as_picos() >= u64::MAX >> Self::COMPONENT_BITS {
            return Wakeup::NEVER;
        }
        Wakeup(at.as_picos() << Self::COMPONENT_BITS | who as u64)
    }

    #[inline]
    fn at(self) -> Time {
        if self == Wakeup::NEVER { Time::NEVER } else { Time::from_picos(self.0 >> Self::COMPONENT_BITS) }
    }

    #[inline]
    fn who(self) -> u32 {
        (self.0 & ((1 << Self::COMPONENT_BITS) - 1)) as u32
    }
}

impl Agenda {
    pub(super) fn new(components: usize) -> Agenda {
        let leaves = components.next_power_of_two();
        Agenda { knots: vec![Wakeup::NEVER; 2 * leaves].into(), first_due: Time::NEVER, first_of_all: 0 }
    }

    /// Returns the earliest wake-up's time and component; [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn first(&self) -> (Time, usize) {
        (self.first_due, self.first_of_all as usize)
    }

    /// Prefetches the first 16 cache lines of the tree.
    #[inline]
    pub(super) fn prefetch(&self) {
        const LINE: usize = 64 / size_of::<Wakeup>();
        (0..self.knots.len().min(16 * LINE)).step_by(LINE).for_each(|knot| prefetch_index(&self.knots, knot));
    }

    /// Sets the wake-up of a component, replacing the earlier setting.
    #[inline]
    pub(super) fn set(&mut self, who: usize, at: Time) {
        let mut knot = self.knots.len() / 2 + who;
        let mut first = Wakeup::new(at, who);
        // If a node is unchanged, so are its ancestors.
        while self.knots[knot] != first {
            self.knots[knot] = first;
            if knot == 1 {
                (self.first_due, self.first_of_all) = (first.at(), first.who());
                return;
            }
            first = first.min(self.knots[knot ^ 1]);
            knot /= 2;
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
            let mut agenda = Agenda::new(components);
            let mut model = vec![Time::NEVER; components];
            for (who, at) in steps {
                let at = if at == u64::MAX { Time::NEVER } else { Time::from_nanos(at) };
                let who = who % components;
                agenda.set(who, at);
                model[who] = at;
                let first = model.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!(agenda.first().0, first.0);
                prop_assert!(first.0 == Time::NEVER || agenda.first() == first);
            }
        }
    }
}
