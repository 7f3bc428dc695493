//! From a configuration to a switch, and from a plan to the halves that its lcores run.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rtrb::RingBuffer;
use weir_config::SwitchConfig;
use weir_flowctl::{CatchUp, ClassLimits, LatePolls, MessageGenerator, Shaper};
use weir_mmu::{Charge, EcnMarker, Mmu};
use weir_units::{BitRate, FCS_BYTES, MacAddr, PortId};

use crate::buffer::{buffer_layout, buffer_policy};
use crate::build_error::BuildError;
use crate::classify::Classifier;
use crate::egress::EgressQueues;
use crate::fdb::ForwardingTable;
use crate::flow_control::mechanism;
use crate::forwarder::Forwarder;
use crate::handoff::RECEIVED_MAX;
use crate::plan::{LcorePlan, LcoreRole};
use crate::random::Random;
use crate::receiver::Receiver;
use crate::report::Reporter;
use crate::scheduler::Scheduler;
use crate::shared::{LinkRate, PortState, Shared};
use crate::surroundings::{Memory, PortFacts, Surroundings};
use crate::transmitter::{OutPort, PortLine, Transmitter};
use crate::watchdog::PortWatchdogs;

/// One switch: its common parts, ready to be cut into halves.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    config: SwitchConfig,
    surroundings: Surroundings,
}

/// The halves of a plan, and how to read their counters.
#[derive(Debug)]
pub struct Halves<P> {
    /// What each lcore of the plan runs.
    pub lcores: Vec<Lcore<P>>,
    /// Reads the counters of all of them.
    pub reporter: Reporter,
}

/// What one lcore runs. Where it forwards what it receives itself there is no [`Receiver`].
#[derive(Debug)]
pub struct Lcore<P> {
    /// Ports received, forwarded, transmitted here.
    pub role: LcoreRole,
    /// RX alone, for a forwarder on another lcore.
    pub receiver: Option<Receiver<P>>,
    /// FWD.
    pub forwarder: Option<Forwarder<P>>,
    /// TX.
    pub transmitter: Option<Transmitter<P>>,
}

impl Switch {
    /// A switch of this configuration. `facts` are the driver's, one for each port (a clone's are not looked at).
    pub fn new(config: &SwitchConfig, facts: &[PortFacts], surroundings: Surroundings) -> Result<Switch, BuildError> {
        assert_eq!(facts.len(), config.ports.len(), "facts for each port");
        let layout = buffer_layout(config)?;
        // A clone is on its port's link.
        let real_ports: Vec<usize> = (0..config.ports.len()).map(|port| config.real_port(port)).collect();
        let link_rate = |port: usize| match (config.ports[port].rate, facts[port]) {
            (Some(rate), PortFacts { rate: link, .. }) => LinkRate::configured(rate, link),
            (None, PortFacts { rate: link, shaped, .. }) => LinkRate::of_the_link(link, shaped),
        };
        let rates: Vec<BitRate> = real_ports.iter().map(|port| link_rate(*port).get()).collect();
        let policy = buffer_policy(config, &layout, &rates)?;
        let frame_bytes_max = config.frame_bytes_max().get() - FCS_BYTES;
        let fdb = ForwardingTable::new(surroundings.stations, config.mac_ageing);
        for (address, port) in &config.static_macs {
            if !fdb.insert_static(*address, PortId(*port as u16)) {
                return Err(BuildError::StaticMac(*address));
            }
        }
        let ports = config.ports.iter().zip(real_ports).zip(rates).enumerate().map(|(index, ((port, real), rate))| {
            let mac = config.ports[real].mac.unwrap_or(facts[real].mac);
            let mechanism = mechanism(config, real, rate)?;
            assert!(port.rate.is_some() || !mechanism.is_made_for_a_rate(), "a checked configuration has a rate here");
            let lossless = config.classes.lossless;
            let (id, overhead) = (PortId(real as u16), surroundings.link_overhead);
            let mut state = PortState::new(&port.name, id, mac, link_rate(real), mechanism, lossless, overhead);
            let is_shaped = port.rate.is_some() || facts[real].shaped;
            if surroundings.catch_up != CatchUp::NONE && real == index && is_shaped {
                state.count_line_time();
            }
            if config.pfc_watchdog.is_some() && real == index && state.regulator.obeys_pfc() {
                state.watch(lossless);
            }
            Ok(state)
        });
        let ports = ports.collect::<Result<_, BuildError>>()?;
        let mmu = Mmu::new(layout, policy, config.xon_offset(), config.buffer.lossy_alpha);
        let shared = Shared {
            mmu: if surroundings.memory == Memory::Upfront { mmu } else { mmu.for_one_lcore() },
            fdb,
            classifier: Classifier::new(&config.classes, config.ports.iter().map(|port| port.priority)),
            charge: Charge::in_cells(config.buffer.cell_bytes),
            frame_bytes_max: frame_bytes_max as u32,
            stamps: config.telemetry,
            learns: surroundings.learns,
            hash_seed: surroundings.hash_seed,
            ports,
            ever_closed: AtomicU64::new(0),
        };
        Ok(Switch { shared: Arc::new(shared), config: config.clone(), surroundings })
    }

