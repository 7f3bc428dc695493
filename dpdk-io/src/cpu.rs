//! CPUs: which ones this process may use, where a thread runs, how to wait.

use std::io;

/// CPUs that the calling thread may run on, ascending.
///
/// [`crate::Eal::init`] pins the calling thread to the main lcore's CPUs, and
/// threads it spawns later inherit that: ask before.
pub fn allowed() -> Vec<u32> {
    let mut set = empty_set();
    // SAFETY: `set` is writable and of the size given; 0 is the calling thread.
    let ret = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if ret != 0 {
        return vec![0];
    }
    (0..libc::CPU_SETSIZE as u32)
        // SAFETY: the index is below CPU_SETSIZE.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) })
        .collect()
}

/// Restricts the calling thread to `cpus`; for control threads that were
/// spawned by a pinned one.
///
/// # Errors
/// The system's, e.g. if none of `cpus` exists.
pub fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    let mut set = empty_set();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as u32) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: `set` is of the size given; 0 is the calling thread.
    let ret = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPU that the calling thread is on right now.
pub fn current() -> Option<u32> {
    // SAFETY: no arguments, no memory.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_time_ns() -> u64 {
    crate::clock::read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The calling thread's number, by which `/proc/self/task` names it.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no memory; it can't fail.
    unsafe { libc::gettid() as u32 }
}

/// Ticks a second in which `/proc/stat` counts.
pub fn proc_ticks_per_second() -> u64 {
    // SAFETY: no memory; a name that the system does not know gives -1.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}

/// Hints to the CPU that this is a polling loop.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: a `cpu_set_t` is an array of integers; all zero is the empty set.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_thread_runs_on_an_allowed_cpu() {
        let allowed = super::allowed();
        let current = super::current().expect("Linux tells the CPU");
        assert!(allowed.contains(&current), "{current} in {allowed:?}");
        super::set_affinity(&allowed).expect("the same set again");
    }
}
