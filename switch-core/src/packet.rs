//! Interfaces to the driver: packets, their memory, and their transmission.

use arrayvec::ArrayVec;
use weir_mmu::{BufferRequest, BurstRequest};
use weir_units::{Bytes, MacAddr, PortId, QueueId, Time};
use weir_wire::HeaderKey;
use weir_wire::ethernet::{FastHeaders, Parsed};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::Telemetry;

use crate::counters::DropReason;

/// Largest number of packets in a burst.
pub const BURST_MAX: usize = 64;

/// A burst of packets, oldest first.
pub type Burst<P> = ArrayVec<P, BURST_MAX>;

/// Direction of a frame, as the port sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the port.
    Inbound,
    /// Sent by the port.
    Outbound,
}

/// Packet: an mbuf with a frame in it, or a simulator's record of a frame. Owned: dropping it returns its memory.
pub trait Packet: Sized + Send + 'static {
    /// Returns the length of the frame in bytes, without FCS.
    fn frame_bytes(&self) -> u32;

    /// Whether the frame is a MAC control frame: a cheap check before [`Packet::parse`].
    fn is_control(&self) -> bool;

    /// Parses the header fields that the switch needs.
    fn parse(&self) -> Parsed;

    /// Returns the fields of [`Packet::parse`] if the packet is of the usual kind. Called for bursts.
    #[inline]
    fn parse_fast(&self) -> FastHeaders {
        FastHeaders::OTHER
    }

    /// Returns the first bytes of the packet, if it has enough. Packets with equal keys have equal results of [`Packet::parse_fast`].
    /// `None` forces a new parse.
    #[inline]
    fn header_key(&self) -> Option<HeaderKey> {
        None
    }

    /// Prefetches the memory that [`PortOutput::transmit`] reads.
    #[inline]
    fn prefetch(&self) {}

    /// Prefetches memory of a packet that has waited long and leaves some bursts later: the part read at transmission, and the likely place
    /// of the next packet.
    #[inline]
    fn prefetch_early(&self) {}

    /// Returns the source address of a data frame. Called only where stations are learned.
    fn source(&self) -> MacAddr;

    /// Returns whether the packet is one of a loop guard that bridges forward. Called only for packets to be flooded, and for the control
    /// thread's.
    #[inline]
    fn is_of_loop_guard(&self) -> bool {
        false
    }

    /// Returns the tag control information (PCP, DEI and VLAN) of the frame, if its outer tag is an 802.1Q one. Called only where there are
    /// VLANs, which virtual time has not.
    #[inline]
    fn tag(&self) -> Option<u16> {
        None
    }

    /// Adds, changes or removes that tag; returns false, and changes nothing, without memory for a tag. A removed tag of a short frame is
    /// replaced by padding. Called only where there are VLANs.
    #[inline]
    fn set_tag(&mut self, _tag: Option<u16>) -> bool {
        false
    }

    /// Sets CE if the packet is ECN-capable, and updates the checksum; returns whether it carries CE now.
    fn mark_ce(&mut self) -> bool;

    /// Returns a hash of the packet's flow: all packets of a flow take the same of several equal-cost paths. Called only where there are
    /// several.
    fn flow_hash(&self) -> u32;

    /// Returns whether the packet collects telemetry of the egress ports on its path (in-band telemetry). Called only where the switch
    /// stamps frames.
    #[inline]
    fn wants_telemetry(&self) -> bool {
        false
    }

    /// Adds the telemetry of the egress port. Called when the packet is taken from its queue.
    #[inline]
    fn stamp(&mut self, _telemetry: &Telemetry) {}

    /// Returns whether the packet collects a digest of its path's utilisation. Called where the switch stamps frames, for packets without
    /// telemetry.
    #[inline]
    fn wants_digest(&self) -> bool {
        false
    }

    /// Returns whether the sender marked the packet as part of its flow's first round trip. Called in virtual time.
    #[inline]
    fn is_unscheduled(&self) -> bool {
        false
    }

    /// Raises the packet's digest to the egress port's code, if that is larger.
    #[inline]
    fn raise_digest(&mut self, _code: u16) {}
}

/// Packet between admission and departure, with its charge.
#[derive(Debug)]
pub(crate) struct QueuedPacket<P> {
    pub(crate) packet: P,
    /// Length in bytes without FCS; kept here so that the scheduler need not touch the packet.
    pub(crate) frame_bytes: u32,
    pub(crate) charged: BufferRequest,
}

impl<P: Packet> QueuedPacket<P> {
    #[inline(always)]
    pub(crate) fn new(packet: P, charged: BufferRequest) -> QueuedPacket<P> {
        QueuedPacket { frame_bytes: packet.frame_bytes(), packet, charged }
    }

