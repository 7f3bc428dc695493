//! Weir in virtual time, with an exact tester: the pipeline that simulations run, between ports that send raw frames to the picosecond.
//!
//! The event loop is its own, and not `weir-sim`'s: that one's frames are those of emulated hosts, which choose their instants
//! themselves. Here control frames have any bytes, streams are evenly spaced, and a port stops when the test says.

mod facts;
mod link;
mod port;
mod switch;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use weir_config::{Device as PortDevice, SwitchConfig, headroom_by_rule};
use weir_flowctl::MessageKind;
use weir_switch_core::{BuildError, Packet};
use weir_units::{BitRate, Bytes, Class, MacAddr, PortId, Span, Time};

use crate::tester::{
    ControlStats, ControlStream, PfcReaction, StreamId, StreamStats, TestStream, TrafficTester, station_address,
};
use crate::{DeviceCounters, DeviceUnderTest, Facts, TestFailure};
use link::{FarEnd, TesterFrame, TesterLink};
use port::VirtualPort;
use switch::SwitchUnderTest;

/// Built-in switch under test, of a port speed: four ports and two behind a second ASIC, with SONiC's classes and pools.
pub fn built_in(speed: BitRate) -> Vec<SwitchConfig> {
    let files = [include_str!("virtual_time/asic0.toml"), include_str!("virtual_time/asic1.toml")];
    let mbps = speed.as_bps() / 1_000_000;
    // Six lossless priority groups of one ASIC share the headroom of three and a half.
    let phi = headroom_by_rule(speed, DELAY, FRAME_BYTES_MAX) + speed.bytes_in(REACTION);
    // Headroom grows with the speed, and so do thresholds, queues and buffer.
    let at_100g = |bytes: u64| (bytes * mbps / 100_000).max(bytes / 4);
    let values = [
        ("{RATE}", format!("{mbps}Mbps")),
        ("{SLOW_RATE}", format!("{}Mbps", mbps / 4)),
        ("{SIZE}", at_100g(4_000_000).to_string()),
        ("{HEADROOM_POOL}", (phi.get() * 7 / 2).to_string()),
        ("{KMIN}", at_100g(100_000).to_string()),
        ("{KMAX}", at_100g(400_000).to_string()),
    ];
    let parse = |(number, file): (usize, &str)| {
        let text = values.iter().fold(file.to_owned(), |text, (key, value)| text.replace(key, value));
        weir_config::parse_for_virtual_time(&format!("asic{number}.toml"), &text)
            .unwrap_or_else(|errors| panic!("the built-in switch is valid: {}", errors.render(false)))
    };
    files.into_iter().enumerate().map(parse).collect()
}

/// Least rate of a port: below it the first frame after a pause takes longer than L03 allows.
pub const RATE_MIN: BitRate = BitRate::mbps(10);
/// Propagation delay, reaction and longest frame of the built-in switch's files.
const DELAY: Span = Span::from_nanos(500);
const REACTION: Span = Span::from_micros(1);
const FRAME_BYTES_MAX: Bytes = Bytes::new(9_216 + SwitchConfig::FRAME_OVERHEAD_BYTES);

/// Returns a tester and the device of these switches, ready to start. Two ports of one `ring` are a link between switches; all others are
/// the tester's, in order.
///
/// # Errors
/// If no switch can be built from a configuration, or has keys without an equivalent in virtual time.
pub fn new(configs: &[SwitchConfig]) -> Result<(VirtualTester, VirtualDevice), TestFailure> {
    let network = VirtualNetwork::new(configs)?;
    let facts = facts::facts(configs, &network);
    let network = Rc::new(RefCell::new(network));
    let tester = VirtualTester { network: network.clone() };
    Ok((tester, VirtualDevice { network, facts, configs: configs.to_vec() }))
}

/// Tester in virtual time.
#[derive(Debug)]
pub struct VirtualTester {
    network: Rc<RefCell<VirtualNetwork>>,
}

/// Weir in virtual time.
#[derive(Debug)]
pub struct VirtualDevice {
    network: Rc<RefCell<VirtualNetwork>>,
    facts: Facts,
    configs: Vec<SwitchConfig>,
}

/// Switches, tester ports, and the frames between them.
#[derive(Debug)]
struct VirtualNetwork {
    now: Time,
    events: EventSchedule,
    switches: Vec<SwitchUnderTest>,
    ports: Vec<VirtualPort>,
    streams: Vec<port::StreamState>,
    /// Place of the first among arrivals of one instant.
    turn: usize,
}

