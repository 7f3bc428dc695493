//! Network between the nodes of a logical process: wires and wake-up tables.

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

/// Wires and wake-up times of all nodes. Nodes and wires have numbers local to the logical process.
#[derive(Debug)]
pub(super) struct Network {
    /// Wires to the logical process's nodes, ordered by node and port; then the near halves of wires to other
    /// processes.
    pub(super) wires: Box<[Wire]>,
    /// First wire to each node, and their number.
    inboxes: Box<[(u32, u32)]>,
    arrivals: Arrivals,
    sides: Sides,
    rosters: Box<[Roster]>,
    pub(super) spare: Spare,
    /// Channels to and from other logical processes.
    pub(super) post: Post,
    hops: u64,
    /// Sent flow-control frames; `None` unless recorded.
    pub(super) told: Option<Vec<Told>>,
}

/// Flow-control frame sent by a switch port, or by the host attached to it.
#[derive(Clone, Copy, Debug, Value)]
pub(super) struct Told {
    pub(super) by: Teller,
    pub(super) place: PortPlace,
    /// Time at which the port sends or receives it, without injected faults.
    pub(super) at: Time,
    /// Arrival time at the far end, without injected faults; [`Time::NEVER`] if the link is down.
    pub(super) arrives: Time,
    pub(super) frame: ControlFrame,
}

/// Arrivals at a node in one window; all of them are on wires when the window begins.
#[derive(Debug, Default)]
struct Arrivals {
    /// Arrivals by time, then by port.
    due: Vec<Arrival>,
    /// Number of arrivals taken.
    taken: usize,
    /// Time of the next arrival, in the window or after it.
    next: Time,
    /// Time of the first arrival after the window.
    later: Time,
    /// First of the node's wires.
    first_wire: usize,
}

impl Arrivals {
    /// Caches the time of the next arrival, which is read more often than it changes.
    #[inline]
    fn note_next(&mut self) {
        self.next = self.due.get(self.taken).map_or(self.later, |arrival| arrival.at());
    }
}

/// Arrival packed into one integer, for fast sorting: time in ps, with the index among the node's wires in the lowest
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival(u64);

impl Arrival {
    /// Bits for the most ports that a switch may have. The other bits hold 75 minutes of simulated time; a scenario has
    /// 1,000 s at most.
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

/// Lookahead of a network without wires.
const NO_WIRES: Span = Span::from_secs(1_000);

/// Returns the lookahead of these wires: the shortest time from an action of a node to its effect on another. No frame
/// is shorter than `frame_bytes_min` (without FCS).
pub(super) fn lookahead(wires: &[Wire], frame_bytes_min: u32) -> Span {
    wires.iter().map(|wire| wire.lookahead(frame_bytes_min)).min().unwrap_or(NO_WIRES)
}

impl Network {
    /// Creates the network of a logical process. The wires are in order, near halves last; `sides` has the phase of
    /// each node. No node has a wake-up.
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

    /// Returns the earliest wake-up time, including wake-ups in other logical processes by frames sent to them.
    pub(super) fn first_due(&mut self) -> Time {
        self.rosters.iter_mut().map(Roster::first).min().unwrap_or(Time::NEVER).min(self.post.first_sent())
    }

    pub(super) fn due(&self, node: usize) -> Time {
        self.rosters[self.sides.of(node)].due(node)
    }

    /// Puts frames from other logical processes on the wires to the nodes here.
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

    /// Puts frames from a wire's near half on the wire.
    pub(super) fn put(&mut self, wire: u32, frames: &mut VecDeque<(Time, Frame)>) {
        let wire = &mut self.wires[wire as usize];
        let node = wire.to().node as usize;
        if let Some(arrives) = wire.deliver(frames) {
            self.rosters[self.sides.of(node)].wake(node, arrives);
        }
    }

    /// Returns the phase of the node at the end of a wire.
    pub(super) fn side_of(&self, wire: u32) -> usize {
        self.sides.of(self.wires[wire as usize].to().node as usize)
    }

    /// Moves the frames on near halves into the channels.
    pub(super) fn hand_over(&mut self) {
        let Network { wires, post, .. } = self;
        post.hand_over(wires);
    }

    /// Lists the nodes of a phase due by `limit`.
    pub(super) fn list_due(&self, side: usize, limit: Time, due: &mut Vec<u32>) {
        self.rosters[side].list_due(limit, due);
    }

    /// Prefetches the wires to a node.
    #[inline]
    pub(super) fn prefetch_wires(&self, node: usize) {
        let (first, count) = self.inboxes[node];
        (first..first + count).for_each(|wire| self.prefetch_wire(wire));
    }

    #[inline]
    pub(super) fn prefetch_wire(&self, wire: u32) {
        prefetch_index(&self.wires, wire as usize);
    }

    /// Prefetches the ring buffer of the `n`th wire to a node.
    #[inline]
    pub(super) fn prefetch_arrivals(&self, node: usize, n: usize) {
        self.leading_to(node).get(n).into_iter().for_each(Wire::prefetch);
    }

    /// Returns the number of frames in flight to a node.
    #[inline]
    pub(super) fn arriving_at(&self, node: usize) -> usize {
        self.leading_to(node).iter().map(Wire::under_way).sum()
    }

    /// Prefetches the frames in flight to a node.
    #[inline]
    pub(super) fn prefetch_frames(&self, node: usize) {
        self.leading_to(node).iter().for_each(Wire::prefetch_frames);
    }

    #[inline]
    fn leading_to(&self, node: usize) -> &[Wire] {
        let (first, count) = self.inboxes[node];
        &self.wires[first as usize..][..count as usize]
    }

    /// Puts a frame on a wire at `now` that leaves from this port or leads to it; records flow control if enabled.
    // Always inlined: the few callers each get a specialised copy.
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

    /// Puts flow control on a wire, and records it if enabled.
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

    /// Begins a node's window up to `limit`: collects its arrivals.
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

    /// Returns the time of the current node's next arrival.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.arrivals.next
    }

    /// Takes the current node's next frame that has arrived by `now`, with its port.
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

    /// Ends the current node's window. It next wakes at `until`, or when a frame arrives.
    #[inline]
    pub(super) fn sleep(&mut self, node: usize, until: Time) {
        let at = until.min(self.next_arrival());
        self.rosters[self.sides.of(node)].set(node, at);
    }

    /// Makes a node wake at `at` or earlier.
    #[inline]
    pub(super) fn wake(&mut self, node: usize, at: Time) {
        self.rosters[self.sides.of(node)].wake(node, at);
    }

    pub(super) fn wire(&self, wire: u32) -> &Wire {
        &self.wires[wire as usize]
    }

    pub(super) fn hops(&self) -> u64 {
        self.hops
    }
}