    #[inline(always)]
    pub(crate) fn all(packets: &mut Burst<P>, request: &BurstRequest) -> impl Iterator<Item = QueuedPacket<P>> {
        packets.drain(..).zip(request.packets()).map(|(packet, charged)| QueuedPacket::new(packet, charged))
    }
}

/// Packets that a port is offered together: runs of contiguous places, at most [`BURST_MAX`] in total, in order of departure.
pub trait PacketRuns<P> {
    /// Calls `show` for each run.
    fn for_each_run(&mut self, show: impl FnMut(&mut [Option<P>]));

    /// Puts unsent packets back: the last ones, in order.
    fn put_back(&mut self, sent: usize, mut packets: impl Iterator<Item = P>) {
        let mut remaining = sent;
        self.for_each_run(|run| {
            let run_sent = remaining.min(run.len());
            remaining -= run_sent;
            run[run_sent..].iter_mut().zip(&mut packets).for_each(|(place, packet)| *place = Some(packet));
        });
    }
}

impl<P> PacketRuns<P> for &mut [Option<P>] {
    #[inline]
    fn for_each_run(&mut self, mut show: impl FnMut(&mut [Option<P>])) {
        show(self);
    }
}

/// Sends runs of packets by means of a burst, as [`PortOutput::transmit_runs`] does.
pub fn transmit_runs_as_burst<P>(
    runs: &mut impl PacketRuns<P>,
    transmit: impl FnOnce(&mut Burst<P>) -> usize,
) -> usize {
    let mut burst = Burst::new();
    runs.for_each_run(|run| burst.extend(run.iter_mut().map_while(Option::take)));
    let sent = transmit(&mut burst);
    runs.put_back(sent, burst.into_iter());
    sent
}

/// Allocator of packets that the switch itself makes: the driver's pools.
pub trait PacketAllocator<P> {
    /// Returns a copy of a packet for flooding or a clone; `None` without memory.
    fn copy(&mut self, packet: &P) -> Option<P>;

    /// Returns a MAC control frame from `source`; `None` without memory.
    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<P>;

    /// Returns the bytes on the wire of a message that is sent below the MAC; `None` for a frame.
    fn control_wire_bytes(&self, _frame: &ControlFrame) -> Option<Bytes> {
        None
    }

    /// Reports that a MAC control frame slows the peer because of an arrival at `crossed`. Called before the frame is sent, in virtual time
    /// as on lcores.
    #[inline]
    fn on_threshold_crossed(&mut self, _packet: &mut P, _crossed: Time) {}

    /// Recycles a packet that was addressed to the switch itself.
    #[inline]
    fn recycle(&mut self, packet: P) {
        drop(packet);
    }

    /// Reports a packet that is dropped at `now`: before admission to an ingress queue (inbound), or from an egress queue (outbound). The
    /// queue's counter of this reason includes it from then on. Not called for drops when the switch stops, nor for want of packet memory.
    #[inline]
    fn on_drop(&mut self, _now: Time, _packet: &P, _queue: QueueId, _direction: Direction, _reason: DropReason) {}

    /// Copies a frame of LLDP or the loop guard that `port` received to the control thread. Returns false if the packet is another one, or nobody
    /// takes it: it is dropped then.
    #[inline]
    fn take_lldp(&mut self, _port: PortId, _packet: &P) -> bool {
        false
    }
}

/// Transmit interface of the driver.
pub trait PortOutput<P> {
    /// Sends the packets that the port accepts now from the front of `burst`, and leaves the rest; returns the number sent.
    fn transmit(&mut self, port: PortId, burst: &mut Burst<P>) -> usize;

    /// Sends the packets that the port accepts now from the front of these runs, whose places are all `Some`. Sent packets leave `None`;
    /// the others stay. Returns the number sent.
    fn transmit_runs(&mut self, port: PortId, runs: &mut impl PacketRuns<P>) -> usize {
        transmit_runs_as_burst(runs, |burst| self.transmit(port, burst))
    }

    /// Sends up to `limit` packets from the front of `burst`, and leaves the rest; returns the number sent. Their classes belong to `queue`
    /// of the port's several transmit queues ([`crate::burst::queue_of_class`]). All other packets use [`PortOutput::transmit`], which is
    /// queue 0 of such a port.
    fn transmit_by(&mut self, port: PortId, queue: u8, _burst: &mut Burst<P>, _limit: usize) -> usize {
        unreachable!("port {} of this driver has one transmit queue, and no queue {queue}", port.0)
    }

    /// Transmits control frames as [`PortOutput::transmit`] does. If the port has a transmit queue for them, they may overtake frames that
    /// it accepted before. Their own order is kept.
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
