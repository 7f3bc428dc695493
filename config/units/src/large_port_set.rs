//! Sets of more than 64 ports, and the trait of all sets of ports.

use std::fmt::Debug;
use std::ops::{BitOr, BitOrAssign};

use crate::{PortId, PortSet, Ports};

/// Set of ports of one switch. A switch chooses the type at construction: a single word for up to 64 ports, whose frames then pay for
/// nothing else.
pub trait PortBitmap:
    Copy + Debug + Default + BitOr<Output = Self> + BitOrAssign + FromIterator<PortId> + IntoIterator<Item = PortId>
{
    /// Maximum number of ports in a set.
    const PORTS_MAX: usize;

    /// Empty set.
    const EMPTY: Self;

    /// Creates the set of this port alone.
    fn from_port(port: PortId) -> Self;

    /// Whether `port` is in the set.
    fn contains(&self, port: PortId) -> bool;

    /// Whether the set has no members.
    fn is_empty(&self) -> bool;

    /// Adds `port`.
    fn insert(&mut self, port: PortId);

    /// Removes `port`.
    fn remove(&mut self, port: PortId);

    /// Removes and returns the port with the lowest number.
    fn pop_first(&mut self) -> Option<PortId>;

    /// Bits of the set, 64 ports per word, the lowest first.
    fn words(&self) -> &[u64];
}

impl PortBitmap for PortSet {
    const PORTS_MAX: usize = PortSet::PORTS_MAX;

    const EMPTY: PortSet = PortSet::EMPTY;

    #[inline]
    fn from_port(port: PortId) -> PortSet {
        port.alone()
    }

    #[inline]
    fn contains(&self, port: PortId) -> bool {
        PortSet::contains(*self, port)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        PortSet::is_empty(*self)
    }

    #[inline]
    fn insert(&mut self, port: PortId) {
        PortSet::insert(self, port);
    }

    #[inline]
    fn remove(&mut self, port: PortId) {
        PortSet::remove(self, port);
    }

    #[inline]
    fn pop_first(&mut self) -> Option<PortId> {
        PortSet::pop_first(self)
    }

    #[inline]
    fn words(&self) -> &[u64] {
        self.as_words()
    }
}

const WORD: usize = u64::BITS as usize;

/// Set of ports of one switch that may have more than 64, up to [`LargePortSet::PORTS_MAX`].
///
/// ```
/// use weir_units::{PortId, PortBitmap, LargePortSet};
///
/// let mut ports: LargePortSet = [PortId(1_000), PortId(3)].into_iter().collect();
/// assert_eq!(ports.pop_first(), Some(PortId(3)));
/// assert!(ports.contains(PortId(1_000)) && !ports.contains(PortId(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargePortSet {
    /// Bit mask of the words that are not 0.
    filled: u64,
    words: [u64; WORD],
}

impl LargePortSet {
    #[inline]
    fn place(port: PortId) -> (usize, u64) {
        (port.index() / WORD, 1 << (port.index() % WORD))
    }
}

impl Default for LargePortSet {
    fn default() -> LargePortSet {
        LargePortSet::EMPTY
    }
}

impl PortBitmap for LargePortSet {
    const PORTS_MAX: usize = WORD * WORD;

    const EMPTY: LargePortSet = LargePortSet { filled: 0, words: [0; WORD] };

    #[inline]
    fn from_port(port: PortId) -> LargePortSet {
        let mut set = LargePortSet::EMPTY;
        set.insert(port);
        set
    }

    #[inline]
    fn contains(&self, port: PortId) -> bool {
        let (word, bit) = LargePortSet::place(port);
        self.words[word] & bit != 0
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    #[inline]
    fn insert(&mut self, port: PortId) {
        let (word, bit) = LargePortSet::place(port);
        self.words[word] |= bit;
        self.filled |= 1 << word;
    }

    #[inline]
    fn remove(&mut self, port: PortId) {
        let (word, bit) = LargePortSet::place(port);
        self.words[word] &= !bit;
        if self.words[word] == 0 {
            self.filled &= !(1 << word);
        }
    }

    #[inline]
    fn pop_first(&mut self) -> Option<PortId> {
        if self.filled == 0 {
            return None;
        }
        let word = self.filled.trailing_zeros() as usize;
        let port = PortId((word * WORD) as u16 + self.words[word].trailing_zeros() as u16);
        self.words[word] &= self.words[word] - 1;
        if self.words[word] == 0 {
            self.filled &= self.filled - 1;
        }
        Some(port)
    }

    #[inline]
    fn words(&self) -> &[u64] {
        &self.words
    }
}

impl BitOrAssign for LargePortSet {
    #[inline]
    fn bitor_assign(&mut self, other: LargePortSet) {
        let mut filled = other.filled;
        while filled != 0 {
            let word = filled.trailing_zeros() as usize;
            self.words[word] |= other.words[word];
            filled &= filled - 1;
        }
        self.filled |= other.filled;
    }
}

impl BitOr for LargePortSet {
    type Output = LargePortSet;

