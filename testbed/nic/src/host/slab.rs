//! Ends of connections by number: the initial ones, and those opened and closed later.

use std::ops::{Index, IndexMut};

use weir_wire::rocev2::QueuePair;

/// Items by place; places of closed items are reused.
#[derive(Debug)]
pub(super) struct Slab<T> {
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
const DYNAMIC_BIT: u32 = 1 << 23;
/// Bit of the number of a sender's end.
const SENDER_BIT: u32 = 1 << 22;
const GENERATION_SHIFT: u32 = 16;
const GENERATION_MASK: u32 = 0x3f;
const PLACE_MASK: u32 = 0xffff;
/// Largest number of ends of a kind that a host has open at once.
pub(super) const OPEN_MAX: usize = PLACE_MASK as usize + 1;

/// Contents of the number of an end that was opened later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndpointId {
    pub is_sender: bool,
    pub place: usize,
    generation: u32,
}

impl EndpointId {
    /// Decodes a number; `None` for that of an initial end.
    #[inline]
    pub(super) fn from_queue_pair(queue_pair: QueuePair) -> Option<EndpointId> {
        let number = queue_pair.get();
        (number & DYNAMIC_BIT != 0).then_some(EndpointId {
            is_sender: number & SENDER_BIT != 0,
            place: (number & PLACE_MASK) as usize,
            generation: number >> GENERATION_SHIFT & GENERATION_MASK,
        })
    }

    fn queue_pair(self) -> QueuePair {
        let kind = if self.is_sender { DYNAMIC_BIT | SENDER_BIT } else { DYNAMIC_BIT };
        QueuePair::new(kind | self.generation << GENERATION_SHIFT | self.place as u32)
    }
}

impl<T> Slab<T> {
    /// Memory of an item in bytes.
    pub(super) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// Creates a slab with the initial items, in order.
    pub(super) fn new(items: impl IntoIterator<Item = T>) -> Slab<T> {
        let slots = items.into_iter().map(|item| Slot { item, generation: 0, is_open: true });
        Slab { slots: slots.collect(), free: Vec::new() }
    }

    /// Whether another item may be added.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < OPEN_MAX
    }

    /// Adds an item, made from its new number. Returns its place.
    ///
    /// # Panics
    /// If there are [`OPEN_MAX`].
    pub(super) fn open<E>(
        &mut self,
        is_sender: bool,
        make: impl FnOnce(QueuePair) -> Result<T, E>,
    ) -> Result<usize, E> {
        let reused = self.free.last().copied();
        let place = reused.map_or(self.slots.len(), |place| place as usize);
        assert!(place < OPEN_MAX, "more connections than numbers for them");
        let generation = reused.map_or(0, |_| self.slots[place].generation + 1);
        let slot = Slot {
            item: make(EndpointId { is_sender, place, generation: generation & GENERATION_MASK }.queue_pair())?,
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
    pub(super) fn place(&self, id: EndpointId) -> Option<usize> {
        let slot = self.slots.get(id.place)?;
        (slot.is_open && slot.generation & GENERATION_MASK == id.generation).then_some(id.place)
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

impl<T> Index<usize> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: usize) -> &T {
        &self.slots[place].item
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.slots[place].item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(slots: &mut Slab<QueuePair>) -> (usize, QueuePair) {
        let place = slots.open(true, Ok::<_, ()>).unwrap();
        (place, slots[place])
    }

    #[test]
    fn a_place_is_used_again_under_another_number() {
        let mut slots = Slab::new([QueuePair::new(7)]);
        let (first, number) = open(&mut slots);
        assert_eq!((first, EndpointId::from_queue_pair(number).map(|opened| slots.place(opened))), (1, Some(Some(1))));
        slots.close(first);
        assert_eq!(slots.place(EndpointId::from_queue_pair(number).unwrap()), None);
        let (again, other) = open(&mut slots);
        assert_eq!((again, slots.generation(again)), (1, 1));
        assert_ne!(number, other);
        assert_eq!(slots.place(EndpointId::from_queue_pair(number).unwrap()), None, "an old number names nothing");
        assert_eq!(slots.iter().count(), 2);
    }

    #[test]
    fn numbers_from_the_start_are_no_places() {
        assert_eq!(EndpointId::from_queue_pair(QueuePair::new(0x7f_ffff)), None);
        assert!(slots_number(true).is_sender && !slots_number(false).is_sender);
    }

    fn slots_number(sends: bool) -> EndpointId {
        let mut slots = Slab::new([]);
        let place = slots.open(sends, Ok::<_, ()>).unwrap();
        EndpointId::from_queue_pair(slots[place]).unwrap()
    }
}
