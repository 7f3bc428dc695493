//! Start and end of captures of a running switch's frames.

use std::sync::{Arc, PoisonError};

use super::RunningSwitches;
use crate::capture::{CAPTURES_MAX, Capture, CaptureFilter, CaptureSender, CaptureState};
use crate::error::DriverError;

/// Senders of a switch's captures, one per lcore.
#[derive(Debug)]
pub(super) struct CaptureSenders {
    pub(super) senders: Vec<CaptureSender>,
    pub(super) captures: Vec<Arc<CaptureState>>,
}

impl RunningSwitches {
    /// Begins a capture of switch `index`: frames from now on come out of it, until it is dropped. `None` if the switch has
    /// [`CAPTURES_MAX`].
    ///
    /// # Errors
    /// An lcore does not take it up.
    pub fn capture(&self, index: usize, filter: CaptureFilter) -> Result<Option<Capture>, DriverError> {
        self.end_captures();
        let switch = &self.switches[index];
        let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if own.captures.len() >= CAPTURES_MAX {
            return Ok(None);
        }
        let (capture, taps) = Capture::new(filter, switch.config.ports.len(), own.senders.len());
        let state = capture.state().clone();
        let lcores = taps.len();
        own.senders.iter_mut().zip(taps).for_each(|(sender, tap)| sender.send(tap));
        own.captures.push(state.clone());
        self.control.notify();
        let timeout = self.lcore_timeout();
        while state.taken_up() < lcores {
            if !self.waits(&timeout) {
                return Err(self.stuck("it takes up no capture", &timeout));
            }
        }
        Ok(Some(capture))
    }

    /// Makes lcores release ended captures, and frees their memory. Call it periodically.
    pub fn end_captures(&self) {
        let mut has_ended = false;
        for switch in &self.switches {
            let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
            let CaptureSenders { senders, captures } = &mut *own;
            if captures.is_empty() {
                continue;
            }
            has_ended |= captures.iter().any(|state| state.is_over());
            senders.iter_mut().for_each(CaptureSender::free_spent);
            let lcores = senders.len();
            captures.retain(|state| state.given_back() < lcores);
        }
        if has_ended {
            self.control.notify();
        }
    }
}
