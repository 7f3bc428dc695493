//! Serialisation of state for checkpoints of runs in virtual time.
//!
//! [`State::state`] visits the changing parts of a type in a fixed order; an [`Archive`] either saves or overwrites them. One function does
//! both, so that they can't diverge. A type that is built from a file is rebuilt from the same file and then overwritten in place; a
//! [`Value`](derive@Value) is created from the archive alone.
//!
//! Numbers are little-endian, floats are their bits, and sequences have a length prefix. Reading never panics: an archive that is
//! truncated, or has an invalid length or variant, is [corrupt](Archive::is_corrupt) and reads as zeros from there on.
//!
//! ```
//! use weir_units::archive::{Archive, State, Value};
//!
//! #[derive(Value, Debug, PartialEq)]
//! enum Phase {
//!     Idle,
//!     Busy { since: u64, with: Vec<u32> },
//! }
//!
//! let mut saved = Archive::to_save();
//! Phase::Busy { since: 7, with: vec![1, 2] }.state(&mut saved);
//! let mut phase = Phase::Idle;
//! let mut archive = Archive::to_load(saved.into_bytes());
//! phase.state(&mut archive);
//! assert!(archive.is_at_end());
//! assert_eq!(phase, Phase::Busy { since: 7, with: vec![1, 2] });
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use crossbeam_utils::CachePadded;
pub use weir_units_derive::{SharedState, State, Value};

/// State that an archive saves or overwrites in place.
pub trait State {
    /// Visits all parts that change.
    fn state(&mut self, archive: &mut Archive);
}

/// State that is changed through shared references.
pub trait SharedState {
    /// Visits all parts that change.
    fn shared_state(&self, archive: &mut Archive);
}

/// Type with a placeholder that the archive overwrites.
pub trait Placeholder {
    /// Placeholder that the archive overwrites.
    fn placeholder() -> Self;
}

/// Byte buffer that state is saved to or loaded from.
#[derive(Debug)]
pub struct Archive {
    bytes: Vec<u8>,
    /// Read position; `None` while saving.
    at: Option<usize>,
    is_corrupt: bool,
    unsupported: Option<String>,
}

impl Archive {
    /// Creates an archive for saving.
    pub fn to_save() -> Archive {
        Archive { bytes: Vec::new(), at: None, is_corrupt: false, unsupported: None }
    }

    /// Creates an archive for loading.
    pub fn to_load(bytes: Vec<u8>) -> Archive {
        Archive { bytes, at: Some(0), is_corrupt: false, unsupported: None }
    }

    /// Whether the archive overwrites state.
    pub fn is_loading(&self) -> bool {
        self.at.is_some()
    }

    /// Saved bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether invalid data was read.
    pub fn is_corrupt(&self) -> bool {
        self.is_corrupt
    }

    /// Whether all bytes were read and the archive is not corrupt.
    pub fn is_at_end(&self) -> bool {
        !self.is_corrupt && self.at == Some(self.bytes.len())
    }

    /// Marks the archive as corrupt.
    pub fn mark_corrupt(&mut self) {
        self.is_corrupt = true;
    }

    /// Records the name of an object that can't be saved: an extension without checkpoint support. The first name is kept.
    pub fn mark_unsupported(&mut self, what: &str) {
        self.unsupported.get_or_insert_with(|| what.to_owned());
    }

    /// Name of an object that can't be saved, if any.
    pub fn unsupported(&self) -> Option<&str> {
        self.unsupported.as_deref()
    }

    /// Saves a value, or checks that the loaded one equals it; the archive is corrupt otherwise.
    pub fn expect<T: State + PartialEq + Clone>(&mut self, value: T) {
        let mut read = value.clone();
        read.state(self);
        if read != value {
            self.mark_corrupt();
        }
    }

    /// Visits items in place; their number must equal the saved one.
    pub fn fixed<'i, T: State + ?Sized + 'i>(&mut self, items: impl ExactSizeIterator<Item = &'i mut T>) {
        self.expect(items.len());
        if !self.is_corrupt {
            items.for_each(|item| item.state(self));
        }
    }

    /// Saves or loads a length; zero and corrupt if it exceeds the remaining bytes.
    fn length(&mut self, length: usize) -> usize {
        let mut length = length;
        length.state(self);
        match self.at {
            Some(at) if self.is_corrupt || length > self.bytes.len() - at => {
                self.mark_corrupt();
                0
            }
            _ => length,
        }
    }

