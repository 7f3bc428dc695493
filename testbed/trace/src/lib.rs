//! Captures of real traffic: reading, rewriting of addresses for the lab, and replay schedules.
//!
//! [`Capture`] reads a file, [`Rewriting`] changes addresses, and [`Schedule`] has the due time of each frame. [`Recording`] has the
//! messages in those frames. The crate does not need DPDK.
//!
//! ```
//! use weir_config::ReplayPace;
//! use weir_trace::{Capture, FrameSelection, Schedule};
//! use weir_units::BitRate;
//!
//! // A capture of two frames of 60 B, 3 us apart.
//! let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_ne_bytes).concat();
//! for micros in [10, 13] {
//!     file.extend([1, micros, 60, 60].map(u32::to_ne_bytes).concat());
//!     file.extend([2; 60]);
//! }
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("two.pcap");
//! std::fs::write(&path, file)?;
//!
//! let selection = FrameSelection { frame_bytes_max: 1_518, memory_bytes_max: 1 << 20, ..FrameSelection::default() };
//! let capture = Capture::read(&path, &selection)?;
//! let start = capture.first();
//! // At half of the captured speed, on a line of 10 Gb/s.
//! let schedule = Schedule::new(capture, ReplayPace::Speed(500_000), Some(BitRate::gbps(10)), start);
//! let due: Vec<u64> = schedule.frames().iter().map(|frame| frame.at.as_nanos()).collect();
//! assert_eq!(due, [0, 6_000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod capture;
mod checksum;
mod cooked;
mod headers;
mod messages;
mod rewrite;
mod schedule;

pub use capture::{Capture, CaptureError, CaptureTime, FrameSelection, STEP_BACK_MAX, SkippedFrames, TraceFrame};
pub use messages::{CapturedMessage, Recording};
pub use rewrite::{Mapping, Rewriting, RewritingError};
pub use schedule::{LineLimit, Schedule, ScheduledFrame};
