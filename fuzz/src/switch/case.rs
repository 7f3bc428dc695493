//! One switch with its surroundings, and the invariants that hold for it.

use std::collections::HashSet;
use std::sync::Arc;

use weir_config::{EcnConfig, PortState, QueueConfig, SwitchConfig, WatchdogAction, WatchdogConfig};
use weir_flowctl::{CatchUp, MessageKind, Quantum};
use weir_switch_core::burst::{Lcore, LcorePlan, Lcores, frames_held_max};
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::StatsCollector;
use weir_switch_core::{Burst, DriverConfig, Packet, PortInfo, Report, Shared, Switch};
use weir_units::{BitRate, Bytes, CLASSES, ClassSet, MacAddr, PortId, Span, Time};
use weir_wire::loop_guard;
use weir_wire::mac_control::ControlFrame;

use super::frame::FuzzFrame;
use super::frames::{FrameTemplate, STATIONS, any_bytes, forged, station};
use super::peers::{FuzzDriver, FuzzPeer};
use super::plan::{DELAY, FlowControlPlan, LOSSLESS, SwitchPlan};
use crate::CaseOutcome;
use crate::input::FuzzInput;

/// Longest time between two polls of a switch that is polled in time, a quarter of its reaction.
const PUNCTUAL: Span = Span::from_micros(1);
/// Frames that wait in a peer; more are not drawn.
const BACKLOG_MAX: usize = 2_000;

/// A switch, its driver and its peers.
pub(super) struct SwitchCase {
    plan: SwitchPlan,
    config: SwitchConfig,
    shared: Arc<Shared>,
    lcores: Vec<Lcore<FuzzFrame>>,
    /// Lcore that receives on each port.
    receiver_of: Vec<usize>,
    collector: StatsCollector,
    driver: FuzzDriver,
    held_max: u64,
    /// Data frames received.
    received: u64,
    sent_lldp: u64,
    sequence: u32,
    /// Latest end of each class's pause that the messages so far allow.
    pause_ends: Vec<[Time; CLASSES]>,
    /// Ports whose transmitters found no link at the last poll.
    without_link: Vec<bool>,
    /// Addresses at ports, heard there or static.
    stations: HashSet<(MacAddr, PortId)>,
    /// Whether the ports' flow control is as in the file.
    is_as_configured: bool,
    /// Lowest rate of each port so far, at which quanta are longest.
    slowest: Vec<BitRate>,
}

impl SwitchCase {
    /// Draws a switch; `None` if its file is refused.
    pub(super) fn new(input: &mut FuzzInput<'_>) -> Option<SwitchCase> {
        let plan = SwitchPlan::draw(input);
        let mut config = weir_config::parse("fuzz.toml", &plan.text).ok()?;
        config.lcores.layout = plan.layout;
        let catch_up = if plan.catches_up { CatchUp::at_most(Span::from_micros(50)) } else { CatchUp::NONE };
        let ports = config.ports.len();
        let infos: Vec<PortInfo> = (0..ports)
            .map(|port| PortInfo { mac: MacAddr([2, 0, 0, 2, 0, port as u8]), ..PortInfo::default() })
            .collect();
        let switch = Switch::new(&config, &infos, DriverConfig::real_time(catch_up)).ok()?;
        let lcores =
            LcorePlan::lcores_min(plan.layout).max(if plan.layout == weir_config::LcoreLayout::Auto { 3 } else { 1 });
        let lcore_plan = LcorePlan::new(&config, lcores).ok()?;
        let held_max = frames_held_max(&config) as u64;
        let Lcores { lcores, collector } = switch.into_lcores(&lcore_plan);
        let shared = collector.shared().clone();
        let receives =
            |port: u16| lcores.iter().position(|lcore: &Lcore<FuzzFrame>| lcore.role.receives.contains(&PortId(port)));
        let receiver_of =
            (0..plan.real_ports as u16).map(|port| receives(port).expect("an lcore receives on each port")).collect();
        let driver = FuzzDriver::new(&plan, shared.clone());
        let mut stations_at = HashSet::new();
        if plan.obeys {
            let stations = (0..plan.real_ports).flat_map(|port| (0..STATIONS).map(move |number| (port, number)));
            for (port, number) in stations {
                assert!(shared.enter_static(station(port, number), PortId(port as u16)), "room for 16 stations");
                stations_at.insert((station(port, number), PortId(port as u16)));
            }
        }
        Some(SwitchCase {
            pause_ends: vec![[Time::ZERO; CLASSES]; ports],
            without_link: vec![false; ports],
            stations: stations_at,
            slowest: plan.rates.clone(),
            plan,
            config,
            shared,
            lcores,
            receiver_of,
            collector,
            driver,
            held_max,
            received: 0,
            sent_lldp: 0,
            sequence: 0,
            is_as_configured: true,
        })
    }

