//! The network between nodes: wires, and who is to be woken when.

use prefetch_index::prefetch_index;
use weir_results::record::Teller;
use weir_scenario::PortPlace;
use weir_units::{Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::frame::{Frame, Spare};
use super::roster::Roster;
use super::sides::Sides;
use super::wire::Wire;

/// The wires, and the agenda of all nodes.
#[derive(Debug)]
pub(super) struct Network {
    /// In the order of the nodes and ports that they lead to.
    pub(super) wires: Box<[Wire]>,
    /// By node, the first of the wires that lead to it, and how many these are.
    inboxes: Box<[(u32, u32)]>,
    /// Arrivals at the node whose turn it is.
    arrivals: Arrivals,
    sides: Sides,
    /// One for each side.
    rosters: Box<[Roster]>,
    /// What a node does reaches no other earlier than after this.
    lookahead: Span,
    pub(super) spare: Spare,
    /// Frames put on a wire.
    hops: u64,
    /// Flow-control frames that were sent, if anybody asks.
    pub(super) told: Option<Vec<Told>>,
}

/// A flow-control frame that a switch's port, or the host behind it, has sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) by: Teller,
    pub(super) place: PortPlace,
    /// When the port knows of it, but for injected faults: when it sends it, or when it has arrived there.
    pub(super) at: Time,
    /// When it is at the far end, but for injected faults; [`Time::NEVER`] if the link is cut.
    pub(super) arrives: Time,
    pub(super) frame: ControlFrame,
}

/// What arrives at a node in one window: all of it is on wires when the window begins.
#[derive(Debug, Default)]
struct Arrivals {
    /// In the order of time, then of ports.
    due: Vec<Arrival>,
    /// How many of these have been taken.
    taken: usize,
    /// When the next one after the window arrives.
    later: Time,
    /// The first of the node's wires.
    first_wire: usize,
}

/// When, in picoseconds, and by which of the node's wires, in the lowest bits: one number, which is quickly sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival(u64);

impl Arrival {
    /// A switch has 64 ports at most; and three days of simulated time are enough.
    const WIRE_BITS: u32 = 6;

    #[inline]
    fn new(at: Time, wire: u64) -> Arrival {
        debug_assert!(wire < 1 << Self::WIRE_BITS && at.as_picos() < u64::MAX >> Self::WIRE_BITS);
        Arrival(at.as_picos() << Self::WIRE_BITS | wire)
    }

    #[inline]
    fn at(self) -> Time {
        Time::from_picos(self.0 >> Self::WIRE_BITS)
    }

    #[inline]
    fn wire(self) -> usize {
        (self.0 & ((1 << Self::WIRE_BITS) - 1)) as usize
    }
}

/// Where nothing joins nodes.
const NO_WIRES: Span = Span::from_secs(1_000);

impl Network {
    /// Wires that are empty, on which no frame will be shorter than `frame_bytes_min` (without FCS), in the order of what they
    /// lead to; and so many nodes that want to be woken at once.
    pub(super) fn new(wires: Box<[Wire]>, nodes: usize, sides: Sides, frame_bytes_min: u32) -> Network {
        debug_assert!(wires.is_sorted_by_key(|wire| wire.to()));
        let mut inboxes: Box<[(u32, u32)]> = vec![(0, 0); nodes].into();
        for (number, wire) in (0..).zip(&wires) {
            let (first, count) = &mut inboxes[wire.to().node as usize];
            if *count == 0 {
                *first = number;
            }
            *count += 1;
        }
        let mut rosters: Box<[Roster]> = (0..sides.count()).map(|_| Roster::new(inboxes.len())).collect();
        (0..inboxes.len()).for_each(|node| rosters[sides.of(node)].set(node, Time::ZERO));
        let lookahead = wires.iter().map(|wire| wire.lookahead(frame_bytes_min)).min().unwrap_or(NO_WIRES);
        Network {
            wires,
            inboxes,
            arrivals: Arrivals::default(),
            sides,
            rosters,
            lookahead,
            spare: Spare::default(),
            hops: 0,
            told: None,
        }
    }

    /// What a node does at an instant reaches no other earlier than so long after it.
    pub(super) fn lookahead(&self) -> Span {
        self.lookahead
    }

    pub(super) fn sides(&self) -> &Sides {
        &self.sides
    }

    /// When the first node is to be woken.
    pub(super) fn first_due(&mut self) -> Time {
        self.rosters.iter_mut().map(Roster::first).min().unwrap_or(Time::NEVER)
    }

    /// Lists the nodes of a side that are to be woken by `limit`.
    pub(super) fn list_due(&self, side: usize, limit: Time, due: &mut Vec<u32>) {
        self.rosters[side].list_due(limit, due);
    }

