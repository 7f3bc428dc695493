//! Who is to be woken when.

use prefetch_index::prefetch_index;
use weir_units::archive::State;
use weir_units::{SetOfPorts, Time, WidePortSet};

/// The wake-ups of a fixed number of components, one each at most.
///
/// A tree of winners: each knot has the earlier of its two below, so that a component can put its wake-up off as cheaply as
/// forward, and nothing outdated is ever kept. At one instant the component of the lowest number comes first.
#[derive(Debug, State)]
pub(super) struct Agenda {
    /// The whole tree's first is knot 1, and the two below knot `n` are `2n` and `2n + 1`; components are the last ones, as many as a power
    /// of two.
    knots: Box<[Wakeup]>,
    /// When the first of all is to be woken, and which it is.
    first_due: Time,
    first_of_all: u32,
}

/// When, in picoseconds, and which component, in the lowest bits: one number, of which a tree has the lower one at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, State)]
struct Wakeup(u64);

impl Wakeup {
    /// As many as a switch may have ports. The rest is for 75 minutes of simulated time, of which a scenario has 1,000 s at most.
    const COMPONENT_BITS: u32 = WidePortSet::PORTS_MAX.ilog2();
    const NEVER: Wakeup = Wakeup(u64::MAX);

    #[inline]
    fn new(at: Time, who: usize) -> Wakeup {
        debug_assert!(who < 1 << Self::COMPONENT_BITS);
        // A wakeup later than any scenario's end never comes.
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
    /// Nobody is to be woken.
    pub(super) fn new(components: usize) -> Agenda {
        let leaves = components.next_power_of_two();
        Agenda { knots: vec![Wakeup::NEVER; 2 * leaves].into(), first_due: Time::NEVER, first_of_all: 0 }
    }

    /// The component that comes first, and when; [`Time::NEVER`] if nobody is to be woken.
    #[inline]
    pub(super) fn first(&self) -> (Time, usize) {
        (self.first_due, self.first_of_all as usize)
    }

    /// Asks for itself, ahead of its use, as far as there are few components.
    #[inline]
    pub(super) fn prefetch(&self) {
        const LINE: usize = 64 / size_of::<Wakeup>();
        (0..self.knots.len().min(16 * LINE)).step_by(LINE).for_each(|knot| prefetch_index(&self.knots, knot));
    }

    /// A component is to be woken then, and not when it was to be before.
    #[inline]
    pub(super) fn set(&mut self, who: usize, at: Time) {
        let mut knot = self.knots.len() / 2 + who;
        let mut first = Wakeup::new(at, who);
        // Above a knot at which nothing changes, nothing does.
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
        /// Against a look at all of them.
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