    /// Takes an operation.
    pub(super) fn step(&mut self, input: &mut FuzzInput<'_>) {
        let operation = input.byte();
        let port = usize::from(operation >> 5) % self.plan.real_ports;
        match operation & 0x1f {
            0..13 => self.burst(input, port),
            13..20 => {
                let span = Span::from_picos(1 << (10 + input.below(18)));
                self.poll_for(span, 1 + input.below(4));
            }
            20 => self.poll_for(Span::from_micros(10 + 16 * u64::from(input.byte())), 1),
            21..23 => self.receive(port, [forged(input)]),
            23 => {
                if !self.plan.obeys {
                    self.receive(port, [any_bytes(input)]);
                }
            }
            24..26 => self.change(input, port),
            26 => self.change_queues(input),
            27 => self.change_driver(input),
            28 => self.change_stations(input, port),
            29 => self.send_lldp(input, port),
            30 => {
                let span = Span::from_micros(u64::from(input.word()));
                self.idle_for(span);
            }
            _ => self.check(),
        }
    }

    /// Receives frames of one kind, or has the peer send them.
    fn burst(&mut self, input: &mut FuzzInput<'_>, port: usize) {
        let template = FrameTemplate::draw(input, &self.plan, port, self.plan.obeys);
        let count = input.byte();
        let (count, times) = (1 + usize::from(count & 0x3f), 1 << (count >> 6));
        for _ in 0..times {
            let first = self.sequence + 1;
            self.sequence += count as u32;
            let frames = (0..count).map(|number| template.frame(number, port as u8, first + number as u32));
            if self.plan.obeys {
                let peer = &mut self.driver.peers[port];
                if peer.waiting() < BACKLOG_MAX {
                    frames.for_each(|frame| peer.queue(template.class, frame));
                }
            } else {
                self.receive(port, frames);
                if times > 1 {
                    self.poll(Span::from_micros(20));
                }
            }
        }
    }

    /// Receives frames on a port now, as many as its lcore has room for.
    fn receive(&mut self, port: usize, frames: impl IntoIterator<Item = FuzzFrame>) {
        let room = self.lcores[self.receiver_of[port]].room();
        let mut burst: Burst<FuzzFrame> = frames.into_iter().take(room.min(weir_switch_core::BURST_MAX)).collect();
        self.receive_burst(port, &mut burst);
    }

    fn receive_burst(&mut self, port: usize, burst: &mut Burst<FuzzFrame>) {
        for frame in &*burst {
            match frame.is_control() {
                true => {
                    if let Ok(message) = ControlFrame::decode(frame.data()) {
                        self.note_pause(port, &message);
                    }
                }
                false => {
                    self.received += 1;
                    self.stations.insert((frame.source(), PortId(port as u16)));
                }
            }
        }
        let now = self.driver.now;
        self.lcores[self.receiver_of[port]].handle_burst(now, PortId(port as u16), burst, &mut self.driver);
    }

    /// Notes until when a message may pause classes.
    fn note_pause(&mut self, port: usize, message: &ControlFrame) {
        let quantum = Quantum::for_rate(self.slowest[port]);
        let until = |quanta| self.driver.now.saturating_add(quantum.times(quanta));
        let ends = &mut self.pause_ends[port];
        let replaces = self.is_as_configured;
        match message {
            ControlFrame::Pfc(pfc) => {
                let replaces = replaces && self.plan.flow_control == FlowControlPlan::Pfc;
                for class in pfc.enabled.iter() {
                    let (end, until) = (&mut ends[class.index()], until(pfc.times[class.index()]));
                    // Pauses of lossy classes may be ignored.
                    *end = if replaces && LOSSLESS.contains(class) { until } else { until.max(*end) };
                }
            }
            ControlFrame::Pause(quanta) => {
                let replaces = replaces && self.plan.flow_control == FlowControlPlan::Pause;
                ends.iter_mut().for_each(|end| *end = if replaces { until(*quanta) } else { until(*quanta).max(*end) });
            }
            _ => {}
        }
    }

