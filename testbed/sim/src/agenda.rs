//! Who is to be woken when.

use prefetch_index::prefetch_index;
use weir_units::Time;
use weir_units::archive::State;

/// The wake-ups of a fixed number of components, one each at most.
///
/// A tree of winners: each knot knows the earlier of its two, so that a component can put its wake-up off as cheaply as
/// forward, and nothing outdated is ever kept. At one instant the component of the lowest number comes first.
#[derive(Debug, State)]
pub(super) struct Agenda {
    /// When each component is to be woken, up to a power of two.
    due: Box<[Time]>,
    /// The component that comes first of those below a knot; the whole tree's is knot 1.
    first: Box<[u32]>,
    /// When the first of all is to be woken, and which it is.
    first_due: Time,
    first_of_all: u32,
}

impl Agenda {
    /// Nobody is to be woken.
    pub(super) fn new(components: usize) -> Agenda {
        let leaves = components.next_power_of_two().max(2);
        let mut first: Box<[u32]> = vec![0; leaves].into();
        for knot in (1..leaves).rev() {
            // While all are equal the lowest number wins.
            first[knot] = if 2 * knot >= leaves { (2 * knot - leaves) as u32 } else { first[2 * knot] };
        }
        Agenda { due: vec![Time::NEVER; leaves].into(), first_of_all: first[1], first, first_due: Time::NEVER }
    }

    /// The component that comes first, and when; [`Time::NEVER`] if nobody is to be woken.
    #[inline]
    pub(super) fn first(&self) -> (Time, usize) {
        (self.first_due, self.first_of_all as usize)
    }

    /// Asks for itself, ahead of its use, as far as there are few components.
    #[inline]
    pub(super) fn prefetch(&self) {
        const LINE: usize = 64 / size_of::<Time>();
        (0..self.due.len().min(8 * LINE)).step_by(LINE).for_each(|place| prefetch_index(&self.due, place));
        (0..self.first.len().min(8 * LINE)).step_by(2 * LINE).for_each(|knot| prefetch_index(&self.first, knot));
    }

    /// A component is to be woken then, and not when it was to be before.
    #[inline]
    pub(super) fn set(&mut self, who: usize, at: Time) {
        if self.due[who] == at {
            return;
        }
        self.due[who] = at;
        let leaves = self.due.len();
        // The lowest knots have leaves below them, whose numbers are known.
        let pair = who & !1;
        let mut winner = if self.due[pair] <= self.due[pair + 1] { pair } else { pair + 1 } as u32;
        let mut knot = (leaves + who) / 2;
        loop {
            let before = std::mem::replace(&mut self.first[knot], winner);
            // Above a knot that neither was nor is won by the one that changed, nothing changes.
            if before as usize != who && winner as usize != who {
                return;
            }
            if knot == 1 {
                (self.first_due, self.first_of_all) = (self.due[winner as usize], winner);
                return;
            }
            let (left, right) = (self.first[knot & !1], self.first[knot | 1]);
            winner = if self.due[left as usize] <= self.due[right as usize] { left } else { right };
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
            steps in prop::collection::vec((any::<usize>(), 0..20u64), 0..200),
        ) {
            let mut agenda = Agenda::new(components);
            let mut model = vec![Time::NEVER; components];
            for (who, at) in steps {
                let (who, at) = (who % components, Time::from_nanos(at));
                agenda.set(who, at);
                model[who] = at;
                let first = model.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!(agenda.first(), first);
            }
        }
    }
}
