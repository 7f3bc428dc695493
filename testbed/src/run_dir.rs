//! What a run leaves behind.

mod capture;

pub use capture::{CapturePort, CaptureWriter, Direction};
