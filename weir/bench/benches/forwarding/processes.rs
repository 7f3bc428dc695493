//! Other processes: how long they live, and the CPU time of their threads.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time limit of a wait for a process.
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

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Ends it, if it has not ended.
    pub(crate) fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits until there is what is asked for, or the process has ended.
    pub(crate) fn wait_until<T>(&mut self, there: impl Fn() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        while start.elapsed() < START && !self.has_ended() {
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
        self.end();
    }
}

/// Packets per CPU-second over so much time, by what there is of packets and of nanoseconds before and after.
pub(crate) fn rate_over(span: Duration, mut now: impl FnMut() -> Option<(u64, u64)>) -> Option<f64> {
    let before = now()?;
    std::thread::sleep(span);
    let after = now()?;
    Some((after.0 - before.0) as f64 * 1e9 / (after.1 - before.1) as f64)
}

/// Time for which threads of the process were ready to run while others had their CPUs.
pub(crate) fn kept_from_cpu(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let waited = threads.filter_map(|thread| schedule_ns(&thread.path(), WAITED));
    Some(Duration::from_nanos(waited.sum()))
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
    schedule_ns(thread, RAN)
}

/// Columns of a thread's `schedstat`.
const RAN: usize = 0;
const WAITED: usize = 1;

fn schedule_ns(thread: &Path, column: usize) -> Option<u64> {
    fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().nth(column)?.parse().ok()
}
