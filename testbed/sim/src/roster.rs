//! Which nodes have something to do, and when.

use weir_units::Time;

/// When each node of one side is to be woken. It is asked who is due once in a turn, in which most of a busy fabric are, and
/// told of wake-ups many times: so these cost next to nothing, and nodes are looked at in blocks.
#[derive(Debug)]
pub(super) struct Roster {
    due: Box<[Time]>,
    /// The earliest of each block, or an earlier time.
    blocks: Box<[Time]>,
    /// Whether a node may have been put off since the earliest were found.
    put_off: bool,
}

/// Nodes in a block.
const BLOCK: usize = 64;

impl Roster {
    /// Nobody is to be woken.
    pub(super) fn new(nodes: usize) -> Roster {
        let blocks = nodes.div_ceil(BLOCK);
        Roster { due: vec![Time::NEVER; nodes].into(), blocks: vec![Time::NEVER; blocks].into(), put_off: false }
    }

    /// When the first node is to be woken; [`Time::NEVER`] if none is.
    pub(super) fn first(&mut self) -> Time {
        if std::mem::take(&mut self.put_off) {
            let earliest = |block: &[Time]| block.iter().copied().min().unwrap_or(Time::NEVER);
            self.blocks.iter_mut().zip(self.due.chunks(BLOCK)).for_each(|(first, block)| *first = earliest(block));
        }
        self.blocks.iter().copied().min().unwrap_or(Time::NEVER)
    }

    /// When a node is to be woken.
    pub(super) fn due(&self, node: usize) -> Time {
        self.due[node]
    }

    /// Lists the nodes that are to be woken by `limit`.
    pub(super) fn list_due(&self, limit: Time, due: &mut Vec<u32>) {
        due.clear();
        let blocks = self.blocks.iter().zip(self.due.chunks(BLOCK)).zip((0..).step_by(BLOCK));
        for ((_, block), first) in blocks.filter(|((earliest, _), _)| **earliest <= limit) {
            due.extend(block.iter().zip(first..).filter(|(at, _)| **at <= limit).map(|(_, node)| node));
        }
    }

    /// A node is to be woken then, and not when it was to be before.
    #[inline]
    pub(super) fn set(&mut self, node: usize, at: Time) {
        self.put_off = true;
        self.due[node] = at;
        let earliest = &mut self.blocks[node / BLOCK];
        *earliest = at.min(*earliest);
    }

    /// A node is to be woken then at the latest.
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
        /// Against a look at all of them.
        #[test]
        fn those_due_are_listed_and_the_first_is_the_earliest(
            nodes in 1..200usize,
            steps in prop::collection::vec((any::<usize>(), 0..20u64, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let mut roster = Roster::new(nodes);
            let mut model = vec![Time::NEVER; nodes];
            let mut due = Vec::new();
            for (node, at, forward, looks) in steps {
                let (node, at) = (node % nodes, Time::from_nanos(at));
                if forward {
                    roster.wake(node, at);
                    model[node] = model[node].min(at);
                } else {
                    roster.set(node, at);
                    model[node] = at;
                }
                if looks {
                    prop_assert_eq!(roster.first(), *model.iter().min().unwrap());
                }
                roster.list_due(at, &mut due);
                prop_assert!(due.iter().copied().eq((0..).zip(&model).filter(|(_, of)| **of <= at).map(|(who, _)| who)));
            }
        }
    }
}
