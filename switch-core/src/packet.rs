//! What the switch asks of a packet and of the world around it.

use arrayvec::ArrayVec;
use weir_mmu::{Arrival, Intake};
use weir_units::archive::{Archive, Blank, State};
use weir_units::{MacAddr, PortId, QueueId, Time};
use weir_wire::Head;
use weir_wire::ethernet::{Glance, Parsed};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::Telemetry;

use crate::counters::DropReason;

/// Packets handled at once.
pub const BURST_MAX: usize = 64;

/// A burst of packets, oldest first.
pub type Burst<P> = ArrayVec<P, BURST_MAX>;

/// Which way a frame went, as the port sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the port.
    Inbound,
    /// Sent by the port.
    Outbound,
}

/// A packet as the switch sees it: an mbuf with a frame in it, or a simulator's record of one. Owned: dropping it
/// returns its memory.
pub trait Packet: Sized + Send + 'static {
    /// Length of the frame, without FCS.
    fn frame_bytes(&self) -> u32;

    /// Whether this is a MAC control frame: a cheap look, before [`Packet::parse`].
    fn is_control(&self) -> bool;

    /// Reads what the switch needs of the headers.
    fn parse(&self) -> Parsed;

    /// Looks whether the packet is of the usual kind, and if so reads what [`Packet::parse`] would. Asked of bursts.
    #[inline]
    fn glance(&self) -> Glance {
        Glance::OTHER
    }

    /// The first bytes of the packet, if it has enough: with equal ones [`Packet::glance`] tells the same. `None` has it looked at anew.
    #[inline]
    fn head(&self) -> Option<Head> {
        None
    }

    /// Has the cache fetch what [`PortOutput::transmit`] will look at.
    #[inline]
    fn prefetch(&self) {}

    /// Has memory fetched of a packet that has stood for long and leaves some bursts later: what is looked at then, and where the next packet
    /// may come to lie.
    #[inline]
    fn prefetch_early(&self) {}

    /// Source address of what [`Packet::parse`] says is data. Asked only where stations are learned.
    fn source(&self) -> MacAddr;

    /// Sets CE if the packet is ECN-capable, and mends the checksum; returns whether it carries CE now.
    fn mark_ce(&mut self) -> bool;

    /// A hash of what tells the packet's flow from others: of several ways of equal cost, all packets of a flow go the same.
    /// Asked only where there are several.
    fn flow_hash(&self) -> u32;

    /// Whether the packet collects what switches know of the ports that it leaves by (in-band telemetry). Asked only where
    /// the switch is to stamp.
    #[inline]
    fn wants_telemetry(&self) -> bool {
        false
    }

    /// Takes what the port that it leaves by knows. Called when it is taken from its queue.
    #[inline]
    fn stamp(&mut self, _telemetry: &Telemetry) {}

    /// Whether the packet collects a digest of how busy its way is. Asked where the switch is to stamp, of packets that want no
    /// telemetry.
    #[inline]
    fn wants_digest(&self) -> bool {
        false
    }

    /// Whether its sender says that it belongs to the first round trip of its flow. Asked in virtual time.
    #[inline]
    fn is_unscheduled(&self) -> bool {
        false
    }

    /// Takes the code of the port that it leaves by, if it is the largest so far.
    #[inline]
    fn raise_digest(&mut self, _code: u16) {}
}

/// A packet on its way from admission to its egress queue, and in it, with what it was charged.
#[derive(Debug)]
pub(crate) struct Queued<P> {
    pub(crate) packet: P,
    /// Length without FCS, beside the packet so that the scheduler need not touch it.
    pub(crate) frame_bytes: u32,
    pub(crate) charged: Arrival,
}

impl<P: State> State for Queued<P> {
    fn state(&mut self, archive: &mut Archive) {
        let Queued { packet, frame_bytes, charged } = self;
        packet.state(archive);
        frame_bytes.state(archive);
        charged.state(archive);
    }
}

impl<P: Blank> Blank for Queued<P> {
    fn blank() -> Queued<P> {
        Queued { packet: P::blank(), frame_bytes: 0, charged: Arrival::default() }
    }
}

impl<P: Packet> Queued<P> {
    #[inline(always)]
    pub(crate) fn new(packet: P, charged: Arrival) -> Queued<P> {
        Queued { frame_bytes: packet.frame_bytes(), packet, charged }
    }