    /// Polls so often, each time after `span`; more often where the switch is polled in time.
    fn poll_for(&mut self, span: Span, polls: usize) {
        for _ in 0..polls {
            if self.plan.obeys {
                let mut left = span;
                while left > PUNCTUAL {
                    self.poll(PUNCTUAL);
                    left = left.saturating_sub(PUNCTUAL);
                }
                self.poll(left);
            } else {
                self.poll(span);
            }
        }
    }

    /// Lets time pass, without polls of a switch that has nothing to do.
    fn idle_for(&mut self, span: Span) {
        if !self.plan.obeys {
            return self.poll(span);
        }
        let end = self.driver.now + span;
        let mut polls = 0;
        while self.driver.now < end && polls < 4_000 {
            polls += 1;
            self.poll(PUNCTUAL.min(end.since(self.driver.now)));
        }
    }

    /// One round of each lcore, after `span`.
    fn poll(&mut self, span: Span) {
        let since = self.driver.now;
        self.driver.now += span;
        let now = self.driver.now;
        if self.plan.obeys {
            self.driver.peers.iter_mut().for_each(|peer| peer.send(since, now));
        } else {
            self.driver.peers.iter_mut().for_each(|peer| peer.obey(now));
        }
        for lcore in 0..self.lcores.len() {
            if self.plan.obeys {
                for number in 0..self.lcores[lcore].role.receives.len() {
                    let port = self.lcores[lcore].role.receives[number].index();
                    self.receive_from_peer(lcore, port);
                }
            }
            let lcore = &mut self.lcores[lcore];
            lcore.forward(|| now, &mut self.driver);
            lcore.transmit(|| now, &mut self.driver);
            lcore.audit();
        }
        self.note_lost_links();
    }

    /// Notes that a port which lost its link has ended all pauses. Messages that arrive before its link returns count again.
    fn note_lost_links(&mut self) {
        for (port, before) in self.without_link.iter_mut().enumerate() {
            let is_without = !self.shared.ports()[port].link_up();
            if is_without && !*before {
                self.pause_ends[port] = [self.driver.now; CLASSES];
            }
            *before = is_without;
        }
    }

    fn receive_from_peer(&mut self, lcore: usize, port: usize) {
        loop {
            let mut burst = Burst::new();
            if self.lcores[lcore].room() >= weir_switch_core::BURST_MAX {
                self.driver.peers[port].arrived(self.driver.now, &mut burst);
            }
            if burst.is_empty() {
                return;
            }
            self.receive_burst(port, &mut burst);
        }
    }

    /// Changes a port.
    fn change(&mut self, input: &mut FuzzInput<'_>, port: usize) {
        let id = PortId(port as u16);
        match input.below(8) {
            0 => {
                let state = [PortState::Blocked, PortState::Down, PortState::Up][input.below(16).min(2)];
                // A link that comes finds frames in the headroom, and a peer that does not know of them yet.
                if !self.plan.obeys || state != PortState::Down {
                    self.shared.set_port_state(id, state);
                }
            }
            1 if !self.plan.obeys => {
                let up = !input.one_in(16);
                self.shared.set_link_up(id, up);
            }
            2 if !self.plan.obeys => {
                let rate = *input.one_of(&[10u64, 1, 25, 100]);
                self.change_rate(port, BitRate::gbps(rate), input.one_in(2));
            }
            3 | 4 => self.shared.force_pause(id, ClassSet::from_bits(input.byte())),
            5 => {
                let kinds = [MessageKind::Pfc, MessageKind::Pause, MessageKind::Nothing];
                let kind = *input.one_of(&kinds);
                if !(self.plan.obeys && kind == MessageKind::Nothing) && self.shared.set_flow_control(id, kind) {
                    self.is_as_configured = false;
                }
            }
            6 => {
                let rate = (!input.one_in(2)).then(|| BitRate::mbps(1 + u64::from(input.word())));
                self.shared.set_storm_control(rate);
            }
            7 => {
                let times = [100u64, 200, 400].map(Span::from_micros);
                let config = WatchdogConfig {
                    detection_time: times[1 + input.below(2)],
                    restoration_time: times[1 + input.below(2)],
                    poll_interval: times[input.below(2)],
                    action: *input.one_of(&[WatchdogAction::Drop, WatchdogAction::Forward, WatchdogAction::Alert]),
                    condition: *input
                        .one_of(&[weir_config::StormCondition::PfcReceived, weir_config::StormCondition::QueueStalled]),
                };
                self.shared.set_watchdog(&config);
            }
            _ => {}
        }
    }

