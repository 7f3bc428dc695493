//! Switch built from a configuration, to be divided among lcores ([`Switch::into_lcores`]) or run in virtual time
//! ([`Switch::into_pipeline`]).

use std::sync::Arc;

use weir_config::{BufferConfig, EcnConfig, SwitchConfig};
use weir_flowctl::{CatchUp, ClassRateLimiters, MessageGenerator, Shaper};
use weir_mmu::BufferPolicy;
use weir_mmu::policy::BufferPolicyConfig;
use weir_units::{BitRate, ClassSet, FCS_BYTES, MacAddr, PortId};

use crate::buffer::{buffer_layout, buffer_mmu};
use crate::build_error::BuildError;
use crate::classify::Classifier;
use crate::counters::Counters;
use crate::driver_config::{DriverConfig, PortInfo};
use crate::egress::EgressQueues;
use crate::fdb::ForwardingTable;
use crate::flow_control::{alternatives, port_flow_control};
use crate::packet::Packet;
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::shared::{LinkRate, PortState, RuntimeConfig, Shared};
use crate::sync::AtomicU64;
use crate::transmission::{EgressTiming, PortTransmitter, Transmission, TransmitMode};
use crate::utilisation::DigestEncoder;
use crate::vlans::Vlans;
use crate::watchdog::PortWatchdogs;

/// One switch: its shared state, to be run by lcores or in virtual time.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    config: SwitchConfig,
    driver_config: DriverConfig,
}

/// Part of a switch to which its forwarders' random numbers belong; the others are numbers of ports.
const FORWARDERS: u64 = 1 << 32;

impl Switch {
    /// Returns a switch of this configuration. `port_infos` has one entry per port; a clone's is ignored.
    ///
    /// # Errors
    /// If no switch can be built from the configuration: [`BuildError`].
    ///
    /// # Panics
    /// If the length of `port_infos` is not the number of configured ports.
    pub fn new(
        config: &SwitchConfig,
        port_infos: &[PortInfo],
        driver_config: DriverConfig,
    ) -> Result<Switch, BuildError> {
        assert_eq!(port_infos.len(), config.ports.len(), "one PortInfo per configured port");
        let charge = if driver_config.takes_mbufs { config.charge_per_mbuf() } else { config.buffer.charge() };
        let layout = buffer_layout(config)?.charged_by(charge);
        // A clone is on its port's link.
        let real_ports: Vec<usize> = (0..config.ports.len()).map(|port| config.real_port(port)).collect();
        let link_rate = |port: usize| match (config.ports[port].rate, port_infos[port]) {
            (Some(rate), PortInfo { rate: link, .. }) => LinkRate::configured(rate, link),
            (None, PortInfo { rate: link, shaped, .. }) => LinkRate::following_link(link, shaped),
        };
        let rates: Vec<BitRate> = real_ports.iter().map(|port| link_rate(*port).get()).collect();
        let mmu = buffer_mmu(config, layout, &rates)?;
        let frame_bytes_max = config.tagged_frame_bytes_max().get() - FCS_BYTES;
        let stations = driver_config.stations.unwrap_or(config.fdb_size as usize);
        let fdb = ForwardingTable::new(stations, config.mac_ageing)
            .with_ports(config.ports.iter().map(|port| port.stations_max).filter(|_| driver_config.learns));
        let vlans = Vlans::new(config).map(Box::new);
        let fdb = if vlans.is_some() { fdb.with_vlans() } else { fdb };
        let ports = config.ports.iter().zip(real_ports).zip(rates).enumerate().map(|(index, ((port, real), rate))| {
            let mac = config.ports[real].mac.unwrap_or(port_infos[real].mac);
            let flow_control = port_flow_control(config, real, rate)?;
            assert!(port.rate.is_some() || !flow_control.depends_on_rate(), "a checked configuration has a rate here");
            let lossless = config.classes.lossless;
            let (id, overhead) = (PortId(real as u16), driver_config.link_overhead);
            let mut state = PortState::new(&port.name, id, mac, link_rate(real), flow_control, lossless, overhead);
            state.add_flow_controls(alternatives(config, real, rate));
            let is_shaped = port.rate.is_some() || port_infos[real].shaped;
            if driver_config.catch_up != CatchUp::NONE && real == index && is_shaped {
                state.count_line_time();
            }
            let is_watched = config.pfc_watchdog.is_some() && port.pfc_watchdog;
            if is_watched && real == index && state.regulator.obeys_pfc() {
                state.watch(lossless);
            }
            Ok(state)
        });
        let ports = ports.collect::<Result<_, BuildError>>()?;
        let shared = Shared {
            mmu: mmu.with_unscheduled_alpha(driver_config.unscheduled_alpha),
            fdb,
            vlans,
            classifier: Classifier::new(config.class_maps()),
            charge,
            unbuffered: driver_config.unbuffered,
            frame_bytes_max: frame_bytes_max as u32,
            obeyed: if config.pfc.obeys_for_lossy { ClassSet::ALL } else { config.classes.lossless },
            link_overhead: driver_config.link_overhead,
            stamps: config.telemetry || driver_config.digest.is_some(),
            telemetry_queue: config.telemetry_queue,
            digest_encoder: driver_config.digest.map(DigestEncoder::new),
            learns: driver_config.learns,
            storm_control: AtomicU64::new(config.storm_control.map_or(0, BitRate::as_bps)),
            hash_seed: driver_config.hash_seed,
            load_balancing: config.load_balancing.clone(),
            random_seed: Random::seed_of(&config.name, driver_config.seed, FORWARDERS),
            ports,
            ever_closed: AtomicU64::new(0),
            runtime_config: RuntimeConfig::new(&config.classes.queues, config.pfc_watchdog.as_ref()),
        };
        for (address, port) in &config.static_macs {
            if !shared.enter_static(*address, PortId(*port as u16)) {
                return Err(BuildError::StaticMac(*address));
            }
        }
        for (port, state) in config.real_ports().map(|port| (PortId(port as u16), config.ports[port].state)) {
            shared.set_port_state(port, state);
        }
        Ok(Switch { shared: Arc::new(shared), config: config.clone(), driver_config })
    }

