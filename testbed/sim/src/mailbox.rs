//! Channels: frames between logical processes, which may run on different threads.
//!
//! A wire between two logical processes has two halves. Frames put on the near half in a window move to the far half
//! before the next window, in which the first ones may arrive. Their ring buffers change hands, and no frame is
//! touched. Empty buffers return the same way, so the steady state allocates nothing.
//!
//! Each pair of processes has two channel slots, for odd and even windows: one is filled while the other is emptied. So
//! no lock is contended, and all threads hand over at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use weir_units::Time;

use super::frame::Frame;
use super::wire::Wire;

/// Remote end of a near half: logical process, and index of the far half there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteEnd {
    pub(super) lp: u32,
    pub(super) wire: u32,
}

/// Mailbox of a logical process: its outgoing and incoming frames. In each window, call [`Mailbox::deliver`],
/// [`Mailbox::record_first_frame`] for each near half that receives its first frame, then [`Mailbox::hand_over`].
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Number of the mailbox's logical process.
    lp: usize,
    /// Index of the first near half.
    first: u32,
    remote_ends: Box<[RemoteEnd]>,
    /// Near halves with frames.
    occupied: Vec<u32>,
    senders: Box<[u32]>,
    /// Outgoing batch for each logical process.
    out: Box<[ChannelBatch]>,
    channels: Arc<ChannelMatrix>,
    /// Windows run. All logical processes have the same count outside a window.
    windows: u64,
    /// Arrival time of the first frame handed over in the last window.
    first_sent: Time,
}

/// Channel slots by receiving process, sending process and parity of the window.
#[derive(Debug)]
struct ChannelMatrix {
    slots: Box<[ChannelSlot]>,
    lp_count: usize,
}

// A cache line each, against false sharing: two threads access a slot, others its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ChannelSlot(Mutex<ChannelBatch>);

/// Frames from one logical process to another.
#[derive(Debug, Default)]
struct ChannelBatch {
    /// Batches per wire: the first `filled` have frames, the others have empty buffers for reuse.
    wire_batches: Vec<WireBatch>,
    filled: usize,
}

#[derive(Debug)]
struct WireBatch {
    wire: u32,
    frames: VecDeque<(Time, Frame)>,
}

impl Mailbox {
    /// Creates the mailboxes of all logical processes, given the index of the first near half and the remote ends of
    /// each.
    pub(super) fn for_lps(lps: Vec<(usize, Vec<RemoteEnd>)>) -> Vec<Mailbox> {
        let count = lps.len();
        let slots = (0..2 * count * count).map(|_| ChannelSlot::default()).collect();
        let channels = Arc::new(ChannelMatrix { slots, lp_count: count });
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, (_, remote_ends)) in (0..).zip(&lps) {
            for RemoteEnd { lp, .. } in remote_ends {
                let sources = &mut sources[*lp as usize];
                if sources.last() != Some(&from) {
                    sources.push(from);
                }
            }
        }
        let mut mailboxes = Vec::with_capacity(count);
        for (lp, ((first, remote_ends), senders)) in lps.into_iter().zip(sources).enumerate() {
            mailboxes.push(Mailbox {
                lp,
                first: first as u32,
                occupied: Vec::with_capacity(remote_ends.len()),
                remote_ends: remote_ends.into(),
                senders: senders.into(),
                out: (0..count).map(|_| ChannelBatch::default()).collect(),
                channels: channels.clone(),
                windows: 0,
                first_sent: Time::NEVER,
            });
        }
        mailboxes
    }

    pub(super) fn near_halves(&self) -> usize {
        self.remote_ends.len()
    }

    /// Records that a frame was put on an empty near half.
    #[inline]
    pub(super) fn record_first_frame(&mut self, wire: u32) {
        self.occupied.push(wire);
    }

    /// Moves the frames of near halves into the channels. Frames that faults may still hold back stay;
    /// [`LpPartition::release_until`](super::lp_partition::LpPartition::release_until) moves them.
    pub(super) fn hand_over(&mut self, wires: &mut [Wire]) {
        self.first_sent = Time::NEVER;
        for number in self.occupied.drain(..) {
            let wire = &mut wires[number as usize];
            if !wire.is_faulty() {
                let RemoteEnd { lp, wire: far } = self.remote_ends[(number - self.first) as usize];
                self.first_sent = wire.next_arrival().min(self.first_sent);
                self.out[lp as usize].fill(far, wire);
            }
        }
        for (to, out) in self.out.iter_mut().enumerate().filter(|(_, out)| out.filled > 0) {
            let mut slot = self.channels.slot(to, self.lp, self.windows);
            debug_assert_eq!(slot.filled, 0, "the batch of two windows ago was delivered");
            std::mem::swap(out, &mut *slot);
        }
        self.windows += 1;
    }

    /// Delivers the frames that others sent in the previous window, wire by wire; `put` takes them and leaves empty
    /// buffers.
    pub(super) fn deliver(&mut self, mut put: impl FnMut(u32, &mut VecDeque<(Time, Frame)>)) {
        for mut batch in self.incoming_batches() {
            let ChannelBatch { wire_batches, filled } = &mut *batch;
            for wire_batch in &mut wire_batches[..std::mem::take(filled)] {
                put(wire_batch.wire, &mut wire_batch.frames);
            }
        }
    }

    /// Returns the batches sent in the previous window. The other slots are being filled, or are empty.
    fn incoming_batches(&self) -> impl Iterator<Item = MutexGuard<'_, ChannelBatch>> {
        // Slots alternate, so the next window's parity is that of the previous one.
        self.senders.iter().map(|from| self.channels.slot(self.lp, *from as usize, self.windows + 1))
    }

    /// Returns the arrival time of the first frame handed over in the last window; [`Time::NEVER`] if there was none.
    pub(super) fn first_sent(&self) -> Time {
        self.first_sent
    }

    /// Returns the number of received frames that are not delivered yet.
    pub(super) fn undelivered_frames(&self) -> usize {
        let frames_in_batch = |batch: MutexGuard<'_, ChannelBatch>| {
            batch.wire_batches[..batch.filled].iter().map(|wire_batch| wire_batch.frames.len()).sum::<usize>()
        };
        self.incoming_batches().map(frames_in_batch).sum()
    }

    /// Returns the remote end of a near half.
    pub(super) fn remote_end(&self, wire: u32) -> RemoteEnd {
        self.remote_ends[(wire - self.first) as usize]
    }

    /// Returns the remote end of a wire if it is a near half.
    pub(super) fn get_remote_end(&self, wire: u32) -> Option<RemoteEnd> {
        wire.checked_sub(self.first).map(|at| self.remote_ends[at as usize])
    }
}

impl ChannelMatrix {
    /// Returns the slot for frames from one process to another in a window.
    #[inline]
    fn slot(&self, to: usize, from: usize, window: u64) -> MutexGuard<'_, ChannelBatch> {
        let slot = &self.slots[2 * (to * self.lp_count + from) + (window % 2) as usize];
        slot.0.lock().expect("no LP panics with this lock held")
    }
}

impl ChannelBatch {
    #[inline]
    fn fill(&mut self, far: u32, wire: &mut Wire) {
        if self.filled == self.wire_batches.len() {
            self.wire_batches.push(WireBatch { wire: 0, frames: VecDeque::new() });
        }
        let wire_batch = &mut self.wire_batches[self.filled];
        wire_batch.wire = far;
        wire.hand_over(&mut wire_batch.frames);
        self.filled += 1;
    }
}
