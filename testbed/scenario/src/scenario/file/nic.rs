//! `[nic]`, and the transport keys of flows and workloads.

use std::num::NonZeroU32;

use weir_nic::host::congestion::{self, NONE};
use weir_nic::host::entropy::{ENTROPY_KINDS, EntropyKind};
use weir_nic::host::{AckClass, FrameSizes, LossRecovery, RoundRobinUnit, SelectiveConfig, TelemetryMode, Transport};
use weir_nic::tcp::{self, AckPoint, TcpConfig, TcpCongestionKind};
use weir_reader::{Problem, Table};
use weir_units::{Bytes, Class, Span};
use weir_wire::rocev2::PathMtu;

use super::control::{ControlChoice, KindTables};
use super::frame_format::FrameFormat;
use super::keys::nic as keys;
use crate::workload::LoadFraming;

/// Default of `retransmit` for workloads; flows have none unless they or `[nic]` set it.
const RETRANSMIT_DEFAULT: Span = Span::from_millis(4);
const NS3_MTU_DEFAULT: u16 = 1_000;
/// Bytes that the switch's MTU does not count.
const ETHERNET_HEADER: u64 = 14;

/// Settings common to all hosts.
#[derive(Clone, Debug)]
pub(super) struct Nic {
    frames: FrameFormat,
    pub acks: AckClass,
    /// Round-robin unit of data.
    pub turns: RoundRobinUnit,
    /// Whether TCP's frames have a queue.
    pub queues_tcp: bool,
    /// Payload of a full frame.
    pub mtu: u16,
    /// `ack_every`, if the file has it.
    ack_every: Option<NonZeroU32>,
    retransmission: Option<Option<Span>>,
    loss_recovery: LossRecovery,
    /// Congestion control of flows and workloads without one of their own.
    control: &'static str,
    transport: TransportName,
    kinds: KindTables,
}

/// RDMA (`None`), or TCP with its congestion control.
type TransportName = Option<&'static dyn TcpCongestionKind>;

/// Transport of messages.
#[derive(Clone, Debug)]
pub(super) struct TransportConfig {
    pub transport: Transport,
    /// Path in the file of the class of TCP's acknowledgements, if it is there.
    pub ack_class_place: Option<String>,
    pub control: ControlChoice,
    pub ack_every: Option<NonZeroU32>,
    pub retransmission: Option<Span>,
    pub loss_recovery: LossRecovery,
}

impl Nic {
    pub(super) fn read(root: &Table<'_>) -> Nic {
        let table = root.table("nic", "nic");
        let frames = table.get(&keys::FRAMES);
        let usual = match frames {
            FrameFormat::RoceV2 => PathMtu::BYTES_1024.get() as u16,
            FrameFormat::Ns3 | FrameFormat::Ns3Stamped => NS3_MTU_DEFAULT,
        };
        let kinds = KindTables::read(&table, "nic");
        kinds.check(&table);
        let loss_recovery = loss_recovery(&table);
        let ack_every = ack_every(&table, loss_recovery);
        Nic {
            control: control_name(&table).unwrap_or(NONE),
            transport: transport_name(&table).flatten(),
            kinds,
            frames,
            acks: table.get(&keys::ACK_CLASS),
            turns: table.get(&keys::ROUND_ROBIN),
            queues_tcp: table.get(&keys::TCP_QUEUEING),
            mtu: if table.doc().sound(&["nic.frames"]) { mtu(&table, frames).unwrap_or(usual) } else { usual },
            ack_every,
            retransmission: retransmission(&table),
            loss_recovery,
        }
    }

    /// Reads a host's own `mtu`.
    pub(super) fn mtu_of(&self, host: &Table<'_>) -> Option<u16> {
        mtu(host, self.frames)
    }

    /// Returns the lengths of frames with this MTU.
    pub(super) fn sizes(&self, mtu: u16) -> FrameSizes {
        self.frames.sizes(mtu)
    }

