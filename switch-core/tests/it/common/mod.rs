//! A switch without a driver: packets are small values, time is an argument.

#![allow(dead_code)]

use std::collections::VecDeque;

use weir_config::{LcoreLayout, SwitchConfig};
use weir_flowctl::CatchUp;
use weir_switch_core::burst::{Lcore, LcorePlan, Lcores};
use weir_switch_core::{Burst, DriverConfig, Packet, PacketAllocator, PortInfo, PortOutput, Report, Switch};
use weir_units::{ClassSet, MacAddr, PortId, Span, Time};
use weir_wire::HeaderKey;
use weir_wire::ethernet::{FastHeaders, Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, PfcFrame};
use weir_wire::trailer::Telemetry;

/// A frame as a few numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestFrame {
    pub frame_bytes: u32,
    pub parsed: Parsed,
    pub source: MacAddr,
    /// Tag control information of the 802.1Q tag.
    pub tag: Option<u16>,
    pub sequence: u64,
    pub ce: bool,
    /// What switches have stamped; `None` where it does not ask for that.
    pub stamps: Option<Vec<Telemetry>>,
    /// Whether the fast parser recognises the frame, if it is plain.
    pub shows: bool,
}

impl Packet for TestFrame {
    fn frame_bytes(&self) -> u32 {
        self.frame_bytes
    }
    fn is_control(&self) -> bool {
        matches!(self.parsed, Parsed::Control(_))
    }
    fn parse(&self) -> Parsed {
        self.parsed
    }
    fn parse_fast(&self) -> FastHeaders {
        match self.parsed {
            Parsed::Data(Headers { destination, pcp, dscp: Some(dscp) }) if self.shows && !destination.is_group() => {
                let (destination, source) = (destination.to_u64(), self.source.to_u64());
                FastHeaders { destination, source, dscp, pcp: pcp.unwrap_or(FastHeaders::NO_PCP), is_plain: true }
            }
            _ => FastHeaders::OTHER,
        }
    }
    fn header_key(&self) -> Option<HeaderKey> {
        let FastHeaders { destination, source, dscp, is_plain, .. } = self.parse_fast();
        let mut frame = [0; 64];
        frame[..6].copy_from_slice(&MacAddr::from_u64(destination).0);
        frame[6..12].copy_from_slice(&MacAddr::from_u64(source).0);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2]);
        if is_plain { weir_wire::header_key(&frame) } else { None }
    }
    fn source(&self) -> MacAddr {
        self.source
    }
    fn tag(&self) -> Option<u16> {
        self.tag
    }
    fn set_tag(&mut self, tag: Option<u16>) -> bool {
        self.frame_bytes = self.frame_bytes + 4 * u32::from(tag.is_some()) - 4 * u32::from(self.tag.is_some());
        self.tag = tag;
        true
    }
    fn mark_ce(&mut self) -> bool {
        self.ce = true;
        true
    }
    fn flow_hash(&self) -> u32 {
        self.sequence as u32
    }
    fn wants_telemetry(&self) -> bool {
        self.stamps.is_some()
    }
    fn stamp(&mut self, telemetry: &Telemetry) {
        self.stamps.as_mut().expect("asked for").push(*telemetry);
    }
}

/// The world around the switch: what each port sent, and whether it accepts more.
#[derive(Default)]
pub(crate) struct World {
    pub sent: Vec<Vec<TestFrame>>,
    /// Frames that a port accepts a call; `None` for all.
    pub accepts: Option<usize>,
    pub copies_fail: bool,
    /// What each of several transmit queues took: port, queue, sequence.
    pub by_queue: Vec<(u16, u8, u64)>,
    /// Transmit queues that take nothing, one bit each.
    pub full_queues: u8,
    /// How many frames ports sent by a queue that is for control frames alone.
    pub sent_as_control: usize,
    /// Whether LLDP frames are taken, and the ports that received those.
    pub takes_lldp: bool,
    pub lldp_from: Vec<u16>,
}

impl PacketAllocator<TestFrame> for World {
    fn copy(&mut self, packet: &TestFrame) -> Option<TestFrame> {
        (!self.copies_fail).then(|| packet.clone())
    }
    fn control(&mut self, frame: &ControlFrame, _source: MacAddr) -> Option<TestFrame> {
        Some(control(*frame))
    }
    fn take_lldp(&mut self, port: PortId, _packet: &TestFrame) -> bool {
        if self.takes_lldp {
            self.lldp_from.push(port.0);
        }
        self.takes_lldp
    }
}