    fn change_rate(&mut self, port: usize, rate: BitRate, configures: bool) {
        let id = PortId(port as u16);
        // Thresholds of GFC and buffers of credit hold for one rate.
        if self.shared.ports()[port].flow_control().depends_on_rate() {
            return;
        }
        self.slowest[port] = self.slowest[port].min(rate);
        match configures {
            true => drop(self.shared.set_rate(id, Some(rate))),
            false => drop(self.shared.set_link_rate(id, rate)),
        }
    }

    /// Changes service, limits and marking of all egress queues.
    fn change_queues(&mut self, input: &mut FuzzInput<'_>) {
        let mut queues: [QueueConfig; CLASSES] = self.config.classes.queues.clone();
        for queue in &mut queues {
            let kind = input.byte();
            queue.strict = kind & 3 == 3;
            queue.quantum = [1, 64, 1_500, 100_000][usize::from(kind >> 2 & 3)];
            // A limit of an egress queue is no fault of the peers, and takes long.
            queue.rate = (kind & 0x70 == 0x70).then_some(BitRate::mbps(500));
            queue.ecn = (kind & 0x80 != 0).then_some(EcnConfig {
                kmin: Bytes::kb(u64::from(kind & 0x0f)),
                kmax: Bytes::kb(20),
                pmax_ppm: 300_000,
                at_rate: (kind & 1 == 1).then_some(BitRate::gbps(10)),
                on_arrival: kind & 2 == 2,
            });
        }
        self.shared.set_queues(&queues);
    }

    /// Changes devices and pools. Where no frame may be lost, PAUSEs leave and arrive.
    fn change_driver(&mut self, input: &mut FuzzInput<'_>) {
        let kind = input.byte();
        if !self.plan.obeys {
            self.driver.accepts = [usize::MAX, 0, 1, usize::from(kind >> 4)][usize::from(kind & 3)];
            self.driver.full_queues = if kind & 4 == 0 { 0 } else { input.byte() };
            self.driver.control_fails = kind & 0x18 == 0x18;
        }
        self.driver.copies_fail = kind & 0x60 == 0x60;
        self.driver.takes_lldp = kind & 0x80 != 0;
    }

    /// Changes the forwarding table.
    fn change_stations(&mut self, input: &mut FuzzInput<'_>, port: usize) {
        let station = station(input.below(STATIONS), input.below(STATIONS));
        match input.below(5) {
            // Static addresses keep lossless frames from being flooded.
            1 | 2 if self.plan.obeys => {}
            0 => drop(self.shared.fdb.clear_learned()),
            1 => {
                self.stations.insert((station, PortId(port as u16)));
                self.shared.enter_static(station, PortId(port as u16));
            }
            2 => self.shared.remove_static(station),
            3 => self.shared.fdb.count_stations(self.driver.now),
            _ => {
                let most = input.byte();
                self.shared.fdb.set_stations_max(PortId(port as u16), (most & 1 == 1).then_some(u32::from(most >> 4)));
            }
        }
    }

    fn send_lldp(&mut self, input: &mut FuzzInput<'_>, port: usize) {
        let frame = if input.one_in(2) {
            FuzzFrame::new(&loop_guard::encode(loop_guard::FORWARDED, MacAddr([2, 0, 0, 2, 0, 0]), 1), 60)
        } else {
            FuzzFrame::new(&[1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 2, 0, 0, 0x88, 0xcc, 0, 0], 60)
        };
        let (now, id) = (self.driver.now, PortId(port as u16));
        let before = self.driver.sent;
        let transmits = |lcore: &&mut Lcore<FuzzFrame>| lcore.role.transmits.contains(&id);
        let lcore = self.lcores.iter_mut().find(transmits).expect("an lcore transmits on each port");
        let _ = lcore.send_lldp(now, id, frame, &mut self.driver);
        self.sent_lldp += self.driver.sent - before;
    }

