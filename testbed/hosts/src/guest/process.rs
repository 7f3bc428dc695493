//! Processes of guests, found by their arguments.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

/// Time from SIGTERM to SIGKILL for QEMU.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Returns the processes with this pid file argument, which is unique to a guest.
pub(super) fn with_argument(argument: &Path) -> Vec<i32> {
    let wanted = argument.as_os_str().as_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| has_argument(*pid, wanted)).collect()
}

fn has_argument(pid: i32, wanted: &[u8]) -> bool {
    let Ok(arguments) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.any(|argument| argument == b"-pidfile") && arguments.next() == Some(wanted)
}

/// CPU time of a process's threads, user and system; `None` once it is gone.
pub(super) fn cpu_time(pid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): the name, in brackets, may have spaces; `utime` and `stime` are the 12th and 13th fields after it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second()))
}

/// Ends the processes with this argument, by SIGTERM and then SIGKILL, and waits up to 6 s until they are gone.
pub(super) fn end(argument: &Path) {
    let started = Instant::now();
    loop {
        let left = with_argument(argument);
        if left.is_empty() {
            return;
        }
        let signal = if started.elapsed() < END_WITHIN { Signal::TERM } else { Signal::KILL };
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // The process may have ended by itself.
            let _ = kill_process(pid, signal);
        }
        if started.elapsed() > END_WITHIN * 2 {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_counts_what_a_process_was_given() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = cpu_time(own).unwrap();
        while cpu_time(own).unwrap() < before + Duration::from_millis(30) {}
        assert_eq!(cpu_time(i32::MAX), None);
    }
}