impl PortOutput<TestFrame> for World {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<TestFrame>) -> usize {
        let n = burst.len().min(self.accepts.unwrap_or(usize::MAX));
        self.sent[port.index()].extend(burst.drain(..n));
        n
    }

    fn transmit_control(&mut self, port: PortId, burst: &mut Burst<TestFrame>) -> usize {
        let sent = self.transmit(port, burst);
        self.sent_as_control += sent;
        sent
    }

    fn transmit_by(&mut self, port: PortId, queue: u8, burst: &mut Burst<TestFrame>, limit: usize) -> usize {
        let is_full = self.full_queues >> queue & 1 == 1;
        let n = if is_full { 0 } else { limit.min(self.accepts.unwrap_or(usize::MAX)) };
        for frame in burst.drain(..n) {
            self.by_queue.push((port.0, queue, frame.sequence));
            self.sent[port.index()].push(frame);
        }
        n
    }
}

/// A switch on one thread, whatever its plan.
pub(crate) struct Bench {
    pub lcores: Vec<Lcore<TestFrame>>,
    reporter: weir_switch_core::report::StatsCollector,
    pub shared: std::sync::Arc<weir_switch_core::Shared>,
    pub world: World,
    pub now: Time,
    /// What each port has yet to receive.
    pub arriving: Vec<VecDeque<TestFrame>>,
}

impl Bench {
    pub(crate) fn new(toml: &str, layout: LcoreLayout) -> Bench {
        Bench::with(toml, layout, DriverConfig::real_time(CatchUp::NONE))
    }

    pub(crate) fn with(toml: &str, layout: LcoreLayout, surroundings: DriverConfig) -> Bench {
        Bench::with_facts(toml, layout, surroundings, PortInfo::default())
    }

    /// `facts` are those of all ports.
    pub(crate) fn with_facts(toml: &str, layout: LcoreLayout, surroundings: DriverConfig, facts: PortInfo) -> Bench {
        Bench::with_routes(toml, layout, surroundings, facts, &[])
    }

    /// `routes` are the ports of equal cost to each station; none for a switch that learns.
    pub(crate) fn with_routes(
        toml: &str,
        layout: LcoreLayout,
        surroundings: DriverConfig,
        facts: PortInfo,
        routes: &[&[u16]],
    ) -> Bench {
        let mut config: SwitchConfig = weir_config::parse("bench.toml", toml).unwrap();
        config.lcores.layout = layout;
        let ports = config.ports.len();
        let mut switch = Switch::new(&config, &vec![facts; ports], surroundings).unwrap();
        if !routes.is_empty() {
            switch.set_routes(station(0), routes.iter().copied());
        }
        // For `auto` lcores that own ports, and hand each other frames.
        let lcores = if layout == LcoreLayout::Auto { 3 } else { LcorePlan::lcores_min(layout) };
        let plan = LcorePlan::new(&config, lcores).unwrap();
        let Lcores { lcores, collector: reporter } = switch.into_lcores(&plan);
        let shared = reporter.shared().clone();
        let world = World { sent: vec![Vec::new(); ports], ..World::default() };
        Bench { lcores, reporter, shared, world, now: Time::ZERO, arriving: vec![VecDeque::new(); ports] }
    }

    pub(crate) fn arrive(&mut self, port: u16, frame: TestFrame) {
        self.arriving[usize::from(port)].push_back(frame);
    }

    /// One round of every lcore, then time passes.
    pub(crate) fn step(&mut self, span: Span) {
        for lcore in &mut self.lcores {
            for n in 0..lcore.role.receives.len() {
                let port = lcore.role.receives[n];
                let queue = &mut self.arriving[port.index()];
                let n = queue.len().min(lcore.room()).min(32);
                let mut burst: Burst<TestFrame> = queue.drain(..n).collect();
                lcore.handle_burst(self.now, port, &mut burst, &mut self.world);
            }
            lcore.forward(|| self.now, &mut self.world);
            lcore.transmit(|| self.now, &mut self.world);
            lcore.audit();
        }
        self.now += span;
    }

    pub(crate) fn run(&mut self, steps: usize, span: Span) {
        (0..steps).for_each(|_| self.step(span));
    }

    pub(crate) fn report(&mut self) -> Report {
        let (lcores, now) = (&mut self.lcores, self.now);
        let serve = || {
            for lcore in lcores.iter_mut() {
                lcore.serve(|| now);
            }
            true
        };
        self.reporter.collect(now, serve).unwrap()
    }

    pub(crate) fn data_sent(&self, port: u16) -> Vec<u64> {
        let data = self.world.sent[usize::from(port)].iter().filter(|frame| !frame.is_control());
        data.map(|frame| frame.sequence).collect()
    }

    pub(crate) fn control_sent(&self, port: u16) -> Vec<PfcFrame> {
        let frames = self.world.sent[usize::from(port)].iter();
        frames
            .filter_map(|frame| match frame.parsed {
                Parsed::Control(Ok(ControlFrame::Pfc(pfc))) => Some(pfc),
                _ => None,
            })
            .collect()
    }
}