/// Events to come, in order of time, and of scheduling at one time.
#[derive(Debug, Default)]
struct EventSchedule {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// Events by their places, which are reused.
    slots: Vec<Option<VirtualEvent>>,
    free: Vec<usize>,
    scheduled: u64,
}

/// Event at an instant.
#[derive(Debug)]
enum VirtualEvent {
    /// The last byte of a frame arrives at a switch's port.
    ToSwitch(usize, PortId, TesterFrame),
    /// The last byte of a frame arrives at the tester's port.
    ToTester(usize, TesterFrame),
    /// A tester's port may send.
    Send(usize),
    /// A control stream is due.
    Refresh(StreamId),
}

impl EventSchedule {
    fn schedule(&mut self, time: Time, event: VirtualEvent) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.heap.push(Reverse((time, self.scheduled, slot)));
        self.scheduled += 1;
    }

    fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time)
    }

    /// Takes the next event if it is due at `now`.
    fn pop(&mut self, now: Time) -> Option<VirtualEvent> {
        if self.next() > now {
            return None;
        }
        let Reverse((_, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.slots[slot].take()
    }
}

impl VirtualNetwork {
    fn new(configs: &[SwitchConfig]) -> Result<VirtualNetwork, TestFailure> {
        let mut rings: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
        let mut ports = Vec::new();
        for (number, config) in configs.iter().enumerate() {
            check(config)?;
            for (port, settings) in config.ports.iter().enumerate() {
                if let PortDevice::Ring(ring) = &settings.device {
                    rings.entry(ring).or_default().push((number, port));
                }
            }
        }
        if configs.len() > 1 && rings.values().all(|ends| ends.len() != 2) {
            let message = "no `ring` joins these switches: qualify each alone, or join two of their ports by a `ring`";
            return Err(TestFailure::impossible(message));
        }
        let peer_of = |number: usize, port: usize| {
            let ends = rings.values().find(|ends| ends.len() == 2 && ends.contains(&(number, port)))?;
            ends.iter().copied().find(|end| *end != (number, port))
        };
        let mut links: Vec<Vec<TesterLink>> = Vec::new();
        for (number, config) in configs.iter().enumerate() {
            let to = |port: usize| {
                let settings = &config.ports[port];
                let far = peer_of(number, port).map(|(switch, port)| FarEnd::Switch(switch, PortId(port as u16)));
                let far = far.unwrap_or_else(|| {
                    ports.push(VirtualPort::new(number, PortId(port as u16), settings.rate, settings.delay));
                    FarEnd::TrafficTester(ports.len() - 1)
                });
                TesterLink::new(far, settings.rate.unwrap_or(BitRate::gbps(10)), settings.delay)
            };
            links.push((0..config.ports.len()).map(to).collect());
        }
        let switches = configs.iter().zip(links).enumerate().map(|(number, (config, links))| {
            SwitchUnderTest::new(number, config, links)
                .map_err(|error: BuildError| TestFailure::broken(error.to_string()))
        });
        let mut network = VirtualNetwork {
            now: Time::ZERO,
            events: EventSchedule::default(),
            switches: switches.collect::<Result<_, _>>()?,
            ports,
            streams: Vec::new(),
            turn: 0,
        };
        network.enter_stations();
        Ok(network)
    }

    /// Enters each station in all switches: behind its own port, or behind a link towards its switch.
    fn enter_stations(&mut self) {
        for (station, port) in self.ports.iter().enumerate() {
            // Switches from which the station is known to be reached, by breadth first.
            let mut reached = vec![None; self.switches.len()];
            reached[port.switch] = Some(port.switch_port);
            let mut queue = std::collections::VecDeque::from([port.switch]);
            while let Some(near) = queue.pop_front() {
                for link in &self.switches[near].links {
                    if let FarEnd::Switch(far, far_port) = link.far
                        && reached[far].is_none()
                    {
                        reached[far] = Some(far_port);
                        queue.push_back(far);
                    }
                }
            }
            for (switch, towards) in self.switches.iter().zip(reached) {
                if let Some(towards) = towards {
                    switch.enter(station_address(station), towards);
                }
            }
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let switches = self.switches.iter().map(SwitchUnderTest::next_wakeup).min().unwrap_or(Time::NEVER);
            let now = self.events.next().min(switches);
            if now > end {
                self.now = end;
                return;
            }
            self.now = now;
            let mut arrivals = Vec::new();
            while let Some(event) = self.events.pop(now) {
                match event {
                    VirtualEvent::ToSwitch(..) => arrivals.push(event),
                    other => self.handle(other),
                }
            }
            // No port is always first among ports whose frames always arrive together.
            if let several @ 2.. = arrivals.len() {
                self.turn = (self.turn + 1) % several;
                arrivals.rotate_left(self.turn);
            }
            arrivals.into_iter().for_each(|event| self.handle(event));
            for number in 0..self.switches.len() {
                self.switches[number].run(now, &mut self.events);
            }
        }
    }

    fn handle(&mut self, event: VirtualEvent) {
        let VirtualNetwork { now, events, switches, ports, streams, .. } = self;
        match event {
            VirtualEvent::ToSwitch(number, port, frame) => switches[number].handle(*now, port, frame, events),
            VirtualEvent::ToTester(port, frame) => {
                let is_control = frame.is_control();
                ports[port].receive(*now, port, &frame, streams);
                if is_control {
                    ports[port].schedule(*now, port, streams, events);
                }
            }
            VirtualEvent::Send(port) => {
                if ports[port].is_scheduled_for(*now) {
                    ports[port].send(*now, port, streams, events);
                }
            }
            VirtualEvent::Refresh(id) => self.refresh(id),
        }
    }

    /// Sends the control frame of a stream, and schedules the next.
    fn refresh(&mut self, id: StreamId) {
        let port::StreamState::Control(control) = &mut self.streams[id.0] else { return };
        if control.is_stopped {
            return;
        }
        let (port, frame) = (control.stream.from, control.frame());
        match control.stream.period {
            Some(period) => self.events.schedule(self.now + period, VirtualEvent::Refresh(id)),
            None => control.is_stopped = true,
        }
        self.ports[port].queue_control(frame);
        self.ports[port].schedule(self.now, port, &self.streams, &mut self.events);
    }
}

/// Refuses keys without an equivalent in virtual time.
fn check(config: &SwitchConfig) -> Result<(), TestFailure> {
    let refuse = |what: &str| Err(TestFailure::broken(format!("{}: {what}", config.name)));
    if config.ports.iter().any(|port| port.clone_of().is_some()) {
        return refuse("a tester has no place at a clone; take `clone_of` out");
    }
    if !config.vlan_members().is_empty() {
        return refuse("the tester has no VLANs; take `vlan` and `tagged` out");
    }
    if let Some(port) = config.ports.iter().find(|port| port.rate.is_none()) {
        return refuse(&format!("port \"{}\" has no `rate`, and virtual time no link to take it from", port.name));
    }
    if let Some((port, rate)) =
        config.ports.iter().find_map(|port| Some((port, port.rate?)).filter(|(_, rate)| *rate < RATE_MIN))
    {
        let pause = rate.time_for(Bytes::new(64 * u64::from(u16::MAX))).as_secs_f64();
        return refuse(&format!(
            "port \"{}\" has rate = \"{rate}\", at which a pause of 65,535 quanta lasts {pause:.0} s; write {RATE_MIN} or more",
            port.name
        ));
    }
    if let Some(port) = config.ports.iter().find(|port| port.flow_control.message_kind() != MessageKind::Pfc) {
        return refuse(&format!(
            "port \"{}\" has no PFC, of which the tests are; write flow_control = \"pfc\"",
            port.name
        ));
    }
    if config.ports.len() > 64 {
        return refuse("at most 64 ports");
    }
    Ok(())
}

impl TrafficTester for VirtualTester {
    fn ports(&self) -> usize {
        self.network.borrow().ports.len()
    }

    fn rate(&self, port: usize) -> BitRate {
        self.network.borrow().ports[port].rate
    }

    fn station(&self, port: usize) -> MacAddr {
        station_address(port)
    }

    fn now(&self) -> Time {
        self.network.borrow().now
    }

    fn run_for(&mut self, span: Span) -> Result<(), TestFailure> {
        let mut network = self.network.borrow_mut();
        let end = network.now + span;
        network.run_until(end);
        Ok(())
    }

    fn start(&mut self, stream: &TestStream) -> Result<StreamId, TestFailure> {
        let network = &mut *self.network.borrow_mut();
        let id = StreamId(network.streams.len());
        network.streams.push(port::StreamState::data(stream, network.now));
        network.ports[stream.from].add(id);
        network.ports[stream.from].schedule(network.now, stream.from, &network.streams, &mut network.events);
        Ok(id)
    }

    fn stop(&mut self, stream: StreamId) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        match &mut network.streams[stream.0] {
            port::StreamState::Control(control) => control.is_stopped = true,
            port::StreamState::Data(data) => network.ports[data.stream.from].remove(stream),
        }
        Ok(())
    }

    fn stats(&mut self, stream: StreamId) -> Result<StreamStats, TestFailure> {
        match &self.network.borrow().streams[stream.0] {
            port::StreamState::Data(data) => Ok(data.arrivals.stats),
            port::StreamState::Control(_) => Err(TestFailure::broken("a stream of control frames has no statistics")),
        }
    }

    fn send_control(&mut self, control: &ControlStream) -> Result<StreamId, TestFailure> {
        let network = &mut *self.network.borrow_mut();
        let id = StreamId(network.streams.len());
        network.streams.push(port::StreamState::control(control));
        network.refresh(id);
        Ok(id)
    }

    fn control_stats(&mut self, port: usize) -> Result<ControlStats, TestFailure> {
        let network = self.network.borrow();
        Ok(network.ports[port].control_stats(network.now))
    }

    fn clear_stats(&mut self) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        network.streams.iter_mut().for_each(port::StreamState::clear);
        network.ports.iter_mut().for_each(VirtualPort::clear);
        Ok(())
    }

    fn set_pfc_reaction(&mut self, port: usize, reaction: PfcReaction) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        network.ports[port].reaction = reaction;
        network.ports[port].schedule(network.now, port, &network.streams, &mut network.events);
        Ok(())
    }

    fn set_link_up(&mut self, port: usize, up: bool) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        let VirtualPort { switch, switch_port, .. } = network.ports[port];
        network.ports[port].set_link_up(up);
        network.switches[switch].set_link_up(network.now, switch_port, up);
        network.ports[port].schedule(network.now, port, &network.streams, &mut network.events);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), TestFailure> {
        for port in 0..self.ports() {
            if !self.network.borrow().ports[port].is_up() {
                self.set_link_up(port, true)?;
            }
        }
        let network = &mut *self.network.borrow_mut();
        network.streams.iter_mut().for_each(port::StreamState::stop);
        network.ports.iter_mut().for_each(VirtualPort::reset);
        Ok(())
    }
}

