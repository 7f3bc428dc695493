//! The backend that runs a scenario in virtual time: the switches' own halves, the hosts' own code, and links, as discrete
//! events on a clock of picoseconds.
//!
//! A component (a switch, a host, one direction of a link) is woken when something arrives for it and at the instant that
//! it names itself; between two wake-ups nothing happens. A frame takes its time on its sender's wire, then the
//! propagation delay of the link, and has arrived with its last byte. Switches and hosts react at once: write `reaction =
//! "0s"` in `[pfc]` to have thresholds reckoned so.
//!
//! The same scenario gives the same run on every machine. As every frame takes time on the wire, what a component does at an
//! instant reaches no other at that instant, and the order in which they are woken is of no consequence; of frames that
//! reach several ports of a switch at one instant, the ports take turns in being first.
//!
//! Frames are real, as on DPDK: what hosts write is what switches read. `time_dilation` has no meaning here.

mod agenda;
mod frame;
mod station;
#[cfg(test)]
mod tests;
mod wire;

use weir_flowctl::frame::FRAME_BYTES;
use weir_switch_core::{BuildError, Report, Shared};
use weir_units::{PortId, Span, Time};

use crate::deadlock::{Links, SwitchState};
use crate::host::{Completion, Host, HostError};
use crate::link::{FaultCounters, LinkFrame};
use crate::scenario::{PortPlace, Scenario, ScenarioError};
use agenda::Agenda;
use frame::FramePool;
use station::{HostStation, Outside, SwitchStation};
use wire::{Far, Wire};

/// A scenario under way in virtual time.
#[derive(Debug)]
pub struct Sim {
    now: Time,
    /// In this order, wires, switches and hosts are the components of the agenda.
    wires: Box<[Wire]>,
    switches: Box<[SwitchStation]>,
    hosts: Box<[HostStation]>,
    agenda: Agenda,
    pool: FramePool,
    links: Links,
    woken: u64,
}

/// Why a scenario can't be run in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario does not hold together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A port with a link and no rate: there is no device to ask.
    #[error("port {0} has no rate, which its wire needs")]
    NoRate(String),
    /// A switch can't be built.
    #[error("switch {switch}: {source}")]
    Switch {
        /// Its name.
        switch: String,
        /// Why.
        source: BuildError,
    },
    /// A host can't be.
    #[error("host {host}: {source}")]
    Host {
        /// Its name.
        host: String,
        /// Why.
        source: HostError,
    },
}

impl Sim {
    /// The scenario before its first instant.
    pub fn new(scenario: &Scenario) -> Result<Sim, SimError> {
        scenario.check()?;
        let (wires, leaving) = wires(scenario)?;
        let switches = scenario.switches.iter().zip(&leaving.ports).enumerate();
        let switches = switches.map(|(number, (config, wires))| {
            let failed = |source| SimError::Switch { switch: config.name.clone(), source };
            SwitchStation::new(number, config, wires.clone().into()).map_err(failed)
        });
        let switches = switches.collect::<Result<Box<[_]>, _>>()?;
        let hosts = (0..scenario.hosts.len()).map(|n| {
            // Nobody is ever late.
            let host = scenario.host(n, Span::ZERO);
            let host = host.map_err(|source| SimError::Host { host: scenario.hosts[n].name.clone(), source })?;
            Ok(HostStation::new(host, leaving.hosts[n]))
        });
        let hosts = hosts.collect::<Result<Box<[_]>, SimError>>()?;
        let longest = hosts.iter().map(|station| station.host.config().frame_bytes_max()).max();
        let components = wires.len() + switches.len() + hosts.len();
        let mut agenda = Agenda::new(components);
        (wires.len()..components).for_each(|who| agenda.set(who, Time::ZERO));
        Ok(Sim {
            now: Time::ZERO,
            wires,
            switches,
            hosts,
            agenda,
            pool: FramePool::new(longest.unwrap_or(0).max(FRAME_BYTES)),
            links: Links::of(scenario),
            woken: 0,
        })
    }

    /// Goes on until `until`, with what happens at that instant.
    ///
    /// # Panics
    /// If that is past.
    pub fn run_until(&mut self, until: Time) {
        assert!(self.now <= until, "{until:?} is past: it is {:?}", self.now);
        loop {
            let (at, who) = self.agenda.first();
            // Never is no instant.
            if at > until || at == Time::NEVER {
                break;
            }
            self.now = at;
            self.woken += 1;
            self.wake(who);
        }
        self.now = until;
    }

    /// Goes on for so long.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    /// The instant up to which the scenario has run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A report of a switch, by its place in the scenario.
    pub fn report(&mut self, switch: usize) -> Report {
        self.switches[switch].report(self.now)
    }

    /// Reports of all switches.
    pub fn reports(&mut self) -> Vec<Report> {
        (0..self.switches.len()).map(|switch| self.report(switch)).collect()
    }

