//! Transmission on an lcore: each poll serves every port with a burst, and may come late.

use std::sync::Arc;

use weir_units::{ClassSet, Time};

use super::bursts::Bursts;
use super::handoff::FromForwarder;
use super::lateness::Waits;
use crate::counters::{DropReason, Published};
use crate::packet::{BURST_MAX, Packet, PacketStore, PortOutput};
use crate::transmission::{Manner, Transmission};

/// TX: transmits on its ports what the forwarders admitted for them.
#[derive(Debug)]
pub(super) struct Transmitter<P> {
    transmission: Transmission<P, Bursts<P>>,
    inputs: Box<[FromForwarder<P>]>,
}

/// Packets taken from the forwarders' rings at once, so that a port is served at least that often.
const TAKEN_MAX: usize = 4 * BURST_MAX;

impl<P: Packet> Transmitter<P> {
    pub(super) fn new(transmission: Transmission<P, Bursts<P>>, inputs: Box<[FromForwarder<P>]>) -> Transmitter<P> {
        Transmitter { transmission, inputs }
    }

    /// The way out of its ports, for what its own lcore admits.
    #[inline]
    pub(super) fn transmission(&mut self) -> &mut Transmission<P, Bursts<P>> {
        &mut self.transmission
    }

    /// Takes over what the forwarders admitted and serves every port once; returns how many frames moved.
    pub(super) fn run_once<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        let manner = &mut self.transmission.manner;
        manner.late.poll(now);
        manner.is_behind = false;
        let taken = self.take_over(now);
        let transmission = &mut self.transmission;
        let sent: usize = (0..transmission.ports.len()).map(|port| transmission.serve_port(now, port, driver)).sum();
        taken + sent
    }

    /// Whether the last [`Transmitter::run_once`] left a port frames that were to have left by now: they go with the next
    /// polls, before which an lcore should not give its CPU away.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.transmission.manner.is_behind
    }

    /// Moves packets from the forwarders' rings into the egress queues.
    fn take_over(&mut self, now: Time) -> usize {
        let mut taken = 0;
        for input in &mut self.inputs {
            let ready = input.slots().min(TAKEN_MAX);
            let Ok(chunk) = input.read_chunk(ready) else { continue };
            chunk.into_iter().for_each(|queued| self.transmission.enqueue(now, queued));
            taken += ready;
        }
        taken
    }

    /// Gives up everything that is held, counting it; returns how much.
    pub(super) fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        let mut discarded = 0;
        loop {
            let more = self.take_over(now) + self.transmission.discard_ports(now, reason);
            if more == 0 {
                return discarded;
            }
            discarded += more;
        }
    }

    /// The earliest instant after `now` at which there may be something to do without a packet arriving: a shaper's
    /// wire or a queue's limiter is free, a peer's pause ends, a PAUSE is to be refreshed, a watchdog is to look.
    pub(super) fn next_wakeup(&self, now: Time) -> Time {
        self.transmission.next_wakeup(now)
    }

    /// In debug builds: whether each frame that was taken over has been sent or dropped, or is here. Between any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub(super) fn audit(&self) {
        self.transmission.audit();
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(super) fn serve(&mut self, now: Time) {
        self.transmission.serve(now);
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.transmission.published()
    }
}

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Serves one port; returns how many frames went out.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let missed = self.make_up(now, index);
        let (moved, held) = self.prepare_port(now, index, driver);
        let port = &mut self.ports[index];
        let (Some(held), true) = (held, !port.backlog.is_empty() || Bursts::is_offering(&port.own)) else {
            port.own.waits = Waits::Nothing;
            port.own.open = ClassSet::EMPTY;
            return moved;
        };
        let blocked = port.own.blocked;
        if port.own.staged.is_none() {
            self.stage_frames(now, index, held | blocked);
        }
        let sent = self.send_staged(now, index, driver);
        self.note_waiting(now, index, held, (missed, sent));
        moved + sent
    }

    /// Moves frames that may go now, none of the `held` classes, from the queues to the port's burst.
    #[inline]
    fn stage_frames(&mut self, now: Time, index: usize, held: ClassSet) {
        let mut ready = self.ready(now, index, held);
        if ready.is_empty() || !self.ports[index].may_send(now) {
            return;
        }
        let mut staged = self.manner.take_spare();
        while !ready.is_empty() && self.ports[index].may_send(now) && !staged.packets.is_full() {
            let free_at = self.ports[index].shaper.free_at();
            let Some(queued) = self.take_next(now, index, &mut ready) else { break };
            let port = &mut self.ports[index];
            port.own.peak.send(port.shaper.free_at().since(free_at));
            staged.push(queued);
        }
        if staged.packets.is_empty() {
            self.manner.spare.push(staged);
        } else {
            self.ports[index].own.staged = Some(staged);
        }
    }

    /// Offers the port its burst, and releases what it accepts.
    #[inline]
    fn send_staged<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        if port.own.has_lanes {
            return self.send_lanes(now, index, driver);
        }
        let Some(mut staged) = port.own.staged.take() else { return 0 };
        let sent = driver.transmit(port.id, &mut staged.packets);
        for (departure, frame_bytes) in staged.departures[..sent].iter().zip(&staged.lengths) {
            self.counters.add_frame(departure.egress, *frame_bytes);
        }
        self.shared.mmu.release(now, &staged.departures[..sent]);
        staged.departures[..sent].iter().for_each(|departure| self.stir_for(departure));
        if staged.packets.is_empty() {
            staged.departures.clear();
            staged.lengths.clear();
            self.manner.spare.push(staged);
        } else {
            staged.departures.drain(..sent);
            staged.lengths.drain(..sent);
            debug_assert_eq!(staged.departures.len(), staged.packets.len());
            self.ports[index].own.staged = Some(staged);
        }
        sent
    }
}
