//! Start and end of captures of a running switch's frames.

use std::sync::{Arc, PoisonError};

use super::RunningSwitches;
use crate::capture::{CAPTURES_MAX, Capture, CapturePost, CaptureState, Wanted};
use crate::error::DriverError;

/// A switch's captures, and the way to its lcores.
#[derive(Debug)]
pub(super) struct Posts {
    pub(super) posts: Vec<CapturePost>,
    pub(super) captures: Vec<Arc<CaptureState>>,
}

impl RunningSwitches {
    /// Begins a capture of switch `index`: frames from now on come out of it, until it is dropped. `None` if the switch has
    /// [`CAPTURES_MAX`].
    ///
    /// # Errors
    /// An lcore does not take it up.
    pub fn capture(&self, index: usize, wanted: Wanted) -> Result<Option<Capture>, DriverError> {
        self.end_captures();
        let switch = &self.switches[index];
        let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if own.captures.len() >= CAPTURES_MAX {
            return Ok(None);
        }
        let (capture, taps) = Capture::new(wanted, switch.config.ports.len(), own.posts.len());
        let state = capture.state().clone();
        let lcores = taps.len();
        own.posts.iter_mut().zip(taps).for_each(|(post, tap)| post.post(tap));
        own.captures.push(state.clone());
        self.control.call();
        let patience = self.patience();
        while state.taken_up() < lcores {
            if !self.waits(&patience) {
                return Err(self.stuck("it takes up no capture", &patience));
            }
        }
        Ok(Some(capture))
    }

    /// Makes lcores release ended captures, and frees their memory. Call it periodically.
    pub fn end_captures(&self) {
        let mut has_ended = false;
        for switch in &self.switches {
            let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
            let Posts { posts, captures } = &mut *own;
            if captures.is_empty() {
                continue;
            }
            has_ended |= captures.iter().any(|state| state.is_over());
            posts.iter_mut().for_each(CapturePost::free_spent);
            let lcores = posts.len();
            captures.retain(|state| state.given_back() < lcores);
        }
        if has_ended {
            self.control.call();
        }
    }
}
