//! Sets of classes and of ports as bit masks, as cheap to copy, compare and test as integers.

use std::fmt;
use std::iter::FusedIterator;
use std::num::NonZero;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Not, Sub, SubAssign};

use crate::{CLASSES, Class, PortId};

/// Set of traffic classes: bit `n` represents class `n`.
///
/// Operators: `a | b` is the union, `a & b` the intersection, `a ^ b` the symmetric difference, `a - b` the difference, and `!a` the
/// complement.
///
/// ```
/// use weir_units::{Class, ClassSet};
///
/// let lossless = ClassSet::from_members(&[Class::new(3), Class::new(4)]);
/// assert!(lossless.contains(Class::new(3)) && lossless.len() == 2);
/// assert_eq!((lossless - Class::new(3).alone()).bits(), 0b1_0000);
/// assert_eq!(lossless.to_string(), "3, 4");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct ClassSet(u8);

/// Set of ports of one switch, at most [`PortSet::PORTS_MAX`]: bit `n` represents port `n`.
///
/// Operators are those of [`ClassSet`]. A switch in virtual time may have more ports: [`LargePortSet`](crate::LargePortSet).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PortSet(u64);

impl ClassSet {
    /// Set of all eight classes.
    pub const ALL: ClassSet = ClassSet(u8::MAX);

    #[inline]
    const fn bit(class: Class) -> u8 {
        1 << class.number()
    }

    #[inline]
    const fn from_bit(bit: u32) -> Class {
        Class::new(bit as u8)
    }
}

impl PortSet {
    /// Maximum number of ports in a set.
    pub const PORTS_MAX: usize = u64::BITS as usize;

    /// Bit of `port`, which is below [`PORTS_MAX`](Self::PORTS_MAX).
    #[inline]
    const fn bit(port: PortId) -> u64 {
        1 << port.0
    }

    #[inline]
    const fn from_bit(bit: u32) -> PortId {
        PortId(bit as u16)
    }

    #[inline]
    pub(crate) const fn as_words(&self) -> &[u64] {
        std::slice::from_ref(&self.0)
    }
}

impl Class {
    /// Set of this class alone.
    #[inline]
    pub const fn alone(self) -> ClassSet {
        ClassSet(ClassSet::bit(self))
    }
}

impl PortId {
    /// Set of this port alone.
    #[inline]
    pub const fn alone(self) -> PortSet {
        PortSet(PortSet::bit(self))
    }
}

/// Implements the common parts of both sets: `$set` of `$member`s in the bits of a `$bits`.
macro_rules! set {
    ($set:ident, $member:ident, $bits:ident, $members:ident, $number:expr) => {
        impl $set {
            /// Empty set.
            pub const EMPTY: $set = $set(0);

            /// Creates the set of these members.
            #[inline]
            pub const fn from_members(members: &[$member]) -> $set {
                let (mut set, mut at) = ($set::EMPTY, 0);
                while at < members.len() {
                    set.0 |= $set::bit(members[at]);
                    at += 1;
                }
                set
            }

            /// Creates a set from its bits, as in a frame or an atomic.
            #[inline]
            pub const fn from_bits(bits: $bits) -> $set {
                $set(bits)
            }

            /// Bits of the set, the lowest for number 0.
            #[inline]
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Returns whether `member` is in the set.
            #[inline]
            pub const fn contains(self, member: $member) -> bool {
                self.0 & $set::bit(member) != 0
            }

            /// Returns whether the set has no members.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Number of members.
            #[inline]
            pub const fn len(self) -> usize {
                self.0.count_ones() as usize
            }

            /// Adds `member`.
            #[inline]
            pub const fn insert(&mut self, member: $member) {
                self.0 |= $set::bit(member);
            }

            /// Removes `member`.
            #[inline]
            pub const fn remove(&mut self, member: $member) {
                self.0 &= !$set::bit(member);
            }

            /// Member with the lowest number.
            #[inline]
            pub const fn first(self) -> Option<$member> {
                if self.is_empty() { None } else { Some($set::from_bit(self.0.trailing_zeros())) }
            }

            /// Member with the highest number.
            #[inline]
            pub const fn last(self) -> Option<$member> {
                if self.is_empty() { None } else { Some($set::from_bit(self.0.ilog2())) }
            }

            /// Member of a set with exactly one member.
            #[inline]
            pub const fn only(self) -> Option<$member> {
                if self.0.is_power_of_two() { Some($set::from_bit(self.0.trailing_zeros())) } else { None }
            }

            /// Removes and returns the member with the lowest number.
            #[inline]
            pub fn pop_first(&mut self) -> Option<$member> {
                if self.is_empty() {
                    return None;
                }
                let first = $set::from_bit(self.0.trailing_zeros());
                self.0 &= self.0 - 1;
                Some(first)
            }

            /// Members in ascending order.
            #[inline]
            pub const fn iter(self) -> $members {
                $members(self)
            }
        }

        #[doc = concat!("Members of a [`", stringify!($set), "`], lowest number first.")]
        #[derive(Clone, Debug)]
        pub struct $members($set);

        impl Iterator for $members {
            type Item = $member;

            #[inline]
            fn next(&mut self) -> Option<$member> {
                self.0.pop_first()
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.0.len(), Some(self.0.len()))
            }
        }

        impl ExactSizeIterator for $members {}
        impl FusedIterator for $members {}

        impl IntoIterator for $set {
            type Item = $member;
            type IntoIter = $members;

            #[inline]
            fn into_iter(self) -> $members {
                self.iter()
            }
        }

        impl FromIterator<$member> for $set {
            #[inline]
            fn from_iter<I: IntoIterator<Item = $member>>(members: I) -> $set {
                members.into_iter().fold($set::EMPTY, |set, member| set | member.alone())
            }
        }

        impl BitOr for $set {
            type Output = $set;

            #[inline]
            fn bitor(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }
        }

        impl BitAnd for $set {
            type Output = $set;

            #[inline]
            fn bitand(self, other: $set) -> $set {
                $set(self.0 & other.0)
            }
        }

        impl BitXor for $set {
            type Output = $set;

            #[inline]
            fn bitxor(self, other: $set) -> $set {
                $set(self.0 ^ other.0)
            }
        }

        impl Sub for $set {
            type Output = $set;

            #[inline]
            fn sub(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }
        }

        impl Not for $set {
            type Output = $set;

            #[inline]
            fn not(self) -> $set {
                $set(!self.0)
            }
        }

        impl BitOrAssign for $set {
            #[inline]
            fn bitor_assign(&mut self, other: $set) {
                *self = *self | other;
            }
        }

        impl BitAndAssign for $set {
            #[inline]
            fn bitand_assign(&mut self, other: $set) {
                *self = *self & other;
            }
        }

        impl BitXorAssign for $set {
            #[inline]
            fn bitxor_assign(&mut self, other: $set) {
                *self = *self ^ other;
            }
        }

        impl SubAssign for $set {
            #[inline]
            fn sub_assign(&mut self, other: $set) {
                *self = *self - other;
            }
        }

        /// Formats the members' numbers separated by commas, as `3, 4`; empty for the empty set.
        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.iter()
                    .enumerate()
                    .try_for_each(|(at, member)| write!(f, "{}{}", if at == 0 { "" } else { ", " }, member.index()))
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{{{self}}}")
            }
        }

        const _: () = assert!($set::from_bits($bits::MAX).len() == $number && size_of::<$set>() == size_of::<$bits>());
    };
}

