//! Frames in virtual time: the bytes that a host or a switch wrote, in memory that goes round.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flowctl::frame::ControlFrame;
use weir_switch_core::packet::Parsed;
use weir_switch_core::{Packet, parse};
use weir_units::MacAddr;

use crate::link::LinkFrame;

/// A frame. Its memory goes back to its pool when it is dropped, whoever drops it.
#[derive(Debug)]
pub(super) struct SimFrame {
    memory: Box<[u8]>,
    len: usize,
    pool: Arc<Free>,
}

/// Memory for frames: made when there is none, and kept.
#[derive(Clone, Debug)]
pub(super) struct FramePool {
    free: Arc<Free>,
    frame_bytes_max: usize,
}

/// Memory of frames that are gone. Never waited for: a simulation is one thread, but the switch asks of its packets that
/// they could move to another.
type Free = Mutex<Vec<Box<[u8]>>>;

impl FramePool {
    /// A pool of frames of this length at most, without FCS.
    pub(super) fn new(frame_bytes_max: usize) -> FramePool {
        FramePool { free: Arc::default(), frame_bytes_max }
    }

    /// A frame of the full length, with whatever stood in its memory before.
    #[inline]
    pub(super) fn take(&self) -> SimFrame {
        let memory = lock(&self.free).pop().unwrap_or_else(|| vec![0; self.frame_bytes_max].into());
        SimFrame { memory, len: self.frame_bytes_max, pool: self.free.clone() }
    }

    /// The same frame once more.
    pub(super) fn copy(&self, frame: &SimFrame) -> SimFrame {
        self.of(frame.bytes())
    }

    /// A MAC control frame.
    pub(super) fn control(&self, frame: &ControlFrame, source: MacAddr) -> SimFrame {
        self.of(&frame.encode(source))
    }

    fn of(&self, bytes: &[u8]) -> SimFrame {
        let mut frame = self.take();
        frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        frame.cut(bytes.len());
        frame
    }
}

impl SimFrame {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }

    /// Sets the length.
    ///
    /// # Panics
    /// If it is more than before.
    pub(super) fn cut(&mut self, len: usize) {
        assert!(len <= self.len, "a frame of {} B can't be cut to {len} B", self.len);
        self.len = len;
    }
}

impl Drop for SimFrame {
    #[inline]
    fn drop(&mut self) {
        lock(&self.pool).push(mem::take(&mut self.memory));
    }
}

impl LinkFrame for SimFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Packet for SimFrame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.len as u32
    }

    #[inline]
    fn is_control(&self) -> bool {
        ControlFrame::is_control(self.bytes())
    }

    #[inline]
    fn parse(&self) -> Parsed {
        parse::parse(self.bytes())
    }

    fn mark_ce(&mut self) -> bool {
        parse::mark_ce(self.bytes_mut())
    }

    fn flow_hash(&self) -> u32 {
        parse::flow_hash(self.bytes())
    }
}

/// A list of free memory is whole whoever panicked with it.
#[inline]
fn lock(free: &Free) -> MutexGuard<'_, Vec<Box<[u8]>>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_round() {
        let pool = FramePool::new(100);
        let mut frame = pool.take();
        frame.bytes_mut()[59] = 7;
        frame.cut(60);
        let copy = pool.copy(&frame);
        assert_eq!((copy.bytes(), copy.frame_bytes()), (frame.bytes(), 60));
        let place = frame.memory.as_ptr();
        drop(frame);
        let again = pool.take();
        assert_eq!((again.memory.as_ptr(), again.frame_bytes()), (place, 100));
        drop((again, copy));
        assert_eq!(lock(&pool.free).len(), 2);
    }

    #[test]
    fn a_control_frame_is_one() {
        let frame = FramePool::new(100).control(&ControlFrame::Pause(7), MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!((frame.is_control(), frame.frame_bytes()), (true, 60));
        assert_eq!(frame.parse(), Parsed::Control(Ok(ControlFrame::Pause(7))));
    }
}
