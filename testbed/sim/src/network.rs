//! The network between the nodes of a part: wires, and who is to be woken when.

use std::collections::VecDeque;

use prefetch_index::prefetch_index;
use weir_results::record::Teller;
use weir_scenario::PortPlace;
use weir_units::archive::Value;
use weir_units::{SetOfPorts, Span, Time, WidePortSet};
use weir_wire::mac_control::ControlFrame;

use super::frame::{Frame, Spare};
use super::post::Post;
use super::roster::Roster;
use super::sides::Sides;
use super::wire::{FarEnd, Wire};

/// The wires, and the agenda of all nodes. Nodes and wires go by their numbers in the part.
#[derive(Debug)]
pub(super) struct Network {
    /// Wires that lead to the part's nodes, in the order of these and their ports; then the near halves of those that lead
    /// from them to another part.
    pub(super) wires: Box<[Wire]>,
    /// By node, the first of the wires that lead to it, and how many these are.
    inboxes: Box<[(u32, u32)]>,
    /// Arrivals at the node whose turn it is.
    arrivals: Arrivals,
    sides: Sides,
    /// One for each side.
    rosters: Box<[Roster]>,
    pub(super) spare: Spare,
    /// What goes to other parts, and comes from them.
    pub(super) post: Post,
    /// Frames put on a wire.
    hops: u64,
    /// Flow-control frames that were sent, if anybody asks.
    pub(super) told: Option<Vec<Told>>,
}

/// A flow-control frame that a switch's port, or the host behind it, has sent.
#[derive(Clone, Copy, Debug, Value)]
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
    /// When the next one arrives, in the window or after it.
    next: Time,
    /// When the first one after the window does.
    later: Time,
    /// The first of the node's wires.
    first_wire: usize,
}

impl Arrivals {
    /// Looks up when the next one arrives, which is asked more often than it changes.
    #[inline]
    fn note_next(&mut self) {
        self.next = self.due.get(self.taken).map_or(self.later, |arrival| arrival.at());
    }
}

/// When, in picoseconds, and by which of the node's wires, in the lowest bits: one number, which is quickly sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival(u64);

impl Arrival {
    /// As many as a switch may have ports. The rest is for 75 minutes of simulated time, of which a scenario has 1,000 s at most.
    const WIRE_BITS: u32 = WidePortSet::PORTS_MAX.ilog2();

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

/// What a node does at an instant reaches no other earlier than so long after it: the *lookahead* of these wires, on which no
/// frame is shorter than `frame_bytes_min` (without FCS).
pub(super) fn lookahead(wires: &[Wire], frame_bytes_min: u32) -> Span {
    wires.iter().map(|wire| wire.lookahead(frame_bytes_min)).min().unwrap_or(NO_WIRES)
}

impl Network {
    /// The wires of a part in their order, the last of which are near halves; its nodes by side. Nobody is to be woken.
    pub(super) fn new(wires: Box<[Wire]>, post: Post, sides: Sides) -> Network {
        let inner = wires.len() - post.near_halves();
        debug_assert!(wires[..inner].is_sorted_by_key(|wire| wire.to()));
        let mut inboxes: Box<[(u32, u32)]> = vec![(0, 0); sides.nodes()].into();
        for (number, wire) in (0..).zip(&wires[..inner]) {
            let (first, count) = &mut inboxes[wire.to().node as usize];
            if *count == 0 {
                *first = number;
            }
            *count += 1;
        }
        let rosters = (0..sides.count()).map(|_| Roster::new(sides.nodes())).collect();
        Network {
            wires,
            inboxes,
            arrivals: Arrivals::default(),
            sides,
            rosters,
            spare: Spare::default(),
            post,
            hops: 0,
            told: None,
        }
    }

    /// When the first node is to be woken, of other parts too by what was sent to them.
    pub(super) fn first_due(&mut self) -> Time {
        self.rosters.iter_mut().map(Roster::first).min().unwrap_or(Time::NEVER).min(self.post.first_sent())
    }

    /// When a node is to be woken.
    pub(super) fn due(&self, node: usize) -> Time {
        self.rosters[self.sides.of(node)].due(node)
    }

    /// Puts what has come from other parts on the wires that lead to its nodes.
    pub(super) fn deliver(&mut self) {
        let Network { wires, rosters, sides, post, .. } = self;
        post.deliver(|wire, frames| {
            let wire = &mut wires[wire as usize];
            let node = wire.to().node as usize;
            if let Some(arrives) = wire.deliver(frames) {
                rosters[sides.of(node)].wake(node, arrives);
            }
        });
    }

    /// Puts frames on a wire that come from its near half.
    pub(super) fn put(&mut self, wire: u32, frames: &mut VecDeque<(Time, Frame)>) {
        let wire = &mut self.wires[wire as usize];
        let node = wire.to().node as usize;
        if let Some(arrives) = wire.deliver(frames) {
            self.rosters[self.sides.of(node)].wake(node, arrives);
        }
    }

    /// The side of the node that a wire leads to.
    pub(super) fn side_of(&self, wire: u32) -> usize {
        self.sides.of(self.wires[wire as usize].to().node as usize)
    }

    /// Hands over what lies on near halves of wires to the parts that they lead to.
    pub(super) fn hand_over(&mut self) {
        let Network { wires, post, .. } = self;
        post.hand_over(wires);
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
    // Always: of the few places from which frames are sent each has the code for itself.
    #[inline(always)]
    pub(super) fn send(&mut self, now: Time, wire: u32, frame: Frame, by: Teller, place: PortPlace) {
        if frame.is_flow_control() {
            return self.send_control(now, wire, frame, by, place);
        }
        self.put_on_wire(now, wire, frame);
    }

    #[inline(always)]
    fn put_on_wire(&mut self, now: Time, wire: u32, frame: Frame) {
        self.hops += 1;
        let on = &mut self.wires[wire as usize];
        if let Some(arrives) = on.send(now, frame) {
            match on.to().node {
                FarEnd::ELSEWHERE => self.post.note(wire),
                node => self.wake(node as usize, arrives),
            }
        }
    }

    /// Puts flow control on a wire, and notes it, if anybody asks.
    #[cold]
    fn send_control(&mut self, now: Time, wire: u32, frame: Frame, by: Teller, place: PortPlace) {
        let control = frame.says().as_control();
        self.put_on_wire(now, wire, frame);
        if let (Some(told), Some(frame)) = (&mut self.told, control) {
            let arrives = self.wires[wire as usize].last_arrives();
            let at = match by {
                Teller::Port => now,
                Teller::Host => arrives,
            };
            told.push(Told { by, place, at, arrives, frame });
        }
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
        arrivals.note_next();
    }

    /// When the next frame arrives for the node whose turn it is.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.arrivals.next
    }

    /// The next frame that has arrived by `now` for the node whose turn it is, and at which of its ports.
    #[inline]
    pub(super) fn poll(&mut self, now: Time) -> Option<(u16, Frame)> {
        if self.arrivals.next > now {
            return None;
        }
        let arrival = *self.arrivals.due.get(self.arrivals.taken)?;
        self.arrivals.taken += 1;
        self.arrivals.note_next();
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

    /// A wire.
    pub(super) fn wire(&self, wire: u32) -> &Wire {
        &self.wires[wire as usize]
    }

    /// Frames put on a wire so far.
    pub(super) fn hops(&self) -> u64 {
        self.hops
    }
}
