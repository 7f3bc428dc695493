//! Packet memory: how many frames a switch may hold on lcores, whatever their length.
//!
//! The MMU counts bytes, and packet memory is made of buffers that hold a frame each. Where there is one for each smallest frame
//! that the MMU may keep, the MMU alone decides. Where there are fewer ([`BufferConfig::frames_max`]), small frames may take them
//! all before the buffer is full; what comes then is dropped, and counted as [`PoolEmpty`]. The device is left buffers to receive
//! into, so that control frames still come in.
//!
//! [`BufferConfig::frames_max`]: weir_config::BufferConfig::frames_max
//! [`PoolEmpty`]: crate::counters::DropReason::PoolEmpty

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_units::archive::{SharedState, State};

/// Places that a share takes, and gives back, at a time beyond what it needs at once: the line that all lcores share then travels
/// once in so many frames.
const AT_HAND: u64 = 128;
/// The most that a share has at hand between two calls.
const AT_HAND_MAX: u64 = 2 * AT_HAND;

/// The places for frames that no lcore has taken.
#[derive(Debug, SharedState)]
#[repr(align(64))]
pub(crate) struct PacketMemory {
    free: AtomicU64,
}

/// The part of the places that one side of an lcore has at hand: a forwarder takes one for each frame that it admits, a
/// transmitter gives one back for each that left.
#[derive(Debug, State)]
pub(crate) struct MemoryShare {
    at_hand: u64,
    #[state(shared)]
    memory: Option<Arc<PacketMemory>>,
}

impl PacketMemory {
    /// Places for `frames` frames, whatever so many lcores have at hand.
    pub(crate) fn new(frames: usize, lcores: usize) -> Arc<PacketMemory> {
        Arc::new(PacketMemory { free: AtomicU64::new(PacketMemory::places(frames, lcores) as u64) })
    }

    /// The places of which `frames` can always be taken: both sides of each lcore may have some at hand that nobody else reaches.
    pub(crate) const fn places(frames: usize, lcores: usize) -> usize {
        frames + lcores * 2 * AT_HAND_MAX as usize
    }

    /// A share of it, with nothing at hand.
    pub(crate) fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { at_hand: 0, memory: Some(self.clone()) }
    }

    // Relaxed, here and below: it is a count and nothing else. A frame's buffer travels by DPDK's own rings.
    #[cold]
    fn take(&self, most: u64) -> u64 {
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(free - free.min(most)));
        taken.unwrap_or_else(|free| free).min(most)
    }

    #[cold]
    fn give_back(&self, places: u64) {
        self.free.fetch_add(places, Ordering::Relaxed);
    }
}

impl MemoryShare {
    /// As many places as are asked for: in virtual time frames take no packet memory.
    pub(crate) fn unlimited() -> MemoryShare {
        MemoryShare { at_hand: u64::MAX / 2, memory: None }
    }

    /// Takes places for so many frames; returns for how many there are any.
    #[inline(always)]
    pub(crate) fn take(&mut self, frames: usize) -> usize {
        if (frames as u64) > self.at_hand {
            self.refill(frames as u64);
        }
        let taken = (frames as u64).min(self.at_hand);
        self.at_hand -= taken;
        taken as usize
    }

    /// Gives back the places of so many frames.
    #[inline(always)]
    pub(crate) fn give(&mut self, frames: usize) {
        self.at_hand += frames as u64;
        if self.at_hand > AT_HAND_MAX {
            self.hand_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, frames: u64) {
        if let Some(memory) = &self.memory {
            self.at_hand += memory.take(frames - self.at_hand + AT_HAND);
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_back(&mut self) {
        if let Some(memory) = &self.memory {
            memory.give_back(self.at_hand - AT_HAND);
            self.at_hand = AT_HAND;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let memory = PacketMemory::new(1_000, 1);
        let (mut taking, mut giving) = (memory.share(), memory.share());
        let all = PacketMemory::places(1_000, 1);
        // Once the giving side has something at hand, the others still take a thousand.
        giving.give(0);
        for _ in 0..5 {
            let mut taken = 0;
            loop {
                match taking.take(64) {
                    64 => taken += 64,
                    less => break taken += less,
                }
            }
            assert!((1_000..=all).contains(&taken), "{taken}");
            assert_eq!(taking.take(1), 0);
            (0..taken).for_each(|_| giving.give(1));
            assert!(giving.at_hand <= AT_HAND_MAX);
        }
    }

    #[test]
    fn lcores_never_take_more_than_there_is() {
        let memory = PacketMemory::new(500, 2);
        let all = PacketMemory::places(500, 2) as u64;
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for seed in 1..=2_usize {
                let (memory, held) = (&memory, &held);
                scope.spawn(move || {
                    let (mut taking, mut giving) = (memory.share(), memory.share());
                    let mut own = 0;
                    for round in 0..20_000 {
                        let taken = taking.take(round * seed % 64);
                        own += taken;
                        assert!(held.fetch_add(taken as u64, Ordering::SeqCst) + taken as u64 <= all);
                        let given = own.min(round * 7 % 71);
                        own -= given;
                        held.fetch_sub(given as u64, Ordering::SeqCst);
                        giving.give(given);
                    }
                    held.fetch_sub(own as u64, Ordering::SeqCst);
                    giving.give(own);
                });
            }
        });
    }

    #[test]
    fn virtual_time_has_no_end_of_it() {
        let mut share = MemoryShare::unlimited();
        for _ in 0..10_000 {
            assert_eq!(share.take(64), 64);
        }
        share.give(5);
        assert_eq!(share.take(64), 64);
    }
}
