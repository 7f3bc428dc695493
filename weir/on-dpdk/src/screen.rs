//! Standard output of a switch, which runs on when nobody reads it any more.

use std::io::{self, Write};

/// Standard output.
#[derive(Default)]
pub(crate) struct Screen {
    is_closed: bool,
}

impl Screen {
    /// Creates a screen that shows nothing, where standard output has another use.
    pub(crate) fn silent() -> Screen {
        Screen { is_closed: true }
    }

    /// Prints a text. After the first failure, such as a closed pipe or a full disk, nothing is printed any more.
    pub(crate) fn print(&mut self, text: &str) {
        if self.is_closed {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            self.is_closed = true;
            tracing::warn!("standard output takes nothing more ({error}): the switch goes on without it");
        }
    }
}
