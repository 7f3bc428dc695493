//! Real hosts of a scenario: their creation, flows and results.

mod flows;
mod session;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_results::run_dir::{RealHostSummary, ToolSummary};
use weir_scenario::{HostBackend, RealPorts, Scenario, TrafficPlan};

use crate::HostError;
use crate::access::Access;
use crate::guest::{
    Accelerator, AcceleratorChoice, Fleet, GuestLifetime, GuestPlan, Image, State, refuse_more_than_fits, store,
};
use crate::host::Host;
use crate::netns::{self, Namespace};
use crate::ranks::{RankHost, RankPlace};

pub use crate::counters::CounterRow;
pub use crate::sockets::ConnectionSample;
pub use flows::perftest_port;
pub use session::Session;

/// Most flows that start or end at a guest. Two more of its shells serve checks of listeners and of connections. Ranks have one.
const FLOWS_OF_A_GUEST: usize = 7;
/// Longest time from a guest's start until its process is visible.
const STARTS_WITHIN: Duration = Duration::from_secs(3);
const PREFIX_BITS: u8 = 24;

/// Real hosts of scenarios run one after the other with the same hosts. Dropping it ends the guests and namespaces.
#[derive(Debug)]
pub struct RealHostSet {
    guests: Option<Guests>,
    hosts: Vec<Option<Host>>,
    stop: Arc<AtomicBool>,
    started: Option<Instant>,
    _namespaces: Vec<Namespace>,
    _folder: tempfile::TempDir,
}

#[derive(Debug)]
struct Guests {
    fleet: Fleet,
    image: Image,
    accelerator: Accelerator,
    plans: Vec<GuestPlan>,
}

/// Results of a run's real hosts.
#[derive(Clone, Debug, Default)]
pub struct RealHostsResult {
    /// Results by flow index; `None` for flows of emulated hosts.
    pub flows: Vec<Option<FlowResult>>,
    /// Summary of each real host.
    pub hosts: Vec<RealHostSummary>,
    /// Failures, as sentences.
    pub failures: Vec<String>,
    /// Output of the programs, by file name.
    pub outputs: BTreeMap<String, String>,
    /// Counters of each host before and after the run.
    pub counters: Vec<CounterRow>,
    /// Samples of TCP connections, with their flows.
    pub connections: Vec<(String, ConnectionSample)>,
}

/// Result of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// Payload sent, in bytes.
    pub sent: u64,
    /// Payload received, in bytes.
    pub received: u64,
    /// Messages sent, for RDMA.
    pub messages: u64,
    /// Result reported by the program.
    pub tool: ToolSummary,
}

