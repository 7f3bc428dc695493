//! Schedule of a host's flows: ready flows are served round robin, a frame each; paced flows become ready at their
//! instants.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_units::{CLASSES, Class, ClassSet, Time};

/// Schedule of a host's flows. Each flow has at most one entry, and none while it waits for an acknowledgement or has no
/// data.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Ready flows by class, each with the number of its turn.
    ready: [VecDeque<(u64, u32)>; CLASSES],
    /// Classes with ready flows.
    ready_classes: ClassSet,
    turns: u64,
    unit: RoundRobinUnit,
    /// Class served last, with [`RoundRobinUnit::Classes`].
    last: Class,
    /// Paced flows with the instants at which they become ready.
    later: BinaryHeap<Reverse<(Time, u32)>>,
}

/// Unit of a host's round robin, a frame per turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoundRobinUnit {
    /// Flows of all classes together.
    #[default]
    Flows,
    /// Classes, and in each of them its flows, like the queues of a NIC.
    Classes,
}

impl Schedule {
    /// Returns an empty schedule with this unit of round robin.
    pub(super) fn new(unit: RoundRobinUnit) -> Schedule {
        Schedule { unit, ..Schedule::default() }
    }

    /// Adds a flow of a class that may send from `due` on.
    #[inline]
    pub(super) fn add(&mut self, now: Time, flow: u32, class: Class, due: Time) {
        if due <= now {
            self.ready[class.index()].push_back((self.turns, flow));
            self.ready_classes.insert(class);
            self.turns += 1;
        } else {
            debug_assert!(due < Time::NEVER, "a flow that is never due has no turn");
            self.later.push(Reverse((due, flow)));
        }
    }

    /// Takes the next paced flow that has become ready, to be [added](Schedule::add) again.
    #[inline]
    pub(super) fn take_due(&mut self, now: Time) -> Option<u32> {
        let Reverse((due, flow)) = *self.later.peek()?;
        if due > now {
            return None;
        }
        self.later.pop();
        Some(flow)
    }

    /// Takes the next flow in the round robin, of none of the `held` classes.
    #[inline]
    pub(super) fn next(&mut self, held: ClassSet) -> Option<u32> {
        let open = self.ready_classes & !held;
        let turn = |class: &Class| self.ready[class.index()].front().map_or(u64::MAX, |(turn, _)| *turn);
        let class = match self.unit {
            RoundRobinUnit::Flows => open.iter().min_by_key(turn)?,
            RoundRobinUnit::Classes => {
                let class = open.iter().find(|class| *class > self.last).or(open.first())?;
                self.last = class;
                class
            }
        };
        let queue = &mut self.ready[class.index()];
        let (_, flow) = queue.pop_front()?;
        if queue.is_empty() {
            self.ready_classes.remove(class);
        }
        Some(flow)
    }

    /// Returns the classes with ready flows.
    #[inline]
    pub(super) fn ready_classes(&self) -> ClassSet {
        self.ready_classes
    }

    /// Returns the instant at which the next paced flow becomes ready; [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        self.later.peek().map_or(Time::NEVER, |Reverse((due, _))| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Class = Class::new(1);
    const FAST: Class = Class::new(3);

    fn instant(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn flows_take_turns_whatever_their_class() {
        let mut schedule = Schedule::default();
        for (flow, class) in [(0, SLOW), (1, FAST), (2, SLOW)] {
            schedule.add(instant(0), flow, class, instant(0));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let flow = schedule.next(ClassSet::EMPTY).unwrap();
            order.push(flow);
            schedule.add(instant(0), flow, if flow == 1 { FAST } else { SLOW }, instant(0));
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn classes_may_take_turns_and_their_flows_in_them() {
        let mut schedule = Schedule::new(RoundRobinUnit::Classes);
        for (flow, class) in [(0, SLOW), (1, FAST), (2, SLOW), (3, SLOW)] {
            schedule.add(instant(0), flow, class, instant(0));
        }
        let mut order = Vec::new();
        for _ in 0..8 {
            let flow = schedule.next(ClassSet::EMPTY).unwrap();
            order.push(flow);
            schedule.add(instant(0), flow, if flow == 1 { FAST } else { SLOW }, instant(0));
        }
        assert_eq!(order, [0, 1, 2, 1, 3, 1, 0, 1]);
        assert_eq!((schedule.next(FAST.alone()), schedule.next(FAST.alone())), (Some(2), Some(3)));
    }

    #[test]
    fn a_held_class_keeps_its_turn() {
        let mut schedule = Schedule::default();
        schedule.add(instant(0), 0, SLOW, instant(0));
        schedule.add(instant(0), 1, FAST, instant(0));
        assert_eq!((schedule.next(SLOW.alone()), schedule.ready_classes()), (Some(1), SLOW.alone()));
        schedule.add(instant(0), 1, FAST, instant(0));
        assert_eq!((schedule.next(SLOW.alone() | FAST.alone()), schedule.next(ClassSet::EMPTY)), (None, Some(0)));
    }

    #[test]
    fn those_that_wait_come_back_in_time() {
        let mut schedule = Schedule::default();
        schedule.add(instant(0), 0, FAST, instant(20));
        schedule.add(instant(0), 1, FAST, instant(10));
        assert_eq!(
            (schedule.next(ClassSet::EMPTY), schedule.next_due(), schedule.take_due(instant(9))),
            (None, instant(10), None)
        );
        assert_eq!(
            (schedule.take_due(instant(15)), schedule.take_due(instant(15)), schedule.next_due()),
            (Some(1), None, instant(20))
        );
    }
}
