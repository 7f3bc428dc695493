//! Network between the nodes of a logical process: wires and wake-up tables.

use std::collections::VecDeque;
use std::ops::Range;

use prefetch_index::prefetch_index;
use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_units::{Bytes, Class, DropReason, LargePortSet, PortBitmap, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::frame::{Frame, FramePool};
use super::mailbox::Mailbox;
use super::phases::Phases;
use super::wakeup_table::WakeupTable;
use super::wire::{NodePort, Wire};

/// Wires and wake-up times of all nodes. Nodes and wires have numbers local to the logical process.
#[derive(Debug)]
pub(super) struct Network {
    /// Wires to the logical process's nodes, ordered by node and port; then the near halves of wires to other
    /// processes.
    pub(super) wires: Box<[Wire]>,
    /// First wire to each node, and their number.
    incoming_wires: Box<[(u32, u32)]>,
    arrivals: WindowArrivals,
    phases: Phases,
    wakeup_tables: Box<[WakeupTable]>,
    pub(super) frame_pool: FramePool,
    /// Channels to and from other logical processes.
    pub(super) mailbox: Mailbox,
    hops: u64,
    /// Events of switch ports; `None` unless recorded.
    pub(super) port_events: Option<Vec<RecordedEvent>>,
}

/// Event of a switch port.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedEvent {
    pub(super) place: PortRef,
    /// Time at which the port drops, sends or receives a frame, without injected faults.
    pub(super) at: Time,
    pub(super) kind: RecordedEventKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RecordedEventKind {
    /// Flow-control frame sent by the port, or by the host attached to it.
    ControlFrame {
        origin: MessageOrigin,
        /// Arrival time at the far end, without injected faults; [`Time::NEVER`] if the link is down.
        arrives: Time,
        frame: ControlFrame,
    },
    /// Dropped frame of this class.
    Drop(Class, DropReason),
}

impl RecordedEvent {
    /// Sort key: events of one node are in order.
    pub(super) fn order(&self) -> (Time, PortRef, MessageOrigin) {
        let origin = match self.kind {
            RecordedEventKind::ControlFrame { origin, .. } => origin,
            RecordedEventKind::Drop(..) => MessageOrigin::Port,
        };
        (self.at, self.place, origin)
    }
}

/// Arrivals at a node in one window; all of them are on wires when the window begins.
#[derive(Debug, Default)]
struct WindowArrivals {
    /// Arrivals by time, then by port.
    due: Vec<ArrivalKey>,
    /// Arrivals at a node that takes them by [`Network::poll_apart`].
    apart: Vec<ArrivalKey>,
    /// Number of arrivals taken.
    taken: usize,
    /// Time of the next arrival, in the window or after it.
    next: Time,
    /// Time of the first arrival after the window.
    later: Time,
    /// First of the node's wires.
    first_wire: usize,
}

impl WindowArrivals {
    /// Caches the time of the next arrival, which is read more often than it changes.
    #[inline]
    fn update_next(&mut self) {
        self.next = self.due.get(self.taken).map_or(self.later, |arrival| arrival.time());
    }
}

/// Arrival packed into one integer, for fast sorting: time in ps, with the index among the node's wires in the lowest
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrivalKey(u64);

impl ArrivalKey {
    /// Bits for the most ports that a switch may have. The other bits hold 75 minutes of simulated time; a scenario has
    /// 1,000 s at most.
    const WIRE_BITS: u32 = LargePortSet::PORTS_MAX.ilog2();

    #[inline]
    fn new(at: Time, wire: u64) -> ArrivalKey {
        debug_assert!(wire < 1 << Self::WIRE_BITS && at.as_picos() < u64::MAX >> Self::WIRE_BITS);
        ArrivalKey(at.as_picos() << Self::WIRE_BITS | wire)
    }

    #[inline]
    fn time(self) -> Time {
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
/// is shorter than `wire_bytes_min` on the wire.
pub(super) fn lookahead(wires: &[Wire], wire_bytes_min: Bytes) -> Span {
    wires.iter().map(|wire| wire.lookahead(wire_bytes_min)).min().unwrap_or(NO_WIRES)
}

impl Network {
    /// Creates the network of a logical process. The wires are in order, near halves last; `phases` has the phase of
    /// each node. No node has a wake-up.
    pub(super) fn new(wires: Box<[Wire]>, mailbox: Mailbox, phases: Phases) -> Network {
        let inner = wires.len() - mailbox.near_halves();
        debug_assert!(wires[..inner].is_sorted_by_key(|wire| wire.destination()));
        let mut incoming_wires: Box<[(u32, u32)]> = vec![(0, 0); phases.nodes()].into();
        for (number, wire) in (0..).zip(&wires[..inner]) {
            let (first, count) = &mut incoming_wires[wire.destination().node as usize];
            if *count == 0 {
                *first = number;
            }
            *count += 1;
        }
        let wakeup_tables = (0..phases.count()).map(|_| WakeupTable::new(phases.nodes())).collect();
        Network {
            wires,
            incoming_wires,
            arrivals: WindowArrivals::default(),
            phases,
            wakeup_tables,
            frame_pool: FramePool::default(),
            mailbox,
            hops: 0,
            port_events: None,
        }
    }

    /// Returns the earliest wake-up time, including wake-ups in other logical processes by frames sent to them.
    pub(super) fn first_due(&mut self) -> Time {
        self.wakeup_tables
            .iter_mut()
            .map(WakeupTable::first)
            .min()
            .unwrap_or(Time::NEVER)
            .min(self.mailbox.first_sent())
    }

    /// Returns the earliest wake-up time of a phase's nodes; [`Time::NEVER`] if there is none.
    pub(super) fn first_due_in(&mut self, phase: usize) -> Time {
        self.wakeup_tables[phase].first()
    }

    pub(super) fn due(&self, node: usize) -> Time {
        self.wakeup_tables[self.phases.node_phase(node)].due(node)
    }

    /// Puts frames from other logical processes on the wires to the nodes here.
    pub(super) fn deliver(&mut self) {
        let Network { wires, wakeup_tables, phases, mailbox, .. } = self;
        mailbox.deliver(|wire, frames| {
            let wire = &mut wires[wire as usize];
            let node = wire.destination().node as usize;
            if let Some(arrives) = wire.deliver(frames) {
                wakeup_tables[phases.node_phase(node)].wake(node, arrives);
            }
        });
    }

    /// Puts frames from a wire's near half on the wire.
    pub(super) fn put(&mut self, wire: u32, frames: &mut VecDeque<(Time, Frame)>) {
        let wire = &mut self.wires[wire as usize];
        let node = wire.destination().node as usize;
        if let Some(arrives) = wire.deliver(frames) {
            self.wakeup_tables[self.phases.node_phase(node)].wake(node, arrives);
        }
    }

    /// Returns the phase of the node at the end of a wire.
    pub(super) fn destination_phase(&self, wire: u32) -> usize {
        self.phases.node_phase(self.wires[wire as usize].destination().node as usize)
    }

    /// Moves the frames on near halves into the channels.
    pub(super) fn hand_over(&mut self) {
        let Network { wires, mailbox, .. } = self;
        mailbox.hand_over(wires);
    }

    /// Lists the nodes of a phase due by `limit`.
    pub(super) fn list_due(&self, phase: usize, limit: Time, due: &mut Vec<u32>) {
        self.wakeup_tables[phase].list_due(limit, due);
    }

    /// Prefetches the wires to a node.
    #[inline]
    pub(super) fn prefetch_wires(&self, node: usize) {
        let (first, count) = self.incoming_wires[node];
        (first..first + count).for_each(|wire| self.prefetch_wire(wire));
    }

    #[inline]
    pub(super) fn prefetch_wire(&self, wire: u32) {
        prefetch_index(&self.wires, wire as usize);
    }

    /// Prefetches the ring buffer of the `n`th wire to a node.
    #[inline]
    pub(super) fn prefetch_arrivals(&self, node: usize, n: usize) {
        self.wires_to(node).get(n).into_iter().for_each(Wire::prefetch);
    }

    /// Returns the number of frames in flight to a node.
    #[inline]
    pub(super) fn frames_in_flight_to(&self, node: usize) -> usize {
        self.wires_to(node).iter().map(Wire::frames_in_flight).sum()
    }

    /// Prefetches the frames in flight to a node.
    #[inline]
    pub(super) fn prefetch_frames(&self, node: usize) {
        self.wires_to(node).iter().for_each(Wire::prefetch_frames);
    }

    #[inline]
    fn wires_to(&self, node: usize) -> &[Wire] {
        let (first, count) = self.incoming_wires[node];
        &self.wires[first as usize..][..count as usize]
    }

    /// Puts a frame on a wire at `now` that leaves from this port or leads to it; records flow control if enabled.
    // Always inlined: the few callers each get a specialised copy.
    #[inline(always)]
    pub(super) fn send(&mut self, now: Time, wire: u32, frame: Frame, origin: MessageOrigin, place: PortRef) {
        if frame.is_flow_control() {
            return self.send_control(now, wire, frame, origin, place);
        }
        self.put_on_wire(now, wire, frame);
    }

    /// Puts a frame on a wire, as [`Network::send`] does.
    #[cold]
    #[inline(never)]
    pub(super) fn send_slowly(&mut self, now: Time, wire: u32, frame: Frame, origin: MessageOrigin, place: PortRef) {
        self.send(now, wire, frame, origin, place);
    }

    #[inline(always)]
    fn put_on_wire(&mut self, now: Time, wire: u32, frame: Frame) {
        self.hops += 1;
        let on = &mut self.wires[wire as usize];
        if let Some(arrives) = on.send(now, frame) {
            match on.destination().node {
                NodePort::REMOTE_NODE => self.mailbox.record_first_frame(wire),
                node => self.wake(node as usize, arrives),
            }
        }
    }

    /// Puts a message of link layer retry, or a frame that it sends again, on a wire; returns the instant at which its last byte leaves.
    #[cold]
    #[inline(never)]
    pub(super) fn send_below_mac(&mut self, now: Time, wire: u32, frame: Frame) -> Time {
        if frame.is_below_mac() {
            let on = &mut self.wires[wire as usize];
            if let Some(arrives) = on.send_llr_message(now, frame) {
                match on.destination().node {
                    NodePort::REMOTE_NODE => self.mailbox.record_first_frame(wire),
                    node => self.wake(node as usize, arrives),
                }
            }
        } else {
            self.put_on_wire(now, wire, frame);
            self.hops -= 1;
        }
        self.wires[wire as usize].free_at()
    }

    /// Puts flow control on a wire, and records it if enabled.
    #[cold]
    fn send_control(&mut self, now: Time, wire: u32, mut frame: Frame, origin: MessageOrigin, place: PortRef) {
        let control = frame.unmarked_content().as_control();
        if let Some(bytes) = control.and_then(|control| control.ordered_set()) {
            frame.set_frame_bytes(self.wires[wire as usize].frame_bytes(bytes));
        }
        self.put_on_wire(now, wire, frame);
        if let (Some(events), Some(frame)) = (&mut self.port_events, control) {
            let arrives = self.wires[wire as usize].last_arrival();
            let at = match origin {
                MessageOrigin::Port => now,
                MessageOrigin::Host => arrives,
            };
            events.push(RecordedEvent { place, at, kind: RecordedEventKind::ControlFrame { origin, arrives, frame } });
        }
    }

    /// Records a dropped frame, if enabled.
    #[cold]
    pub(super) fn record_drop(&mut self, now: Time, place: PortRef, class: Class, reason: DropReason) {
        if let Some(events) = &mut self.port_events {
            events.push(RecordedEvent { place, at: now, kind: RecordedEventKind::Drop(class, reason) });
        }
    }

    /// Begins a node's window up to `limit`: collects its arrivals.
    #[inline]
    pub(super) fn begin(&mut self, node: usize, limit: Time) {
        let (first, count) = self.incoming_wires[node];
        self.begin_wires(first, count, limit);
    }

    /// Begins a window of several nodes with consecutive numbers up to `limit`.
    pub(super) fn begin_several(&mut self, nodes: Range<usize>, limit: Time) {
        let of_nodes = &self.incoming_wires[nodes];
        self.begin_wires(of_nodes[0].0, of_nodes.iter().map(|(_, count)| count).sum(), limit);
    }

    #[inline]
    fn begin_wires(&mut self, first: u32, count: u32, limit: Time) {
        let Network { wires, arrivals, .. } = self;
        arrivals.due.clear();
        (arrivals.taken, arrivals.later, arrivals.first_wire) = (0, Time::NEVER, first as usize);
        for (wire, number) in wires[first as usize..][..count as usize].iter_mut().zip(0..) {
            let first_later = wire.arriving(limit, |at| arrivals.due.push(ArrivalKey::new(at, number)));
            arrivals.later = arrivals.later.min(first_later);
        }
        if count > 1 {
            arrivals.due.sort_unstable();
        }
        arrivals.update_next();
    }

    /// Returns the time of the current node's next arrival.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.arrivals.next
    }

    /// Takes the current nodes' next frame that has arrived by `now`, with its node and port.
    #[inline]
    pub(super) fn poll(&mut self, now: Time) -> Option<(NodePort, Frame)> {
        if self.arrivals.next > now {
            return None;
        }
        let arrival = *self.arrivals.due.get(self.arrivals.taken)?;
        self.arrivals.taken += 1;
        self.arrivals.update_next();
        let wire = &mut self.wires[self.arrivals.first_wire + arrival.wire()];
        Some((wire.destination(), wire.take()))
    }

    /// Moves the current node's arrivals from [`Network::poll`] to [`Network::poll_apart`].
    pub(super) fn set_arrivals_apart(&mut self) {
        let WindowArrivals { due, apart, .. } = &mut self.arrivals;
        apart.clear();
        std::mem::swap(due, apart);
    }

    /// Takes the next frame set apart that has arrived by `now`, with its node and port.
    pub(super) fn poll_apart(&mut self, now: Time) -> Option<(NodePort, Frame)> {
        let WindowArrivals { apart, taken, next, later, first_wire, .. } = &mut self.arrivals;
        let arrival = *apart.get(*taken).filter(|_| *next <= now)?;
        *taken += 1;
        *next = apart.get(*taken).map_or(*later, |arrival| arrival.time());
        let wire = &mut self.wires[*first_wire + arrival.wire()];
        Some((wire.destination(), wire.take()))
    }

    /// Ends the current node's window. It next wakes at `until`, or when a frame arrives.
    #[inline]
    pub(super) fn sleep(&mut self, node: usize, until: Time) {
        let at = until.min(self.next_arrival());
        self.wakeup_tables[self.phases.node_phase(node)].set(node, at);
    }

    /// Ends the window of several nodes with consecutive numbers. The first next wakes at `until`, each when a frame arrives.
    pub(super) fn sleep_several(&mut self, nodes: Range<usize>, until: Time) {
        for node in nodes.clone() {
            let at = if node == nodes.start { until } else { Time::NEVER };
            self.wakeup_tables[self.phases.node_phase(node)].set(node, at);
        }
    }

    /// Makes a node wake at `at` or earlier.
    #[inline]
    pub(super) fn wake(&mut self, node: usize, at: Time) {
        self.wakeup_tables[self.phases.node_phase(node)].wake(node, at);
    }

    pub(super) fn wire(&self, wire: u32) -> &Wire {
        &self.wires[wire as usize]
    }

    pub(super) fn hops(&self) -> u64 {
        self.hops
    }
}
