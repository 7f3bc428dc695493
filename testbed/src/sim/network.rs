//! What is between stations: wires, and who is to be woken when.

use weir_flowctl::frame::ControlFrame;
use weir_units::{Span, Time};

use super::agenda::Agenda;
use super::frame::{Frame, Spare};
use super::sides::Sides;
use super::wire::Wire;
use crate::scenario::PortPlace;

/// The wires, and the agenda of all stations.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) wires: Box<[Wire]>,
    /// By station.
    inboxes: Box<[Inbox]>,
    sides: Sides,
    /// Of the stations of each side.
    agendas: Box<[Agenda]>,
    /// What a station does reaches no other earlier than after this.
    lookahead: Span,
    pub(super) spare: Spare,
    /// Frames put on a wire.
    hops: u64,
    /// Frames taken from one: counted in debug builds.
    taken: u64,
    /// Flow-control frames that switches have sent, if anybody asks.
    pub(super) told: Option<Vec<Told>>,
}

/// A flow-control frame that a switch's port has sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) at: Time,
    /// When it is at the far end, but for injected faults; [`Time::NEVER`] if the link is cut.
    pub(super) arrives: Time,
    pub(super) place: PortPlace,
    pub(super) frame: ControlFrame,
}

/// The wires that lead to a station.
#[derive(Debug)]
struct Inbox {
    /// The wire that leads to each port.
    wires: Box<[Option<u32>]>,
    /// When the next frame arrives, by port.
    arrivals: Agenda,
}

/// Where nothing joins stations.
const NO_WIRES: Span = Span::from_secs(1_000);

impl Network {
    /// Wires that are empty, on which no frame will be shorter than `frame_bytes_min` (without FCS), and stations with so many
    /// ports each that want to be woken at once.
    pub(super) fn new(
        wires: Box<[Wire]>,
        ports: impl Iterator<Item = usize>,
        sides: Sides,
        frame_bytes_min: u32,
    ) -> Network {
        let inbox = |ports| Inbox { wires: vec![None; ports].into(), arrivals: Agenda::new(ports) };
        let mut inboxes: Box<[Inbox]> = ports.map(inbox).collect();
        for (number, wire) in (0..).zip(&wires) {
            let (station, port) = wire.to;
            inboxes[station as usize].wires[usize::from(port)] = Some(number);
        }
        let mut agendas: Box<[Agenda]> = (0..sides.count()).map(|_| Agenda::new(inboxes.len())).collect();
        (0..inboxes.len()).for_each(|station| agendas[sides.of(station)].set(station, Time::ZERO));
        let lookahead = wires.iter().map(|wire| wire.lookahead(frame_bytes_min)).min().unwrap_or(NO_WIRES);
        Network { wires, inboxes, sides, agendas, lookahead, spare: Spare::default(), hops: 0, taken: 0, told: None }
    }

    /// What a station does at an instant reaches no other earlier than so long after it.
    pub(super) fn lookahead(&self) -> Span {
        self.lookahead
    }

    pub(super) fn sides(&self) -> &Sides {
        &self.sides
    }

    /// When the first station is to be woken.
    pub(super) fn first_due(&self) -> Time {
        self.agendas.iter().map(|agenda| agenda.first().0).min().unwrap_or(Time::NEVER)
    }

    /// The station of a side that is to be woken first, and when.
    #[inline]
    pub(super) fn first_of(&self, side: usize) -> (Time, usize) {
        self.agendas[side].first()
    }

    /// Puts a frame on a wire at `now`.
    #[inline]
    pub(super) fn send(&mut self, now: Time, wire: u32, frame: Frame) {
        self.hops += 1;
        let wire = &mut self.wires[wire as usize];
        if let Some(arrives) = wire.send(now, frame) {
            let to = wire.to;
            self.announce(to, arrives);
        }
    }

    #[inline(never)]
    fn announce(&mut self, (station, port): (u32, u16), arrives: Time) {
        self.inboxes[station as usize].arrivals.set(usize::from(port), arrives);
        self.wake(station as usize, arrives);
    }

    /// Reads what arrives for a station by `limit`, so that it is in the cache when its turn comes. Of reads that do not wait for
    /// each other many are under way at once.
    #[inline]
    pub(super) fn warm(&self, station: usize, limit: Time) {
        let wires = self.inboxes[station].wires.iter().flatten();
        let read = wires.fold(0, |sum, wire| sum ^ self.wires[*wire as usize].warm(limit));
        std::hint::black_box(read);
    }

    /// When the next frame arrives for a station.
    #[inline]
    pub(super) fn next_arrival(&self, station: usize) -> Time {
        self.inboxes[station].arrivals.first().0
    }

    /// The next frame that has arrived for a station by `now`, and at which of its ports.
    #[inline]
    pub(super) fn poll(&mut self, now: Time, station: usize) -> Option<(usize, Frame)> {
        let inbox = &mut self.inboxes[station];
        loop {
            let (at, port) = inbox.arrivals.first();
            if at > now {
                return None;
            }
            let wire = &mut self.wires[inbox.wires[port]? as usize];
            let frame = wire.poll(now);
            inbox.arrivals.set(port, wire.next_wakeup());
            if let Some(frame) = frame {
                if cfg!(debug_assertions) {
                    self.taken += 1;
                }
                return Some((port, frame));
            }
        }
    }

    /// A station that has done all that it can now wants to be woken then, or when a frame arrives.
    #[inline]
    pub(super) fn sleep(&mut self, station: usize, until: Time) {
        let at = until.min(self.next_arrival(station));
        self.agendas[self.sides.of(station)].set(station, at);
    }

    /// A station is to be woken then at the latest.
    pub(super) fn wake(&mut self, station: usize, at: Time) {
        self.agendas[self.sides.of(station)].wake(station, at);
    }

    /// Cuts a wire or mends it.
    pub(super) fn set_up(&mut self, wire: usize, is_up: bool) {
        self.wires[wire].set_up(is_up);
        let (station, port) = self.wires[wire].to;
        let inbox = &mut self.inboxes[station as usize];
        inbox.arrivals.set(usize::from(port), self.wires[wire].next_wakeup());
    }

    /// Frames put on a wire so far.
    pub(super) fn hops(&self) -> u64 {
        self.hops
    }

    /// Frames taken from a wire so far; 0 but in debug builds.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }
}
