//! Frames that go from one part of a fabric to another, which another thread has.
//!
//! A wire between two parts has two halves. What was put on its near half in a turn goes to the far half before the next turn,
//! in which some of it may arrive: the ring buffers in which frames wait on wires change hands, and no frame is touched. Buffers
//! that have become empty go back the same way, so that nothing is allocated in the long run.

use std::collections::VecDeque;

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
/// first frame was put; [`Post::collect`]. Between turns [`exchange`] with each other part.
#[derive(Debug)]
pub(super) struct Post {
    /// Number of the first near half.
    first: u32,
    away: Box<[Away]>,
    /// Near halves that have frames.
    leaving: Vec<u32>,
    /// By part.
    out: Box<[Bag]>,
    inside: Box<[Bag]>,
    /// When the first frame arrives that has come, but was not delivered.
    due: Time,
}

/// What one part has for another one.
#[derive(Debug)]
struct Bag {
    /// In the first ones are frames, in the others is memory for such.
    parcels: Vec<Parcel>,
    filled: usize,
    /// When the first of these frames arrives.
    first: Time,
}

#[derive(Debug)]
struct Parcel {
    /// The far half.
    wire: u32,
    frames: VecDeque<(Time, Frame)>,
}

impl Post {
    /// A part's, whose first near half has this number, with where these lead.
    pub(super) fn new(first: usize, away: Vec<Away>, parts: usize) -> Post {
        let bags = || (0..parts).map(|_| Bag { parcels: Vec::new(), filled: 0, first: Time::NEVER }).collect();
        let leaving = Vec::with_capacity(away.len());
        Post { first: first as u32, away: away.into(), leaving, out: bags(), inside: bags(), due: Time::NEVER }
    }

    /// A frame was put on a near half on which there was none.
    #[inline]
    pub(super) fn note(&mut self, wire: u32) {
        self.leaving.push(wire);
    }

    /// Takes what lies on near halves. What faults may still hold back is not collected: [`Parts::let_go`](super::parts::Parts::let_go) does it.
    pub(super) fn collect(&mut self, wires: &mut [Wire]) {
        for number in self.leaving.drain(..) {
            let wire = &mut wires[number as usize];
            if !wire.is_faulty() {
                let Away { part, wire: far } = self.away[(number - self.first) as usize];
                self.out[part as usize].fill(far, wire);
            }
        }
    }

    /// Hands out what has come, wire by wire, which leave empty memory.
    pub(super) fn deliver(&mut self, mut put: impl FnMut(u32, &mut VecDeque<(Time, Frame)>)) {
        self.due = Time::NEVER;
        for bag in &mut self.inside {
            for parcel in &mut bag.parcels[..bag.filled] {
                put(parcel.wire, &mut parcel.frames);
            }
            (bag.filled, bag.first) = (0, Time::NEVER);
        }
    }

    /// When the first frame arrives that has come, but was not delivered; [`Time::NEVER`] if there is none.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Frames that have come, but were not delivered.
    pub(super) fn under_way(&self) -> usize {
        let parcels = self.inside.iter().flat_map(|bag| &bag.parcels[..bag.filled]);
        parcels.map(|parcel| parcel.frames.len()).sum()
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

/// Has two parts, of these numbers, hand each other what they have for each other.
pub(super) fn exchange([(one, of_one), (other, of_other)]: [(usize, &mut Post); 2]) {
    hand_on(&mut of_one.out[other], &mut of_other.inside[one], &mut of_other.due);
    hand_on(&mut of_other.out[one], &mut of_one.inside[other], &mut of_one.due);
}

fn hand_on(out: &mut Bag, inside: &mut Bag, due: &mut Time) {
    if out.filled == 0 {
        return;
    }
    debug_assert_eq!(inside.filled, 0, "what came before was delivered");
    std::mem::swap(out, inside);
    *due = inside.first.min(*due);
}

impl Bag {
    #[inline]
    fn fill(&mut self, far: u32, wire: &mut Wire) {
        if self.filled == self.parcels.len() {
            self.parcels.push(Parcel { wire: 0, frames: VecDeque::new() });
        }
        let parcel = &mut self.parcels[self.filled];
        parcel.wire = far;
        self.first = self.first.min(wire.next_arrival());
        wire.hand_over(&mut parcel.frames);
        self.filled += 1;
    }
}
