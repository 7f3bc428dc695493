//! Frames that go from one part of a fabric to another, which another thread may have.
//!
//! A wire between two parts has two halves. What was put on its near half in a turn goes to the far half before the next turn,
//! in which some of it may arrive: the ring buffers in which frames wait on wires change hands, and no frame is touched. Buffers
//! that have become empty go back the same way, so that nothing is allocated in the long run.
//!
//! Parts leave such buffers for each other in pigeonholes, of which each pair has two, for every other turn: while one is filled, the
//! other is emptied. So each has its lock for itself whenever it takes it, and the threads that run parts hand over all at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use weir_units::Time;

use super::frame::Frame;
use super::wire::Wire;

/// Where a near half leads: a part, and the far half by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) part: u32,
    pub(super) wire: u32,
}

/// What a part has for others, and has from them. In each turn: [`Post::deliver`]; [`Post::note`] each near half on which the
/// first frame was put; [`Post::hand_over`].
#[derive(Debug)]
pub(super) struct Post {
    /// Its part's number.
    part: usize,
    /// Number of the first near half.
    first: u32,
    away: Box<[Away]>,
    /// Near halves that have frames.
    leaving: Vec<u32>,
    /// Parts from which wires lead to this one.
    from: Box<[u32]>,
    /// By part, what is to be handed over.
    out: Box<[Bag]>,
    holes: Arc<Pigeonholes>,
    /// Turns that were taken: others have taken as many, whenever a part takes none.
    turns: u64,
    /// When the first frame arrives of those that were handed over last.
    first_sent: Time,
}

/// By receiving part, sending part, and whether the turn's number is odd.
#[derive(Debug)]
struct Pigeonholes {
    holes: Box<[Pigeonhole]>,
    parts: usize,
}

// In a cache line of its own: two threads touch it, and others its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pigeonhole(Mutex<Bag>);

/// What one part has for another one.
#[derive(Debug, Default)]
struct Bag {
    /// In the first ones are frames, in the others is memory for such.
    parcels: Vec<Parcel>,
    filled: usize,
}

#[derive(Debug)]
struct Parcel {
    /// The far half.
    wire: u32,
    frames: VecDeque<(Time, Frame)>,
}

impl Post {
    /// All parts' posts, by the number of each one's first near half and where its near halves lead.
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

    /// How many near halves there are.
    pub(super) fn near_halves(&self) -> usize {
        self.away.len()
    }

    /// A frame was put on a near half on which there was none.
    #[inline]
    pub(super) fn note(&mut self, wire: u32) {
        self.leaving.push(wire);
    }

    /// Takes what lies on near halves, and leaves it for the parts that they lead to. What faults may still hold back is not taken:
    /// [`Parts::let_go`](super::parts::Parts::let_go) does it.
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

    /// Hands out what others have left in the turn before, wire by wire, which leave empty memory.
    pub(super) fn deliver(&mut self, mut put: impl FnMut(u32, &mut VecDeque<(Time, Frame)>)) {
        for mut bag in self.inside() {
            let Bag { parcels, filled } = &mut *bag;
            for parcel in &mut parcels[..std::mem::take(filled)] {
                put(parcel.wire, &mut parcel.frames);
            }
        }
    }

    /// What others have left in the turn before. The other pigeonholes are being filled, or empty.
    fn inside(&self) -> impl Iterator<Item = MutexGuard<'_, Bag>> {
        // The next turn's, of two that alternate.
        self.from.iter().map(|from| self.holes.of(self.part, *from as usize, self.turns + 1))
    }

    /// When the first frame arrives of those that were handed over last; [`Time::NEVER`] if there was none.
    pub(super) fn first_sent(&self) -> Time {
        self.first_sent
    }

    /// Frames that have come, but were not delivered.
    pub(super) fn under_way(&self) -> usize {
        let of_bag = |bag: MutexGuard<'_, Bag>| {
            bag.parcels[..bag.filled].iter().map(|parcel| parcel.frames.len()).sum::<usize>()
        };
        self.inside().map(of_bag).sum()
    }

    /// Where a near half leads.
    pub(super) fn away(&self, wire: u32) -> Away {
        self.away[(wire - self.first) as usize]
    }

    /// Where a wire leads if it is a near half.
    pub(super) fn is_away(&self, wire: u32) -> Option<Away> {
        wire.checked_sub(self.first).map(|at| self.away[at as usize])
    }
}

impl Pigeonholes {
    /// Where a part leaves in a turn what is for another one.
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
