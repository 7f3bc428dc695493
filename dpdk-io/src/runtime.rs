//! Reference-counted DPDK runtime, shared by all its users.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use weir_dpdk_sys as sys;

/// Runtime that pools, ports and running lcore functions share and keep alive.
#[derive(Debug)]
pub(crate) struct Runtime {
    main_thread: ThreadId,
    /// Lcores but the main one.
    pub(crate) workers: Vec<u32>,
    /// The argument for which no other process can see DPDK's memory.
    pub(crate) no_shared_memory: Option<&'static str>,
    /// Pools without a handle that cannot be freed yet.
    retired: Mutex<Vec<RetiredPool>>,
    owned_ports: Mutex<BTreeSet<u16>>,
}

#[derive(Debug)]
struct RetiredPool {
    pool: NonNull<sys::rte_mempool>,
    count: u32,
}

// SAFETY: the pointer is only used under the lock, for functions that any
// thread may call.
unsafe impl Send for RetiredPool {}

impl Runtime {
    /// The running one, if any.
    pub(crate) fn current() -> Option<Arc<Runtime>> {
        lock(&CURRENT).upgrade()
    }

    /// The runtime of an EAL that was started on this thread with these arguments, and has these workers.
    pub(crate) fn new<'a>(args: impl Iterator<Item = &'a str>, workers: Vec<u32>) -> Runtime {
        const PRIVATE: [&str; 3] = ["--in-memory", "--no-huge", "--no-shconf"];
        let no_shared_memory = args.filter_map(|arg| PRIVATE.into_iter().find(|private| arg == *private)).next();
        Runtime {
            main_thread: std::thread::current().id(),
            workers,
            no_shared_memory,
            retired: Mutex::new(Vec::new()),
            owned_ports: Mutex::new(BTreeSet::new()),
        }
    }

    /// Takes over a pool whose last handle is gone; [`Runtime::sweep`] frees it.
    pub(crate) fn retire(&self, pool: NonNull<sys::rte_mempool>, count: u32) {
        lock(&self.retired).push(RetiredPool { pool, count });
        self.sweep();
    }

    /// Pools that wait for mbufs.
    pub(crate) fn retired_pools(&self) -> usize {
        lock(&self.retired).len()
    }

    /// Frees retired pools that have all their mbufs back.
    ///
    /// An lcore that puts the last mbuf into its cache counts it before it has
    /// finished writing. So this does nothing unless the calling thread is the
    /// main lcore and every other lcore is idle; threads that are no lcores
    /// have no cache, and publish with their last access.
    pub(crate) fn sweep(&self) {
        if std::thread::current().id() != self.main_thread {
            return;
        }
        // SAFETY: the ids are EAL's own; the function only loads (acquire: ordered after the lcore's work while it was busy).
        let idle = |&id: &u32| unsafe { sys::weir_lcore_is_idle(id) } != 0;
        if !self.workers.iter().all(idle) {
            return;
        }
        lock(&self.retired).retain(|retired| {
            let pool = retired.pool.as_ptr();
            // SAFETY: a pool in the list is not freed yet.
            if unsafe { sys::rte_mempool_avail_count(pool) } < retired.count {
                return true;
            }
            // SAFETY: no handle and no mbuf of it is left, nor a thread inside
            // of one of its functions (see above).
            unsafe { sys::rte_mempool_free(pool) };
            false
        });
    }

    /// Claims a port for one owner; false if it has one.
    pub(crate) fn claim_port(&self, id: u16) -> bool {
        lock(&self.owned_ports).insert(id)
    }

    pub(crate) fn release_port(&self, id: u16) {
        lock(&self.owned_ports).remove(&id);
    }

    pub(crate) fn owns_port(&self, id: u16) -> bool {
        lock(&self.owned_ports).contains(&id)
    }
}

/// Locks a mutex. No code panics while it holds such a lock, so poison means nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running one. Under this lock nobody can get a new reference to it.
pub(crate) static CURRENT: Mutex<Weak<Runtime>> = Mutex::new(Weak::new());
