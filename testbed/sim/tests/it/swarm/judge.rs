//! Runs a case, and checks its promises.

use std::collections::HashSet;
use std::fmt::Write;

use weir_config::WatchdogAction;
use weir_flowctl::cbfc::Advertiser;
use weir_results::deadlock::Detector;
use weir_scenario::workload::Message;
use weir_scenario::{LinkRef, Scenario};
use weir_sim::{MessageSource, Sim, Threads};
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, ClassSet, Span, Time};

use super::draw::{Case, slowest};
use super::events::Event;
use super::promises::{Promises, Wrongs};

/// How a case went, in words.
pub(crate) fn judge(case: &Case) -> String {
    let (outcome, seen) = Run::new(case, &[1]).judge();
    let threads: &[usize] = match case.seed % 4 {
        0 => &[2],
        1 => &[3],
        2 => &[8],
        // Nodes move between threads while frames are in flight.
        _ => &[3, 1, 2, 8],
    };
    let again = Run::new(case, threads).judge().1;
    assert!(seen == again, "on {threads:?} threads it is another run: {seen}\n{again}");
    outcome
}

struct Run<'c> {
    scenario: &'c Scenario,
    promises: &'c Promises,
    sim: Sim,
    detector: Detector,
    /// When links are cut (`true`) and mended, the next one last.
    outages: Vec<(Time, LinkRef, bool)>,
    /// When events happen, and whether they are then over, the next one last.
    events: Vec<(Time, &'c Event, bool)>,
    /// Completed messages.
    done: String,
    messages: usize,
    /// Completed messages, by the index of their traffic and their own.
    completed: HashSet<(u32, u32)>,
    sent: Bytes,
    /// How many threads run it, one number after the other.
    threads: std::iter::Cycle<std::slice::Iter<'c, usize>>,
}

/// Messages of a link after which both its ends count alike: one of three is of a class's count, which takes three to be confirmed,
/// and then a limit that goes back takes three.
const AGREED_AFTER: u64 = 3 * 3 + 3 + 1;

/// The largest timeout of what is lost: go-back-N's and TCP's first.
const TIMEOUT: Span = Span::from_millis(10);