impl DeviceUnderTest for VirtualDevice {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn counters(&mut self) -> Result<DeviceCounters, TestFailure> {
        let network = &mut *self.network.borrow_mut();
        let reports: Vec<_> = network.switches.iter_mut().map(|switch| switch.counters(network.now)).collect();
        let ports = network.ports.iter().map(|port| reports[port.switch].ports[port.switch_port.index()].clone());
        Ok(DeviceCounters { ports: ports.collect(), pools: reports[0].pools })
    }

    fn clear(&mut self) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        network.switches.iter_mut().for_each(|switch| switch.clear(network.now));
        Ok(())
    }

    fn set_watchdog(&mut self, on: bool, drops: bool) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        for (switch, config) in network.switches.iter_mut().zip(&self.configs) {
            let watchdog = config.pfc_watchdog.as_ref().ok_or_else(|| TestFailure::impossible(NO_WATCHDOG))?;
            switch.set_watchdog(network.now, watchdog, on, drops);
        }
        Ok(())
    }

    fn set_weight(&mut self, class: Class, weight: u32) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        for (switch, config) in network.switches.iter_mut().zip(&self.configs) {
            let mut queues = config.classes.queues.clone();
            queues[class.index()].quantum = weight;
            switch.set_queues(network.now, &queues);
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), TestFailure> {
        let network = &mut *self.network.borrow_mut();
        for (switch, config) in network.switches.iter_mut().zip(&self.configs) {
            switch.set_queues(network.now, &config.classes.queues);
            if let Some(watchdog) = &config.pfc_watchdog {
                switch.set_watchdog(network.now, watchdog, false, true);
            }
        }
        Ok(())
    }
}

impl VirtualDevice {
    /// Replaces the facts, from which tests compute their expectations.
    pub fn with_facts(self, facts: Facts) -> VirtualDevice {
        VirtualDevice { facts, ..self }
    }
}

/// Reason for tests of the watchdog at a switch without one.
pub const NO_WATCHDOG: &str = "the switch's file has no [pfc_watchdog]";
