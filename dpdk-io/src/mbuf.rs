//! One owned packet buffer.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use weir_dpdk_sys as sys;

/// Bytes left free in front of a received frame.
pub const HEADROOM: u16 = sys::WEIR_PKTMBUF_HEADROOM as u16;

/// An owned packet: an mbuf, or a chain of them, that goes back to its pool on
/// drop.
///
/// There is no `Clone`, and nothing in this crate makes a second reference to
/// an mbuf, so an owner is the only one (`refcnt` 1; checked in debug builds
/// where bytes are written). [`Mbuf::copy`] makes a deep copy.
///
/// Lengths count the frame from its destination address on, without FCS.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an mbuf has one owner, and any thread may free it to its pool.
unsafe impl Send for Mbuf {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Mbuf {}

const _: () = assert!(size_of::<Option<Mbuf>>() == size_of::<*mut sys::rte_mbuf>());

impl Mbuf {
    /// Takes over an mbuf; `None` from null.
    ///
    /// # Safety
    /// `raw` is null or an initialised mbuf that nobody else uses or frees.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(raw: *mut sys::rte_mbuf) -> Option<Mbuf> {
        NonNull::new(raw).map(Mbuf)
    }

    /// Bytes of the first segment: all of the frame, unless
    /// [`Mbuf::segment_count`] says that it goes on.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: the mbuf is ours while `self` lives.
        unsafe { segment_data(self.0.as_ptr()) }
    }

    /// Bytes of the first segment.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        debug_assert_eq!(self.reference_count(), 1, "somebody else reads this mbuf");
        let len = usize::from(self.data_len());
        // SAFETY: `data_off + data_len` lies within the buffer, whose memory is
        // mapped and initialised; `&mut self` is the only access to it.
        unsafe { std::slice::from_raw_parts_mut(self.data_ptr(), len) }
    }

    /// Length of the frame over all its segments, in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a frame is not a collection")]
    pub fn len(&self) -> u32 {
        self.field(sys::WEIR_MBUF_PKT_LEN)
    }

    /// Number of mbufs (segments) of the frame.
    #[inline(always)]
    pub fn segment_count(&self) -> u16 {
        self.field(sys::WEIR_MBUF_NB_SEGS)
    }

    /// The bytes of each segment.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        Segments { next: Some(self.0), _chain: PhantomData }
    }

    /// Appends `n` uninitialised bytes (old buffer contents) to the last segment and returns them; `None` if they do not fit.
    pub fn append(&mut self, n: u16) -> Option<&mut [u8]> {
        // SAFETY: the mbuf is ours; the call checks the room behind the data.
        let start = unsafe { sys::weir_mbuf_append(self.0.as_ptr(), n) };
        // SAFETY: on success `n` bytes from `start` are part of the mbuf.
        unsafe { bytes_mut(start, n) }
    }

    /// Puts `n` bytes before the frame and returns them; `None` if the
    /// headroom is too small.
    pub fn prepend(&mut self, n: u16) -> Option<&mut [u8]> {
        // SAFETY: the mbuf is ours; the call checks the headroom.
        let start = unsafe { sys::weir_mbuf_prepend(self.0.as_ptr(), n) };
        // SAFETY: on success `n` bytes from `start` are part of the mbuf.
        unsafe { bytes_mut(start, n) }
    }

    /// Cuts `n` bytes from the end; false (and nothing cut) if the last segment
    /// is shorter.
    pub fn trim(&mut self, n: u16) -> bool {
        // SAFETY: the mbuf is ours; the call checks the length.
        unsafe { sys::weir_mbuf_trim(self.0.as_ptr(), n) == 0 }
    }

    /// Cuts `n` bytes from the front; false (and nothing cut) if the first segment is shorter.
    pub fn trim_front(&mut self, n: u16) -> bool {
        let Some(data_len) = self.data_len().checked_sub(n) else { return false };
        self.set_field(sys::WEIR_MBUF_DATA_OFF, self.field::<u16>(sys::WEIR_MBUF_DATA_OFF) + n);
        self.set_field(sys::WEIR_MBUF_DATA_LEN, data_len);
        self.set_field(sys::WEIR_MBUF_PKT_LEN, self.len() - u32::from(n));
        true
    }

    /// Moves a frame's segments into the first; false (and nothing changed) if that has no room.
    pub fn join_segments(&mut self) -> bool {
        debug_assert_eq!(self.reference_count(), 1, "somebody else reads this mbuf");
        // SAFETY: the mbuf is ours; the call checks the room behind the data.
        unsafe { sys::weir_mbuf_linearize(self.0.as_ptr()) == 0 }
    }

    /// Sets the length of a frame of one segment; new bytes hold old buffer contents. False (and nothing changed) if they do not fit or
    /// there are several segments.
    pub fn set_len(&mut self, len: u16) -> bool {
        if self.segment_count() != 1 || len > self.capacity() {
            return false;
        }
        self.set_field(sys::WEIR_MBUF_DATA_LEN, len);
        self.set_field(sys::WEIR_MBUF_PKT_LEN, u32::from(len));
        true
    }

    /// Pointer for DPDK functions that leave the mbuf to its owner.
    pub(crate) fn as_raw(&self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    /// The longest frame that the first segment can hold behind its headroom.
    pub fn capacity(&self) -> u16 {
        let room: u16 = self.field(sys::WEIR_MBUF_BUF_LEN);
        room - self.field::<u16>(sys::WEIR_MBUF_DATA_OFF)
    }

    /// Asks the CPU to fetch the first bytes of the frame.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch(self.data_ptr());
    }

    /// Prefetches the mbuf's descriptor: frame length, data address, and the fields read when it returns to its pool.
    #[inline(always)]
    pub fn prefetch_descriptor(&self) {
        prefetch(self.0.as_ptr());
        prefetch(self.0.as_ptr().cast::<u8>().wrapping_add(CACHE_LINE));
    }

    /// Prefetches the descriptor ([`Mbuf::prefetch_descriptor`]) and the first bytes of a received frame into the second-level cache. Call
    /// it some bursts ahead: a core has few outstanding first-level cache misses and stalls on more.
    #[inline(always)]
    pub fn prefetch_early(&self) {
        let start = self.0.as_ptr().cast::<u8>();
        for at in [0, CACHE_LINE, sys::WEIR_MBUF_SIZE as usize + usize::from(HEADROOM)] {
            prefetch_early(start.wrapping_add(at));
        }
    }

    /// Address of the mbuf.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    fn reference_count(&self) -> u16 {
        self.field(sys::WEIR_MBUF_REFCNT)
    }

    #[inline(always)]
    fn data_len(&self) -> u16 {
        self.field(sys::WEIR_MBUF_DATA_LEN)
    }

    #[inline(always)]
    fn data_ptr(&self) -> *mut u8 {
        // SAFETY: the mbuf is ours.
        unsafe { data_ptr(self.0.as_ptr()) }
    }

    #[inline(always)]
    fn field<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: the mbuf is ours; the callers name an offset and its type.
        unsafe { read_field(self.0.as_ptr(), offset) }
    }

    fn set_field<T: Copy>(&mut self, offset: u32, value: T) {
        // SAFETY: the mbuf is ours; the callers name an offset and its type.
        unsafe { self.0.as_ptr().byte_add(offset as usize).cast::<T>().write(value) }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the mbuf is ours, and this is its end.
        unsafe { sys::weir_mbuf_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.segment_count())
            .finish_non_exhaustive()
    }
}