    fn raw(&mut self, raw: &mut [u8]) {
        let Some(at) = &mut self.at else { return self.bytes.extend_from_slice(raw) };
        match self.bytes.get(*at..*at + raw.len()) {
            Some(bytes) if !self.is_corrupt => {
                raw.copy_from_slice(bytes);
                *at += raw.len();
            }
            _ => {
                self.is_corrupt = true;
                raw.fill(0);
            }
        }
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl State for $number {
            #[inline]
            fn state(&mut self, archive: &mut Archive) {
                let mut raw = self.to_le_bytes();
                archive.raw(&mut raw);
                *self = <$number>::from_le_bytes(raw);
            }
        }

        impl Placeholder for $number {
            fn placeholder() -> Self {
                Default::default()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i64, f64);

macro_rules! atomics {
    ($($atomic:ty),*) => {$(
        impl SharedState for $atomic {
            fn shared_state(&self, archive: &mut Archive) {
                // Relaxed: between two windows no other thread accesses it.
                let mut value = self.load(Ordering::Relaxed);
                value.state(archive);
                if archive.is_loading() {
                    self.store(value, Ordering::Relaxed);
                }
            }
        }

        impl State for $atomic {
            fn state(&mut self, archive: &mut Archive) {
                self.shared_state(archive);
            }
        }
    )*};
}

atomics!(AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize);
#[cfg(loom)]
atomics!(
    loom::sync::atomic::AtomicBool,
    loom::sync::atomic::AtomicU8,
    loom::sync::atomic::AtomicU32,
    loom::sync::atomic::AtomicU64
);

impl State for usize {
    fn state(&mut self, archive: &mut Archive) {
        let mut value = *self as u64;
        value.state(archive);
        match usize::try_from(value) {
            Ok(value) => *self = value,
            Err(_) => archive.mark_corrupt(),
        }
    }
}

impl Placeholder for usize {
    fn placeholder() -> usize {
        0
    }
}

impl State for bool {
    fn state(&mut self, archive: &mut Archive) {
        let mut byte = u8::from(*self);
        byte.state(archive);
        if byte > 1 {
            archive.mark_corrupt();
        }
        *self = byte == 1;
    }
}

impl Placeholder for bool {
    fn placeholder() -> bool {
        false
    }
}

impl State for String {
    fn state(&mut self, archive: &mut Archive) {
        let mut bytes = std::mem::take(self).into_bytes();
        bytes.state(archive);
        *self = String::from_utf8(bytes).unwrap_or_else(|_| {
            archive.mark_corrupt();
            String::new()
        });
    }
}

impl Placeholder for String {
    fn placeholder() -> String {
        String::new()
    }
}

impl<T: State + ?Sized> State for Box<T> {
    fn state(&mut self, archive: &mut Archive) {
        (**self).state(archive);
    }
}

impl<T: Placeholder> Placeholder for Box<T> {
    fn placeholder() -> Box<T> {
        Box::new(T::placeholder())
    }
}

impl<T: SharedState + ?Sized> SharedState for Box<T> {
    fn shared_state(&self, archive: &mut Archive) {
        (**self).shared_state(archive);
    }
}

impl<T: SharedState + ?Sized> SharedState for Arc<T> {
    fn shared_state(&self, archive: &mut Archive) {
        (**self).shared_state(archive);
    }
}

impl<T: SharedState + ?Sized> State for Arc<T> {
    fn state(&mut self, archive: &mut Archive) {
        (**self).shared_state(archive);
    }
}

impl<T: SharedState> SharedState for CachePadded<T> {
    fn shared_state(&self, archive: &mut Archive) {
        (**self).shared_state(archive);
    }
}

/// Sequence of fixed length.
impl<T: State> State for [T] {
    fn state(&mut self, archive: &mut Archive) {
        archive.fixed(self.iter_mut());
    }
}

/// Sequence of fixed length.
impl<T: SharedState> SharedState for [T] {
    fn shared_state(&self, archive: &mut Archive) {
        archive.expect(self.len());
        if !archive.is_corrupt {
            self.iter().for_each(|item| item.shared_state(archive));
        }
    }
}

impl<T: State, const N: usize> State for [T; N] {
    fn state(&mut self, archive: &mut Archive) {
        self.iter_mut().for_each(|item| item.state(archive));
    }
}

impl<T: SharedState, const N: usize> SharedState for [T; N] {
    fn shared_state(&self, archive: &mut Archive) {
        self.iter().for_each(|item| item.shared_state(archive));
    }
}

impl<T: Placeholder, const N: usize> Placeholder for [T; N] {
    fn placeholder() -> [T; N] {
        std::array::from_fn(|_| T::placeholder())
    }
}

impl<T: State + Placeholder> State for Option<T> {
    fn state(&mut self, archive: &mut Archive) {
        let mut is_some = self.is_some();
        is_some.state(archive);
        match is_some {
            true => self.get_or_insert_with(T::placeholder).state(archive),
            false => *self = None,
        }
    }
}

impl<T> Placeholder for Option<T> {
    fn placeholder() -> Option<T> {
        None
    }
}

/// Option that is present or absent as it was built.
impl<T: SharedState> SharedState for Option<T> {
    fn shared_state(&self, archive: &mut Archive) {
        archive.expect(self.is_some());
        if !archive.is_corrupt
            && let Some(value) = self
        {
            value.shared_state(archive);
        }
    }
}

impl<T: State + Placeholder> State for Vec<T> {
    fn state(&mut self, archive: &mut Archive) {
        let length = archive.length(self.len());
        self.resize_with(length, T::placeholder);
        for item in self {
            item.state(archive);
        }
    }
}

impl<T> Placeholder for Vec<T> {
    fn placeholder() -> Vec<T> {
        Vec::new()
    }
}

impl<T: SharedState> SharedState for Vec<T> {
    fn shared_state(&self, archive: &mut Archive) {
        self[..].shared_state(archive);
    }
}

impl<T: State + Placeholder> State for VecDeque<T> {
    fn state(&mut self, archive: &mut Archive) {
        let length = archive.length(self.len());
        self.resize_with(length, T::placeholder);
        for item in self {
            item.state(archive);
        }
    }
}

impl<T> Placeholder for VecDeque<T> {
    fn placeholder() -> VecDeque<T> {
        VecDeque::new()
    }
}

impl<T: State + Placeholder + Ord> State for BinaryHeap<T> {
    fn state(&mut self, archive: &mut Archive) {
        let mut items = std::mem::take(self).into_vec();
        items.state(archive);
        *self = items.into();
    }
}

impl<T: State + Placeholder, const N: usize> State for ArrayVec<T, N> {
    fn state(&mut self, archive: &mut Archive) {
        let length = archive.length(self.len());
        if length > N {
            return archive.mark_corrupt();
        }
        self.truncate(length);
        while self.len() < length {
            self.push(T::placeholder());
        }
        self.iter_mut().for_each(|item| item.state(archive));
    }
}

impl<T, const N: usize> Placeholder for ArrayVec<T, N> {
    fn placeholder() -> ArrayVec<T, N> {
        ArrayVec::new()
    }
}

impl State for Ipv4Addr {
    fn state(&mut self, archive: &mut Archive) {
        let mut bits = self.to_bits();
        bits.state(archive);
        *self = Ipv4Addr::from_bits(bits);
    }
}

impl Placeholder for Ipv4Addr {
    fn placeholder() -> Ipv4Addr {
        Ipv4Addr::UNSPECIFIED
    }
}

impl<T: State> State for Reverse<T> {
    fn state(&mut self, archive: &mut Archive) {
        self.0.state(archive);
    }
}

impl<T: Placeholder> Placeholder for Reverse<T> {
    fn placeholder() -> Reverse<T> {
        Reverse(T::placeholder())
    }
}

impl<K: State + Placeholder + Ord, V: State + Placeholder> State for BTreeMap<K, V> {
    fn state(&mut self, archive: &mut Archive) {
        let mut pairs: Vec<(K, V)> = std::mem::take(self).into_iter().collect();
        pairs.state(archive);
        *self = pairs.into_iter().collect();
    }
}

impl<K, V> Placeholder for BTreeMap<K, V> {
    fn placeholder() -> BTreeMap<K, V> {
        BTreeMap::new()
    }
}

macro_rules! tuples {
    ($(($($name:ident $place:tt),*)),*) => {$(
        impl<$($name: State),*> State for ($($name,)*) {
            fn state(&mut self, archive: &mut Archive) {
                $(self.$place.state(archive);)*
            }
        }

        impl<$($name: Placeholder),*> Placeholder for ($($name,)*) {
            fn placeholder() -> Self {
                ($($name::placeholder(),)*)
            }
        }

        impl<$($name: SharedState),*> SharedState for ($($name,)*) {
            fn shared_state(&self, archive: &mut Archive) {
                $(self.$place.shared_state(archive);)*
            }
        }
    )*};
}

tuples!((A 0, B 1), (A 0, B 1, C 2), (A 0, B 1, C 2, D 3));

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Value, Clone, Debug, PartialEq)]
    enum Phase {
        Idle,
        At(u64, f64),
        Busy { since: Option<u32>, with: VecDeque<(u8, bool)> },
    }

