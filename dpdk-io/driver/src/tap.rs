//! Copies of a port's frames, from the lcore that sees them to the control thread: flow-control frames for the record of a run,
//! and a stretch of data for captures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_io::Mbuf;
use weir_switch_core::Direction;
use weir_units::Time;
use weir_wire::mac_control::ControlFrame;

/// Header of a copy: instant (8), direction (1), length (2).
const HEADER_BYTES: usize = 11;
/// The longest frame that a switch handles has 16,018 B.
const STAGED_BYTES: usize = 16 << 10;
/// Bytes of frames that wait for the control thread, where data is copied too.
const WAITING_WITH_DATA: usize = 16 << 20;
/// Ring size for flow-control frames only: some 3,600.
const WAITING: usize = 256 << 10;

/// The data frames of a port that are copied. Its flow-control frames are all copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapPlan {
    /// Instant from which data frames are copied.
    pub data_from: Time,
    /// Most data frames copied on each tap.
    pub data_frames: u32,
}

/// The lcore's end.
#[derive(Debug)]
pub struct Tap {
    ring: Producer<u8>,
    data_from: Time,
    data_left: u32,
    missed: Arc<AtomicU64>,
    /// A frame that is about to be sent, with its header; nothing where the length is 0.
    staged: Box<[u8]>,
    staged_bytes: usize,
}

/// The control thread's end.
#[derive(Debug)]
pub struct Tapped {
    ring: Consumer<u8>,
    missed: Arc<AtomicU64>,
}

/// A frame that passed a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TappedFrame {
    /// Instant on the recorder's clock.
    pub at: Time,
    /// Direction of the frame.
    pub direction: Direction,
    /// Frame, without FCS.
    pub bytes: Vec<u8>,
}

/// Creates a tap by this plan, and the end that its frames come out of. The rings are all the memory that it takes.
pub fn tap(plan: TapPlan) -> (Tap, Tapped) {
    let (ring, tapped) = RingBuffer::new(if plan.data_frames > 0 { WAITING_WITH_DATA } else { WAITING });
    let missed = Arc::new(AtomicU64::new(0));
    let tap = Tap {
        ring,
        data_from: plan.data_from,
        data_left: plan.data_frames,
        missed: missed.clone(),
        staged: vec![0; STAGED_BYTES].into(),
        staged_bytes: 0,
    };
    (tap, Tapped { ring: tapped, missed })
}

impl Tap {
    /// Copies a frame that passes at `at`, if the plan covers it. One that finds no room in the ring is counted as missed.
    #[inline]
    pub fn record(&mut self, at: Time, direction: Direction, mbuf: &Mbuf) {
        if self.wants(at, mbuf.data()) {
            self.stage(at, direction, mbuf);
            self.commit();
        }
    }

    /// Returns true if a frame of this burst may be copied. Flow-control frames leave in bursts of their own, so the first frame suffices.
    #[inline]
    pub(crate) fn may_want(&self, first: Option<&Mbuf>) -> bool {
        self.data_left > 0 || first.is_some_and(|mbuf| ControlFrame::is_control(mbuf.data()))
    }

    /// Stages a frame that is about to be sent, if the plan covers it.
    pub(crate) fn stage_wanted(&mut self, at: Time, mbuf: &Mbuf) {
        if self.wants(at, mbuf.data()) {
            self.stage(at, Direction::Outbound, mbuf);
        }
    }

    /// Copies the staged frame, which has been sent.
    pub(crate) fn commit(&mut self) {
        let bytes = std::mem::take(&mut self.staged_bytes);
        if bytes == 0 {
            return;
        }
        if !ControlFrame::is_control(&self.staged[HEADER_BYTES..bytes]) {
            self.data_left -= 1;
        }
        match self.ring.write_chunk_uninit(bytes) {
            Ok(chunk) => {
                chunk.fill_from_iter(self.staged[..bytes].iter().copied());
            }
            // One lcore writes.
            Err(_) => self.missed.store(self.missed.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
        }
    }

    /// Discards the staged frame, which was not sent.
    pub(crate) fn withdraw(&mut self) {
        self.staged_bytes = 0;
    }

    #[inline]
    fn wants(&self, at: Time, frame: &[u8]) -> bool {
        ControlFrame::is_control(frame) || self.data_left > 0 && at >= self.data_from
    }

    fn stage(&mut self, at: Time, direction: Direction, mbuf: &Mbuf) {
        let frame = mbuf.data();
        let frame = &frame[..frame.len().min(STAGED_BYTES - HEADER_BYTES)];
        self.staged_bytes = HEADER_BYTES + frame.len();
        self.staged[0..8].copy_from_slice(&at.as_picos().to_le_bytes());
        self.staged[8] = u8::from(direction == Direction::Outbound);
        self.staged[9..11].copy_from_slice(&(frame.len() as u16).to_le_bytes());
        self.staged[HEADER_BYTES..self.staged_bytes].copy_from_slice(frame);
    }
}

impl Tapped {
    /// Frames that found no room, as the control thread came too late.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let chunk = self.ring.read_chunk(bytes).ok()?;
        let (first, second) = chunk.as_slices();
        let taken = [first, second].concat();
        chunk.commit_all();
        Some(taken)
    }
}

/// The frames so far, in the order in which they were recorded.
impl Iterator for Tapped {
    type Item = TappedFrame;

    fn next(&mut self) -> Option<TappedFrame> {
        // Header and frame are written in one piece, so the frame is there if its header is.
        let header = self.take(HEADER_BYTES)?;
        let at = Time::from_picos(u64::from_le_bytes(std::array::from_fn(|byte| header[byte])));
        let direction = if header[8] == 1 { Direction::Outbound } else { Direction::Inbound };
        let bytes = self.take(usize::from(u16::from_le_bytes([header[9], header[10]])))?;
        Some(TappedFrame { at, direction, bytes })
    }
}
