//! `[nic]`, and what flows and workloads say of how hosts carry them.

use std::num::NonZeroU32;

use weir_nic::host::{CongestionControl, FrameSizes, Stamps, Transport};
use weir_nic::tcp::{Control, CubicConfig, DctcpConfig, TcpConfig};
use weir_reader::{Problem, TIME, Table};
use weir_units::{BitRate, Bytes, Span};
use weir_wire::rocev2::PathMtu;

use crate::workload::Framing;

/// Of workloads, and of flows if `[nic]` says it.
const RETRANSMIT_DEFAULT: Span = Span::from_millis(4);
const NS3_MTU_DEFAULT: u16 = 1_000;
/// What the switch's MTU does not count.
const ETHERNET_HEADER: u64 = 14;

/// What all hosts have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nic {
    frames: Frames,
    /// Payload of a full frame.
    pub mtu: u16,
    /// Where the file says it.
    ack_every: Option<NonZeroU32>,
    retransmission: Option<Option<Span>>,
}

/// Whose frames have their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    RoceV2,
    Ns3,
}

/// How messages are carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carriage {
    pub transport: Transport,
    /// One of [`CongestionControl::PRESETS`].
    pub control: &'static str,
    pub ack_every: Option<NonZeroU32>,
    pub retransmission: Option<Span>,
}

impl Nic {
    pub(super) fn read(root: &Table<'_>) -> Nic {
        let table = root.table("nic", "nic");
        let frames = table.choice("frames", &[("rocev2", Frames::RoceV2), ("ns3", Frames::Ns3)]);
        let frames = frames.unwrap_or(Frames::RoceV2);
        let usual = match frames {
            Frames::RoceV2 => PathMtu::BYTES_1024.get() as u16,
            Frames::Ns3 => NS3_MTU_DEFAULT,
        };
        Nic {
            frames,
            mtu: if table.doc().sound(&["nic.frames"]) { mtu(&table, frames).unwrap_or(usual) } else { usual },
            ack_every: ack_every(&table),
            retransmission: retransmission(&table),
        }
    }

    /// The `mtu` that a host says itself.
    pub(super) fn mtu_of(&self, host: &Table<'_>) -> Option<u16> {
        mtu(host, self.frames)
    }

    /// The lengths of frames of such an MTU.
    pub(super) fn sizes(&self, mtu: u16) -> FrameSizes {
        match self.frames {
            Frames::RoceV2 => FrameSizes::rocev2(mtu),
            Frames::Ns3 => FrameSizes::ns3(mtu),
        }
    }

    /// What counts for a load. The public simulators count payload alone; stamps never count, so that the same messages are sent
    /// under every congestion control.
    pub(super) fn framing(&self, sizes: &FrameSizes, transport: Transport, link_overhead: Bytes) -> Framing {
        match (self.frames, transport) {
            (Frames::Ns3, _) => Framing::PAYLOAD_ONLY,
            (Frames::RoceV2, Transport::Rdma) => Framing {
                payload: Bytes::new(u64::from(sizes.payload_max)),
                overhead: Bytes::new(u64::from(sizes.header)) + link_overhead,
            },
            (Frames::RoceV2, Transport::Tcp(tcp)) => Framing {
                payload: Bytes::new(u64::from(tcp.mss)),
                overhead: Bytes::new(u64::from(sizes.tcp_header)) + link_overhead,
            },
        }
    }
}

impl Carriage {
    /// What a flow says; what it does not is `[nic]`'s.
    pub(super) fn of_flow(table: &Table<'_>, nic: &Nic) -> Carriage {
        let mut carriage = Carriage::read(table);
        for key in ["ack_every", "retransmit"] {
            if table.has(key) && matches!(carriage.transport, Transport::Tcp(_)) {
                refuse_of_rdma(table, key);
            }
        }
        carriage.ack_every = ack_every(table).or(nic.ack_every);
        carriage.retransmission = retransmission(table).or(nic.retransmission).flatten();
        carriage
    }

    /// What a workload says, and `[nic]`.
    pub(super) fn of_workload(table: &Table<'_>, nic: &Nic) -> Carriage {
        Carriage {
            ack_every: nic.ack_every.or(Some(NonZeroU32::MIN)),
            retransmission: nic.retransmission.unwrap_or(Some(RETRANSMIT_DEFAULT)),
            ..Carriage::read(table)
        }
    }

    fn read(table: &Table<'_>) -> Carriage {
        let tcp = |control| Transport::Tcp(TcpConfig::datacentre(control));
        let transports = [
            ("rdma", Transport::Rdma),
            ("tcp-cubic", tcp(Control::Cubic(CubicConfig::default()))),
            ("tcp-dctcp", tcp(Control::Dctcp(DctcpConfig::default()))),
            ("tcp-reno", tcp(Control::Reno)),
        ];
        let transport = table.choice("transport", &transports).unwrap_or(Transport::Rdma);
        let controls: Vec<_> = CongestionControl::PRESETS.iter().map(|(name, _)| (*name, *name)).collect();
        let control = table.choice("congestion_control", &controls).unwrap_or("none");
        if control != "none" && matches!(transport, Transport::Tcp(_)) {
            refuse_of_rdma(table, "congestion_control");
        }
        Carriage { transport, control, ack_every: None, retransmission: None }
    }

    /// What its frames bring.
    pub(super) fn stamps(&self) -> Stamps {
        // They are the same at any rate and round trip.
        let control = CongestionControl::preset(self.control, BitRate::gbps(1), Span::from_micros(1));
        control.map_or(Stamps::None, |control| control.stamps())
    }

    /// What the switch's MTU counts of a TCP segment; `None` for RDMA, whose frames are the host's.
    pub(super) fn tcp_payload(&self) -> Option<u64> {
        match self.transport {
            Transport::Rdma => None,
            Transport::Tcp(tcp) => Some(u64::from(tcp.mss) + u64::from(FrameSizes::TCP_HEADER) - ETHERNET_HEADER),
        }
    }
}

fn refuse_of_rdma(table: &Table<'_>, key: &str) {
    let problem = Problem::new(format!("`{key}` is of RDMA, but `transport` is TCP"), format!("take `{key}` out"));
    table.doc().note(problem.at(table.at(key), "").at(table.at("transport"), "the transport"));
}

fn mtu(table: &Table<'_>, frames: Frames) -> Option<u16> {
    match frames {
        Frames::Ns3 => table.byte_count("mtu", 1..=16_000).map(|bytes| bytes as u16),
        Frames::RoceV2 => {
            let bytes = table.byte_count("mtu", 1..=65_535)?;
            let mtu = PathMtu::new(bytes as u16);
            if mtu.is_none() {
                let help = "write 256, 512, 1024, 2048 or 4096: InfiniBand has no others";
                table.refuse("mtu", format!("{bytes} is no path MTU"), help);
            }
            mtu.map(|mtu| mtu.get() as u16)
        }
    }
}

fn ack_every(table: &Table<'_>) -> Option<NonZeroU32> {
    NonZeroU32::new(table.integer("ack_every", 1..=1_000_000)? as u32)
}

/// The timeout; the inner `None` is `"none"`.
fn retransmission(table: &Table<'_>) -> Option<Option<Span>> {
    if table.word("retransmit") == Some("none") {
        return Some(None);
    }
    table.quantity("retransmit", &TIME, Span::from_micros(1)..=Span::from_secs(100)).map(Some)
}