    #[derive(State, Debug)]
    struct Whole {
        #[state(same)]
        name: &'static str,
        phases: Vec<Phase>,
        heap: BinaryHeap<Reverse<(u64, usize)>>,
        map: BTreeMap<String, [u16; 3]>,
        #[state(fixed)]
        parts: Vec<Part>,
        count: Arc<AtomicU32>,
    }

    /// Type without a placeholder.
    #[derive(State, Debug)]
    struct Part {
        level: i64,
        #[state(same)]
        _limit: &'static u32,
    }

    fn whole(name: &'static str, levels: [i64; 2]) -> Whole {
        let part = |level| Part { level, _limit: &7 };
        Whole {
            name,
            phases: Vec::new(),
            heap: BinaryHeap::new(),
            map: BTreeMap::new(),
            parts: levels.map(part).into(),
            count: Arc::default(),
        }
    }

    fn saved(whole: &mut Whole) -> Vec<u8> {
        let mut archive = Archive::to_save();
        whole.state(&mut archive);
        archive.into_bytes()
    }

    fn example() -> Whole {
        let mut before = whole("before", [-3, i64::MAX]);
        before.phases = vec![
            Phase::Idle,
            Phase::At(u64::MAX, -0.0),
            Phase::Busy { since: Some(9), with: [(1, true), (2, false)].into() },
        ];
        before.heap = (0..9).map(|n| Reverse((n * 7 % 5, n as usize))).collect();
        before.map = [("b".to_owned(), [1, 2, 3]), ("ä".to_owned(), [4, 5, 6])].into();
        before.count.store(77, Ordering::Relaxed);
        before
    }