struct Segments<'a> {
    next: Option<NonNull<sys::rte_mbuf>>,
    _chain: PhantomData<&'a Mbuf>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let segment = self.next?.as_ptr();
        // SAFETY: the chain is borrowed for 'a; `next` is null at its end.
        unsafe {
            self.next = NonNull::new(read_field(segment, sys::WEIR_MBUF_NEXT));
            Some(segment_data(segment))
        }
    }
}

/// Bytes of a cache line; a descriptor has two.
const CACHE_LINE: usize = 64;

/// Asks the CPU to fetch a cache line into its second-level cache.
#[inline(always)]
fn prefetch_early<T>(_at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint; it may point anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(_at.cast()) };
    }
}

/// Asks the CPU to fetch a cache line.
#[inline(always)]
fn prefetch<T>(_at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it may point anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_at.cast()) };
    }
}

/// # Safety
/// `m` is a valid mbuf, `offset` that of a field of type `T`.
#[inline(always)]
unsafe fn read_field<T: Copy>(m: *const sys::rte_mbuf, offset: u32) -> T {
    // SAFETY: the caller's promise; the offsets and sizes come from the C
    // compiler, and the alignment is asserted in the bindings.
    unsafe { m.byte_add(offset as usize).cast::<T>().read() }
}

/// # Safety
/// `m` is a valid mbuf.
#[inline(always)]
unsafe fn data_ptr(m: *const sys::rte_mbuf) -> *mut u8 {
    // SAFETY: the caller's promise; `data_off` is at most the buffer's length.
    unsafe {
        let start: *mut u8 = read_field(m, sys::WEIR_MBUF_BUF_ADDR);
        start.add(usize::from(read_field::<u16>(m, sys::WEIR_MBUF_DATA_OFF)))
    }
}

/// # Safety
/// `m` is a valid mbuf that nobody writes to during 'a.
#[inline(always)]
unsafe fn segment_data<'a>(m: *const sys::rte_mbuf) -> &'a [u8] {
    // SAFETY: the caller's promise; `data_off + data_len` lies within the
    // buffer, whose memory is mapped and initialised.
    unsafe {
        let len = usize::from(read_field::<u16>(m, sys::WEIR_MBUF_DATA_LEN));
        std::slice::from_raw_parts(data_ptr(m), len)
    }
}

/// # Safety
/// `start` is null or begins `n` bytes that the caller alone uses during 'a.
unsafe fn bytes_mut<'a>(start: *mut u8, n: u16) -> Option<&'a mut [u8]> {
    // SAFETY: the caller's promise.
    NonNull::new(start).map(|start| unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), usize::from(n)) })
}
