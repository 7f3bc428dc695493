//! From a host's lcore to the control thread's capture file.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_io::Mbuf;
use weir_results::run_dir::Direction;
use weir_scenario::CapturePlan;
use weir_units::Time;
use weir_wire::mac_control::ControlFrame;

/// Bytes of captured frames that wait for the control thread.
const WAITING_BYTES: usize = 16 << 20;
/// When (8), which way (1), how long (2).
const HEADER_BYTES: usize = 11;

/// The host's end: copies frames that the plan asks for.
#[derive(Debug)]
pub(super) struct Tap {
    ring: Producer<u8>,
    data_from: Time,
    data_left: u32,
}

/// The control thread's end.
#[derive(Debug)]
pub(super) struct Captured(Consumer<u8>);

/// A tap by this plan, and where its frames come out.
pub(super) fn tap(plan: &CapturePlan) -> (Tap, Captured) {
    let (ring, captured) = RingBuffer::new(WAITING_BYTES);
    (Tap { ring, data_from: plan.data_from, data_left: plan.data_frames }, Captured(captured))
}

impl Tap {
    /// Copies a frame that passes at `at`, if it is wanted and fits.
    pub(super) fn note(&mut self, at: Time, direction: Direction, mbuf: &Mbuf) {
        let frame = mbuf.data();
        if !ControlFrame::is_control(frame) {
            if at < self.data_from || self.data_left == 0 {
                return;
            }
            self.data_left -= 1;
        }
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(&at.as_picos().to_le_bytes());
        header[8] = u8::from(direction == Direction::Outbound);
        header[9..11].copy_from_slice(&(frame.len() as u16).to_le_bytes());
        if let Ok(chunk) = self.ring.write_chunk_uninit(header.len() + frame.len()) {
            chunk.fill_from_iter(header.iter().chain(frame).copied());
        }
    }
}

impl Captured {
    /// The next frame: when, which way, and its bytes.
    pub(super) fn next(&mut self) -> Option<(Time, Direction, Vec<u8>)> {
        // Header and frame are written in one piece, so the frame is there if its header is.
        let header = self.take(HEADER_BYTES)?;
        let at = Time::from_picos(u64::from_le_bytes(std::array::from_fn(|byte| header[byte])));
        let direction = if header[8] == 1 { Direction::Outbound } else { Direction::Inbound };
        let frame = self.take(usize::from(u16::from_le_bytes([header[9], header[10]])))?;
        Some((at, direction, frame))
    }

    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let chunk = self.0.read_chunk(bytes).ok()?;
        let (first, second) = chunk.as_slices();
        let taken = [first, second].concat();
        chunk.commit_all();
        Some(taken)
    }
}