impl RealHostSet {
    /// Creates the folder for the sockets of a process's real hosts, and returns their ports with it.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn place() -> Result<(RealPorts, tempfile::TempDir), HostError> {
        let made = tempfile::Builder::new().prefix("weir-hosts-").tempdir();
        let folder = made.map_err(|error| HostError::Scenario(format!("a folder for sockets: {error}")))?;
        Ok((RealPorts { folder: folder.path().to_owned(), process: std::process::id() }, folder))
    }

    /// Rejects a scenario that real hosts do not support.
    ///
    /// # Errors
    /// Key to change.
    pub fn refuse(scenario: &Scenario) -> Result<(), HostError> {
        flows::refuse(scenario)?;
        refuse_many(scenario)
    }

    /// Creates the prerequisites of these scenarios' hosts before their switches run: the guests' image, and
    /// namespaces. `on_progress` is called before long operations.
    ///
    /// # Errors
    /// The scenarios are unsupported by real hosts, or this machine lacks a prerequisite.
    pub fn prepare(
        scenarios: &mut [Scenario],
        ports: RealPorts,
        folder: tempfile::TempDir,
        on_progress: &mut dyn FnMut(&str),
    ) -> Result<RealHostSet, HostError> {
        scenarios.iter().try_for_each(RealHostSet::refuse)?;
        let Some(first) = scenarios.first() else { return Err(HostError::Scenario("no run".to_owned())) };
        netns::remove_left();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut hosts, mut namespaces, mut plans) = (Vec::new(), Vec::new(), Vec::new());
        let mut guests = None;
        let real = first.real.as_ref().map_or(&[][..], |real| &real.hosts);
        if real.iter().flatten().any(|host| matches!(host.backend, HostBackend::Vm { .. })) {
            let fleet = Fleet::open(&ports.folder.join("vm"))?;
            guests = Some((fleet, Image::load_or_build(&store(), on_progress)?));
        }
        for (n, host) in first.hosts.iter().enumerate() {
            let Some(plan) = real.get(n).and_then(Option::as_ref) else {
                hosts.push(None);
                continue;
            };
            let mtu = first.switches[host.switch].mtu.get();
            let (mac, address) = (host.nic.mac.to_string(), format!("{}/{PREFIX_BITS}", host.nic.ip));
            let access = match &plan.backend {
                HostBackend::Vm { memory_mb, queues } => {
                    let (fleet, _) = guests.as_ref().expect("made above");
                    let guest = GuestPlan {
                        name: host.name.clone(),
                        socket: ports.socket(n),
                        makes_socket: false,
                        queues: *queues,
                        rings: GuestPlan::rings_of(
                            first.switches[host.switch].class_map(host.port).transmit_queue_of_dscp(*queues),
                        ),
                        mac,
                        address,
                        mtu,
                        memory_mb: *memory_mb,
                    };
                    plans.push(guest.clone());
                    Access::Guest(fleet.expected(&guest))
                }
                HostBackend::Netns => {
                    let made = Namespace::new(&ports, n, &mac, &address, mtu);
                    let namespace = made.map_err(|why| HostError::for_host(&host.name, why))?;
                    let name = namespace.name.clone();
                    namespaces.push(namespace);
                    Access::Netns(name)
                }
                HostBackend::Ssh { target, .. } => {
                    Access::Ssh { target: target.clone(), control: ports.folder.join(format!("ssh{n}")) }
                }
            };
            hosts.push(Some(Host::new(&host.name, plan, access, host.nic.ip)));
        }
        if let Some(most) = plans.iter().map(|plan| plan.memory_mb).max() {
            refuse_more_than_fits(plans.len(), most)?;
        }
        let guests = match guests {
            Some((fleet, image)) => {
                let accelerator = AcceleratorChoice::Auto.resolve(&store(), &image)?;
                Some(Guests { fleet, image, accelerator, plans })
            }
            None => None,
        };
        let experiment = RealHostSet { guests, hosts, stop, started: None, _namespaces: namespaces, _folder: folder };
        experiment.learn_addresses(scenarios)?;
        Ok(experiment)
    }

    /// Sets the addresses of machines reached by ssh in the scenarios, so that the switches know them.
    fn learn_addresses(&self, scenarios: &mut [Scenario]) -> Result<(), HostError> {
        for (n, host) in self.hosts.iter().enumerate().filter_map(|(n, host)| Some((n, host.as_ref()?))) {
            if !matches!(host.plan.backend, HostBackend::Ssh { .. }) {
                continue;
            }
            let found = host.probe(&self.stop)?;
            let interface = found.interface.ok_or_else(|| {
                HostError::for_host(
                    &host.name,
                    format!("no interface {}: run weir testbed check --hosts", host.interface),
                )
            })?;
            let mac = interface
                .mac
                .parse()
                .map_err(|_| HostError::for_host(&host.name, format!("its address is {}", interface.mac)))?;
            for scenario in scenarios.iter_mut() {
                let before = std::mem::replace(&mut scenario.hosts[n].nic.mac, mac);
                scenario.hosts[n].nic.ip = host.ip;
                for (known, _) in
                    Arc::make_mut(&mut scenario.switches).iter_mut().flat_map(|switch| &mut switch.static_macs)
                {
                    if *known == before {
                        *known = mac;
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts the guests, unless they run. Call after the switches have created the guests' sockets, from a thread that
    /// outlives the guests: they end with it.
    ///
    /// # Errors
    /// QEMU does not start.
    pub fn boot(&mut self) -> Result<(), HostError> {
        let Some(guests) = &self.guests else { return Ok(()) };
        if !guests.fleet.all().is_empty() {
            return Ok(());
        }
        guests.fleet.start(&guests.image, guests.accelerator, &guests.plans, GuestLifetime::BoundToThread)?;
        self.started = Some(Instant::now());
        Ok(())
    }

    /// Whether all guests have booted. Poll until true.
    ///
    /// # Errors
    /// A guest has ended, or takes too long.
    pub fn is_up(&self) -> Result<bool, HostError> {
        let Some(guests) = &self.guests else { return Ok(true) };
        let mut all = true;
        for guest in guests.fleet.all() {
            match self.started.map_or_else(|| Ok(guest.state()), |started| guest.boot_state(started))? {
                State::Ready => {}
                State::Boots => all = false,
                // A new process is not QEMU yet.
                State::Ended if self.started.is_some_and(|started| started.elapsed() < STARTS_WITHIN) => all = false,
                State::Ended => return Err(guest.ended().into()),
            }
        }
        Ok(all)
    }

    /// Returns a host of ranks, by index in the scenarios; `None` if it is neither a network namespace nor a guest.
    pub fn rank_host(&self, host: usize) -> Option<RankHost> {
        let host = self.hosts.get(host)?.as_ref()?;
        let place = match &host.access {
            Access::Netns(name) => RankPlace::Namespace(name.clone()),
            Access::Guest(guest) => RankPlace::Guest(guest.clone()),
            Access::Ssh { .. } => return None,
        };
        Some(RankHost { ip: host.ip, place })
    }

    /// Prepares the hosts for the flows of a scenario.
    pub fn session(&self, scenario: &Scenario) -> Session {
        self.stop.store(false, Ordering::Relaxed);
        Session::start(scenario, self.hosts.clone(), self.stop.clone())
    }
}

impl Drop for RealHostSet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(guests) = &self.guests {
            let _ = guests.fleet.down(&guests.fleet.all());
        }
    }
}

impl RealHostsResult {
    /// Returns the programs' output, `counters.csv` and `connections.csv`, by file name; empty if the hosts did not get
    /// ready.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = self.outputs.clone();
        if files.is_empty() {
            return files;
        }
        let mut counters = "host,counter,before,after\n".to_owned();
        for CounterRow { host, counter, before, after } in &self.counters {
            let _ = writeln!(counters, "{host},{counter},{before},{after}");
        }
        files.insert("counters.csv".to_owned(), counters);
        if !self.connections.is_empty() {
            let mut connections = format!("flow,{}\n", ConnectionSample::COLUMNS);
            for (flow, sample) in &self.connections {
                let _ = writeln!(connections, "{flow},{}", sample.row());
            }
            files.insert("connections.csv".to_owned(), connections);
        }
        files
    }
}

/// Rejects a guest with more flows than it has shells for.
fn refuse_many(scenario: &Scenario) -> Result<(), HostError> {
    let Some(real) = &scenario.real else { return Ok(()) };
    for (n, host) in scenario.hosts.iter().enumerate() {
        let is_guest = real.hosts[n].as_ref().is_some_and(|host| matches!(host.backend, HostBackend::Vm { .. }));
        let flows = scenario.flows.iter().filter(|flow| flow.from == n || flow.to == n).count();
        let mut graphs = scenario.traffic.iter().filter_map(TrafficPlan::graph);
        let has_ranks = graphs.any(|graph| graph.ranks().iter().any(|rank| rank.host as usize == n));
        let (most, which) = match has_ranks {
            true => (FLOWS_OF_A_GUEST - 1, " with ranks"),
            false => (FLOWS_OF_A_GUEST, ""),
        };
        if is_guest && flows > most {
            return Err(HostError::Scenario(format!(
                "{flows} flows begin or end at host {}, and a guest{which} has {most} at most: give a flow more queue pairs by `qps`",
                host.name
            )));
        }
    }
    Ok(())
}