impl Run<'_> {
    fn new<'c>(case: &'c Case, threads: &'c [usize]) -> Run<'c> {
        let Case { scenario, promises, .. } = case;
        let sim = Sim::new(scenario).unwrap_or_else(|error| panic!("{error}"));
        let mut outages = scenario.link_changes();
        outages.reverse();
        // What stands for longer than any pause lasts stands for good.
        let standstill = longest_pause(scenario) * 3 + Span::from_millis(1);
        let detector = Detector::new(sim.links().clone(), standstill);
        let mut events: Vec<_> = case
            .events
            .iter()
            .flat_map(|event| event.instants().map(move |(at, is_over)| (at, event, is_over)))
            .collect();
        events.sort_by_key(|(at, ..)| *at);
        events.reverse();
        Run {
            scenario,
            promises,
            sim,
            detector,
            outages,
            events,
            done: String::new(),
            messages: 0,
            completed: HashSet::new(),
            sent: Bytes::ZERO,
            threads: threads.iter().cycle(),
        }
    }

    /// How it went, in words and in all numbers.
    fn judge(mut self) -> (String, String) {
        let end = self.scenario.end;
        let tick = Span::from_picos(end.as_picos() / 20);
        while self.sim.now() < end {
            self.go_on((self.sim.now() + tick).min(end));
        }
        let bound = self.bound();
        let mut step = tick;
        while !self.is_done() && self.sim.now() < bound && !self.is_locked() {
            // What stands still for good does not need so many looks.
            step = (step * 5).divided_by(4).min(Span::from_millis(1));
            self.go_on(self.sim.now() + step);
        }
        let is_done = self.is_done();
        // Frames that nobody waits for are at their end, too, when each has had its time on all links.
        self.go_on(self.sim.now() + self.scenario.longest_delay() * 10 + Span::from_micros(200));
        let outcome = match is_done {
            false => self.rests_not(bound),
            true if self.promises.killed.is_empty() => self.rests(),
            true => format!("{} messages between those that live", self.messages),
        };
        let lost = self.lost_nothing_that_counts();
        let reports = self.sim.reports();
        let classes = || reports.iter().flat_map(|report| &report.ports).flat_map(|port| &port.classes);
        let (pauses, dropped): (u64, u64) =
            (classes().map(|class| class.pauses_tx).sum(), reports.iter().map(dropped).sum());
        let slowed = classes().filter(|class| class.ingress.headroom_max > Bytes::ZERO).count();
        let storms: u64 = classes().filter_map(|class| class.storms).map(|storms| storms.deadlock_detected).sum();
        let slow_receivers = self.sim.hosts().filter(|host| host.config().receive.is_some()).count();
        let loops = self.scenario.traffic.iter().filter(|traffic| traffic.closed_loop().is_some()).count();
        let outcome = format!(
            "{outcome}; {pauses} pauses, headroom used by {slowed} queues, {dropped} dropped, {lost} of them lossless, \
             {storms} storms, {slow_receivers} slow receivers, {loops} closed loops"
        );
        let hosts: Vec<_> = self.sim.hosts().map(|host| host.stats(self.sim.now())).collect();
        let counted =
            (self.sim.packet_hops(), self.sim.wakeups(), self.sim.fault_counters(), self.sim.lost_link_down());
        let seen = format!("{:?} {counted:?} {} {reports:?} {hosts:?}", self.sim.now(), self.done);
        (outcome, seen)
    }

    fn go_on(&mut self, until: Time) {
        self.sim.set_threads(Threads::exactly(*self.threads.next().expect("a cycle")));
        self.run_until(until);
        for done in self.sim.drain_completions() {
            if let MessageSource::Message(traffic, message) = done.source {
                self.messages += 1;
                assert!(self.completed.insert((traffic, message)), "completed twice: {done:?}");
            }
            self.sent += done.size;
            writeln!(self.done, "{done:?}").expect("a text");
        }
        let snapshot = self.sim.snapshot();
        self.detector.observe(self.sim.now(), &snapshot);
        self.sim.frames().unwrap_or_else(|what| panic!("{what}"));
    }

    /// Runs until then, with the outages and events due.
    fn run_until(&mut self, until: Time) {
        loop {
            let outage = self.outages.last().map_or(Time::NEVER, |(at, ..)| *at);
            let event = self.events.last().map_or(Time::NEVER, |(at, ..)| *at);
            if outage.min(event) > until {
                break;
            }
            self.sim.run_until(outage.min(event));
            if outage <= event {
                let (_, link, is_cut) = self.outages.pop().expect("an outage");
                match link {
                    LinkRef::Between(link) => self.sim.set_link_up(self.scenario, link, !is_cut),
                    LinkRef::ToHost(host) => self.sim.set_host_link_up(self.scenario, host, !is_cut),
                }
            } else {
                let (_, event, is_over) = self.events.pop().expect("an event");
                event.apply(self.scenario, &mut self.sim, is_over);
            }
        }
        self.sim.run_until(until);
    }

    /// When all must have arrived. All payload, with as much again of headers, and all of it eight times over for what is sent
    /// in vain, one behind the other over the slowest link; the largest message at the lowest rate that congestion control may
    /// come down to; and what anything may wait for, a few times in a row: of TCP, seven timeouts, each twice as long as the one
    /// before it. What may never come to an end is not waited for so long.
    fn bound(&self) -> Time {
        let scenario = self.scenario;
        // The slowest link, or host that stays slow.
        let receivers = scenario.hosts.iter().filter_map(|host| host.nic.receive);
        let slow = receivers.filter(|limit| limit.until == Time::NEVER).map(|limit| limit.rate);
        let link = slow.fold(slowest(scenario), BitRate::min);
        let (mut all, mut largest) = (Bytes::ZERO, Bytes::kb(100));
        for message in self.messages_begun() {
            all += message.size + Bytes::new(500);
            largest = largest.max(message.size);
        }
        let flows = scenario.hosts.iter().map(|host| host.nic.rate.bytes_in(scenario.end.since(Time::ZERO)) + largest);
        all += if scenario.flows.is_empty() { Bytes::ZERO } else { flows.sum() };
        let waits = longest_pause(scenario) * 10 + TIMEOUT * 130 + scenario.longest_delay() * 1_000;
        let lowest = link.time_for(largest) * (4 * self.promises.slowest_part);
        if self.promises.may_repeat {
            return scenario.end + Span::from_millis(300);
        }
        scenario.end + link.time_for(all) * 16 + lowest.min(Span::from_secs(2)) + waits
    }

    fn is_at_rest(&mut self) -> bool {
        self.sim.is_finished() && self.sim.reports().iter().all(|report| report.conservation.held() == 0)
    }

    /// Whether all has arrived that may: between hosts that were killed and others nothing more does.
    fn is_done(&mut self) -> bool {
        if self.promises.killed.is_empty() {
            return self.is_at_rest();
        }
        let is_over = self.sim.now() >= self.scenario.end;
        is_over && self.messages_between_living().iter().all(|message| self.completed.contains(message))
    }

    /// The messages of lossless classes that have begun between hosts none of which is killed, by the index of their traffic and their own.
    /// Others may starve: RDMA repeats its messages to a dead host for good.
    fn messages_between_living(&self) -> Vec<(u32, u32)> {
        let lives = |host: u32| !self.promises.killed.contains(&(host as usize));
        let of = |traffic: usize| {
            let messages = (0..).zip(self.sim.messages(traffic));
            messages
                .filter(|(_, message)| lives(message.from) && lives(message.to))
                .map(move |(n, _)| (traffic as u32, n))
        };
        let lossless = self.scenario.switches[0].classes.lossless;
        let plans = self.scenario.traffic.iter().enumerate();
        plans
            .filter(|(_, plan)| plan.points.iter().all(|(class, _)| lossless.contains(*class)))
            .flat_map(|(traffic, _)| of(traffic))
            .collect()
    }

    fn is_locked(&self) -> bool {
        self.detector.deadlocks().iter().any(|deadlock| deadlock.persists())
    }

    /// The messages of lists, and those of closed loops that have begun.
    fn messages_begun(&self) -> impl Iterator<Item = &Message> {
        (0..self.scenario.traffic.len()).flat_map(|traffic| self.sim.messages(traffic))
    }

    /// All has arrived, and nothing is left of it.
    fn rests(&mut self) -> String {
        let due = self.messages_begun().count();
        assert_eq!(self.messages, due, "messages");
        let reports = self.sim.reports();
        for (switch, report) in reports.iter().enumerate() {
            let mmu = &self.sim.shared(switch).mmu;
            let pools = [Some(mmu.pool_usage()), mmu.headroom_pool_usage(), mmu.egress_lossy_pool_usage()];
            assert!(pools.iter().flatten().all(|pool| pool.used == Bytes::ZERO), "switch {switch}: {pools:?}");
            for (port, class) in
                report.ports.iter().flat_map(|port| port.classes.iter().map(move |class| (port, class)))
            {
                let left = class.ingress.shared + class.ingress.headroom + class.ingress.private + class.egress;
                assert!(left == Bytes::ZERO && !class.ingress.off, "switch {switch}, {}: {class:?}", port.name);
            }
        }
        if !self.promises.wrongs.control_lost && !self.promises.wrongs.outages && self.odd_messages() > 0 {
            assert!(self.promises.may_miscount(), "messages that say what they should not: {}", self.odd_messages());
            // Both ends agree again after some messages, and say nothing odd from then on.
            let agreed = Advertiser::period_by_default(slowest(self.scenario)) * AGREED_AFTER;
            self.go_on(self.sim.now() + agreed);
            let before = self.odd_messages();
            self.go_on(self.sim.now() + agreed);
            assert_eq!(self.odd_messages(), before, "messages that say what they should not go on");
        }
        if self.promises.falls_silent() {
            assert_eq!(self.sim.frames_in_flight(), 0, "frames on wires");
        }
        for host in self.sim.hosts() {
            let counters = host.counters();
            let foreign = if self.promises.has_strangers { 0 } else { counters.foreign };
            assert_eq!((foreign, counters.unreadable, counters.bad_icrc), (0, 0, 0), "{counters:?}");
            assert_eq!(host.paused(self.sim.now()) - self.forgotten(), ClassSet::EMPTY, "paused for good");
        }
        format!("{} messages, {} in {}", self.messages, self.sent, self.sim.now().since(Time::ZERO))
    }

    /// Messages that said to switches what they should not.
    fn odd_messages(&mut self) -> u64 {
        self.sim.reports().iter().flat_map(|report| &report.ports).map(|port| port.invalid_messages).sum()
    }

    /// Classes that may be paused though nobody wants it.
    fn forgotten(&self) -> ClassSet {
        if self.promises.may_stay_paused() { ClassSet::ALL } else { ClassSet::EMPTY }
    }

    /// Not all has arrived, and that is as it may be.
    fn rests_not(&mut self, bound: Time) -> String {
        let Promises { wrongs, retransmits, may_repeat, sprays, .. } = *self.promises;
        let is_cyclic = self.scenario.routes.as_ref().expect("ways").cyclic_dependency().is_some();
        let reports = self.sim.reports();
        let held: u64 = reports.iter().map(|report| report.conservation.held()).sum();
        let lost = reports.iter().map(dropped).sum::<u64>() + self.overflown();
        let waiting = self.sim.hosts().filter(|host| !host.is_finished()).count();
        let by_reason = DropReason::ALL.map(|reason| {
            let all: u64 = reports.iter().map(|report| report.dropped(reason)).sum();
            if all > 0 { format!("{all} {}, ", reason.name()) } else { String::new() }
        });
        let what = format!(
            "{held} frames held, {waiting} hosts not finished, {lost} dropped: {}{} messages of {:?} done by {:?} of {bound:?}",
            by_reason.concat(),
            self.messages,
            (0..self.scenario.traffic.len()).map(|traffic| self.sim.messages(traffic).len()).collect::<Vec<_>>(),
            self.sim.now()
        );
        if let Some(deadlock) = self.detector.deadlocks().first() {
            let cycle = deadlock.cycle_in(self.scenario);
            assert!(is_cyclic && self.promises.may_lock(), "deadlock: {cycle}; {what}");
            return format!("deadlock: {cycle}");
        }
        if self.promises.is_gentle() && is_cyclic && self.is_slowed_down(&reports) {
            return format!("crawls: {what}");
        }
        // Lost data is not retransmitted.
        if !retransmits && held == 0 && lost > 0 && wrongs == Wrongs::default() {
            return format!("unfinished: {what}");
        }
        // Nothing else may keep anything back for so long.
        if may_repeat && (lost > 0 || sprays) {
            return format!("goes round: {what}");
        }
        let undone: Vec<_> =
            self.messages_between_living().into_iter().filter(|message| !self.completed.contains(message)).collect();
        for (traffic, message) in &undone {
            println!("undone: {:?}", self.sim.messages(*traffic as usize)[*message as usize]);
        }
        for host in self.sim.hosts().filter(|host| !host.is_finished()) {
            let stats = host.stats(self.sim.now());
            println!("{}: {:#?} {:?}", host.config().mac, stats.flows, stats.counters);
        }
        panic!("not at rest: {what}");
    }

    /// Frames for which slow receivers had no room.
    fn overflown(&self) -> u64 {
        self.sim.hosts().map(|host| host.counters().receive_overflow).sum()
    }

    fn is_slowed_down(&self, reports: &[Report]) -> bool {
        let ports = reports
            .iter()
            .zip(self.scenario.switches.iter())
            .flat_map(|(report, config)| report.ports.iter().zip(&config.ports));
        let mut told =
            ports.flat_map(|(port, config)| port.classes.iter().map(move |class| (class.rate_rx, config.rate)));
        told.any(|(told, line)| told.is_some_and(|told| Some(told) < line))
    }

    /// Lossless frames that were dropped, where that may be.
    fn lost_nothing_that_counts(&mut self) -> u64 {
        let reports = self.sim.reports();
        let mut all = 0;
        for (report, config) in reports.iter().zip(self.scenario.switches.iter()) {
            for reason in DropReason::ALL {
                let classes = config.classes.lossless.iter();
                let lost: u64 = classes
                    .flat_map(|class| report.ports.iter().map(move |port| port.classes[class.index()].dropped(reason)))
                    .sum();
                all += lost;
                let is_known = match reason {
                    DropReason::PortDown => self.promises.wrongs.outages,
                    DropReason::PfcWatchdog => self.promises.watchdog == Some(WatchdogAction::Drop),
                    _ => false,
                };
                assert!(
                    lost == 0 || is_known || !self.promises.loses_nothing(),
                    "{} lost {lost} lossless frames: {}",
                    config.name,
                    reason.name()
                );
                let never = [DropReason::HeadroomViolation, DropReason::SharedFull, DropReason::EgressThreshold];
                assert!(lost == 0 || is_known || never.contains(&reason), "{}: {lost} {}", config.name, reason.name());
            }
        }
        for host in self.sim.hosts() {
            let stats = host.stats(self.sim.now());
            let lossless = host.config().lossless.iter();
            let lost: u64 = lossless.map(|class| stats.classes[class.index()].receive_overflow).sum();
            all += lost;
            assert!(lost == 0 || !self.promises.loses_nothing(), "{} had no room for {lost}", host.config().mac);
        }
        all
    }
}

fn dropped(report: &Report) -> u64 {
    DropReason::ALL.map(|reason| report.dropped(reason)).iter().sum()
}

/// The longest that a PAUSE may ask for.
fn longest_pause(scenario: &Scenario) -> Span {
    slowest(scenario).time_for(Bytes::new(65_535 * 64))
}
