//! Nodes: switches and hosts.

mod with_llr;

use std::ops::Range;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_config::SwitchConfig;
use weir_flowctl::CatchUp;
use weir_nic::host::{Host, NicFrame};
use weir_results::feedback::FeedbackStats;
use weir_results::record::MessageOrigin;
use weir_scenario::link::LlrPlan;
use weir_scenario::topology::Routes;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::report::Report;
use weir_switch_core::single::Pipeline;
use weir_switch_core::{
    BuildError, Burst, Direction, DriverConfig, PacketAllocator, PortInfo, PortOutput, Shared, Switch,
};
use weir_units::{Bytes, DropReason, LargePortSet, MacAddr, PortBitmap, PortId, PortSet, QueueId, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::event_queue::EventQueue;
use super::feedback::EndFeedback;
use super::frame::Frame;
use super::llr_port::LlrPort;
use super::network::Network;
use super::server_link::ServerPlace;

/// Simulated switch, with its wires and wake-ups.
#[derive(Debug)]
pub(super) struct SimSwitch {
    pipeline: PipelineVariant,
    pub(super) environment: SwitchEnvironment,
}

/// Pipeline specialised for the number of ports. The variant is dispatched once per window, not per frame.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "mostly all are narrow, and none of them is to be behind a pointer")]
enum PipelineVariant {
    /// Ports fit into a bitmap of one word.
    Narrow(Pipeline<Frame>),
    /// Ports need a bitmap of several words.
    Wide(Box<Pipeline<Frame, LargePortSet>>),
}

/// Runs the same expression on either variant.
macro_rules! match_pipeline {
    ($any:expr, $pipeline:ident => $does:expr) => {
        match $any {
            PipelineVariant::Narrow($pipeline) => $does,
            PipelineVariant::Wide($pipeline) => $does,
        }
    };
}

/// Environment of a switch: wires, arrivals and wake-ups.
#[derive(Debug)]
pub(super) struct SwitchEnvironment {
    /// Index in the scenario.
    number: usize,
    /// Number in the logical process.
    node: u32,
    /// Wire that leaves each port, by number in the logical process; `None` without a link, or with link layer retry.
    wires: Box<[Option<u32>]>,
    arrived: Vec<(PortId, Frame)>,
    /// Port that comes first among arrivals at the same instant.
    turn: usize,
    /// Wake-up time of each port without arrivals.
    wakeups: EventQueue,
    /// Time of the next check of ports with an XOFF class; [`Time::NEVER`] if there is none.
    sweep_at: Time,
    /// State that few switches have.
    options: Option<Box<SwitchOptions>>,
    /// Instant since which reports are the same; [`Time::NEVER`] if that is unknown.
    steady_since: Time,
}

/// Simulated host, with the wire that leaves it.
#[derive(Debug)]
pub(super) struct SimHost {
    /// Index in the scenario.
    number: u32,
    /// Number in the logical process.
    pub(super) node: u32,
    place: PortRef,
    pub(super) host: Host,
    wire: u32,
    /// Wake-up time without arrivals.
    pub(super) own_wakeup: Time,
    /// Frames sent and received.
    pub(super) frames: [u64; 2],
    /// State that few hosts have.
    options: Option<Box<HostOptions>>,
    /// Server of the host; `None` for a host by itself.
    pub(super) server: Option<Box<ServerPlace>>,
}

/// State of hosts that few scenarios have.
#[derive(Debug)]
struct HostOptions {
    /// Feedback delay τ measured at the host; `None` unless enabled.
    feedback: Option<EndFeedback>,
    /// Link layer retry of the host's link.
    llr: Option<LlrPort>,
}

/// State of switches that few scenarios have.
#[derive(Debug)]
struct SwitchOptions {
    /// Feedback delay τ measured at each port; `None` unless enabled.
    feedback: Option<Box<[EndFeedback]>>,
    /// Link layer retry of each port, with the wire that leaves it; empty if no port has it.
    llr: Box<[Option<(u32, LlrPort)>]>,
}

struct SimPorts<'s> {
    now: Time,
    number: usize,
    network: &'s mut Network,
    wires: &'s [Option<u32>],
    options: &'s mut Option<Box<SwitchOptions>>,
}

