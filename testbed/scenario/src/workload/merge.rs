//! Merging of several workloads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

use super::Message;

/// Messages of several workloads, by start. At one instant those of an earlier workload are first, and each workload's are in its own
/// order.
#[derive(Clone, Debug)]
pub struct Merge<I> {
    sources: Vec<I>,
    /// Next message of each source that has one.
    heads: Vec<Option<Message>>,
    /// Start of each source's first message, and index of the source.
    first: BinaryHeap<Reverse<(Time, usize)>>,
}

/// Merges workloads, each sorted by start. Workloads of different types are boxed:
/// `Box<dyn Iterator<Item = Message>>`.
pub fn merge<S: IntoIterator<Item = Message>>(workloads: impl IntoIterator<Item = S>) -> Merge<S::IntoIter> {
    let mut sources: Vec<_> = workloads.into_iter().map(S::into_iter).collect();
    let heads: Vec<_> = sources.iter_mut().map(Iterator::next).collect();
    let starts = heads.iter().enumerate().filter_map(|(n, head)| Some(Reverse((head.as_ref()?.start, n))));
    Merge { first: starts.collect(), sources, heads }
}

impl<I: Iterator<Item = Message>> Iterator for Merge<I> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let Reverse((start, source)) = self.first.pop()?;
        let following = self.sources[source].next();
        if let Some(next) = &following {
            debug_assert!(next.start >= start, "workload {source} is not sorted by start");
            self.first.push(Reverse((next.start, source)));
        }
        std::mem::replace(&mut self.heads[source], following)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::Bytes;

    use super::*;

    proptest! {
        /// Merging equals a stable sort of all messages, the workloads one after the other.
        #[test]
        fn ties_go_to_the_earlier_workload(starts in prop::collection::vec(prop::collection::vec(0..20u64, 0..20), 0..6)) {
            let workload = |(n, mut starts): (usize, Vec<u64>)| {
                starts.sort_unstable();
                let message = |(place, start): (u64, &u64)| Message {
                    start: Time::from_nanos(*start),
                    from: n as u32,
                    to: u32::MAX,
                    size: Bytes::new(place + 1),
                };
                (1..).zip(&starts).map(|(place, start)| message((place, start))).collect::<Vec<_>>()
            };
            let workloads: Vec<Vec<Message>> = starts.into_iter().enumerate().map(workload).collect();
            let mut model = workloads.concat();
            model.sort_by_key(|message| message.start);
            prop_assert_eq!(merge(workloads).collect::<Vec<_>>(), model);
        }
    }
}
