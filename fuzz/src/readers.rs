//! Readers of files and of other programs' messages.
//!
//! Each gets a file of Weir's own with a few edits. Besides that none panics:
//!
//! - an error has a line that its file has;
//! - a switch's file reads the same twice, and one made of SONiC's tables has no errors;
//! - a message reads the same after it was written;
//! - no input takes more than a second of a CPU (ten without optimisation), or more than 256 MB.

mod captures;
mod imports;
mod messages;
mod texts;

pub use captures::run as captures;
pub use imports::{goal, ns3, sonic};
pub use messages::{http, socket};
pub use texts::{configuration, scenario};

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::CaseOutcome;

/// Memory that reading an input may take.
const MEMORY_MAX: u64 = 256 << 20;
/// Time of a CPU that reading an input may take. Tests run code of readers that is not optimised.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// Runs a reader within bounds. It returns whether it accepted its input.
fn bounded(read: impl FnOnce() -> bool) -> CaseOutcome {
    let start = cpu_time();
    let mut accepts = false;
    let memory = allocation_counter::measure(|| accepts = read());
    if let (Some(start), Some(end)) = (start, cpu_time()) {
        assert!(end - start <= TIME_MAX, "the input takes {:?}", end - start);
    }
    assert!(memory.bytes_max <= MEMORY_MAX, "the input takes {} B", memory.bytes_max);
    CaseOutcome { is_refused: !accepts, ..CaseOutcome::default() }
}

/// Returns the time of CPUs that this thread has had, where Linux counts it.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// Checks that a text has a line, from 1. An error may be behind the last one.
fn assert_line(text: &str, line: usize, error: &dyn std::fmt::Display) {
    assert!((1..=text.matches('\n').count() + 1).contains(&line), "line {line} of a shorter file: {error}");
}

fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