    /// Returns the bytes that count for a load. The public simulators count payload alone. Stamps never count, so that all congestion
    /// controls send the same messages.
    pub(super) fn framing(&self, sizes: &FrameSizes, transport: &Transport, link_overhead: Bytes) -> LoadFraming {
        match (self.frames, transport) {
            (FrameFormat::Ns3 | FrameFormat::Ns3Stamped, _) => LoadFraming::PAYLOAD_ONLY,
            (FrameFormat::RoceV2, Transport::Rdma) => LoadFraming {
                payload: Bytes::new(u64::from(sizes.payload_max)),
                overhead: Bytes::new(u64::from(sizes.header)) + link_overhead,
            },
            (FrameFormat::RoceV2, Transport::Tcp(tcp)) => LoadFraming {
                payload: Bytes::new(u64::from(tcp.mss)),
                overhead: Bytes::new(u64::from(sizes.tcp_header)) + link_overhead,
            },
        }
    }
}

impl TransportConfig {
    /// Reads a flow's transport; missing keys take `[nic]`'s values.
    pub(super) fn of_flow(table: &Table<'_>, nic: &Nic) -> TransportConfig {
        let mut transport = TransportConfig::read(table, "flows", nic);
        for key in [keys::ACK_EVERY.name, keys::RETRANSMIT.name] {
            if table.has(key) && transport.transport.is_tcp() {
                refuse_of_rdma(table, key);
            }
        }
        transport.ack_every = ack_every(table, nic.loss_recovery).or(nic.ack_every);
        // Selective retransmission needs a timeout.
        let usual = nic.loss_recovery.is_selective().then_some(RETRANSMIT_DEFAULT);
        transport.retransmission = retransmission(table).or(nic.retransmission).unwrap_or(usual);
        transport
    }

    /// Reads a workload's transport; missing keys take `[nic]`'s values.
    pub(super) fn of_workload(table: &Table<'_>, nic: &Nic) -> TransportConfig {
        TransportConfig {
            ack_every: nic.ack_every.or(Some(NonZeroU32::MIN)),
            retransmission: nic.retransmission.unwrap_or(Some(RETRANSMIT_DEFAULT)),
            ..TransportConfig::read(table, "workloads", nic)
        }
    }

    /// Reads the keys of a table; `above` is its name in the reference.
    fn read(table: &Table<'_>, above: &str, nic: &Nic) -> TransportConfig {
        let own = KindTables::read(table, above);
        let kinds = own.with_defaults(&nic.kinds);
        if !own.is_empty() {
            kinds.check(table);
        }
        let own_control = control_name(table);
        let transport = transport_name(table).unwrap_or(nic.transport);
        let mut control = own_control.unwrap_or(nic.control);
        if transport.is_some() {
            if own_control.is_some_and(|control| control != NONE) {
                refuse_of_rdma(table, "congestion_control");
            }
            control = NONE;
        }
        TransportConfig {
            ack_class_place: kinds.place_of_tcp("ack_class"),
            transport: transport.map_or(Transport::Rdma, |kind| Transport::tcp(kinds.tcp(table, kind))),
            control: kinds.control(table, control),
            ack_every: None,
            retransmission: None,
            loss_recovery: nic.loss_recovery,
        }
    }

    /// Returns the stamps that the frames carry.
    pub(super) fn stamps(&self) -> TelemetryMode {
        self.control.anywhere().telemetry()
    }

    /// Class of TCP's acknowledgements, if they have one of their own.
    pub(super) fn ack_class(&self) -> Option<Class> {
        match &self.transport {
            Transport::Rdma => None,
            Transport::Tcp(tcp) => tcp.acks.map(|acks| acks.class),
        }
    }

    /// Returns the transport, with TCP's acknowledgements at this point.
    pub(super) fn with_acks(&self, acks: AckPoint) -> Transport {
        match &self.transport {
            Transport::Rdma => Transport::Rdma,
            Transport::Tcp(tcp) => Transport::tcp(TcpConfig { acks: Some(acks), ..TcpConfig::clone(tcp) }),
        }
    }