    #[test]
    fn what_is_read_is_what_was_written_and_built_parts_stay() {
        let mut before = example();
        let bytes = saved(&mut before);
        let mut after = whole("after", [0, 0]);
        after.phases = vec![Phase::At(1, 1.0); 5];
        let shared = after.count.clone();
        let mut archive = Archive::to_load(bytes.clone());
        after.state(&mut archive);
        assert!(archive.is_at_end());
        assert_eq!((after.name, shared.load(Ordering::Relaxed)), ("after", 77));
        assert_eq!(after.phases, before.phases);
        assert_eq!(saved(&mut after), bytes);
        let [before, after] = [before, after].map(|of| of.heap.into_sorted_vec());
        assert_eq!(before, after);
    }

    #[test]
    fn whatever_is_cut_off_or_longer_than_it_can_be_is_damaged() {
        let bytes = saved(&mut example());
        for end in 0..bytes.len() {
            let mut archive = Archive::to_load(bytes[..end].to_vec());
            whole("cut", [0, 0]).state(&mut archive);
            assert!(archive.is_corrupt(), "{end} of {} bytes", bytes.len());
        }
        // The first number is a length.
        let mut long = bytes.clone();
        long[..8].fill(0xff);
        let mut archive = Archive::to_load(long);
        whole("long", [0, 0]).state(&mut archive);
        assert!(archive.is_corrupt());
        // Invalid variant.
        let mut other = bytes;
        other[8] = 3;
        let mut archive = Archive::to_load(other);
        whole("other", [0, 0]).state(&mut archive);
        assert!(archive.is_corrupt());
    }

    #[test]
    fn a_fixed_number_of_items_is_kept() {
        let bytes = saved(&mut whole("two", [1, 2]));
        let mut three = whole("three", [0, 0]);
        three.parts.push(Part { level: 5, _limit: &7 });
        let mut archive = Archive::to_load(bytes);
        three.state(&mut archive);
        assert!(archive.is_corrupt());
        assert_eq!(three.parts[2].level, 5);
    }
}