    /// Asks for the wires that lead to a node, ahead of their use.
    #[inline]
    pub(super) fn prefetch_wires(&self, node: usize) {
        let (first, count) = self.inboxes[node];
        (first..first + count).for_each(|wire| self.prefetch_wire(wire));
    }

    /// Asks for a wire, ahead of its use.
    #[inline]
    pub(super) fn prefetch_wire(&self, wire: u32) {
        prefetch_index(&self.wires, wire as usize);
    }

    /// Asks for where the frames are kept that are on their way to a node by the `n`th of the wires that lead there, ahead of
    /// their use.
    #[inline]
    pub(super) fn prefetch_arrivals(&self, node: usize, n: usize) {
        self.leading_to(node).get(n).into_iter().for_each(Wire::prefetch);
    }

    /// How many frames are on their way to a node.
    #[inline]
    pub(super) fn arriving_at(&self, node: usize) -> usize {
        self.leading_to(node).iter().map(Wire::under_way).sum()
    }

    /// Asks for the frames themselves.
    #[inline]
    pub(super) fn prefetch_frames(&self, node: usize) {
        self.leading_to(node).iter().for_each(Wire::prefetch_frames);
    }

    #[inline]
    fn leading_to(&self, node: usize) -> &[Wire] {
        let (first, count) = self.inboxes[node];
        &self.wires[first as usize..][..count as usize]
    }

    /// Puts a frame on a wire at `now` that leads from this port or to it; flow control is noted, if anybody asks.
    #[inline]
    pub(super) fn send(&mut self, now: Time, wire: u32, frame: Frame, by: Teller, place: PortPlace) {
        let control = if self.told.is_some() { frame.says().as_control() } else { None };
        self.hops += 1;
        let on = &mut self.wires[wire as usize];
        if let Some(arrives) = on.send(now, frame) {
            let node = on.to().node as usize;
            self.wake(node, arrives);
        }
        if let Some(control) = control {
            self.note_told(now, wire, control, by, place);
        }
    }

    /// Notes flow control that was put on a wire at `now`, last of all.
    #[cold]
    fn note_told(&mut self, now: Time, wire: u32, frame: ControlFrame, by: Teller, place: PortPlace) {
        let Some(told) = &mut self.told else { return };
        let arrives = self.wires[wire as usize].last_arrives();
        let at = match by {
            Teller::Port => now,
            Teller::Host => arrives,
        };
        told.push(Told { by, place, at, arrives, frame });
    }

    /// A node's turn begins, up to `limit`: finds out what arrives for it.
    #[inline]
    pub(super) fn begin(&mut self, node: usize, limit: Time) {
        let Network { wires, arrivals, inboxes, .. } = self;
        let (first, count) = inboxes[node];
        arrivals.due.clear();
        (arrivals.taken, arrivals.later, arrivals.first_wire) = (0, Time::NEVER, first as usize);
        for (wire, number) in wires[first as usize..][..count as usize].iter_mut().zip(0..) {
            let first_later = wire.arriving(limit, |at| arrivals.due.push(Arrival::new(at, number)));
            arrivals.later = arrivals.later.min(first_later);
        }
        if count > 1 {
            arrivals.due.sort_unstable();
        }
    }

    /// When the next frame arrives for the node whose turn it is.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.arrivals.due.get(self.arrivals.taken).map_or(self.arrivals.later, |arrival| arrival.at())
    }

    /// The next frame that has arrived by `now` for the node whose turn it is, and at which of its ports.
    #[inline]
    pub(super) fn poll(&mut self, now: Time) -> Option<(u16, Frame)> {
        let arrival = *self.arrivals.due.get(self.arrivals.taken)?;
        if arrival.at() > now {
            return None;
        }
        self.arrivals.taken += 1;
        let wire = &mut self.wires[self.arrivals.first_wire + arrival.wire()];
        Some((wire.to().port, wire.take()))
    }

    /// The node whose turn it is has done all that it can now, and wants to be woken then, or when a frame arrives.
    #[inline]
    pub(super) fn sleep(&mut self, node: usize, until: Time) {
        let at = until.min(self.next_arrival());
        self.rosters[self.sides.of(node)].set(node, at);
    }

    /// A node is to be woken then at the latest.
    #[inline]
    pub(super) fn wake(&mut self, node: usize, at: Time) {
        self.rosters[self.sides.of(node)].wake(node, at);
    }

    /// Frames put on a wire so far.
    pub(super) fn hops(&self) -> u64 {
        self.hops
    }
}