    /// Returns a switch of this configuration with another buffer policy, which need not be in the registry.
    ///
    /// The configuration was checked without this policy: [`BufferPolicyConfig::check`] is not called.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use weir_flowctl::CatchUp;
    /// use weir_mmu::policy::DynamicThresholdConfig;
    /// use weir_switch_core::{PortInfo, DriverConfig, Switch};
    /// use weir_units::Alpha;
    ///
    /// let ports = "[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";
    /// let config = weir_config::parse("switch.toml", ports).map_err(|errors| errors.render(false)).unwrap();
    /// let policy = Arc::new(DynamicThresholdConfig { alpha: Alpha::ratio(1, 8).unwrap(), alpha_at_rate: None });
    /// let driver_config = DriverConfig::real_time(CatchUp::NONE);
    /// let switch = Switch::with_policy(&config, policy, &[PortInfo::default(); 2], driver_config).unwrap();
    /// assert!(switch.policy().describe()[0].ends_with("α = 1/8"));
    /// ```
    ///
    /// # Errors
    /// If the buffer can't be partitioned for the policy, or no switch can be built for another reason.
    pub fn with_policy(
        config: &SwitchConfig,
        policy: Arc<dyn BufferPolicyConfig>,
        port_infos: &[PortInfo],
        driver_config: DriverConfig,
    ) -> Result<Switch, BuildError> {
        let buffer = BufferConfig { policy, ..config.buffer.clone() };
        Switch::new(&SwitchConfig { buffer, ..config.clone() }, port_infos, driver_config)
    }

