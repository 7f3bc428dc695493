//! Transmission frame by frame, each at the earliest instant.

use std::marker::PhantomData;
use std::slice::from_ref;

use weir_flowctl::TxBacklog;
use weir_flowctl::cbfc::blocks;
use weir_mmu::Departure;
use weir_units::{Class, ClassSet, SetOfPorts, Time};

use crate::forwarding::Onward;
use crate::packet::{Packet, PacketStore, PortOutput, Queued};
use crate::queues::Queues;
use crate::shared::PortState;
use crate::transmission::{Manner, OutPort, Transmission};

/// Transmit mode of virtual time. No poll is late, so it records no delays.
#[derive(Debug)]
pub(super) struct OneByOne<P, S>(PhantomData<fn() -> (P, S)>);

/// Frame that a port was offered and did not accept.
type Refused<P> = Option<Box<Queued<P>>>;

// A bypassing frame touches two cache lines of its port.
const _: () = assert!(std::mem::offset_of!(OutPort<Refused<u64>>, watchdogs) <= 128);

impl<P, S> Default for OneByOne<P, S> {
    fn default() -> OneByOne<P, S> {
        OneByOne(PhantomData)
    }
}

impl<P, S: SetOfPorts> Manner<P> for OneByOne<P, S> {
    type Port = Refused<P>;
    type Queues = Queues<P>;
    type Ports = S;

    /// Returns a port with one queue for all classes and no transmit backlog: no poll hands over more than the wire carries.
    fn port(&self, _state: &PortState, _tx_queues: u8, _tx_backlog: Option<TxBacklog>) -> Refused<P> {
        None
    }

    #[inline]
    fn is_offering(port: &Refused<P>) -> bool {
        port.is_some()
    }

    fn offered(port: &Refused<P>) -> usize {
        usize::from(port.is_some())
    }

    fn blocks_offered(port: &Refused<P>, class: Class) -> u32 {
        let refused = port.iter().filter(|queued| queued.charged.egress.class() == class);
        refused.map(|queued| blocks(queued.frame_bytes)).sum()
    }

    fn give_up(&mut self, port: &mut Refused<P>, mut charged: impl FnMut(&[P], &[Departure])) -> usize {
        let given_up = port.take();
        given_up.iter().for_each(|queued| charged(from_ref(&queued.packet), &[queued.charged]));
        usize::from(given_up.is_some())
    }
}

/// Next stage of admitted packets, which go into their egress queues at once.
impl<P: Packet, S: SetOfPorts> Onward<P> for Transmission<P, OneByOne<P, S>> {
    const OBEYS_CONTROL: bool = true;

    fn take(&mut self, now: Time, admitted: impl Iterator<Item = Queued<P>>) {
        admitted.for_each(|queued| self.enqueue(now, queued));
    }
}

impl<P: Packet, S: SetOfPorts> Transmission<P, OneByOne<P, S>> {
    /// Serves these ports, and any with new work or an enqueued frame; returns the served ports.
    pub(super) fn run_ports<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, ports: S, driver: &mut D) -> S {
        self.stirred |= ports;
        let mut served = S::EMPTY;
        while let Some(port) = self.stirred.pop_first() {
            served.insert(port);
            self.serve_port(now, self.position_of[port.index()], driver);
        }
        served
    }

    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) {
        let (_, Some(held)) = self.prepare_port(now, index, driver) else { return };
        if self.ports[index].own.is_some() {
            self.send_refused(now, index, driver);
        } else if !self.ports[index].backlog.is_empty() {
            self.send_ready(now, index, held, driver);
        }
    }

    /// Offers a port the frame again that it did not accept.
    #[cold]
    #[inline(never)]
    fn send_refused<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) {
        if let Some(refused) = self.ports[index].own.take() {
            self.send(now, index, *refused, driver);
        }
    }

    /// Sends frames that may leave now, except of the `held` classes.
    #[inline]
    fn send_ready<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) {
        let mut ready = self.ready(now, index, held);
        while !ready.is_empty() && self.ports[index].shaper.is_free(now) {
            let Some(queued) = self.take_next(now, index, &mut ready) else { break };
            if !self.send(now, index, queued, driver) {
                break;
            }
        }
    }

    /// Offers a port a frame, and releases it; returns whether the port accepts it. If not, the frame is kept and offered again first.
    #[inline(always)]
    fn send<D: PortOutput<P>>(&mut self, now: Time, index: usize, queued: Queued<P>, driver: &mut D) -> bool {
        let Queued { packet, frame_bytes, charged } = queued;
        let port = &mut self.ports[index];
        if let Err(packet) = driver.transmit_one(port.id, packet) {
            port.keep(Queued { packet, frame_bytes, charged });
            return false;
        }
        self.counters.add_frame(charged.egress, frame_bytes);
        self.shared.mmu.release_one(now, &charged);
        self.stir_for(&charged);
        true
    }
}

impl<P> OutPort<Refused<P>> {
    /// Keeps a frame that the port did not accept.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, queued: Queued<P>) {
        self.own = Some(Box::new(queued));
    }
}