    /// What a switch's halves share, its buffer and what its peers let it send: for what is asked too often for a report.
    pub fn shared(&self, switch: usize) -> &Shared {
        self.switches[switch].shared()
    }

    /// A host, by its place in the scenario.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host].host
    }

    /// All hosts, in the order of the scenario.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|station| &station.host)
    }

    /// The messages of a host that were completed since the last call, oldest first.
    pub fn drain_completions(&mut self, host: usize) -> impl Iterator<Item = Completion> {
        self.hosts[host].host.drain_completions()
    }

    /// What injected faults have done, on all links together.
    pub fn fault_counters(&self) -> FaultCounters {
        self.wires.iter().map(Wire::fault_counters).fold(FaultCounters::default(), |sum, of_wire| FaultCounters {
            chosen: sum.chosen + of_wire.chosen,
            lost: sum.lost + of_wire.lost,
            doubled: sum.doubled + of_wire.doubled,
            reordered: sum.reordered + of_wire.reordered,
        })
    }

    /// The links between switches, for a [`Detector`](crate::deadlock::Detector).
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The egress queues as they are, for a [`Detector`](crate::deadlock::Detector).
    pub fn snapshot(&mut self) -> Vec<SwitchState> {
        self.reports().iter().map(SwitchState::of).collect()
    }

    /// How often any component was woken: what a run costs.
    pub fn wakeups(&self) -> u64 {
        self.woken
    }

    #[inline]
    fn wake(&mut self, who: usize) {
        let (wires, switches) = (self.wires.len(), self.switches.len());
        match who.checked_sub(wires) {
            None => self.deliver(who),
            Some(switch) if switch < switches => self.run_switch(switch),
            Some(station) => self.run_host(station - switches),
        }
    }

    /// What has arrived at the end of a wire is its receiver's. A switch waits for the other wires of this instant, which come
    /// before it.
    #[inline]
    fn deliver(&mut self, wire: usize) {
        let to = self.wires[wire].to;
        let mut arrived = false;
        while let Some(frame) = self.wires[wire].poll(self.now, &self.pool) {
            arrived = true;
            match to {
                Far::Switch(switch, port) => self.switches[switch].handle_arrival(port, frame),
                Far::Host(host) => self.hosts[host].host.handle_frame(self.now, frame.bytes()),
            }
        }
        self.agenda.set(wire, self.wires[wire].next_wakeup());
        match to {
            Far::Switch(switch, _) if arrived => self.agenda.wake(self.wires.len() + switch, self.now),
            Far::Host(host) if arrived => self.run_host(host),
            _ => {}
        }
    }

    #[inline]
    fn run_switch(&mut self, switch: usize) {
        let who = self.wires.len() + switch;
        let Sim { now, wires, agenda, pool, .. } = self;
        let next = self.switches[switch].run(Outside { now: *now, wires, agenda, pool });
        self.agenda.set(who, next);
    }

    #[inline]
    fn run_host(&mut self, host: usize) {
        let who = self.wires.len() + self.switches.len() + host;
        let Sim { now, wires, agenda, pool, .. } = self;
        let next = self.hosts[host].run(Outside { now: *now, wires, agenda, pool });
        self.agenda.set(who, next);
    }
}

/// Which wire leaves where.
struct Leaving {
    /// By switch and port.
    ports: Vec<Vec<Option<usize>>>,
    hosts: Vec<usize>,
}

/// Both directions of all links.
fn wires(scenario: &Scenario) -> Result<(Box<[Wire]>, Leaving), SimError> {
    let mut wires = Vec::new();
    let mut leaving = Leaving {
        ports: scenario.switches.iter().map(|switch| vec![None; switch.ports.len()]).collect(),
        hosts: Vec::new(),
    };
    let far = |place: PortPlace| Far::Switch(place.switch, PortId(place.port as u16));
    let rate = |place: PortPlace| {
        let rate = scenario.switches[place.switch].ports[place.port].rate;
        rate.ok_or_else(|| SimError::NoRate(scenario.port_name(place)))
    };
    for (n, plan) in scenario.hosts.iter().enumerate() {
        let place = plan.place();
        let [to_host, to_switch] = plan.faults;
        leaving.ports[place.switch][place.port] = Some(wires.len());
        wires.push(Wire::new(rate(place)?, plan.link_delay, to_host, Far::Host(n)));
        leaving.hosts.push(wires.len());
        wires.push(Wire::new(plan.nic.rate, plan.link_delay, to_switch, far(place)));
    }
    for plan in &scenario.links {
        for (from, to, faults) in [(0, 1, plan.faults[0]), (1, 0, plan.faults[1])] {
            let (from, to) = (plan.ends[from], plan.ends[to]);
            leaving.ports[from.switch][from.port] = Some(wires.len());
            wires.push(Wire::new(rate(from)?, plan.delay, faults, far(to)));
        }
    }
    Ok((wires.into(), leaving))
}