    #[inline]
    fn bitor(mut self, other: LargePortSet) -> LargePortSet {
        self |= other;
        self
    }
}

impl FromIterator<PortId> for LargePortSet {
    fn from_iter<I: IntoIterator<Item = PortId>>(ports: I) -> LargePortSet {
        let mut set = LargePortSet::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

/// Iterator over a [`LargePortSet`], in ascending order.
#[derive(Clone, Debug)]
pub struct LargePorts(LargePortSet);

impl Iterator for LargePorts {
    type Item = PortId;

    #[inline]
    fn next(&mut self) -> Option<PortId> {
        self.0.pop_first()
    }
}

impl IntoIterator for LargePortSet {
    type Item = PortId;
    type IntoIter = LargePorts;

    #[inline]
    fn into_iter(self) -> LargePorts {
        LargePorts(self)
    }
}

/// View of a set of ports of either width.
///
/// ```
/// use weir_units::{PortId, PortSet, PortSetRef};
///
/// let set = PortSet::from_members(&[PortId(1), PortId(4)]);
/// let ports = PortSetRef::new(&set);
/// assert_eq!((ports.len(), ports.after(PortId(1)), ports.after(PortId(4))), (2, Some(PortId(4)), Some(PortId(1))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSetRef<'s>(&'s [u64]);

impl<'s> PortSetRef<'s> {
    /// Creates a view of a set.
    #[inline]
    pub fn new(set: &'s impl PortBitmap) -> PortSetRef<'s> {
        PortSetRef(set.words())
    }

    /// Returns whether `port` is in the set.
    #[inline]
    pub fn contains(&self, port: PortId) -> bool {
        self.0.get(port.index() / WORD).is_some_and(|word| word >> (port.index() % WORD) & 1 != 0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Number of ports in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PortId> + use<'s> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(word, bits)| {
            let ports: Ports = PortSet::from_bits(*bits).iter();
            ports.map(move |port| PortId((word * WORD) as u16 + port.0))
        })
    }

    /// Next port after `port`, wrapping round to the lowest; `None` for an empty set.
    pub fn after(&self, port: PortId) -> Option<PortId> {
        let word = port.index() / WORD;
        let behind = self.0.get(word).map_or(0, |bits| bits & u64::MAX << (port.index() % WORD) << 1);
        let first = |(word, bits): (usize, u64)| {
            let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            Some(PortId((word * WORD + bit) as u16))
        };
        let words = || self.0.iter().copied().enumerate();
        std::iter::once((word, behind)).chain(words().skip(word + 1)).chain(words()).find_map(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(set: impl PortBitmap) -> Vec<u16> {
        set.into_iter().map(|port| port.0).collect()
    }

    /// Compares insertions and removals with a `BTreeSet`.
    fn as_a_tree<S: PortBitmap>(steps: &[(bool, u16)]) -> Result<(), TestCaseError> {
        let (mut set, mut tree) = (S::EMPTY, BTreeSet::new());
        for (puts_in, port) in steps {
            let port = PortId(port % S::PORTS_MAX as u16);
            if *puts_in {
                set.insert(port);
                tree.insert(port);
            } else {
                set.remove(port);
                tree.remove(&port);
            }
            prop_assert_eq!(set.contains(port), *puts_in);
            prop_assert_eq!(set.is_empty(), tree.is_empty());
        }
        let view = PortSetRef::new(&set);
        prop_assert!(view.iter().eq(tree.iter().copied()));
        prop_assert_eq!((view.len(), view.is_empty()), (tree.len(), tree.is_empty()));
        for (_, port) in steps {
            let port = PortId(port % S::PORTS_MAX as u16);
            let behind = tree.range(port..).find(|other| **other != port);
            prop_assert_eq!(view.after(port), behind.or(tree.first()).copied());
            prop_assert_eq!(view.contains(port), tree.contains(&port));
        }
        let all: S = tree.iter().copied().collect();
        prop_assert_eq!(numbers(all | set), numbers(set));
        prop_assert_eq!(numbers(set), tree.iter().map(|port| port.0).collect::<Vec<_>>());
        let popped: Vec<PortId> = std::iter::from_fn(|| set.pop_first()).collect();
        prop_assert!(popped.into_iter().eq(tree) && set.is_empty() && set.words().iter().all(|word| *word == 0));
        Ok(())
    }

    proptest! {
        #[test]
        fn sets_of_either_kind_are_sets(steps in prop::collection::vec((prop::bool::weighted(0.7), any::<u16>()), 0..80)) {
            as_a_tree::<PortSet>(&steps)?;
            as_a_tree::<LargePortSet>(&steps)?;
        }

        #[test]
        fn wide_sets_are_put_together(one in prop::collection::btree_set(0..4_096_u16, 0..20), other in prop::collection::btree_set(0..4_096_u16, 0..20)) {
            let set = |ports: &BTreeSet<u16>| ports.iter().copied().map(PortId).collect::<LargePortSet>();
            let both: Vec<u16> = one.union(&other).copied().collect();
            prop_assert_eq!(numbers(set(&one) | set(&other)), both);
        }
    }

    #[test]
    fn the_highest_port_has_a_place() {
        let highest = PortId(LargePortSet::PORTS_MAX as u16 - 1);
        let set = LargePortSet::from_port(highest);
        assert_eq!(
            (PortSetRef::new(&set).after(PortId(0)), PortSetRef::new(&set).after(highest)),
            (Some(highest), Some(highest))
        );
        assert_eq!(PortSetRef::new(&LargePortSet::EMPTY).after(highest), None);
    }
}
