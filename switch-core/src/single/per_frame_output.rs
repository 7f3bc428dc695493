//! Transmission frame by frame, each at the earliest instant.

use std::marker::PhantomData;
use std::slice::from_ref;

use weir_flowctl::TxBacklog;
use weir_mmu::BufferRelease;
use weir_units::{Class, ClassSet, PortBitmap, Time};

use crate::forwarding::AdmittedSink;
use crate::packet::{Packet, PacketAllocator, PortOutput, QueuedPacket};
use crate::queues::LinkedQueues;
use crate::shared::PortState;
use crate::transmission::{PortTransmitter, Transmission, TransmitMode};

/// Transmit mode of virtual time. No poll is late, so it records no delays.
#[derive(Debug)]
pub(super) struct PerFrameOutput<P, S>(PhantomData<fn() -> (P, S)>);

/// Frame that a port was offered and did not accept.
pub(super) type RefusedFrame<P> = Option<Box<QueuedPacket<P>>>;

// A bypassing frame touches two cache lines of its port.
const _: () = assert!(std::mem::offset_of!(PortTransmitter<RefusedFrame<u64>>, watchdogs) <= 128);

impl<P, S> Default for PerFrameOutput<P, S> {
    fn default() -> PerFrameOutput<P, S> {
        PerFrameOutput(PhantomData)
    }
}

impl<P, S: PortBitmap> TransmitMode<P> for PerFrameOutput<P, S> {
    type Port = RefusedFrame<P>;
    type Queues = LinkedQueues<P>;
    type Ports = S;

    /// Returns a port with one queue for all classes and no transmit backlog: no poll hands over more than the wire carries.
    fn port(&self, _state: &PortState, _tx_queues: u8, _tx_backlog: Option<TxBacklog>) -> RefusedFrame<P> {
        None
    }

    #[inline]
    fn is_offering(port: &RefusedFrame<P>) -> bool {
        port.is_some()
    }

    fn offered(port: &RefusedFrame<P>) -> usize {
        usize::from(port.is_some())
    }

    fn blocks_offered(port: &RefusedFrame<P>, class: Class, count_of: impl Fn(u32) -> u32) -> u32 {
        let refused = port.iter().filter(|queued| queued.charged.egress.class() == class);
        refused.map(|queued| count_of(queued.frame_bytes)).sum()
    }

    fn discard_offered(
        &mut self,
        port: &mut RefusedFrame<P>,
        mut charged: impl FnMut(&[P], &[BufferRelease]),
    ) -> usize {
        let given_up = port.take();
        given_up.iter().for_each(|queued| charged(from_ref(&queued.packet), &[queued.charged]));
        usize::from(given_up.is_some())
    }
}

/// Next stage of admitted packets, which go into their egress queues at once.
impl<P: Packet, S: PortBitmap> AdmittedSink<P> for Transmission<P, PerFrameOutput<P, S>> {
    const OBEYS_CONTROL: bool = true;

    fn take(&mut self, now: Time, admitted: impl Iterator<Item = QueuedPacket<P>>) {
        admitted.for_each(|queued| self.enqueue(now, queued));
    }
}

impl<P: Packet, S: PortBitmap> Transmission<P, PerFrameOutput<P, S>> {
    /// Serves these ports, and any with new work or an enqueued frame; returns the served ports.
    pub(super) fn run_ports<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        ports: S,
        driver: &mut D,
    ) -> S {
        self.pending_ports |= ports;
        let mut served = S::EMPTY;
        while let Some(port) = self.pending_ports.pop_first() {
            served.insert(port);
            self.serve_port(now, self.position_of[port.index()], driver);
        }
        served
    }

    #[inline]
    fn serve_port<D: PortOutput<P> + PacketAllocator<P>>(&mut self, now: Time, index: usize, driver: &mut D) {
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
    fn send<D: PortOutput<P>>(&mut self, now: Time, index: usize, queued: QueuedPacket<P>, driver: &mut D) -> bool {
        let QueuedPacket { packet, frame_bytes, charged } = queued;
        let port = &mut self.ports[index];
        if let Err(packet) = driver.transmit_one(port.id, packet) {
            port.keep(QueuedPacket { packet, frame_bytes, charged });
            return false;
        }
        self.counters.add_frame(charged.egress, frame_bytes);
        self.shared.mmu.release_one(now, &charged);
        self.mark_pending(&charged);
        true
    }
}

impl<P> PortTransmitter<RefusedFrame<P>> {
    /// Keeps a frame that the port did not accept.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, queued: QueuedPacket<P>) {
        self.own = Some(Box::new(queued));
    }
}
