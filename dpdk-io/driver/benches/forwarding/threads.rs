//! CPU time of another process's threads.

use std::fs;
use std::path::Path;

/// CPU time of the main thread.
pub(crate) fn cpu_time_of_main_ns(pid: u32) -> Option<u64> {
    cpu_time_at(format!("/proc/{pid}/task/{pid}").as_ref())
}

/// CPU time of the first thread whose name is such a one.
pub(crate) fn cpu_time_ns(pid: u32, is_it: impl Fn(&str) -> bool) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let named = |thread: &Path| fs::read_to_string(thread.join("comm")).is_ok_and(|name| is_it(name.trim()));
    cpu_time_at(&threads.map(|thread| thread.path()).find(|thread| named(thread))?)
}

fn cpu_time_at(thread: &Path) -> Option<u64> {
    fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}