/// Interval at which XOFF queues are compared with thresholds. A departure anywhere moves thresholds, and an XOFF queue
/// may have no departure of its own. Switch chips sweep too.
const SWEEP: Span = Span::from_micros(1);

impl SimSwitch {
    /// Creates switch `number` of a scenario with these wires at its ports, and their link layer retry if any has it. Each set of routes
    /// gives the equal-cost ports to each host, whose addresses are consecutive. Without routes, addresses are static or learned.
    pub(super) fn new(
        number: usize,
        config: &SwitchConfig,
        mut wires: Box<[Option<u32>]>,
        llr: &[Option<LlrPlan>],
        routes: &[&Routes],
        scenario: &Scenario,
    ) -> Result<SimSwitch, BuildError> {
        let mac = |port: usize| MacAddr([2, 1, (number >> 8) as u8, number as u8, (port >> 8) as u8, port as u8]);
        let ports = config.ports.len();
        let facts: Vec<PortInfo> = (0..ports).map(|port| PortInfo { mac: mac(port), ..PortInfo::default() }).collect();
        let mut switch = Switch::new(
            config,
            &facts,
            DriverConfig {
                catch_up: CatchUp::NONE,
                // Hash buckets of static entries must not overflow.
                stations: Some(if !routes.is_empty() { 1 } else { 2 * config.static_macs.len() + LEARNED_MAX }),
                learns: routes.is_empty(),
                hash_seed: scenario.hash_seed(number),
                seed: scenario.seed,
                link_overhead: scenario.link_overhead,
                frame_times: scenario.frame_times,
                digest: scenario.digest(),
                takes_mbufs: false,
                unbuffered: scenario.unbuffered,
                unscheduled_alpha: scenario.unscheduled_alpha,
            },
        )?;
        if let [intact, reroutes @ ..] = routes {
            switch.set_routes(scenario.hosts[0].nic.mac, intact.ports_to_hosts(number));
            reroutes.iter().for_each(|routes| switch.add_routes(routes.ports_to_hosts(number)));
        }
        let has_link = |(port, wire): (PortId, &Option<u32>)| switch.shared().set_link_up(port, wire.is_some());
        (0..).map(PortId).zip(&wires).for_each(has_link);
        let pipeline = match ports <= PortSet::PORTS_MAX {
            true => PipelineVariant::Narrow(switch.into_pipeline()),
            false => PipelineVariant::Wide(Box::new(switch.into_pipeline())),
        };
        let mut wakeups = EventQueue::new(ports);
        (0..ports).filter(|port| config.real_port(*port) == *port).for_each(|port| wakeups.set(port, Time::ZERO));
        let shared = match_pipeline!(&pipeline, pipeline => pipeline.shared());
        let feedback = shared.ports().iter().map(|port| EndFeedback::for_port(port.feedback())).collect();
        let feedback = scenario.measures_feedback.then_some(feedback);
        let llr = llr
            .iter()
            .zip(&mut wires)
            .map(|(llr, wire)| Some((wire.take_if(|_| llr.is_some())?, LlrPort::new((*llr)?))));
        let options = SwitchOptions { feedback, llr: llr.collect() };
        let environment = SwitchEnvironment {
            number,
            node: number as u32,
            wires,
            arrived: Vec::new(),
            turn: 0,
            wakeups,
            sweep_at: Time::NEVER,
            options: (options.feedback.is_some() || !options.llr.is_empty()).then(|| Box::new(options)),
            steady_since: Time::NEVER,
        };
        Ok(SimSwitch { pipeline, environment })
    }

