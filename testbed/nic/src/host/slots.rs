//! Ends of connections by number: the initial ones, and those opened and closed later.

use std::ops::{Index, IndexMut};

use weir_units::archive::{Archive, State};
use weir_wire::rocev2::QueuePair;

/// Items by place; places of closed items are reused.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    item: T,
    /// Number of earlier uses of the place.
    generation: u32,
    is_open: bool,
}

/// Bit of the number of an end that was opened later. Such a number contains the end's generation and place.
const OPENED: u32 = 1 << 23;
/// Bit of the number of a sender's end.
const SENDS: u32 = 1 << 22;
const GENERATION_SHIFT: u32 = 16;
const GENERATION_MASK: u32 = 0x3f;
const PLACE_MASK: u32 = 0xffff;
/// Largest number of ends of a kind that a host has open at once.
pub(super) const OPEN_MAX: usize = PLACE_MASK as usize + 1;

/// Contents of the number of an end that was opened later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub sends: bool,
    pub place: usize,
    generation: u32,
}

impl Opened {
    /// Decodes a number; `None` for that of an initial end.
    #[inline]
    pub(super) fn of(queue_pair: QueuePair) -> Option<Opened> {
        let number = queue_pair.get();
        (number & OPENED != 0).then_some(Opened {
            sends: number & SENDS != 0,
            place: (number & PLACE_MASK) as usize,
            generation: number >> GENERATION_SHIFT & GENERATION_MASK,
        })
    }

    fn number(self) -> QueuePair {
        let kind = if self.sends { OPENED | SENDS } else { OPENED };
        QueuePair::new(kind | self.generation << GENERATION_SHIFT | self.place as u32)
    }
}

/// Requires the same number of places: [`Slots::refill`] adds those that were opened later.
impl<T: State> State for Slots<T> {
    fn state(&mut self, archive: &mut Archive) {
        let Slots { slots, free } = self;
        archive.fixed(slots.iter_mut());
        free.state(archive);
    }
}

impl<T: State> State for Slot<T> {
    fn state(&mut self, archive: &mut Archive) {
        let Slot { item, generation, is_open } = self;
        item.state(archive);
        generation.state(archive);
        is_open.state(archive);
    }
}

impl<T> Slots<T> {
    /// Appends an item that an archive will overwrite.
    pub(super) fn refill(&mut self, item: T) {
        self.slots.push(Slot { item, generation: 0, is_open: true });
    }

    /// Returns slots with the initial items, in order.
    pub(super) fn new(items: impl IntoIterator<Item = T>) -> Slots<T> {
        let slots = items.into_iter().map(|item| Slot { item, generation: 0, is_open: true });
        Slots { slots: slots.collect(), free: Vec::new() }
    }

    /// Adds an item, made from its new number. Returns its place.
    ///
    /// # Panics
    /// If there are [`OPEN_MAX`].
    pub(super) fn open<E>(&mut self, sends: bool, make: impl FnOnce(QueuePair) -> Result<T, E>) -> Result<usize, E> {
        let reused = self.free.last().copied();
        let place = reused.map_or(self.slots.len(), |place| place as usize);
        assert!(place < OPEN_MAX, "more connections than numbers for them");
        let generation = reused.map_or(0, |_| self.slots[place].generation + 1);
        let slot = Slot {
            item: make(Opened { sends, place, generation: generation & GENERATION_MASK }.number())?,
            generation,
            is_open: true,
        };
        match reused {
            Some(_) => {
                self.free.pop();
                self.slots[place] = slot;
            }
            None => self.slots.push(slot),
        }
        Ok(place)
    }

    /// Frees the place of an item, which stays accessible until the place is reused.
    pub(super) fn close(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        debug_assert!(slot.is_open, "closed twice");
        slot.is_open = false;
        self.free.push(place as u32);
    }

    /// Returns the place of a number, if that end is still open.
    #[inline]
    pub(super) fn place(&self, opened: Opened) -> Option<usize> {
        let slot = self.slots.get(opened.place)?;
        (slot.is_open && slot.generation & GENERATION_MASK == opened.generation).then_some(opened.place)
    }

    /// Returns the number of earlier uses of the place, which identifies records of closed items.
    #[inline]
    pub(super) fn generation(&self, place: usize) -> u32 {
        self.slots[place].generation
    }

    #[inline]
    pub(super) fn is_open(&self, place: usize) -> bool {
        self.slots[place].is_open
    }

    /// Returns the open items.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter(|slot| slot.is_open).map(|slot| &slot.item)
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: usize) -> &T {
        &self.slots[place].item
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.slots[place].item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(slots: &mut Slots<QueuePair>) -> (usize, QueuePair) {
        let place = slots.open(true, Ok::<_, ()>).unwrap();
        (place, slots[place])
    }

    #[test]
    fn a_place_is_used_again_under_another_number() {
        let mut slots = Slots::new([QueuePair::new(7)]);
        let (first, number) = open(&mut slots);
        assert_eq!((first, Opened::of(number).map(|opened| slots.place(opened))), (1, Some(Some(1))));
        slots.close(first);
        assert_eq!(slots.place(Opened::of(number).unwrap()), None);
        let (again, other) = open(&mut slots);
        assert_eq!((again, slots.generation(again)), (1, 1));
        assert_ne!(number, other);
        assert_eq!(slots.place(Opened::of(number).unwrap()), None, "an old number names nothing");
        assert_eq!(slots.iter().count(), 2);
    }

    #[test]
    fn numbers_from_the_start_are_no_places() {
        assert_eq!(Opened::of(QueuePair::new(0x7f_ffff)), None);
        assert!(slots_number(true).sends && !slots_number(false).sends);
    }

    fn slots_number(sends: bool) -> Opened {
        let mut slots = Slots::new([]);
        let place = slots.open(sends, Ok::<_, ()>).unwrap();
        Opened::of(slots[place]).unwrap()
    }
}