pub(crate) const LAYOUTS: [LcoreLayout; 4] =
    [LcoreLayout::Single, LcoreLayout::Auto, LcoreLayout::RxTx, LcoreLayout::RxFwdTx];
pub(crate) const STEP: Span = Span::from_nanos(500);

pub(crate) fn toml(ports: usize, extra: &str) -> String {
    let ports: String = (0..ports)
        .map(|n| format!("[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"10Gbps\"\ndelay = \"1us\"\n"))
        .collect();
    // In virtual time the switch reacts at once.
    let pfc = if extra.contains("[pfc]") { "" } else { "[pfc]\nreaction = \"0s\"\n" };
    format!("{extra}\n{pfc}{ports}")
}

/// Stations at the first ports that send frames of class 3 to the last one's, one a step, and obey PFC.
pub(crate) struct Senders {
    to: u16,
    frames: u64,
    next: Vec<u64>,
    seen: Vec<usize>,
    paused_until: Vec<Time>,
}

impl Senders {
    /// At ports 0 to `to` - 1, `frames` frames each to the station at port `to`.
    pub(crate) fn new(to: u16, frames: u64) -> Senders {
        let ports = usize::from(to);
        Senders { to, frames, next: vec![0; ports], seen: vec![0; ports], paused_until: vec![Time::ZERO; ports] }
    }

    /// Reads what the switch sent each sender, and has those that may send arrive with their next frame.
    pub(crate) fn step(&mut self, bench: &mut Bench) {
        let quantum = Span::from_picos(51_200);
        for port in 0..self.to {
            let sender = usize::from(port);
            for frame in &bench.world.sent[sender][self.seen[sender]..] {
                self.seen[sender] += 1;
                if let Parsed::Control(Ok(ControlFrame::Pfc(pfc))) = frame.parsed {
                    self.paused_until[sender] = bench.now + quantum * u64::from(pfc.times[3]);
                }
            }
            if self.next[sender] < self.frames && bench.now >= self.paused_until[sender] {
                bench.arrive(port, frame(port, self.to, 3, u64::from(port) << 32 | self.next[sender]));
                self.next[sender] += 1;
            }
        }
    }
}

/// Clones of a port, to stand after the ports of [`toml`].
pub(crate) fn clones(of: u16, names: &[&str]) -> String {
    names.iter().map(|name| format!("[[ports]]\nname = \"{name}\"\nclone_of = \"p{of}\"\n")).collect()
}

pub(crate) fn station(n: u16) -> MacAddr {
    let [a, b] = n.to_be_bytes();
    MacAddr([2, 0, 0, 1, a, b])
}

/// A frame from the station behind `from` to the one behind `to`, in a class by DSCP.
pub(crate) fn frame(from: u16, to: u16, dscp: u8, sequence: u64) -> TestFrame {
    let headers = Headers { destination: station(to), pcp: None, dscp: Some(dscp) };
    let (parsed, source) = (Parsed::Data(headers), station(from));
    TestFrame { frame_bytes: 1_514, parsed, source, tag: None, sequence, ce: false, stamps: None, shows: true }
}

pub(crate) fn pfc(enabled: ClassSet, quanta: u16) -> TestFrame {
    control(ControlFrame::Pfc(PfcFrame { enabled, times: [quanta; 8] }))
}

pub(crate) fn control(frame: ControlFrame) -> TestFrame {
    let (parsed, source) = (Parsed::Control(Ok(frame)), MacAddr::default());
    TestFrame { frame_bytes: 60, parsed, source, tag: None, sequence: 0, ce: false, stamps: None, shows: true }
}

/// Lets every station speak once, so that nothing is flooded.
pub(crate) fn introduce(bench: &mut Bench) {
    let real_ports: Vec<u16> =
        bench.shared.ports().iter().zip(0..).filter(|(port, n)| port.real_port.0 == *n).map(|(_, n)| n).collect();
    for port in real_ports {
        bench.arrive(port, frame(port, port, 0, 0));
    }
    bench.run(4, STEP);
    bench.world.sent.iter_mut().for_each(Vec::clear);
}

pub(crate) fn assert_balanced(report: &Report) {
    let balance = report.conservation;
    assert!(balance.holds, "{balance:?}");
    assert_eq!(balance.received + balance.copied, balance.sent + balance.dropped + balance.held(), "{balance:?}");
}

pub(crate) fn assert_empty(report: &Report) {
    assert_balanced(report);
    assert_eq!((report.conservation.held(), report.pool.used.get()), (0, 0));
    for class in report.ports.iter().flat_map(|port| &port.classes) {
        let ingress = [class.ingress.private, class.ingress.shared, class.ingress.headroom];
        assert_eq!((ingress.map(|bytes| bytes.get()), class.egress.get(), class.ingress.off), ([0; 3], 0, false));
    }
}