    /// Prefetches the state for its window, in the steps of [`prefetcher`](super::prefetcher), port by port; `number`
    /// is its node. Returns whether a further port remains.
    #[inline]
    pub(super) fn prefetch(&self, step: usize, port: usize, number: usize, network: &Network) -> bool {
        match_pipeline!(&self.pipeline, pipeline => self.environment.prefetch(pipeline, step, port, number, network))
    }

    /// Runs up to and including `limit`, instant by instant, and calls `meanwhile` after each. Returns the number of
    /// instants.
    pub(super) fn run_until(&mut self, limit: Time, network: &mut Network, meanwhile: impl FnMut(&Network)) -> u64 {
        match_pipeline!(&mut self.pipeline, pipeline => self.environment.run_until(pipeline, limit, network, meanwhile))
    }

    /// Sets the link of a port up or down.
    pub(super) fn set_link_up(&mut self, now: Time, port: usize, is_up: bool, network: &mut Network) {
        self.shared().set_link_up(PortId(port as u16), is_up);
        let SwitchEnvironment { options, steady_since, wakeups, .. } = &mut self.environment;
        if let Some(Some((wire, llr))) = options.as_mut().and_then(|options| options.llr.get_mut(port)) {
            llr.set_up(now, is_up, *wire, network);
        }
        *steady_since = Time::NEVER;
        wakeups.set(port, now);
    }

    /// Serves all ports at `now`, and reports anew.
    pub(super) fn wake(&mut self, now: Time) {
        let SwitchEnvironment { steady_since, wakeups, wires, .. } = &mut self.environment;
        *steady_since = Time::NEVER;
        let shared = match_pipeline!(&self.pipeline, pipeline => pipeline.shared());
        let real = |port: &usize| shared.ports()[*port].real_port.index() == *port;
        (0..wires.len()).filter(real).for_each(|port| wakeups.set(port, now));
    }

    /// Returns the link layer retry of each port; none if no port has it.
    pub(super) fn llr(&self) -> impl Iterator<Item = &LlrPort> {
        self.environment.options.iter().flat_map(|options| &options.llr).flatten().map(|(_, llr)| llr)
    }

    pub(super) fn number(&self) -> usize {
        self.environment.number
    }

    /// Sets the switch's number in the logical process.
    pub(super) fn set_local_number(&mut self, node: u32) {
        self.environment.node = node;
    }

    /// Renumbers the wires that leave the switch.
    pub(super) fn map_wires(&mut self, number_of: impl Fn(u32) -> u32) {
        let SwitchEnvironment { wires, options, .. } = &mut self.environment;
        let with_llr = options.iter_mut().flat_map(|options| &mut options.llr).flatten().map(|(wire, _)| wire);
        wires.iter_mut().flatten().chain(with_llr).for_each(|wire| *wire = number_of(*wire));
    }

    pub(super) fn wire(&self, port: usize) -> Option<usize> {
        let with_llr = || Some(self.environment.options.as_ref()?.llr.get(port)?.as_ref()?.0);
        self.environment.wires[port].or_else(with_llr).map(|wire| wire as usize)
    }

    /// Returns τ of flow control that a port sends, if measured.
    pub(super) fn feedback(&self, port: usize) -> Option<FeedbackStats> {
        Some(self.environment.options.as_ref()?.feedback.as_ref()?[port].stats())
    }

    pub(super) fn shared(&self) -> &Shared {
        match_pipeline!(&self.pipeline, pipeline => pipeline.shared())
    }

    pub(super) fn report(&mut self, now: Time) -> Report {
        match_pipeline!(&mut self.pipeline, pipeline => {
            if !pipeline.report_depends_on_time(now) {
                self.environment.steady_since = now.min(self.environment.steady_since);
            }
            pipeline.report(now)
        })
    }

