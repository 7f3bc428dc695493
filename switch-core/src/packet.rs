//! What the switch asks of a packet and of the world around it.

use arrayvec::ArrayVec;
use weir_flowctl::frame::{ControlFrame, DecodeError};
use weir_units::{BitRate, Bytes, MacAddr, PortId, Time};

/// Packets handled at once.
pub const BURST_MAX: usize = 64;

/// A burst of packets, oldest first.
pub type Burst<P> = ArrayVec<P, BURST_MAX>;

/// A packet as the switch sees it: an mbuf with a frame in it, or a simulator's record of one. Owned: dropping it
/// returns its memory.
pub trait Packet: Sized + Send + 'static {
    /// Length of the frame, without FCS.
    fn frame_bytes(&self) -> u32;

    /// Whether this is a MAC control frame: a cheap look, before [`Packet::parse`].
    fn is_control(&self) -> bool;

    /// Reads what the switch needs of the headers.
    fn parse(&self) -> Parsed;

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
}

/// What a port knows when a packet leaves by it (HPCC, SIGCOMM 2019, Fig. 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// When: the packet's first bit is on the wire.
    pub at: Time,
    /// Bytes that the port has sent up to then, with FCS, preamble and gap; control frames apart.
    pub tx_bytes: u64,
    /// What the packet's egress queue still holds, as the buffer charges it.
    pub queue: Bytes,
    /// The port's rate.
    pub rate: BitRate,
}

/// A frame's headers, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A frame to forward.
    Data(Headers),
    /// A MAC control frame, for the switch itself, or why it says nothing.
    Control(Result<ControlFrame, DecodeError>),
    /// Too short to have a header, or a source address that no station has.
    Malformed,
}

/// What forwarding and classification go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Destination address.
    pub destination: MacAddr,
    /// Priority code point of the outer VLAN tag.
    pub pcp: Option<u8>,
    /// Differentiated services code point of the IPv4 or IPv6 header.
    pub dscp: Option<u8>,
}

/// Where packets come from that the switch makes itself: the driver's pools.
pub trait PacketStore<P> {
    /// A copy of a packet to be flooded; `None` if there is no memory for it.
    fn copy(&mut self, packet: &P) -> Option<P>;

    /// A MAC control frame from `source`; `None` if there is no memory for it.
    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<P>;

    /// Takes back a packet that was for the switch itself.
    #[inline]
    fn take_back(&mut self, packet: P) {
        drop(packet);
    }
}

/// The driver's way out.
pub trait PortOutput<P> {
    /// Sends from the front of `burst` what the port accepts now, and leaves the rest; returns how many went.
    fn transmit(&mut self, port: PortId, burst: &mut Burst<P>) -> usize;

    /// Sends up to `limit` packets from the front of `burst`, and leaves the rest; returns how many went. They are of classes
    /// whose frames leave by `queue` of the port's several transmit queues ([`crate::queue_of_class`]). All else goes by
    /// [`PortOutput::transmit`], which is queue 0 of such a port.
    fn transmit_by(&mut self, port: PortId, queue: u8, _burst: &mut Burst<P>, _limit: usize) -> usize {
        unreachable!("port {} of this driver has one transmit queue, and no queue {queue}", port.0)
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
