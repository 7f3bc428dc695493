//! Worker lcores: pinned threads that EAL made, and closures run on them.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use weir_dpdk_sys as sys;

use crate::backoff::Backoff;
use crate::error::EalError;
use crate::runtime::{Runtime, lock};

/// A worker thread of EAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lcore {
    /// Number of the lcore, as on the EAL command line.
    pub id: u32,
    /// The CPU that it is pinned to; `None` if it floats over several.
    pub cpu: Option<u32>,
    /// The NUMA node.
    pub socket: u32,
}

impl Lcore {
    pub(crate) fn new(id: u32) -> Lcore {
        // SAFETY: EAL is running and `id` came from it.
        let (cpu, socket) = unsafe { (sys::weir_lcore_cpu(id), sys::rte_lcore_to_socket_id(id)) };
        Lcore { id, cpu: u32::try_from(cpu).ok(), socket }
    }
}

/// A function running on a lcore. Dropping it waits for the function's end, so
/// tell the function to stop first.
#[derive(Debug)]
#[must_use = "dropping the handle waits for the function to end"]
pub struct LcoreHandle {
    lcore: u32,
    completion: Arc<Completion>,
    runtime: Arc<Runtime>,
    joined: bool,
}

impl LcoreHandle {
    /// Waits for the function's end.
    ///
    /// # Errors
    /// [`LcorePanic`] if it panicked.
    pub fn join(mut self) -> Result<(), LcorePanic> {
        self.wait()
    }

    /// Whether the function has returned or panicked, so that
    /// [`LcoreHandle::join`] will not block.
    pub fn is_finished(&self) -> bool {
        lock(&self.completion.outcome).is_some()
    }

    /// The lcore's id.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }

    fn wait(&mut self) -> Result<(), LcorePanic> {
        self.joined = true;
        let outcome = self.completion.wait();
        // The function is over, the lcore's own bookkeeping may take a moment:
        // wait for it, or the next launch would find the lcore busy.
        let mut backoff = Backoff::default();
        // SAFETY: EAL runs (`self.runtime`), and `lcore` is one of its ids.
        while unsafe { sys::weir_lcore_is_idle(self.lcore) } == 0 {
            backoff.snooze();
        }
        self.runtime.sweep();
        outcome.map_err(|message| LcorePanic { lcore: self.lcore, message })
    }
}

impl Drop for LcoreHandle {
    fn drop(&mut self) {
        if !self.joined
            && let Err(panic) = self.wait()
        {
            tracing::error!("{panic}");
        }
    }
}

/// A function panicked on a lcore; the lcore itself lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcorePanic {
    /// Lcore that panicked.
    pub lcore: u32,
    /// The panic's message.
    pub message: String,
}

impl fmt::Display for LcorePanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a function on lcore {} panicked: {}", self.lcore, self.message)
    }
}

impl std::error::Error for LcorePanic {}

/// Starts `run` on an idle worker lcore.
pub(crate) fn launch(
    runtime: Arc<Runtime>,
    lcore: u32,
    run: Box<dyn FnOnce() + Send>,
) -> Result<LcoreHandle, EalError> {
    let completion = Arc::new(Completion::default());
    let job = Box::into_raw(Box::new(Job { run, completion: Arc::clone(&completion), runtime: Arc::clone(&runtime) }));
    // SAFETY: `lcore` is a worker lcore of the running EAL. On success the
    // trampoline takes the job over, exactly once.
    let ret = unsafe { sys::rte_eal_remote_launch(Some(run_job), job.cast(), lcore) };
    if ret != 0 {
        // SAFETY: the launch was refused, so the job is still ours.
        drop(unsafe { Box::from_raw(job) });
        return Err(EalError::LcoreBusy(lcore));
    }
    Ok(LcoreHandle { lcore, completion, runtime, joined: false })
}

/// Worker lcore ids, ascending.
pub(crate) fn workers() -> Vec<u32> {
    let mut ids = Vec::new();
    let mut id = u32::MAX;
    loop {
        // SAFETY: EAL is running; u32::MAX asks for the first one.
        id = unsafe { sys::rte_get_next_lcore(id, 1, 0) };
        if id >= sys::WEIR_MAX_LCORE {
            return ids;
        }
        ids.push(id);
    }
}

struct Job {
    run: Box<dyn FnOnce() + Send>,
    completion: Arc<Completion>,
    runtime: Arc<Runtime>,
}

#[derive(Debug, Default)]
struct Completion {
    outcome: Mutex<Option<Result<(), String>>>,
    changed: Condvar,
}

impl Completion {
    fn set(&self, outcome: Result<(), String>) {
        *lock(&self.outcome) = Some(outcome);
        self.changed.notify_all();
    }

    fn wait(&self) -> Result<(), String> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = outcome.clone() {
                return outcome;
            }
            outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs on the lcore. No panic may pass: its caller is C.
extern "C" fn run_job(argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the job that `launch` gave away, and EAL calls
    // this once for it.
    let job = unsafe { Box::from_raw(argument.cast::<Job>()) };
    let Job { run, completion, runtime } = *job;
    let outcome = catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let message = panic_message(payload.as_ref());
        // A payload may panic as it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
        message
    });
    // Before the completion is signalled, since the runtime may end right after.
    drop(runtime);
    completion.set(outcome);
    0
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}