    /// Whether a report of the switch still holds, except for its instant.
    pub(super) fn is_current(&self, report: &Report) -> bool {
        self.environment.steady_since <= report.at
    }
}

impl SwitchEnvironment {
    /// See [`SimSwitch::prefetch`].
    #[inline]
    fn prefetch<S: PortBitmap>(
        &self,
        pipeline: &Pipeline<Frame, S>,
        step: usize,
        port: usize,
        number: usize,
        network: &Network,
    ) -> bool {
        let SwitchEnvironment { wires, wakeups, .. } = self;
        if step == 0 {
            pipeline.prefetch();
            prefetch_index(from_ref(wires), 0);
            prefetch_index(from_ref(wakeups), 0);
            network.prefetch_wires(number);
            return false;
        }
        // With few arrivals most of a switch's state is not needed.
        if port == 0 && network.frames_in_flight_to(number) < wires.len().max(1) {
            return false;
        }
        let id = PortId(port as u16);
        if step == 1 {
            if port == 0 {
                pipeline.prefetch_common();
                wakeups.prefetch();
            }
            prefetch_index(wires, port);
            network.prefetch_arrivals(number, port);
            pipeline.prefetch_port(id);
        } else {
            if port == 0 {
                pipeline.prefetch_routes();
            }
            pipeline.prefetch_frames(id);
            wires[port].into_iter().for_each(|wire| network.prefetch_wire(wire));
        }
        port + 1 < wires.len()
    }

    /// See [`SimSwitch::run_until`].
    fn run_until<S: PortBitmap>(
        &mut self,
        pipeline: &mut Pipeline<Frame, S>,
        limit: Time,
        network: &mut Network,
        mut meanwhile: impl FnMut(&Network),
    ) -> u64 {
        network.begin(self.node as usize, limit);
        if self.has_llr() {
            network.set_arrivals_apart();
        }
        self.steady_since = Time::NEVER;
        let mut instants = 0;
        loop {
            let now = network.next_arrival().min(self.wakeups.first().0).min(self.sweep_at);
            if now > limit {
                network.sleep(self.node as usize, now);
                pipeline.audit();
                return instants;
            }
            self.run(pipeline, now, network);
            meanwhile(network);
            instants += 1;
        }
    }

    /// Forwards arrived frames and transmits where possible.
    #[inline]
    fn run<S: PortBitmap>(&mut self, pipeline: &mut Pipeline<Frame, S>, now: Time, network: &mut Network) {
        let mut ports = SimPorts { now, number: self.number, network, wires: &self.wires, options: &mut self.options };
        if let Some((to, frame)) = ports.network.poll(now) {
            let port = PortId(to.port);
            if ports.network.next_arrival() > now {
                let alone = self.wakeups.first().0.min(self.sweep_at) > now;
                if pipeline.handle(now, port, frame, alone, &mut ports) {
                    return;
                }
            } else {
                self.arrived.push((port, frame));
                self.handle_several(pipeline, now, network);
                ports = SimPorts { now, number: self.number, network, wires: &self.wires, options: &mut self.options };
            }
        }
        let mut due = S::EMPTY;
        let has_options = ports.options.is_some();
        if has_options {
            due = self.receive_with_llr(pipeline, now, network);
            ports = SimPorts { now, number: self.number, network, wires: &self.wires, options: &mut self.options };
        }
        due |= pipeline.take_pending_ports();
        if self.sweep_at <= now {
            due |= *pipeline.off_ports();
            self.sweep_at = Time::NEVER;
        }
        loop {
            let (at, port) = self.wakeups.first();
            if at <= now {
                due.insert(PortId(port as u16));
            }
            if due.is_empty() && !pipeline.has_pending_ports() {
                break;
            }
            if has_options {
                ports.run_llr(due);
            }
            for port in pipeline.run_ports(now, due, &mut ports) {
                let mut next = pipeline.next_wakeup_of(now, port);
                if has_options {
                    next = ports.wakeup_with_llr(port, next);
                }
                self.wakeups.set(port.index(), next);
            }
            due = S::EMPTY;
        }
        if !pipeline.off_ports().is_empty() && self.sweep_at == Time::NEVER {
            self.sweep_at = now + SWEEP;
        }
    }