    fn report(&mut self) -> Report {
        let (lcores, now) = (&mut self.lcores, self.driver.now);
        let serve = || {
            lcores.iter_mut().for_each(|lcore| lcore.serve(|| now));
            true
        };
        self.collector.collect(now, serve).expect("all lcores answer")
    }

    /// Checks the invariants between two polls.
    fn check(&mut self) {
        let (report, now) = (self.report(), self.driver.now);
        let balance = report.conservation;
        let out = balance.sent + balance.dropped + balance.held();
        assert!(balance.holds && balance.received + balance.copied == out, "{balance:?}");
        assert_eq!(balance.sent, self.driver.sent - self.sent_lldp, "{balance:?}");
        let by_clones: u64 = report.ports[self.plan.real_ports..]
            .iter()
            .flat_map(|port| &port.classes)
            .map(|class| class.rx_frames)
            .sum();
        assert_eq!(balance.received, self.received - self.driver.taken_lldp + by_clones, "{balance:?}");
        assert!(balance.queued <= self.held_max, "{} frames in {} mbufs", balance.queued, self.held_max);
        self.shared.mmu.check_conservation(now).unwrap_or_else(|what| panic!("at {now:?}: {what}"));
        for (port, ends) in self.pause_ends[..self.plan.real_ports].iter().enumerate() {
            let paused = self.shared.ports()[port].regulator.paused(now);
            let beyond: ClassSet = paused.iter().filter(|class| ends[class.index()] <= now).collect();
            assert!(beyond.is_empty(), "port {port}: {beyond:?} are paused at {now:?} beyond {ends:?}");
        }
        for entry in self.shared.fdb.entries(now) {
            assert!(self.stations.contains(&(entry.address, entry.port)), "{entry:?} was never heard there");
        }
        if self.plan.obeys {
            for class in report.ports.iter().flat_map(|port| LOSSLESS.iter().map(|class| &port.classes[class.index()]))
            {
                let lost = [DropReason::HeadroomViolation, DropReason::EgressThreshold, DropReason::SharedFull];
                assert_eq!(lost.map(|reason| class.dropped(reason)), [0; 3], "a lossless frame was dropped");
            }
        }
    }

    /// Silences all links, and checks that everything is released.
    pub(super) fn finish(mut self) -> CaseOutcome {
        self.check();
        if self.sequence % 8 == 7 {
            self.stop();
        }
        self.restore();
        if self.plan.obeys {
            self.check_resumed();
        }
        let longest = (0..self.plan.real_ports).map(|port| self.longest_pause(port)).max().unwrap_or_default();
        let end = self.driver.now + longest + Span::from_millis(3);
        let mut polls = 0;
        while self.driver.now < end || self.holds_frames(polls) {
            polls += 1;
            assert!(polls < 200_000, "frames are held at {:?}, {:?} after the last arrival", self.driver.now, longest);
            if polls == 100_000 || self.is_without_credit(end) {
                self.cut_links();
            }
            self.poll(self.next_span(end));
        }
        self.check();
        self.check_silent(end)
    }

    /// Stops the switch, which counts all frames that it holds as dropped.
    fn stop(&mut self) {
        let now = self.driver.now;
        self.driver.peers.iter_mut().for_each(FuzzPeer::clear);
        let held = self.report().conservation.held();
        let mut discarded = 0;
        loop {
            let count: usize = self.lcores.iter_mut().map(|lcore| lcore.discard(now, DropReason::Shutdown)).sum();
            discarded += count as u64;
            if count == 0 {
                break;
            }
        }
        let report = self.report();
        let dropped = report.dropped(DropReason::Shutdown);
        // A frame between receiver and forwarder counts once for each clone too, which would have received a copy.
        let has_clones = self.plan.rates.len() > self.plan.real_ports;
        assert!(
            discarded == held && (dropped == held || has_clones && dropped > held),
            "{discarded}, {dropped} of {held}"
        );
        assert_eq!(report.conservation.held(), 0, "{:?}", report.conservation);
        self.check();
    }

    /// Opens all ports, so that only pauses, rates and credit keep frames from leaving.
    fn restore(&mut self) {
        self.driver.peers.iter_mut().for_each(FuzzPeer::clear);
        self.driver.accepts = usize::MAX;
        self.driver.full_queues = 0;
        self.driver.control_fails = false;
        self.shared.set_queues(&self.config.classes.queues.clone());
        for port in 0..self.plan.real_ports {
            let id = PortId(port as u16);
            self.shared.force_pause(id, ClassSet::EMPTY);
            self.shared.set_port_state(id, PortState::Up);
            self.shared.set_link_up(id, true);
        }
    }
}

