//! What a host is made from.

use std::net::Ipv4Addr;

use weir_flowctl::Mechanism;
use weir_flowctl::kinds::Pfc;
use weir_units::archive::Value;
use weir_units::{BitRate, Bytes, Class, ClassSet, FrameTimes, LINK_OVERHEAD, MacAddr, Span, Time};
use weir_wire::mac_control::FRAME_BYTES;
use weir_wire::rocev2::{Dscp, PathMtu, QueuePair};

use super::{FrameSizes, Stamps, Turns};

/// A host's NIC.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Line rate.
    pub rate: BitRate,
    /// What a frame takes on the link beyond its length without FCS: FCS, preamble and gap, [`LINK_OVERHEAD`], on a real one.
    pub link_overhead: Bytes,
    /// What frames take on the line, and at the rate that congestion control sets: on a real one, what they take.
    pub frame_times: FrameTimes,
    /// Lengths of its frames: on a port, those of RoCEv2.
    pub sizes: FrameSizes,
    /// Code point of acknowledgements and congestion notifications.
    pub ack_dscp: Dscp,
    /// Class of both, for PFC: the one that the switch gives to `ack_dscp`.
    pub ack_class: Class,
    /// Whether acknowledgements of RDMA have the class and the code point of the data that they answer in place of these.
    pub acks_with_data: bool,
    /// Who takes turns to send data.
    pub turns: Turns,
    /// Whether TCP's frames stand in one queue of the host from when they may be sent, data and acknowledgements in their order. Else
    /// segments are made when their turn comes, and acknowledgements go before data.
    pub queues_tcp: bool,
    /// How far a late poll may catch up on rates: zero in virtual time.
    pub slack: Span,
    /// What it speaks with the switch's port, which must speak the same.
    pub flow_control: Mechanism,
    /// The classes under GFC or credit: the switch's lossless ones.
    pub lossless: ClassSet,
    /// The class that the switch gives to each code point: both ends of a link must count credit alike.
    pub class_of_dscp: [u8; 64],
    /// How fast it takes data in, if that is slower than the line.
    pub receive: Option<ReceiveLimit>,
}

/// A host that takes data in no faster than this, as behind a slow bus.
///
/// What has arrived and is not taken in yet stands in a buffer, class by class, and is taken in in the order of arrival. It is
/// acknowledged on arrival. Acknowledgements and congestion notifications are the NIC's own business, and do not stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLimit {
    /// The rate, counted in bytes on the wire (FCS, preamble and gap included) as the line rate is.
    pub rate: BitRate,
    /// A lossless class with so much in the buffer is OFF. Sizes are of frames with their FCS.
    pub buffer: Bytes,
    /// It is ON again with no more than that; less than `buffer`.
    pub xon: Bytes,
    /// What a lossless class may have beyond `buffer`. A frame that finds no room is dropped; one of another class finds
    /// none beyond `buffer`.
    pub headroom: Bytes,
    /// It is so slow from then on,
    pub from: Time,
    /// and until then, when all that stands in the buffer is taken in at once; [`Time::NEVER`] for good. At other times it
    /// takes in what comes as it comes.
    pub until: Time,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Peer {
    /// MAC address: of the host, for hosts are on one network.
    pub mac: MacAddr,
    /// IP address.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub queue_pair: QueuePair,
    /// Where WRITEs go.
    pub memory: RemoteMemory,
}

/// Memory that a peer lets others write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct RemoteMemory {
    /// Where it begins, in the peer's address space.
    pub virtual_address: u64,
    /// The key to it.
    pub remote_key: u32,
}

impl RemoteMemory {
    /// An emulated host's: it reads neither, but an RETH must name them.
    pub const EMULATED: RemoteMemory = RemoteMemory { virtual_address: 0x1_0000_0000, remote_key: 0x1000 };
}

impl Peer {
    /// For a connection that is to be opened still.
    pub const UNKNOWN: Peer = Peer {
        mac: MacAddr([0; 6]),
        ip: Ipv4Addr::UNSPECIFIED,
        queue_pair: QueuePair::new(0),
        memory: RemoteMemory::EMULATED,
    };
}

/// Why a host can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Two ends of connections with one number.
    #[error("{0:?} is used twice on one host")]
    QueuePairTwice(QueuePair),
    /// A message of no bytes, or of more than a WRITE can carry.
    #[error("a message of {0} can't be sent: it has 1 to 2147483648 bytes")]
    MessageSize(Bytes),
    /// A flow of no bytes.
    #[error("{0:?} has a total of no bytes")]
    NoTotal(QueuePair),
    /// A burst that repeats without time passing.
    #[error("{0:?} repeats its message after no time")]
    NoPeriod(QueuePair),
    /// TCP with segments of no bytes, or of more than a frame carries.
    #[error("{0:?} has an MSS of {1} B: a segment has 1 to 65000 B")]
    SegmentSize(QueuePair, u32),
}

impl HostConfig {
    /// A NIC with an MTU of 1024 B that obeys PFC, acknowledgements at DSCP 48 in class 6, no slack, and no limit to what it
    /// takes in.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, rate: BitRate) -> HostConfig {
        HostConfig {
            mac,
            ip,
            rate,
            link_overhead: LINK_OVERHEAD,
            frame_times: FrameTimes::Exact,
            sizes: FrameSizes::rocev2(PathMtu::BYTES_1024.get() as u16),
            ack_dscp: Dscp::new(48),
            ack_class: Class::new(6),
            acks_with_data: false,
            turns: Turns::Flows,
            queues_tcp: false,
            slack: Span::ZERO,
            flow_control: Mechanism::new(Pfc { quanta: u16::MAX, refresh_percent: 50 }),
            lossless: ClassSet::EMPTY,
            class_of_dscp: [0; 64],
            receive: None,
        }
    }

    /// This host as the other end of a connection.
    pub fn peer(&self, queue_pair: QueuePair) -> Peer {
        Peer { mac: self.mac, ip: self.ip, queue_pair, memory: RemoteMemory::EMULATED }
    }

    /// The longest frame of RDMA of a flow with such stamps, without FCS.
    pub fn frame_bytes_max(&self, stamps: Stamps) -> usize {
        self.sizes.bringing(stamps).frame_max().max(FRAME_BYTES)
    }
}