    /// Forwards several frames that arrived at the same instant.
    #[inline(never)]
    fn handle_several<S: PortBitmap>(&mut self, pipeline: &mut Pipeline<Frame, S>, now: Time, network: &mut Network) {
        while let Some((to, frame)) = network.poll(now) {
            self.arrived.push((PortId(to.port), frame));
        }
        order_round_robin(&mut self.arrived, &mut self.turn, self.wires.len());
        let mut ports = SimPorts { now, number: self.number, network, wires: &self.wires, options: &mut self.options };
        for (port, frame) in self.arrived.drain(..) {
            pipeline.handle(now, port, frame, false, &mut ports);
        }
    }
}

/// Capacity for learned stations without routes.
const LEARNED_MAX: usize = 2_048;

impl SimHost {
    /// Creates host `number` of a scenario; `measures` enables τ.
    pub(super) fn new(
        number: usize,
        place: PortRef,
        host: Host,
        wire: u32,
        llr: Option<LlrPlan>,
        measures: bool,
    ) -> SimHost {
        let options = HostOptions { feedback: measures.then(EndFeedback::default), llr: llr.map(LlrPort::new) };
        let options = (measures || llr.is_some()).then(|| Box::new(options));
        let (number, own_wakeup, frames) = (number as u32, Time::ZERO, [0; 2]);
        SimHost { number, node: 0, place, host, wire, own_wakeup, frames, options, server: None }
    }

    /// Returns τ of flow control that the host sends, if measured.
    pub(super) fn feedback(&self) -> Option<FeedbackStats> {
        Some(self.options.as_ref()?.feedback.as_ref()?.stats())
    }

    /// Returns the link layer retry of the host's link.
    pub(super) fn llr(&self) -> Option<&LlrPort> {
        self.options.as_ref()?.llr.as_ref()
    }

    pub(super) fn number(&self) -> usize {
        self.number as usize
    }

    pub(super) fn switch(&self) -> usize {
        self.place.switch
    }

    pub(super) fn place(&self) -> PortRef {
        self.place
    }

    /// Sets the host's number in the logical process, and that of the wire that leaves it.
    pub(super) fn set_local_numbers(&mut self, node: u32, wire: u32) {
        (self.node, self.wire) = (node, wire);
    }

    /// Prefetches the state for its window, in the steps of [`prefetcher`](super::prefetcher); `number` is its node.
    #[inline]
    pub(super) fn prefetch(&self, step: usize, number: usize, network: &Network) {
        match step {
            0 => {
                prefetch_index(from_ref(&self.wire), 0);
                self.host.prefetch();
                network.prefetch_wires(number);
            }
            1 => {
                network.prefetch_wire(self.wire);
                network.prefetch_arrivals(number, 0);
            }
            _ => network.prefetch_frames(number),
        }
    }

    /// Runs up to and including `limit`, instant by instant, and calls `meanwhile` after each. Returns the number of
    /// instants.
    pub(super) fn run_until(&mut self, limit: Time, network: &mut Network, mut meanwhile: impl FnMut(&Network)) -> u64 {
        network.begin(self.node as usize, limit);
        let mut instants = 0;
        loop {
            let now = network.next_arrival().min(self.own_wakeup);
            if now > limit {
                network.sleep(self.node as usize, now);
                return instants;
            }
            self.own_wakeup = self.run(now, network);
            meanwhile(network);
            instants += 1;
        }
    }

    /// Handles arrived frames and sends where possible; returns the next wake-up time without arrivals.
    #[inline]
    fn run(&mut self, now: Time, network: &mut Network) -> Time {
        while let Some((_, frame)) = network.poll(now) {
            self.handle(now, frame, network);
        }
        self.send(now, network)
    }