/// The end of a case.
impl SwitchCase {
    /// Checks that peers are resumed as soon as nothing is held, not by the end of their pauses alone.
    fn check_resumed(&mut self) {
        let mut polls = 0;
        while self.holds_frames(polls) {
            polls += 1;
            assert!(polls < 200_000, "frames are held at {:?}", self.driver.now);
            self.poll(self.next_span(Time::NEVER));
        }
        (0..4).for_each(|_| self.poll(DELAY));
        for (port, peer) in self.driver.peers[..self.plan.real_ports].iter().enumerate() {
            assert_eq!(peer.pause_left(self.driver.now), Span::ZERO, "port {port}'s peer is not resumed");
        }
    }

    /// Returns the time until no class of a port or of its peer is paused any more, without another message.
    fn longest_pause(&self, port: usize) -> Span {
        let ends = self.pause_ends[port].iter().map(|end| end.since(self.driver.now)).max();
        ends.unwrap_or_default().max(self.driver.peers[port].pause_left(self.driver.now))
    }

    /// Whether the switch may hold frames; asks it from time to time.
    fn holds_frames(&mut self, polls: u32) -> bool {
        !polls.is_multiple_of(64) || self.report().conservation.held() > 0
    }

    fn is_without_credit(&self, end: Time) -> bool {
        matches!(self.plan.flow_control, FlowControlPlan::Credit(_)) && self.driver.now >= end
    }

    fn cut_links(&self) {
        (0..self.plan.real_ports as u16).for_each(|port| self.shared.set_link_up(PortId(port), false));
    }

    /// Returns the time to the next poll at which something may leave.
    fn next_span(&self, end: Time) -> Span {
        const LONGEST: Span = Span::from_micros(200);
        let now = self.driver.now;
        let next = self.lcores.iter().map(|lcore| lcore.next_wakeup(now)).min().unwrap_or(Time::NEVER);
        let span = next.since(now).max(Span::from_nanos(10)).min(LONGEST);
        if now < end { span.min(end.since(now)) } else { span }
    }

    /// Checks a switch whose links have been silent.
    fn check_silent(mut self, end: Time) -> CaseOutcome {
        (0..3).for_each(|_| self.poll(Span::from_micros(2)));
        let (report, now) = (self.report(), self.driver.now);
        assert_eq!(report.conservation.held(), 0, "{:?}", report.conservation);
        let pools = [Some(report.pool), report.headroom_pool, report.egress_lossy_pool];
        let used = pools.map(|pool| pool.map_or(0, |pool| pool.used.get()));
        assert_eq!(used, [0; 3], "pools of an empty buffer");
        for (port, class) in report
            .ports
            .iter()
            .enumerate()
            .flat_map(|(port, report)| report.classes.iter().map(move |class| (port, class)))
        {
            let ingress = [class.ingress.private, class.ingress.shared, class.ingress.headroom].map(Bytes::get);
            assert_eq!((ingress, class.egress.get(), class.ingress.off), ([0; 3], 0, false), "a queue of port {port}");
            let storms = class.storms.unwrap_or_default();
            assert_eq!(storms.deadlock_detected, storms.deadlock_restored, "storms of port {port}");
        }
        if !matches!(self.plan.flow_control, FlowControlPlan::Credit(_)) {
            for (port, peer) in self.driver.peers[..self.plan.real_ports].iter().enumerate() {
                assert_eq!(peer.pause_left(now), Span::ZERO, "port {port}'s peer is paused at {now:?}, {end:?}");
            }
        }
        let classes = || report.ports.iter().flat_map(|port| &port.classes);
        CaseOutcome {
            is_refused: false,
            frames: self.received,
            messages: report.ports.iter().map(|port| port.control_rx.messages() + port.control_tx.messages()).sum(),
            pauses: classes().map(|class| class.pauses_tx).sum(),
            dropped: report.conservation.dropped,
            lossless_frames: if self.plan.obeys {
                LOSSLESS
                    .iter()
                    .map(|class| report.ports.iter().map(|port| port.classes[class.index()].rx_frames).sum::<u64>())
                    .sum()
            } else {
                0
            },
        }
    }
}
