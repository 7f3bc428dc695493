//! Who is to be woken when.

use weir_units::Time;

/// The wake-ups of a fixed number of components, one each at most.
///
/// A tree of winners: each knot knows the earlier of its two, so that a component can put its wake-up off as cheaply as
/// forward, and nothing outdated is ever kept. At one instant the component of the lowest number comes first.
#[derive(Debug)]
pub(super) struct Agenda {
    /// When each component is to be woken, up to a power of two.
    due: Box<[Time]>,
    /// The component that comes first of those below a knot; the whole tree's is knot 1.
    first: Box<[u32]>,
}

impl Agenda {
    /// Nobody is to be woken.
    pub(super) fn new(components: usize) -> Agenda {
        let leaves = components.next_power_of_two().max(2);
        let mut agenda = Agenda { due: vec![Time::NEVER; leaves].into(), first: vec![0; leaves].into() };
        (0..leaves).for_each(|who| agenda.set(who, Time::NEVER));
        agenda
    }

    /// The component that comes first, and when; [`Time::NEVER`] if nobody is to be woken.
    #[inline]
    pub(super) fn first(&self) -> (Time, usize) {
        let who = self.first[1] as usize;
        (self.due[who], who)
    }

    /// A component is to be woken then, and not when it was to be before.
    #[inline]
    pub(super) fn set(&mut self, who: usize, at: Time) {
        self.due[who] = at;
        let leaves = self.due.len();
        let mut knot = (leaves + who) / 2;
        while knot > 0 {
            let below = |knot: usize| if knot >= leaves { (knot - leaves) as u32 } else { self.first[knot] };
            let (left, right) = (below(2 * knot), below(2 * knot + 1));
            let left_first = self.due[left as usize] <= self.due[right as usize];
            self.first[knot] = if left_first { left } else { right };
            knot /= 2;
        }
    }

    /// A component is to be woken then at the latest.
    #[inline]
    pub(super) fn wake(&mut self, who: usize, at: Time) {
        if at < self.due[who] {
            self.set(who, at);
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
            steps in prop::collection::vec((any::<usize>(), 0..20u64, any::<bool>()), 0..200),
        ) {
            let mut agenda = Agenda::new(components);
            let mut model = vec![Time::NEVER; components];
            for (who, at, forward) in steps {
                let (who, at) = (who % components, Time::from_nanos(at));
                if forward {
                    agenda.wake(who, at);
                    model[who] = model[who].min(at);
                } else {
                    agenda.set(who, at);
                    model[who] = at;
                }
                let first = model.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!(agenda.first(), first);
            }
        }
    }
}
