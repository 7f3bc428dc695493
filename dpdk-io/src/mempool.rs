//! Pools of packet buffers.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_dpdk_sys as sys;

use crate::batch::Batch;
use crate::error::{Errno, MempoolError};
use crate::mbuf::{HEADROOM, Mbuf};
use crate::runtime::Runtime;

/// Pool of mbufs; clones are handles to the same pool.
///
/// # Release of memory
/// The pool is freed once its last handle is gone, all its mbufs are back, and all lcores were seen idle. The main thread checks that at
/// each drop of a pool or port, at each join of an lcore, and at the end of the [`crate::Eal`]. Mbufs may thus outlive their pool's
/// handles; a NIC may hold some until it is closed.
///
/// # Performance
/// Each EAL lcore has a cache of [`MempoolConfig::cache`] free mbufs, which should be at least twice the burst. Other threads use the
/// shared store each time. The store is last in, first out, so that its mbufs are in the CPU's caches. Bulk allocation costs half as much
/// for each mbuf as [`Mempool::alloc`].
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Inner>);

/// Size of a [`Mempool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolConfig {
    /// Number of mbufs.
    pub count: u32,
    /// Free mbufs that each lcore caches; cut to DPDK's limit (512, and two thirds of `count`). Caches may hold up to `lcores * cache *
    /// 1.5` mbufs, out of reach for other lcores.
    pub cache: u32,
    /// Bytes of an mbuf for a frame and [`HEADROOM`]: see [`data_room_for`].
    pub data_room: u16,
    /// NUMA node; `None` for any.
    pub socket: Option<i32>,
    /// Whether devices that read and write memory by themselves (PCI) use the
    /// pool. On ordinary pages such a pool is slower, as each page holds one mbuf
    /// and all their headers share a few cache sets.
    pub for_devices: bool,
}

impl Default for MempoolConfig {
    /// 16383 mbufs (some 38 MB) for frames of up to 2048 bytes.
    fn default() -> MempoolConfig {
        MempoolConfig { count: 16_383, cache: 256, data_room: DEFAULT_DATA_ROOM, socket: None, for_devices: false }
    }
}

impl Mempool {
    /// Makes a pool. If a pool of this name exists, the new one's gets a number
    /// appended.
    ///
    /// # Errors
    /// [`MempoolError::Create`], most often for want of memory.
    pub fn new(name: &str, config: MempoolConfig) -> Result<Mempool, MempoolError> {
        let Some(runtime) = Runtime::current() else {
            return Err(MempoolError::NoEal { name: name.to_owned() });
        };
        runtime.sweep();
        let name_max = sys::WEIR_MEMPOOL_NAME_SIZE as usize - 1;
        let c_name = CString::new(name)
            .ok()
            .filter(|_| (1..=name_max).contains(&name.len()))
            .ok_or_else(|| MempoolError::Name { name: name.to_owned(), max: name_max })?;

        let pool = match create(&c_name, &config) {
            Err(Errno(libc::EEXIST)) => {
                // Relaxed: only uniqueness matters.
                let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
                let stem: String = name.chars().filter(char::is_ascii).take(16).collect();
                let renamed = CString::new(format!("{stem}.{serial}")).expect("no NUL in name");
                create(&renamed, &config)
            }
            result => result,
        }
        .map_err(|errno| MempoolError::Create {
            name: name.to_owned(),
            count: config.count,
            data_room: config.data_room,
            bytes: mempool_bytes(config.count, config.data_room, MempoolLayout::Dense),
            errno,
        })?;
        Ok(Mempool(Arc::new(Inner { pool, config, runtime })))
    }

    /// Mbufs that are in the pool, lcore caches included. A snapshot while
    /// other threads allocate.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is alive as long as its handles.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Mbufs that are somewhere else: in the program, in rings, in NICs.
    pub fn in_use(&self) -> u32 {
        self.count().saturating_sub(self.available())
    }

    /// Mbufs that the pool was made with.
    pub fn count(&self) -> u32 {
        self.0.config.count
    }

    /// Bytes of an mbuf for a frame and [`HEADROOM`].
    pub fn data_room(&self) -> u16 {
        self.0.config.data_room
    }

    /// Whether devices that read and write memory by themselves can use it: with
    /// [`MempoolConfig::for_devices`], and mostly in hugepages.
    pub fn is_for_devices(&self) -> bool {
        // SAFETY: the pool is alive as long as its handles; reads a flag.
        unsafe { sys::weir_mempool_is_for_devices(self.as_ptr()) != 0 }
    }

