//! A short queue of owned packets, as long as a burst.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};

use arrayvec::ArrayVec;
use weir_dpdk_sys as sys;

use crate::mbuf::Mbuf;

/// The most packets that one call moves.
pub const MAX_BURST: usize = 64;

/// Up to [`MAX_BURST`] packets in order, without heap. Index 0 is the front: the packet that arrived first and leaves first.
///
/// Drop and [`Batch::clear`] free the packets in bulk.
pub struct Batch {
    /// `head..tail` hold packets, all else is garbage. Both are 0 when empty.
    slots: [MaybeUninit<Mbuf>; MAX_BURST],
    head: usize,
    tail: usize,
}

// `None` is a null pointer, which no packet is.
const _: () =
    assert!(size_of::<Option<Mbuf>>() == size_of::<Mbuf>() && align_of::<Option<Mbuf>>() == align_of::<Mbuf>());

impl Batch {
    /// An empty batch.
    #[inline]
    pub fn new() -> Batch {
        Batch { slots: [const { MaybeUninit::uninit() }; MAX_BURST], head: 0, tail: 0 }
    }

    /// Number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Returns true if the batch holds no packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        MAX_BURST - self.len()
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// The packet itself, if the batch is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        if self.tail == MAX_BURST {
            if self.head == 0 {
                return Err(mbuf);
            }
            self.compact();
        }
        self.slots[self.tail].write(mbuf);
        self.tail += 1;
        Ok(())
    }

    /// Puts a packet back before all others.
    ///
    /// # Errors
    /// The packet itself, if the batch is full.
    pub fn push_front(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        if self.head == 0 {
            if self.tail == MAX_BURST {
                return Err(mbuf);
            }
            // To the far end, so that a series of these calls moves the rest once.
            let to = MAX_BURST - self.len();
            self.move_to(to);
        }
        self.head -= 1;
        self.slots[self.head].write(mbuf);
        Ok(())
    }

    /// Takes the front packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Mbuf> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: slot `head` holds a packet, and is garbage from here on.
        let mbuf = unsafe { self.slots[self.head].assume_init_read() };
        self.head += 1;
        self.rewind_if_empty();
        Some(mbuf)
    }

    /// Takes the packet at `index`; those behind it move up.
    pub fn take(&mut self, index: usize) -> Option<Mbuf> {
        if index >= self.len() {
            return None;
        }
        let at = self.head + index;
        // SAFETY: `at` is within `head..tail`, so it holds a packet.
        let mbuf = unsafe { self.slots[at].assume_init_read() };
        let base = self.slots.as_mut_ptr();
        // SAFETY: both ranges lie within the array; the duplicate that is left
        // at the end falls out of `head..tail`.
        unsafe { std::ptr::copy(base.add(at + 1), base.add(at), self.tail - at - 1) };
        self.tail -= 1;
        self.rewind_if_empty();
        Some(mbuf)
    }

    /// Takes all packets, front first; those not taken when the iterator goes
    /// are kept.
    pub fn drain(&mut self) -> Drain<'_> {
        Drain(self)
    }

    /// Moves all packets to the end of an array.
    ///
    /// # Panics
    /// If the array has no room for them.
    #[inline]
    pub fn give_to<T: From<Mbuf>, const N: usize>(&mut self, to: &mut ArrayVec<T, N>) {
        assert!(self.len() <= to.remaining_capacity(), "an array with room for a batch");
        let (head, tail) = (self.head, self.tail);
        // Should a conversion panic, packets are lost, and not freed twice.
        (self.head, self.tail) = (0, 0);
        // SAFETY: the slots of `head..tail` hold packets, and are garbage from here on.
        to.extend(self.slots[head..tail].iter().map(|slot| T::from(unsafe { slot.assume_init_read() })));
    }

    /// Appends the first `n` items of an array.
    ///
    /// # Panics
    /// If the array holds fewer, or the batch has no room for them.
    #[inline]
    pub fn take_from<T: Into<Mbuf>, const N: usize>(&mut self, from: &mut ArrayVec<T, N>, n: usize) {
        self.extend(n, from.drain(..n));
    }

    /// Appends the packets of a slice of `Some`, and leaves `None` in each place.
    ///
    /// # Panics
    /// If a place is `None`, or the batch has no room for them.
    #[inline]
    pub fn take_from_row<T: Into<Mbuf>>(&mut self, row: &mut [Option<T>]) {
        assert!(row.len() <= self.room(), "a batch with room for the packets");
        if row.len() > MAX_BURST - self.tail {
            self.compact();
        }
        let slots = &mut self.slots[self.tail..][..row.len()];
        // No branch per packet: one check for all, before any counts as a packet.
        let mut missing = 0;
        for (slot, place) in slots.iter_mut().zip(row.iter_mut()) {
            let packet: Option<Mbuf> = place.take().map(Into::into);
            // Only null sets the top bit, since a process's addresses lie in the lower half. A subtraction of several packets at once is
            // cheaper than comparisons.
            missing |= packet.as_ref().map_or(0, |mbuf| mbuf.address()).wrapping_sub(1);
            // SAFETY: an `Option<Mbuf>` has the size and alignment of an `Mbuf`, which is asserted below; a slot may hold anything
            // until it counts as a packet.
            unsafe { slot.as_mut_ptr().cast::<Option<Mbuf>>().write(packet) };
        }
        assert!(missing.cast_signed() >= 0, "a packet in each place of a row");
        self.tail += slots.len();
    }

    /// Appends packets, `most` at most.
    #[inline(always)]
    fn extend(&mut self, most: usize, packets: impl Iterator<Item: Into<Mbuf>>) {
        assert!(most <= self.room(), "a batch with room for the packets");
        if most > MAX_BURST - self.tail {
            self.compact();
        }
        let mut n = 0;
        for (slot, packet) in self.slots[self.tail..].iter_mut().zip(packets) {
            slot.write(packet.into());
            n += 1;
        }
        self.tail += n;
    }

    /// Moves packets from the front of `other` to the end of this one, as many
    /// as fit, and returns how many.
    pub fn append(&mut self, other: &mut Batch) -> usize {
        let n = other.len().min(self.room());
        let slots = self.spare(n);
        // SAFETY: `n` packets from the front of `other` are copied to `n` spare
        // slots; they change hands by `grow` and `consume`.
        unsafe {
            std::ptr::copy_nonoverlapping(other.front(), slots, n);
            self.grow(n);
            other.consume(n);
        }
        n
    }

    /// Frees all packets, in bulk.
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.free_front(self.len());
        }
    }

    /// Frees the `n` packets at the front, in bulk.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub(crate) fn free_front(&mut self, n: usize) {
        assert!(n <= self.len(), "fewer packets than are to be freed");
        // SAFETY: the front `n` packets are ours, and `consume` forgets them.
        unsafe {
            sys::rte_pktmbuf_free_bulk(self.front(), n as u32);
            self.consume(n);
        }
    }

    /// The packets, front first.
    #[inline]
    pub fn as_slice(&self) -> &[Mbuf] {
        let start = self.slots[self.head..].as_ptr().cast::<Mbuf>();
        // SAFETY: `head..tail` hold packets.
        unsafe { std::slice::from_raw_parts(start, self.len()) }
    }

    /// The packets, front first.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Mbuf] {
        let len = self.len();
        let start = self.slots[self.head..].as_mut_ptr().cast::<Mbuf>();
        // SAFETY: `head..tail` hold packets.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The packets, front first.
    pub fn iter(&self) -> std::slice::Iter<'_, Mbuf> {
        self.as_slice().iter()
    }

    /// The packets, front first.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Mbuf> {
        self.as_mut_slice().iter_mut()
    }

    /// Pointers to the packets, front first, for DPDK to read `len()` of.
    #[inline(always)]
    pub(crate) fn front(&mut self) -> *mut *mut sys::rte_mbuf {
        // An `Mbuf` is a transparent wrapper of a pointer.
        self.slots[self.head..].as_mut_ptr().cast()
    }

    /// Room behind the packets for `n` pointers, for DPDK to write.
    ///
    /// # Panics
    /// If `n` is above [`Batch::room`].
    #[inline(always)]
    pub(crate) fn spare(&mut self, n: usize) -> *mut *mut sys::rte_mbuf {
        assert!(n <= self.room(), "more packets than fit the batch");
        if n > MAX_BURST - self.tail {
            self.compact();
        }
        self.slots[self.tail..].as_mut_ptr().cast()
    }

    /// Takes over `n` packets that were written behind the last one.
    ///
    /// # Safety
    /// The caller wrote `n` owned mbufs to [`Batch::spare`]'s slots.
    #[inline(always)]
    pub(crate) unsafe fn grow(&mut self, n: usize) {
        debug_assert!(n <= MAX_BURST - self.tail);
        self.tail += n;
    }

    /// Forgets the `n` packets at the front.
    ///
    /// # Safety
    /// Somebody else owns them now, and `n` is at most `len()`.
    #[inline(always)]
    pub(crate) unsafe fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.head += n;
        self.rewind_if_empty();
    }

    fn compact(&mut self) {
        self.move_to(0);
    }

    fn move_to(&mut self, to: usize) {
        let len = self.len();
        debug_assert!(to + len <= MAX_BURST);
        let base = self.slots.as_mut_ptr();
        // SAFETY: both ranges lie within the array; the old places become garbage.
        unsafe { std::ptr::copy(base.add(self.head), base.add(to), len) };
        self.head = to;
        self.tail = to + len;
    }

    #[inline(always)]
    fn rewind_if_empty(&mut self) {
        if self.head == self.tail {
            self.head = 0;
            self.tail = 0;
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Index<usize> for Batch {
    type Output = Mbuf;

    fn index(&self, index: usize) -> &Mbuf {
        &self.as_slice()[index]
    }
}

impl IndexMut<usize> for Batch {
    fn index_mut(&mut self, index: usize) -> &mut Mbuf {
        &mut self.as_mut_slice()[index]
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Mbuf;
    type IntoIter = std::slice::Iter<'a, Mbuf>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Mbuf;
    type IntoIter = std::slice::IterMut<'a, Mbuf>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Iterator of [`Batch::drain`].
#[derive(Debug)]
pub struct Drain<'a>(&'a mut Batch);

impl Iterator for Drain<'_> {
    type Item = Mbuf;

    #[inline]
    fn next(&mut self) -> Option<Mbuf> {
        self.0.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for Drain<'_> {}