    /// Has frames to stations leave by one of these ports each, by their flow's hash. The first station has the address `first`,
    /// each further one the next.
    ///
    /// # Panics
    /// If what lcores share is shared already, or there are more than 32,768 different sets of ports.
    pub fn set_routes<'r>(&mut self, first: MacAddr, ports: impl Iterator<Item = &'r [u16]>) {
        let shared = Arc::get_mut(&mut self.shared).expect("routes come before the switch is shared");
        shared.fdb.set_routes(first, ports);
    }

    /// What all lcores share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The most packets that the buffer holds: the packet pool must have this many, and those on their way in and out.
    pub fn packets_max(&self) -> usize {
        self.shared.charge.frames_max(self.config.buffer.size) as usize
    }

    /// Cuts the switch for a plan. To be called once: two sets of halves would admit to the same queues.
    pub fn into_halves<P: crate::Packet>(self, plan: &LcorePlan) -> Halves<P> {
        let limit = self.packets_max() + 1;
        let upfront = self.surroundings.memory == Memory::Upfront;
        let places = if upfront { limit } else { 0 };
        let transmitting: Vec<usize> =
            (0..plan.lcores.len()).filter(|n| !plan.lcores[*n].transmits.is_empty()).collect();
        let ports = self.shared.ports().iter();
        let output_of: Box<[usize]> = ports
            .map(|port| {
                let serves = |lcore: &usize| plan.lcores[*lcore].transmits.contains(&port.real_port);
                transmitting.iter().position(serves).expect("a plan transmits on every port that is no clone")
            })
            .collect();
        let mut inputs: Vec<Vec<_>> = transmitting.iter().map(|_| Vec::new()).collect();
        let mut forwarders = Vec::new();
        let mut receivers = Vec::new();
        for role in plan.lcores.iter().filter(|role| !role.forwards.is_empty()) {
            let (outputs, ends): (Vec<_>, Vec<_>) =
                transmitting.iter().filter(|_| upfront).map(|_| RingBuffer::new(limit)).unzip();
            inputs.iter_mut().zip(ends).for_each(|(input, end)| input.push(end));
            let input = (role.receives.is_empty()).then(|| {
                let (to_forwarder, from_receiver) = RingBuffer::new(RECEIVED_MAX);
                receivers.push(Receiver::new(self.shared.clone(), to_forwarder));
                from_receiver
            });
            forwarders.push(Forwarder::new(
                self.shared.clone(),
                input,
                outputs.into(),
                output_of.clone(),
                &role.forwards,
                self.surroundings.memory,
            ));
        }
        let transmitters: Vec<_> = transmitting
            .iter()
            .zip(inputs)
            .map(|(lcore, inputs)| self.transmitter(&plan.lcores[*lcore], inputs.into(), (limit, places)))
            .collect();
        let reporter = Reporter::new(
            self.shared.clone(),
            receivers.iter().map(Receiver::published).collect(),
            forwarders.iter().map(Forwarder::published).collect(),
            transmitters.iter().map(Transmitter::published).collect(),
        );
        let (mut receivers, mut forwarders, mut transmitters) =
            (receivers.into_iter(), forwarders.into_iter(), transmitters.into_iter());
        let lcores = plan.lcores.iter().map(|role| Lcore {
            role: role.clone(),
            receiver: if role.forwards.is_empty() && !role.receives.is_empty() { receivers.next() } else { None },
            forwarder: if role.forwards.is_empty() { None } else { forwarders.next() },
            transmitter: if role.transmits.is_empty() { None } else { transmitters.next() },
        });
        Halves { lcores: lcores.collect(), reporter }
    }

    fn transmitter<P: crate::Packet>(
        &self,
        role: &LcoreRole,
        inputs: Box<[crate::handoff::FromForwarder<P>]>,
        places: (usize, usize),
    ) -> Transmitter<P> {
        // Of this, each poll gives up what it may not make up.
        let slack = self.surroundings.catch_up.most;
        let scheduler = Scheduler::new(&self.config.classes.queues);
        let ports = role.transmits.iter().map(|id| {
            let state = self.shared.port(*id);
            let generator = MessageGenerator::new(&state.mechanism, state.rate(), self.config.classes.lossless);
            let shaper = Shaper::new(state.rate.shaped_to(), slack);
            let rates = self.config.classes.queues.map(|queue| queue.rate);
            let limits = ClassLimits::new(state.rate(), slack, rates, &state.regulator);
            let watched = self.config.pfc_watchdog.as_ref().filter(|_| state.storms().is_some());
            let watchdogs = PortWatchdogs::new(watched, self.config.classes.lossless);
            let clones = self.shared.clones_of(*id);
            let wire = PortLine { shaper, tx_queues: self.config.ports[id.index()].device.queues() };
            OutPort::new(state, clones, wire, limits, scheduler.clone(), generator, watchdogs)
        });
        let markers = self
            .config
            .classes
            .queues
            .map(|queue| queue.ecn.map(|ecn| EcnMarker::new(ecn.kmin, ecn.kmax, ecn.pmax_ppm)));
        let seed = Random::seed_of(&self.config.name, self.surroundings.seed, u64::from(role.transmits[0].0));
        let queues = EgressQueues::new(self.shared.ports().len(), places, &self.config.classes.queues, seed);
        let late = LatePolls::new(self.surroundings.catch_up);
        Transmitter::new(self.shared.clone(), inputs, ports.collect(), queues, markers, (seed, late), self.surroundings)
    }
}