    /// Handles an arrived frame.
    #[inline]
    pub(super) fn handle(&mut self, now: Time, mut frame: Frame, network: &mut Network) {
        if let Some(options) = &mut self.options {
            let Some(for_host) = options.receive(now, frame, self.wire, network) else { return };
            frame = for_host;
        }
        self.frames[1] += 1;
        self.host.handle(now, frame.content());
        network.frame_pool.recycle(frame);
    }

    /// Sends where possible; returns the next wake-up time without arrivals.
    #[inline]
    pub(super) fn send(&mut self, now: Time, network: &mut Network) -> Time {
        let has_options = self.options.is_some();
        if has_options {
            self.run_llr(now, network);
        }
        let mut in_vain = 0;
        loop {
            while (!has_options || self.is_link_open(now, network))
                && let Some(frame) = self.host.poll(now)
            {
                self.frames[0] += 1;
                let frame = network.frame_pool.allocate(frame);
                match has_options {
                    true => self.send_with_options(now, frame, network),
                    false => network.send(now, self.wire, frame, MessageOrigin::Host, self.place),
                }
            }
            let next = self.host.next_wakeup(now);
            if has_options && let Some(at) = self.wakeup_with_llr(now, next, network) {
                return at;
            }
            if next > now {
                return next;
            }
            // The wake-up may have been for a timer only.
            in_vain += 1;
            assert!(in_vain < 3, "host {}: nothing to send at {now:?}, but a wake-up at {next:?}", self.number);
        }
    }

    /// Returns the order of the host among all: those of a server follow each other.
    pub(super) fn order(&self) -> (usize, usize) {
        self.server.as_ref().map_or((self.number(), 0), |place| (place.first, place.number))
    }

    /// Returns the indices of the hosts that run with this one, given its own: those of its server, or itself.
    pub(super) fn members(&self, index: usize) -> Range<usize> {
        let Some(member) = &self.server else { return index..index + 1 };
        index - member.number..index - member.number + member.count
    }

    /// Sets the host's link up or down.
    pub(super) fn set_link_up(&mut self, now: Time, is_up: bool, network: &mut Network) {
        self.host.set_link_up(now, is_up);
        self.set_llr_up(now, is_up, network);
        if let Some(place) = &mut self.server {
            place.is_up = is_up;
        }
        self.wake(now);
    }

    /// Makes the host wake at `at` or earlier.
    pub(super) fn wake(&mut self, at: Time) {
        self.own_wakeup = self.own_wakeup.min(at);
    }

    pub(super) fn wire(&self) -> usize {
        self.wire as usize
    }
}

impl PacketAllocator<Frame> for SimPorts<'_> {
    fn copy(&mut self, packet: &Frame) -> Option<Frame> {
        Some(packet.clone())
    }

    fn control(&mut self, frame: &ControlFrame, _source: MacAddr) -> Option<Frame> {
        Some(self.network.frame_pool.allocate(NicFrame::Control(*frame)))
    }

    fn control_wire_bytes(&self, frame: &ControlFrame) -> Option<Bytes> {
        frame.ordered_set()
    }

    #[inline]
    fn recycle(&mut self, frame: Frame) {
        if self.options.is_some() && frame.is_flow_control() {
            self.record_handled(&frame);
        }
        self.network.frame_pool.recycle(frame);
    }

    fn on_threshold_crossed(&mut self, packet: &mut Frame, crossed: Time) {
        packet.set_crossed(crossed);
    }

    fn on_drop(&mut self, now: Time, _packet: &Frame, queue: QueueId, _direction: Direction, reason: DropReason) {
        let place = PortRef { switch: self.number, port: queue.port().index() };
        self.network.record_drop(now, place, queue.class(), reason);
    }
}

