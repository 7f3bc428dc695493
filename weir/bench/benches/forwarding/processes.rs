//! Other processes: how long they live, and the CPU time of their threads.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long a process may take to do what is waited for.
const START: Duration = Duration::from_secs(20);

/// A process that ends with this.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(command: &mut Command) -> Option<Daemon> {
        command.spawn().ok().map(Daemon)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until there is what is asked for, or the process has ended.
    pub(crate) fn wait_until<T>(&mut self, there: impl Fn() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        while start.elapsed() < START && self.0.try_wait().ok()?.is_none() {
            if let Some(found) = there() {
                return Some(found);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Packets per CPU-second over so much time, by what there is of packets and of nanoseconds before and after.
pub(crate) fn rate_over(span: Duration, mut now: impl FnMut() -> Option<(u64, u64)>) -> Option<f64> {
    let before = now()?;
    std::thread::sleep(span);
    let after = now()?;
    Some((after.0 - before.0) as f64 * 1e9 / (after.1 - before.1) as f64)
}

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
