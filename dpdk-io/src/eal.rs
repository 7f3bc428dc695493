//! The DPDK runtime: started once, ended when nothing uses it any more.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use weir_dpdk_sys as sys;

use crate::error::{EalError, Errno};
use crate::interrupts;
use crate::lcore::{self, Lcore, LcoreHandle};
use crate::runtime::{CURRENT, Runtime, lock};

/// Running DPDK environment abstraction layer.
///
/// [`Eal::init`] pins the calling thread to the main lcore's CPUs; threads spawned from it afterwards inherit that
/// ([`crate::cpu::set_affinity`] undoes it). Dropping the `Eal` ends DPDK, provided no pool, port, queue, mbuf or lcore function is left.
/// Otherwise DPDK stays until the process ends, with a warning, and those objects stay usable.
#[derive(Debug)]
pub struct Eal {
    runtime: Arc<Runtime>,
    /// DPDK launches lcores and cleans up on the thread that started it.
    _this_thread_only: PhantomData<*const ()>,
}

impl Eal {
    /// Starts DPDK; `args[0]` is the program's name. See [`crate::EalArgs`].
    ///
    /// # Errors
    /// [`EalError::AlreadyStarted`] the second time in the life of a process,
    /// even if the first was dropped or failed; [`EalError::Init`] if DPDK refuses.
    pub fn init<S: AsRef<str>>(args: &[S]) -> Result<Eal, EalError> {
        let arguments = args
            .iter()
            .map(|arg| CString::new(arg.as_ref()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| EalError::Argument(String::from_utf8_lossy(&error.into_vec()).into_owned()))?;
        if arguments.is_empty() {
            return Err(EalError::NoProgramName);
        }
        // Relaxed: the flag guards no data, only the call below.
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(EalError::AlreadyStarted);
        }

        // EAL reorders the array and keeps pointers into the strings: both stay
        // for the life of the process.
        let mut pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        pointers.push(std::ptr::null_mut());
        let argc = c_int::try_from(args.len()).unwrap_or(c_int::MAX);
        let argv = Box::leak(pointers.into_boxed_slice()).as_mut_ptr();
        // SAFETY: `argv` holds `argc` NUL-terminated strings and a null, all of
        // them leaked; STARTED makes this the only call in the process.
        if unsafe { sys::rte_eal_init(argc, argv) } < 0 {
            let joined: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
            return Err(EalError::Init { errno: Errno::last(), arguments: joined.join(" ") });
        }

        // SAFETY: EAL runs; once a process, by STARTED. The handlers write to static memory alone.
        let ret = unsafe { sys::weir_removals_watch() };
        if ret != 0 {
            tracing::warn!(error = %Errno::from_return(ret), "the removal of devices is not detected");
        }
        let runtime = Arc::new(Runtime::new(args.iter().map(AsRef::as_ref), lcore::workers()));
        *lock(&CURRENT) = Arc::downgrade(&runtime);
        Ok(Eal { runtime, _this_thread_only: PhantomData })
    }

    /// Worker lcores (not the main one), by ascending id.
    pub fn lcores(&self) -> Vec<Lcore> {
        self.runtime.workers.iter().copied().map(Lcore::new).collect()
    }

    /// The main lcore's id.
    pub fn main_lcore(&self) -> u32 {
        // SAFETY: EAL is running.
        unsafe { sys::rte_get_main_lcore() }
    }

    /// Whether DPDK's memory is in hugepages.
    pub fn has_hugepages(&self) -> bool {
        // SAFETY: EAL is running.
        unsafe { sys::rte_eal_has_hugepages() != 0 }
    }

    /// Kind of addresses by which devices reach the memory.
    pub fn iova_mode(&self) -> IovaMode {
        // SAFETY: EAL is running.
        if unsafe { sys::weir_iova_is_virtual() } != 0 { IovaMode::Virtual } else { IovaMode::Physical }
    }

    /// Runs `f` on an idle worker lcore.
    ///
    /// # Errors
    /// If `lcore` is not one of [`Eal::lcores`] or is busy; `f` is dropped.
    pub fn launch<F>(&self, lcore: Lcore, f: F) -> Result<LcoreHandle, EalError>
    where
        F: FnOnce() + Send + 'static,
    {
        if !self.runtime.workers.contains(&lcore.id) {
            return Err(EalError::NoSuchLcore(lcore.id));
        }
        lcore::launch(Arc::clone(&self.runtime), lcore.id, Box::new(f))
    }

    /// Whether pools, ports, queues, lcore functions or mbufs are left, so that
    /// a drop now would leave DPDK running.
    pub fn is_in_use(&self) -> bool {
        self.runtime.sweep();
        Arc::strong_count(&self.runtime) > 1 || self.runtime.retired_pools() > 0
    }

    pub(crate) fn no_shared_memory(&self) -> Option<&'static str> {
        self.runtime.no_shared_memory
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        // Under the lock, nobody can get a new reference to the runtime.
        let mut current = lock(&CURRENT);
        *current = Weak::new();
        if self.is_in_use() {
            tracing::warn!(
                users = Arc::strong_count(&self.runtime) - 1,
                pools = self.runtime.retired_pools(),
                "DPDK is left running until the process ends: pools, ports, queues, lcore \
                 functions or mbufs are still in use"
            );
            return;
        }
        if !interrupts::quiesce() {
            tracing::warn!("DPDK is left running until the process ends: its interrupt thread does not answer");
            return;
        }
        // SAFETY: EAL runs, and nothing that points into its memory is left,
        // nor used by its interrupt thread; this is the thread that started it.
        unsafe { sys::rte_eal_cleanup() };
    }
}

/// The addresses by which devices reach memory: DPDK's IOVA mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IovaMode {
    /// The program's own (`VA`): an IOMMU translates them, or no device needs any.
    Virtual,
    /// The machine's (`PA`): devices reach all memory, and hugepages are needed.
    Physical,
}

/// The version of DPDK that this crate is built with: `22.11.11`.
pub const BUILT_FOR: &str = sys::BUILT_FOR;

/// The version string of the DPDK library in use, e.g. `DPDK 22.11.11`.
pub fn version() -> String {
    // SAFETY: returns a static NUL-terminated string; needs no EAL.
    let text = unsafe { CStr::from_ptr(sys::rte_version()) };
    text.to_string_lossy().into_owned()
}

static STARTED: AtomicBool = AtomicBool::new(false);
