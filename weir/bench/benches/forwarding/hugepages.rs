//! Hugepages for the time of a measurement.

use std::fs;

const COUNT: &str = "/proc/sys/vm/nr_hugepages";

/// 2 MiB pages that were reserved here, and are returned when this is dropped.
pub(crate) struct Reserved {
    before: Option<u64>,
    available: bool,
}

impl Reserved {
    /// Reserves pages until this many are there, as far as permissions and memory allow.
    pub(crate) fn at_least(pages: u64) -> Reserved {
        let read = || fs::read_to_string(COUNT).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let before = read().unwrap_or(0);
        if before >= pages {
            return Reserved { before: None, available: true };
        }
        let raised = fs::write(COUNT, pages.to_string()).is_ok();
        let available = read().is_some_and(|now| now >= pages);
        Reserved { before: raised.then_some(before), available }
    }

    /// Whether there are as many as asked for.
    pub(crate) fn available(&self) -> bool {
        self.available
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = fs::write(COUNT, before.to_string());
        }
    }
}