    /// Sets the routes of stations: each has a set of ports, of which the flow's hash selects one. The first station has the address
    /// `first`, each further one the next address.
    ///
    /// # Panics
    /// If the switch's shared state has other owners, or there are more than 32,768 different sets of ports.
    pub fn set_routes<'r>(&mut self, first: MacAddr, ports: impl Iterator<Item = &'r [u16]>) {
        let shared = Arc::get_mut(&mut self.shared).expect("routes come before the switch is shared");
        shared.fdb.set_routes(first, ports);
    }

    /// Adds a set of routes to the stations of [`Switch::set_routes`], for selection with
    /// [`ForwardingTable::use_routes`](crate::fdb::ForwardingTable::use_routes).
    ///
    /// # Panics
    /// In the cases of [`Switch::set_routes`], and if the set has another number of stations.
    pub fn add_routes<'r>(&mut self, ports: impl Iterator<Item = &'r [u16]>) {
        let shared = Arc::get_mut(&mut self.shared).expect("routes come before the switch is shared");
        shared.fdb.add_routes(ports);
    }

    /// Returns the buffer policy.
    pub fn policy(&self) -> &dyn BufferPolicy {
        self.shared.mmu.policy()
    }

    /// Returns the state shared by all lcores.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the largest number of packets that the MMU admits, at the smallest charge.
    pub(crate) fn packets_max(&self) -> usize {
        self.shared.charge.frames_max(self.shared.mmu.layout().charges_max()) as usize
    }

    pub(crate) fn driver_config(&self) -> &DriverConfig {
        &self.driver_config
    }

    /// Returns the switch for a single lcore.
    pub(crate) fn for_one_lcore(self) -> Switch {
        let shared = Arc::into_inner(self.shared).expect("a switch is made for one lcore before it is shared");
        let shared = Shared { mmu: shared.mmu.for_one_lcore(), ..shared };
        Switch { shared: Arc::new(shared), ..self }
    }

    /// Returns the transmit side of these ports, with room for `limit` packets, of which `places` are allocated now.
    pub(crate) fn transmission<P: Packet, M: TransmitMode<P>>(
        &self,
        ports: &[PortId],
        limit: usize,
        places: usize,
        counters: Counters,
        mode: M,
    ) -> Transmission<P, M> {
        let Switch { shared, config, driver_config } = self;
        // Each poll gives up the part of the slack that it may not make up.
        let slack = driver_config.catch_up.most;
        let scheduler = Scheduler::new(config.classes.scheduler, &config.classes.queues);
        let out_ports = ports.iter().map(|id| {
            let state = shared.port(*id);
            let generator = MessageGenerator::new(state.flow_control(), state.rate(), config.classes.lossless);
            let shaper = Shaper::timed(state.rate.shaped_to(), slack, driver_config.frame_times);
            let rates = config.classes.queues.each_ref().map(|queue| queue.rate);
            let mut limits = ClassRateLimiters::new(state.rate(), slack, rates, &state.regulator);
            if M::IS_RECONFIGURABLE {
                limits.allocate(state.rate(), slack);
            }
            let watched = config.pfc_watchdog.as_ref().filter(|_| state.storms().is_some());
            let watchdogs = PortWatchdogs::new(watched, config.classes.lossless);
            let port = &config.ports[id.index()];
            let own = mode.port(state, port.queues(), config.tx_backlog(port));
            let timing = EgressTiming { shaper, limits, scheduler: scheduler.clone() };
            PortTransmitter::new(state, shared.clones_of(*id), timing, generator, watchdogs, own)
        });
        let out_ports = out_ports.collect();
        let markers = config.classes.queues.each_ref().map(|queue| queue.ecn.as_ref().map(EcnConfig::marker));
        let seed = Random::seed_of(&config.name, driver_config.seed, u64::from(ports[0].0));
        let queues = EgressQueues::new(shared.ports().len(), limit, places, &config.classes.queues, seed);
        Transmission::new(shared.clone(), out_ports, queues, markers, Random::new(seed), counters, mode)
    }
}
