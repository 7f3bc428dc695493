//! Memory check for guests.

use std::fs;

use super::GuestError;
use super::machine::OVERHEAD_MB;

/// Memory reserved for other programs, in MB.
const RESERVE_MB: u64 = 256;

/// Rejects guests that exceed the machine's free memory.
///
/// # Errors
/// States the memory needed and the free memory.
pub fn refuse_more_than_fits(guests: usize, memory_mb: u64) -> Result<(), GuestError> {
    let Some(free) = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available_mb) else { return Ok(()) };
    let needed = guests as u64 * (memory_mb + OVERHEAD_MB);
    if needed + RESERVE_MB <= free {
        return Ok(());
    }
    let fit = free.saturating_sub(RESERVE_MB) / (memory_mb + OVERHEAD_MB);
    Err(GuestError::Memory(format!(
        "{guests} x {memory_mb} MB for guests need {needed} MB with QEMU's own, and this machine has {free} MB free, of which {RESERVE_MB} MB stay \
         free: boot {fit} at most, or give them less by --memory (176 MB at least)"
    )))
}

fn available_mb(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read() {
        assert_eq!(available_mb("MemTotal: 1 kB\nMemAvailable:    2097152 kB\n"), Some(2048));
        assert_eq!(available_mb("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn more_than_a_machine_has_is_refused_with_what_fits() {
        let message = refuse_more_than_fits(1_000_000, 256).unwrap_err().to_string();
        assert!(message.contains("boot ") && message.contains("at most"), "{message}");
        assert!(refuse_more_than_fits(0, 256).is_ok());
    }
}