    /// A burst's packets with what each was charged; takes them out of the burst.
    #[inline(always)]
    pub(crate) fn all(packets: &mut Burst<P>, intake: &Intake) -> impl Iterator<Item = Queued<P>> {
        packets.drain(..).zip(intake.packets()).map(|(packet, charged)| Queued::new(packet, charged))
    }
}

/// Packets that a port is offered together: rows of places, [`BURST_MAX`] at most, in the order in which they are to leave.
pub trait Rows<P> {
    /// Shows each row.
    fn each(&mut self, show: impl FnMut(&mut [Option<P>]));

    /// Puts packets back that did not go: the last ones, in their order.
    fn put_back(&mut self, sent: usize, mut packets: impl Iterator<Item = P>) {
        let mut gone = sent;
        self.each(|row| {
            let of_row = gone.min(row.len());
            gone -= of_row;
            row[of_row..].iter_mut().zip(&mut packets).for_each(|(place, packet)| *place = Some(packet));
        });
    }
}

impl<P> Rows<P> for &mut [Option<P>] {
    #[inline]
    fn each(&mut self, mut show: impl FnMut(&mut [Option<P>])) {
        show(self);
    }
}

/// Sends rows of packets by way of a burst, as [`PortOutput::transmit_rows`] does.
pub fn transmit_rows_as_burst<P>(rows: &mut impl Rows<P>, transmit: impl FnOnce(&mut Burst<P>) -> usize) -> usize {
    let mut burst = Burst::new();
    rows.each(|row| burst.extend(row.iter_mut().map_while(Option::take)));
    let sent = transmit(&mut burst);
    rows.put_back(sent, burst.into_iter());
    sent
}

/// Where packets come from that the switch makes itself: the driver's pools.
pub trait PacketStore<P> {
    /// A copy of a packet to be flooded; `None` if there is no memory for it.
    fn copy(&mut self, packet: &P) -> Option<P>;

    /// A MAC control frame from `source`; `None` if there is no memory for it.
    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<P>;

    /// A MAC control frame tells the peer to slow down because of an arrival at `crossed`. Called before the frame is sent, in virtual
    /// time as on lcores.
    #[inline]
    fn note_crossed(&mut self, _packet: &mut P, _crossed: Time) {}

    /// Takes back a packet that was for the switch itself.
    #[inline]
    fn take_back(&mut self, packet: P) {
        drop(packet);
    }

    /// Takes note of a packet that an lcore gives up at `now`: of an ingress queue, which it was not admitted to (inbound), or of an
    /// egress queue, in which it waited (outbound). It is counted there for this reason. Not called of what is given up when the
    /// switch stops, nor in virtual time.
    #[inline]
    fn note_drop(&mut self, _now: Time, _packet: &P, _queue: QueueId, _direction: Direction, _reason: DropReason) {}
}

/// The driver's way out.
pub trait PortOutput<P> {
    /// Sends from the front of `burst` what the port accepts now, and leaves the rest; returns how many went.
    fn transmit(&mut self, port: PortId, burst: &mut Burst<P>) -> usize;

    /// Sends from the front of these rows, all of whose places are `Some`, what the port accepts now, and leaves `None` in their places;
    /// the others stay. Returns how many went.
    fn transmit_rows(&mut self, port: PortId, rows: &mut impl Rows<P>) -> usize {
        transmit_rows_as_burst(rows, |burst| self.transmit(port, burst))
    }

    /// Sends up to `limit` packets from the front of `burst`, and leaves the rest; returns how many went. They are of classes
    /// whose frames leave by `queue` of the port's several transmit queues ([`crate::burst::queue_of_class`]). All else goes by
    /// [`PortOutput::transmit`], which is queue 0 of such a port.
    fn transmit_by(&mut self, port: PortId, queue: u8, _burst: &mut Burst<P>, _limit: usize) -> usize {
        unreachable!("port {} of this driver has one transmit queue, and no queue {queue}", port.0)
    }

    /// Transmits control frames as [`PortOutput::transmit`] does. Where the port has a transmit queue for them, they may overtake frames
    /// that it accepted before. They stay in order among themselves.
    fn transmit_control(&mut self, port: PortId, burst: &mut Burst<P>) -> usize {
        self.transmit(port, burst)
    }

    /// Sends one packet; returns it if the port does not accept it now.
    #[inline]
    fn transmit_one(&mut self, port: PortId, packet: P) -> Result<(), P> {
        let mut burst = Burst::new();
        burst.push(packet);
        self.transmit(port, &mut burst);
        burst.pop().map_or(Ok(()), Err)
    }
}