impl PortOutput<Frame> for SimPorts<'_> {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        let mut sent = 0;
        while let Some(frame) = burst.pop_at(0) {
            if let Err(frame) = self.send_measured(port, frame) {
                burst.insert(0, frame);
                break;
            }
            sent += 1;
        }
        sent
    }

    #[inline(always)]
    fn transmit_one(&mut self, port: PortId, frame: Frame) -> Result<(), Frame> {
        self.send(port, frame)
    }
}

impl SimPorts<'_> {
    /// Sends a frame, and records it for τ if it is flow control.
    #[inline(never)]
    fn send_measured(&mut self, port: PortId, mut frame: Frame) -> Result<(), Frame> {
        let Some(wire) = self.measured_wire(port).filter(|_| frame.is_flow_control()) else {
            return self.send(port, frame);
        };
        let before = self.network.wire(wire).sent_until();
        frame.set_port(self.network.wire(wire).destination().port);
        self.send(port, frame)?;
        if let Some(feedback) = self.options.as_mut().and_then(|options| options.feedback.as_mut()) {
            feedback[port.index()].record_sent(before, self.network.wire(wire).sent_until());
        }
        Ok(())
    }

    /// Records a handled flow-control frame for τ.
    #[cold]
    fn record_handled(&mut self, frame: &Frame) {
        let Some(wire) = self.measured_wire(PortId(frame.port())) else { return };
        if let Some(feedback) = self.options.as_mut().and_then(|options| options.feedback.as_mut()) {
            feedback[usize::from(frame.port())].handle(self.now, frame, self.network.wire(wire).sent_until());
        }
    }

    /// Returns the wire that leaves a port, where τ is measured.
    fn measured_wire(&self, port: PortId) -> Option<u32> {
        let options = self.options.as_ref().filter(|options| options.feedback.is_some())?;
        let with_llr = || Some(options.llr.get(port.index())?.as_ref()?.0);
        self.wires[port.index()].or_else(with_llr)
    }

    #[inline(always)]
    fn send(&mut self, port: PortId, frame: Frame) -> Result<(), Frame> {
        let Some(wire) = self.wires[port.index()] else { return self.send_with_llr(port, frame) };
        let place = PortRef { switch: self.number, port: port.index() };
        self.network.send(self.now, wire, frame, MessageOrigin::Port, place);
        Ok(())
    }
}

/// Orders arrivals of one instant by port, starting with port `turn`, which advances if it made a difference. So no
/// port is always first among ports whose frames always arrive together.
#[inline]
fn order_round_robin<T>(arrived: &mut [(PortId, T)], turn: &mut usize, ports: usize) {
    let [(first, _), rest @ ..] = &*arrived else { return };
    if rest.iter().all(|(port, _)| port == first) {
        return;
    }
    arrived.sort_by_key(|(port, _)| (port.index() + ports - *turn) % ports);
    *turn = (arrived[0].0.index() + 1) % ports;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns_in_being_first() {
        let mut turn = 0;
        let mut order = |ports: &[u16]| {
            let mut arrived: Vec<(PortId, usize)> = ports.iter().map(|port| PortId(*port)).zip(0..).collect();
            order_round_robin(&mut arrived, &mut turn, 4);
            arrived.into_iter().map(|(port, n)| (port.0, n)).collect::<Vec<_>>()
        };
        assert_eq!(order(&[0, 3, 0]), [(0, 0), (0, 2), (3, 1)], "frames of a port keep their order");
        assert_eq!(order(&[0, 3]), [(3, 1), (0, 0)]);
        assert_eq!(order(&[3, 3]), [(3, 0), (3, 1)]);
        assert_eq!(order(&[0, 3]), [(0, 0), (3, 1)]);
        assert_eq!(order(&[0, 2, 3]), [(2, 1), (3, 2), (0, 0)]);
        assert_eq!(order(&[0, 2, 3]), [(3, 2), (0, 0), (2, 1)]);
    }
}
