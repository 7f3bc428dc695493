//! Configuration of a host.

use std::net::Ipv4Addr;

use weir_flowctl::PortFlowControl;
use weir_flowctl::kinds::Pfc;
use weir_units::{BitRate, Bytes, Class, ClassSet, LINK_OVERHEAD, MacAddr, SerialisationRounding, Span, Time};
use weir_wire::mac_control::FRAME_BYTES;
use weir_wire::rocev2::{Dscp, PathMtu, QueuePair};

use super::{FrameSizes, RoundRobinUnit, TelemetryMode};

/// Source of the class and code point of RDMA acknowledgements, and their reaction to PAUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckClass {
    /// [`HostConfig::ack_class`] and [`HostConfig::ack_dscp`].
    Own,
    /// The acknowledged data.
    WithData,
    /// The acknowledged data, but the host sends them during its PAUSE too.
    WithDataUnpaused,
}

/// Configuration of a host's NIC.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// MAC address of the host.
    pub mac: MacAddr,
    /// IP address of the host.
    pub ip: Ipv4Addr,
    /// Line rate.
    pub rate: BitRate,
    /// Bytes that a frame occupies on the link beyond its length without FCS: on a real link FCS, preamble and gap,
    /// [`LINK_OVERHEAD`].
    pub link_overhead: Bytes,
    /// Rounding of a frame's serialization delay at line rate and at congestion control's rate: exact on a real
    /// link.
    pub frame_times: SerialisationRounding,
    /// Lengths of the host's frames: on a port, those of RoCEv2.
    pub sizes: FrameSizes,
    /// Code point of acknowledgements and congestion notifications.
    pub ack_dscp: Dscp,
    /// Class of acknowledgements and congestion notifications, for PFC: the priority group of `ack_dscp`.
    pub ack_class: Class,
    /// Source of the class and code point of RDMA acknowledgements.
    pub acks: AckClass,
    /// Unit of the round robin among data senders.
    pub round_robin: RoundRobinUnit,
    /// Whether TCP frames wait in one FIFO of the host once they may be sent, data and acknowledgements in order.
    /// Otherwise segments are built at their turn, and acknowledgements go before data.
    pub queues_tcp: bool,
    /// Longest lateness of a poll that rates may catch up on: zero in virtual time.
    pub slack: Span,
    /// Flow control of the link; the switch's port must have the same.
    pub flow_control: PortFlowControl,
    /// Classes under GFC or credit: the switch's lossless classes.
    pub lossless: ClassSet,
    /// Priority group of each code point in the switch, by the map of the host's port: the class of frames that the host sends.
    pub group_of_dscp: [u8; 64],
    /// Egress queue of each code point in the switch, by the maps of the ports at which its frames come: the class of frames that the host
    /// receives, which it pauses, and counts credit of.
    pub queue_of_dscp: [u8; 64],
    /// Limit on the receive rate, if below line rate.
    pub receive: Option<ReceiveLimit>,
}

/// Limit on a host's receive rate, as behind a slow bus.
///
/// Arrived frames wait in a buffer, counted by class, and leave in order of arrival. They are acknowledged on arrival.
/// Acknowledgements and congestion notifications are handled in the NIC and bypass the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLimit {
    /// Receive rate, in bytes on the wire (FCS, preamble and gap included) like the line rate.
    pub rate: BitRate,
    /// Occupancy of a lossless class from which it is XOFF. Sizes are of frames with their FCS.
    pub buffer: Bytes,
    /// Occupancy of a lossless class up to which it returns to XON; below `buffer`.
    pub xon: Bytes,
    /// Headroom of a lossless class beyond `buffer`; other classes have none. A frame that exceeds its room is
    /// dropped.
    pub headroom: Bytes,
    /// Instant from which the limit holds.
    pub from: Time,
    /// Instant at which the limit ends and the buffer drains at once; [`Time::NEVER`] for no end. Outside the interval,
    /// frames are received without delay.
    pub until: Time,
}

/// Remote end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// MAC address of the remote host; all hosts are on one network.
    pub mac: MacAddr,
    /// IP address of the remote host.
    pub ip: Ipv4Addr,
    /// Queue pair at the remote end.
    pub queue_pair: QueuePair,
    /// Memory that WRITEs are directed to.
    pub memory: RemoteMemory,
}

/// Memory region that a peer exposes for remote writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Start of the region, in the peer's address space.
    pub virtual_address: u64,
    /// Remote key (R_Key) of the region.
    pub remote_key: u32,
}

impl RemoteMemory {
    /// Placeholder of an emulated host: it reads neither field, but an RETH must have them.
    pub const EMULATED: RemoteMemory = RemoteMemory { virtual_address: 0x1_0000_0000, remote_key: 0x1000 };
}

impl Peer {
    /// Placeholder for a connection that is not open yet.
    pub const UNKNOWN: Peer = Peer {
        mac: MacAddr([0; 6]),
        ip: Ipv4Addr::UNSPECIFIED,
        queue_pair: QueuePair::new(0),
        memory: RemoteMemory::EMULATED,
    };
}

/// Reason why a host's configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Two connection ends have the same number.
    #[error("{0:?}: used twice on one host; write two numbers")]
    QueuePairTwice(QueuePair),
    /// Message size of zero, or above the limit of a WRITE.
    #[error("message size out of range ({0}); write 1 to 2147483648 bytes")]
    MessageSize(Bytes),
    /// Flow with a total of zero bytes.
    #[error("{0:?}: total of 0 bytes; write 1 or more")]
    NoTotal(QueuePair),
    /// Repeating burst with a period of zero.
    #[error("{0:?}: period of 0; write a longer one")]
    NoPeriod(QueuePair),
    /// TCP MSS of zero, or above the limit of a frame.
    #[error("{0:?}: MSS out of range ({1} B); write 1 to 65000 B")]
    SegmentSize(QueuePair, u32),
}

impl HostConfig {
    /// Returns the default NIC: MTU of 1024 B, obeys PFC, priority groups by the class selectors of DSCPs, acknowledgements at DSCP 48 in
    /// class 6, no slack, no receive limit.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, rate: BitRate) -> HostConfig {
        HostConfig {
            mac,
            ip,
            rate,
            link_overhead: LINK_OVERHEAD,
            frame_times: SerialisationRounding::Exact,
            sizes: FrameSizes::rocev2(PathMtu::BYTES_1024.get() as u16),
            ack_dscp: Dscp::new(48),
            ack_class: Class::new(6),
            acks: AckClass::Own,
            round_robin: RoundRobinUnit::Flows,
            queues_tcp: false,
            slack: Span::ZERO,
            flow_control: PortFlowControl::new(Pfc { quanta: u16::MAX, refresh_percent: 50 }),
            lossless: ClassSet::EMPTY,
            group_of_dscp: std::array::from_fn(|dscp| (dscp / 8) as u8),
            queue_of_dscp: [0; 64],
            receive: None,
        }
    }

    /// Returns this host as the remote end of a connection.
    pub fn peer(&self, queue_pair: QueuePair) -> Peer {
        Peer { mac: self.mac, ip: self.ip, queue_pair, memory: RemoteMemory::EMULATED }
    }

    /// Returns the length of the longest RDMA frame of a flow with these stamps, without FCS.
    pub fn frame_bytes_max(&self, telemetry: TelemetryMode) -> usize {
        self.sizes.with_telemetry(telemetry).frame_max().max(FRAME_BYTES)
    }
}