    /// Memory that the pool takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        // SAFETY: the pool is alive as long as its handles.
        unsafe { sys::weir_mempool_bytes(self.as_ptr()) }
    }

    /// An empty mbuf, or `None` if the pool is exhausted.
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is alive; the mbuf returned is ours alone.
        unsafe { Mbuf::from_raw(sys::weir_mbuf_alloc(self.as_ptr())) }
    }

    /// Appends `n` empty mbufs to the batch, or none: false if the pool has
    /// too few or the batch too little room.
    pub fn alloc_bulk(&self, into: &mut Batch, n: usize) -> bool {
        if n > into.room() {
            return false;
        }
        let slots = into.spare(n);
        // SAFETY: `slots` has room for `n` pointers, which are written all or none.
        let ret = unsafe { sys::weir_mbuf_alloc_bulk(self.as_ptr(), slots, n as u32) };
        if ret != 0 {
            return false;
        }
        // SAFETY: `n` mbufs, ours alone, were just written to the spare slots.
        unsafe { into.grow(n) };
        true
    }

    /// Prefetches the next `n` mbufs that this lcore allocates, from their location `from`. The mbufs of threads that are no EAL lcores are
    /// not predictable.
    #[inline]
    pub fn fetch_ahead(&self, n: usize, from: FreeMbufLocation) {
        let of_others = i32::from(from == FreeMbufLocation::OtherCores);
        // SAFETY: the pool is alive; the cache that is looked at is of the lcore that calls.
        unsafe { sys::weir_mempool_fetch_ahead(self.as_ptr(), n as u32, of_others) };
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.0.pool.as_ptr()
    }
}

/// Location of free mbufs that are in no cache of this core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMbufLocation {
    /// Mbufs are in the cache of another core, which used them last.
    OtherCores,
    /// Mbufs are in memory only, as they were used long ago.
    Memory,
}

/// Layout of a pool's mbufs in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MempoolLayout {
    /// Contiguous mbufs: in hugepages, or where no device needs addresses.
    Dense,
    /// Layout in which no mbuf crosses an ordinary page, as devices require.
    WithinPages,
}

/// Bytes that a pool of this size would take, its ring and caches included;
/// DPDK's allocator adds up to one page for each chunk.
pub fn mempool_bytes(count: u32, data_room: u16, layout: MempoolLayout) -> u64 {
    let page = match layout {
        MempoolLayout::Dense => 0,
        MempoolLayout::WithinPages => ORDINARY_PAGE,
    };
    // SAFETY: arithmetic; needs no EAL.
    unsafe { sys::weir_mempool_estimate(count, data_room, page) }
}

/// Data room of an mbuf for frames of `frame_bytes` bytes (without FCS), rounded up to 64; `None` above 16 bits.
pub fn data_room_for(frame_bytes: u32) -> Option<u16> {
    let bytes = frame_bytes.checked_add(u32::from(HEADROOM))?;
    u16::try_from(bytes.checked_next_multiple_of(64)?).ok()
}

impl Mbuf {
    /// A deep copy from `pool`, of several segments if one is too small;
    /// `None` if the pool is exhausted.
    pub fn copy(&self, pool: &Mempool) -> Option<Mbuf> {
        // SAFETY: the mbuf is ours and only read; the pool is alive. The copy
        // has no other owner.
        unsafe { Mbuf::from_raw(sys::rte_pktmbuf_copy(self.as_raw(), pool.as_ptr(), 0, u32::MAX)) }
    }
}

/// Most free mbufs that an lcore may hold outside its cache while it checks for the number wanted. Other lcores can't allocate them at that
/// instant.
pub const PIECED_MAX: u32 = sys::WEIR_PIECED_MAX;

/// Bytes of a frame around its payload, without FCS: header and two VLAN tags.
pub(crate) const FRAME_OVERHEAD: u32 = 14 + 2 * 4;

/// [`HEADROOM`] and 2048 bytes of frame.
pub const DEFAULT_DATA_ROOM: u16 = sys::WEIR_DEFAULT_DATA_ROOM as u16;

#[derive(Debug)]
struct Inner {
    pool: NonNull<sys::rte_mempool>,
    config: MempoolConfig,
    runtime: Arc<Runtime>,
}

// SAFETY: `rte_mempool` of multi-producer, multi-consumer ops may be used from
// any thread; per-lcore caches belong to the thread that runs the lcore.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        self.runtime.retire(self.pool, self.config.count);
    }
}

fn create(name: &CString, config: &MempoolConfig) -> Result<NonNull<sys::rte_mempool>, Errno> {
    let cache_max = sys::WEIR_MEMPOOL_CACHE_MAX.min(config.count / 3 * 2);
    // SAFETY: EAL is running (the caller holds the runtime); the name is
    // NUL-terminated and copied.
    let pool = unsafe {
        sys::weir_mempool_create(
            name.as_ptr(),
            config.count,
            config.cache.min(cache_max),
            config.data_room,
            config.socket.unwrap_or(ANY_SOCKET),
            i32::from(config.for_devices),
        )
    };
    NonNull::new(pool).ok_or_else(Errno::last)
}

static SERIAL: AtomicU32 = AtomicU32::new(1);
const ANY_SOCKET: i32 = -1;
const ORDINARY_PAGE: u32 = 4096;