    /// Returns the part of a TCP segment that the switch's MTU counts; `None` for RDMA, whose frames are the host's.
    pub(super) fn tcp_payload(&self) -> Option<u64> {
        match &self.transport {
            Transport::Rdma => None,
            Transport::Tcp(tcp) => Some(u64::from(tcp.mss) + u64::from(FrameSizes::TCP_HEADER) - ETHERNET_HEADER),
        }
    }
}

/// Reads the name of a kind or a preset.
fn control_name(table: &Table<'_>) -> Option<&'static str> {
    let names: Vec<_> = congestion::presets().map(|(name, _)| (name, name)).collect();
    table.choice(keys::CONGESTION_CONTROL.name, &names)
}

/// Reads the transport; the inner `None` is RDMA.
fn transport_name(table: &Table<'_>) -> Option<TransportName> {
    let of_tcp = tcp::kinds().map(|kind| (kind.id(), Some(kind)));
    let names: Vec<(&'static str, TransportName)> = std::iter::once(("rdma", None)).chain(of_tcp).collect();
    table.choice(keys::TRANSPORT.name, &names)
}

fn refuse_of_rdma(table: &Table<'_>, key: &str) {
    let problem = Problem::new(format!("`{key}` is of RDMA, but `transport` is TCP"), format!("take `{key}` out"));
    table
        .doc()
        .note(problem.with_label(table.key_path(key), "").with_label(table.key_path("transport"), "the transport"));
}

fn mtu(table: &Table<'_>, frames: FrameFormat) -> Option<u16> {
    match frames {
        FrameFormat::Ns3 | FrameFormat::Ns3Stamped => table.byte_count("mtu", 1..=16_000).map(|bytes| bytes as u16),
        FrameFormat::RoceV2 => {
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

fn ack_every(table: &Table<'_>, loss_recovery: LossRecovery) -> Option<NonZeroU32> {
    let packets = NonZeroU32::new(table.given(&keys::ACK_EVERY)?)?;
    if loss_recovery.is_selective() && packets > NonZeroU32::MIN {
        let message = "`ack_every` has no effect: with `loss_recovery` \"selective\" each packet is acknowledged";
        table.refuse(keys::ACK_EVERY.name, message, "write ack_every = 1, or take it out");
    }
    Some(packets)
}

/// Reads the recovery of lost packets, the same for all flows and workloads.
fn loss_recovery(table: &Table<'_>) -> LossRecovery {
    let is_selective = table.get(&keys::LOSS_RECOVERY);
    if table.has(keys::REORDERING.name) && !is_selective {
        let help = "write loss_recovery = \"selective\" too, or take it out";
        table.refuse(keys::REORDERING.name, "`reordering` has no effect: go-back-N drops overtaken packets", help);
    }
    if is_selective && table.is_keyword(&keys::RETRANSMIT) {
        let help = "write retransmit = \"4ms\", or loss_recovery = \"go-back-n\"";
        table.refuse(keys::LOSS_RECOVERY.name, "nothing is sent again with `retransmit` \"none\"", help);
    }
    let names: Vec<(&str, &dyn EntropyKind)> = ENTROPY_KINDS.all().iter().map(|kind| (kind.id(), *kind)).collect();
    let default = names[0].1;
    let entropy = table.choice(keys::ENTROPY.name, &names).unwrap_or(default);
    if entropy.id() != default.id() && !is_selective {
        let message = format!("`entropy` \"{}\" lets packets overtake each other, which go-back-N drops", entropy.id());
        table.refuse(keys::ENTROPY.name, message, "write loss_recovery = \"selective\" too");
    }
    match is_selective {
        true => LossRecovery::Selective(SelectiveConfig { reordering: table.get(&keys::REORDERING), entropy }),
        false => LossRecovery::GoBackN,
    }
}

/// Reads the timeout; the inner `None` is `"none"`.
fn retransmission(table: &Table<'_>) -> Option<Option<Span>> {
    if table.is_keyword(&keys::RETRANSMIT) {
        return Some(None);
    }
    table.given(&keys::RETRANSMIT).map(Some)
}
