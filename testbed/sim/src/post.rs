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
pub(super) struct Away {
    pub(super) part: u32,
    pub(super) wire: u32,
}

/// Mailbox of a logical process: its outgoing and incoming frames. In each window, call [`Post::deliver`],
/// [`Post::note`] for each near half that receives its first frame, then [`Post::hand_over`].
#[derive(Debug)]
pub(super) struct Post {
    /// Number of the mailbox's logical process.
    part: usize,
    /// Index of the first near half.
    first: u32,
    away: Box<[Away]>,
    /// Near halves with frames.
    leaving: Vec<u32>,
    from: Box<[u32]>,
    /// Outgoing batch for each logical process.
    out: Box<[Bag]>,
    holes: Arc<Pigeonholes>,
    /// Windows run. All logical processes have the same count outside a window.
    turns: u64,
    /// Arrival time of the first frame handed over in the last window.
    first_sent: Time,
}

/// Channel matrix, by receiving process, sending process and parity of the window.
#[derive(Debug)]
struct Pigeonholes {
    holes: Box<[Pigeonhole]>,
    parts: usize,
}

// A cache line each, against false sharing: two threads access a slot, others its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pigeonhole(Mutex<Bag>);

/// Frames from one logical process to another.
#[derive(Debug, Default)]
struct Bag {
    /// Parcels of which the first `filled` have frames; the others have empty buffers for reuse.
    parcels: Vec<Parcel>,
    filled: usize,
}

#[derive(Debug)]
struct Parcel {
    wire: u32,
    frames: VecDeque<(Time, Frame)>,
}

impl Post {
    /// Creates the mailboxes of all logical processes. Each is given by the index of its first near half, and the
    /// remote ends of its near halves.
    pub(super) fn of_parts(parts: Vec<(usize, Vec<Away>)>) -> Vec<Post> {
        let count = parts.len();
        let holes = (0..2 * count * count).map(|_| Pigeonhole::default()).collect();
        let holes = Arc::new(Pigeonholes { holes, parts: count });
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, (_, away)) in (0..).zip(&parts) {
            for Away { part, .. } in away {
                let sources = &mut sources[*part as usize];
                if sources.last() != Some(&from) {
                    sources.push(from);
                }
            }
        }
        let mut posts = Vec::with_capacity(count);
        for (part, ((first, away), from)) in parts.into_iter().zip(sources).enumerate() {
            posts.push(Post {
                part,
                first: first as u32,
                leaving: Vec::with_capacity(away.len()),
                away: away.into(),
                from: from.into(),
                out: (0..count).map(|_| Bag::default()).collect(),
                holes: holes.clone(),
                turns: 0,
                first_sent: Time::NEVER,
            });
        }
        posts
    }

    pub(super) fn near_halves(&self) -> usize {
        self.away.len()
    }

    /// Records that a frame was put on an empty near half.
    #[inline]
    pub(super) fn note(&mut self, wire: u32) {
        self.leaving.push(wire);
    }

    /// Moves the frames of near halves into the channels. Frames that faults may still hold back stay;
    /// [`Parts::let_go`](super::parts::Parts::let_go) moves them.
    pub(super) fn hand_over(&mut self, wires: &mut [Wire]) {
        self.first_sent = Time::NEVER;
        for number in self.leaving.drain(..) {
            let wire = &mut wires[number as usize];
            if !wire.is_faulty() {
                let Away { part, wire: far } = self.away[(number - self.first) as usize];
                self.first_sent = wire.next_arrival().min(self.first_sent);
                self.out[part as usize].fill(far, wire);
            }
        }
        for (to, out) in self.out.iter_mut().enumerate().filter(|(_, out)| out.filled > 0) {
            let mut hole = self.holes.of(to, self.part, self.turns);
            debug_assert_eq!(hole.filled, 0, "what was there was delivered");
            std::mem::swap(out, &mut *hole);
        }
        self.turns += 1;
    }

    /// Delivers the frames that others sent in the previous window, wire by wire; `put` takes them and leaves empty
    /// buffers.
    pub(super) fn deliver(&mut self, mut put: impl FnMut(u32, &mut VecDeque<(Time, Frame)>)) {
        for mut bag in self.inside() {
            let Bag { parcels, filled } = &mut *bag;
            for parcel in &mut parcels[..std::mem::take(filled)] {
                put(parcel.wire, &mut parcel.frames);
            }
        }
    }

    /// Returns the batches sent in the previous window. The other slots are being filled, or are empty.
    fn inside(&self) -> impl Iterator<Item = MutexGuard<'_, Bag>> {
        // Slots alternate, so the next window's parity is that of the previous one.
        self.from.iter().map(|from| self.holes.of(self.part, *from as usize, self.turns + 1))
    }

    /// Returns the arrival time of the first frame handed over in the last window; [`Time::NEVER`] if there was none.
    pub(super) fn first_sent(&self) -> Time {
        self.first_sent
    }

    /// Returns the number of received frames that are not delivered yet.
    pub(super) fn under_way(&self) -> usize {
        let of_bag = |bag: MutexGuard<'_, Bag>| {
            bag.parcels[..bag.filled].iter().map(|parcel| parcel.frames.len()).sum::<usize>()
        };
        self.inside().map(of_bag).sum()
    }

    /// Returns the remote end of a near half.
    pub(super) fn away(&self, wire: u32) -> Away {
        self.away[(wire - self.first) as usize]
    }

    /// Returns the remote end of a wire if it is a near half.
    pub(super) fn is_away(&self, wire: u32) -> Option<Away> {
        wire.checked_sub(self.first).map(|at| self.away[at as usize])
    }
}

impl Pigeonholes {
    /// Returns the slot for frames from one process to another in a window.
    #[inline]
    fn of(&self, to: usize, from: usize, turn: u64) -> MutexGuard<'_, Bag> {
        let hole = &self.holes[2 * (to * self.parts + from) + (turn % 2) as usize];
        hole.0.lock().expect("all parts take their turns")
    }
}

impl Bag {
    #[inline]
    fn fill(&mut self, far: u32, wire: &mut Wire) {
        if self.filled == self.parcels.len() {
            self.parcels.push(Parcel { wire: 0, frames: VecDeque::new() });
        }
        let parcel = &mut self.parcels[self.filled];
        parcel.wire = far;
        wire.hand_over(&mut parcel.frames);
        self.filled += 1;
    }
}
