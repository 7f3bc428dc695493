//! Propagation delay of a link.

use std::collections::VecDeque;

use weir_units::{Span, Time};

/// Link that delivers items in order, `delay` after they enter. Its capacity should cover the delay at line rate; a full
/// link refuses items, and its sender must wait.
///
/// Propagation only: the sender accounts for the serialization delay.
#[derive(Debug)]
pub struct DelayLine<T> {
    delay: Span,
    capacity: usize,
    /// Items in flight, with their arrival times.
    items: VecDeque<(Time, T)>,
}

impl<T> DelayLine<T> {
    /// Creates a link of this delay for `capacity` items; allocates all its memory.
    pub fn new(delay: Span, capacity: usize) -> DelayLine<T> {
        DelayLine { delay, capacity, items: VecDeque::with_capacity(capacity) }
    }

    /// Takes an item at `now`, which must not decrease between calls; returns it if the link is full.
    pub fn push(&mut self, now: Time, item: T) -> Result<(), T> {
        if self.items.len() == self.capacity {
            return Err(item);
        }
        let arrives = now.saturating_add(self.delay);
        debug_assert!(self.items.back().is_none_or(|(last, _)| *last <= arrives), "time runs backwards");
        self.items.push_back((arrives, item));
        Ok(())
    }

    /// Takes the next item that has arrived by `now`.
    pub fn poll(&mut self, now: Time) -> Option<T> {
        let (arrives, _) = self.items.front()?;
        if *arrives <= now { self.items.pop_front().map(|(_, item)| item) } else { None }
    }

    /// Returns the instant at which the next item arrives; [`Time::NEVER`] if none is in flight.
    pub fn next_wakeup(&self) -> Time {
        self.items.front().map_or(Time::NEVER, |(arrives, _)| *arrives)
    }

    /// Returns the number of further items that the link can take.
    pub fn room(&self) -> usize {
        self.capacity - self.items.len()
    }

    /// Returns the number of items in flight.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item is in flight.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the propagation delay.
    pub fn delay(&self) -> Span {
        self.delay
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn instant(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn items_come_out_after_the_delay_and_not_before() {
        let mut link = DelayLine::new(Span::from_micros(9), 4);
        link.push(instant(100), 'a').unwrap();
        link.push(instant(300), 'b').unwrap();
        assert_eq!(link.next_wakeup(), instant(9_100));
        assert_eq!(link.poll(instant(9_099)), None);
        assert_eq!(link.poll(instant(9_100)), Some('a'));
        assert_eq!((link.poll(instant(9_100)), link.next_wakeup()), (None, instant(9_300)));
        assert_eq!((link.poll(instant(20_000)), link.is_empty()), (Some('b'), true));
        assert_eq!(link.next_wakeup(), Time::NEVER);
    }

    #[test]
    fn a_full_link_gives_the_item_back() {
        let mut link = DelayLine::new(Span::from_micros(1), 1);
        assert_eq!(link.push(instant(0), 1), Ok(()));
        assert_eq!((link.push(instant(0), 2), link.room()), (Err(2), 0));
        assert_eq!(link.poll(instant(1_000)), Some(1));
        assert_eq!(link.push(instant(1_000), 2), Ok(()));
    }

    proptest! {
        /// However the polls fall, every item leaves once, in order, never early, and at the first poll that is not.
        #[test]
        fn nothing_is_lost_early_or_late(steps in prop::collection::vec((0..50u64, any::<bool>()), 0..200)) {
            let delay = Span::from_nanos(100);
            let mut link = DelayLine::new(delay, 1_000);
            let (mut now, mut entered, mut left) = (Time::ZERO, Vec::new(), 0);
            for (gap, push) in steps {
                now += Span::from_nanos(gap);
                if push {
                    link.push(now, entered.len()).unwrap();
                    entered.push(now);
                }
                while let Some(item) = link.poll(now) {
                    prop_assert_eq!(item, left);
                    prop_assert!(entered[item] + delay <= now);
                    left += 1;
                }
                prop_assert!(entered.get(left).is_none_or(|next| *next + delay > now));
                prop_assert_eq!(link.len(), entered.len() - left);
            }
        }
    }
}