set!(ClassSet, Class, u8, Classes, CLASSES);
set!(PortSet, PortId, u64, Ports, PortSet::PORTS_MAX);

/// Numbers of the bits that are set, in ascending order.
#[inline(always)]
pub fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        // The `NonZero` lets the compiler assume that each number is below 64.
        let bit = NonZero::new(mask)?.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: ClassSet = ClassSet::from_members(&[Class::new(3), Class::new(4), Class::new(7)]);

    #[test]
    fn bits_have_their_numbers() {
        assert_eq!(bits(0).next(), None);
        assert!(bits(1 << 63 | 0b1001).eq([0, 3, 63]));
        assert!(bits(u64::MAX).eq(0..64));
    }

    #[test]
    fn members_are_listed_from_the_lowest() {
        assert_eq!(SET.iter().map(Class::index).collect::<Vec<_>>(), [3, 4, 7]);
        assert_eq!((SET.iter().len(), SET.bits(), ClassSet::EMPTY.iter().next()), (3, 0b1001_1000, None));
        assert_eq!(ClassSet::ALL.iter().collect::<Vec<_>>(), Class::ALL);
        let ends = PortSet::from_members(&[PortId(63), PortId(0)]);
        assert_eq!((ends.iter().collect::<Vec<_>>(), ends.bits()), (vec![PortId(0), PortId(63)], 1 << 63 | 1));
    }

    #[test]
    fn members_come_and_go() {
        let mut set = SET.iter().filter(|class| class.index() != 4).collect::<ClassSet>();
        set.insert(Class::new(0));
        set.remove(Class::new(7));
        set.remove(Class::new(1));
        assert_eq!(set, ClassSet::from_members(&[Class::new(0), Class::new(3)]));
        assert!(set.contains(Class::new(3)) && !set.contains(Class::new(4)) && !set.is_empty());
    }

    #[test]
    fn the_lowest_and_the_highest_are_returned() {
        let mut set = SET;
        assert_eq!((set.first(), set.last(), set.only()), (Some(Class::new(3)), Some(Class::new(7)), None));
        assert_eq!([set.pop_first(), set.pop_first()], [3, 4].map(|class| Some(Class::new(class))));
        assert_eq!(
            (set.first(), set.last(), set.only()),
            (Some(Class::new(7)), Some(Class::new(7)), Some(Class::new(7)))
        );
        assert_eq!([set.pop_first(), set.pop_first(), set.last(), set.only()], [Some(Class::new(7)), None, None, None]);
    }

    #[test]
    fn operators_are_those_of_sets() {
        let (low, three) = (ClassSet::from_bits(0b1111), Class::new(3).alone());
        assert_eq!(
            (low & SET, SET - low, low | SET),
            (three, ClassSet::from_bits(0b1001_0000), ClassSet::from_bits(0b1001_1111))
        );
        assert_eq!((!SET | SET, !SET & SET), (ClassSet::ALL, ClassSet::EMPTY));
        let mut set = low;
        set |= SET;
        set &= SET;
        set -= three;
        assert_eq!((set, set ^ SET), (SET - three, three));
        set ^= SET;
        assert_eq!(set, three);
    }

    #[test]
    fn sets_are_written_as_numbers_with_commas() {
        assert_eq!((SET.to_string(), format!("{SET:?}")), ("3, 4, 7".to_owned(), "{3, 4, 7}".to_owned()));
        assert_eq!(format!("{}{:?}", PortSet::EMPTY, PortSet::EMPTY), "{}");
    }
}
