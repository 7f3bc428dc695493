//! Software of emulated hosts that communicate with real hosts: ARP, ping and TCP by smoltcp, and perftest's exchange
//! of queue-pair parameters over TCP. Data frames don't pass here: the emulated NIC handles them on its lcore.

mod device;
mod perftest_exchange;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as RealInstant};

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use weir_hosts::perftest_handshake::Role;
use weir_scenario::Scenario;

use crate::shared_stats::SharedStats;
use crate::software_channel::{NicQueues, SoftwareQueues, channel};
use device::ChannelDevice;
use perftest_exchange::PerftestExchange;

const EVERY: Duration = Duration::from_millis(1);

/// Software of a run's emulated hosts. Runs in a thread from [`Software::start`] until it is dropped.
pub(super) struct Software {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Channels between hosts' lcores and their software, before the run.
pub(super) struct SoftwareChannels {
    /// Lcore side of each host; `None` if no real host communicates with the host.
    pub(super) nic_queues: Vec<Option<NicQueues>>,
    software_queues: Vec<(usize, SoftwareQueues)>,
}

/// State shared between the software and the control thread.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// True when the servers listen and clients may connect.
    may_connect: AtomicBool,
    /// True when clients must close flows that are not over.
    must_give_up: AtomicBool,
    /// Clients not connected yet, and connections not over.
    unconnected: AtomicUsize,
    unfinished: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl SoftwareChannels {
    /// Creates channels for the emulated hosts that have flows from or to real ones.
    pub(super) fn new(scenario: &Scenario) -> SoftwareChannels {
        let has_flows = |host: usize| {
            let mut flows = scenario.flows.iter();
            !scenario.is_real(host)
                && flows.any(|flow| {
                    (flow.from == host && scenario.is_real(flow.to)) || (flow.to == host && scenario.is_real(flow.from))
                })
        };
        let mut channels = SoftwareChannels { nic_queues: Vec::new(), software_queues: Vec::new() };
        for host in 0..scenario.hosts.len() {
            channels.nic_queues.push(has_flows(host).then(|| {
                let (nic_queues, software_queues) = channel();
                channels.software_queues.push((host, software_queues));
                nic_queues
            }));
        }
        channels
    }
}

impl Software {
    /// Starts the software: the hosts respond from now on.
    pub(super) fn start(
        scenario: &Scenario,
        channels: SoftwareChannels,
        shared_stats: &Arc<SharedStats>,
    ) -> std::io::Result<Software> {
        let shared = Arc::new(Shared::default());
        let software_queues = channels.software_queues.into_iter();
        let mut hosts: Vec<HostSoftware> =
            software_queues.map(|(host, software_queues)| HostSoftware::new(scenario, host, software_queues)).collect();
        let is_none = hosts.is_empty();
        let exchanges = || hosts.iter().flat_map(|host| &host.exchanges);
        let clients = exchanges().filter(|exchange| exchange.side() == Role::Client).count();
        shared.unconnected.store(clients, Ordering::Relaxed);
        shared.unfinished.store(exchanges().count(), Ordering::Relaxed);
        let (of_thread, shared_stats) = (shared.clone(), shared_stats.clone());
        let run = move || {
            while !of_thread.stop.load(Ordering::Acquire) {
                hosts.iter_mut().for_each(|host| host.poll(&of_thread, &shared_stats));
                let exchanges = || hosts.iter().flat_map(|host| &host.exchanges);
                // Release: a reader that sees zero also sees the failures. Pairs with Acquire in `is_connected` and
                // `is_done`.
                of_thread
                    .unconnected
                    .store(exchanges().filter(|exchange| exchange.is_awaited()).count(), Ordering::Release);
                of_thread
                    .unfinished
                    .store(exchanges().filter(|exchange| !exchange.is_over()).count(), Ordering::Release);
                thread::park_timeout(EVERY);
            }
        };
        let thread = match is_none {
            true => None,
            false => Some(thread::Builder::new().name("weir-software".to_owned()).spawn(run)?),
        };
        Ok(Software { shared, thread })
    }

    /// Lets clients connect. Call when the servers of real hosts listen.
    pub(super) fn connect(&self) {
        self.shared.may_connect.store(true, Ordering::Relaxed);
    }

    /// Whether each client is connected or has failed.
    pub(super) fn is_connected(&self) -> bool {
        // Acquire: pairs with Release in the thread's loop.
        self.shared.unconnected.load(Ordering::Acquire) == 0
    }

    pub(super) fn is_done(&self) -> bool {
        self.shared.unfinished.load(Ordering::Acquire) == 0
    }

    /// Makes clients close connections whose flows do not end.
    pub(super) fn give_up(&self) {
        self.shared.must_give_up.store(true, Ordering::Relaxed);
    }

    /// Whether an exchange has failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.shared.failures.lock().expect("nobody panics with it").is_empty()
    }

    /// Stops the thread and returns the failures.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.end();
        std::mem::take(&mut self.shared.failures.lock().expect("nobody panics with it"))
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Software {
    fn drop(&mut self) {
        self.end();
    }
}

/// Software of one host.
struct HostSoftware {
    name: String,
    device: ChannelDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
    exchanges: Vec<PerftestExchange>,
    started: RealInstant,
    /// Lost frames already reported.
    lost: u64,
}

impl HostSoftware {
    fn new(scenario: &Scenario, host: usize, software_queues: SoftwareQueues) -> HostSoftware {
        let nic = &scenario.hosts[host].nic;
        let mut device = ChannelDevice::new(scenario, host, software_queues);
        let mut config = Config::new(EthernetAddress(nic.mac.0).into());
        // Seeds TCP sequence numbers differently for each run: a guest may still know connections of the last run.
        config.random_seed =
            u64::from(std::process::id()) << 32 | RealInstant::now().elapsed().as_nanos() as u64 ^ host as u64;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // All hosts of a scenario are in one network.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(nic.ip), 0));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let exchanges = PerftestExchange::for_host(scenario, host, &mut sockets);
        let (name, started) = (scenario.hosts[host].name.clone(), RealInstant::now());
        HostSoftware { name, device, interface, sockets, exchanges, started, lost: 0 }
    }

    fn poll(&mut self, shared: &Shared, shared_stats: &SharedStats) {
        let now = Instant::from_micros(self.started.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        let gate = perftest_exchange::ExchangePermissions {
            connect: shared.may_connect.load(Ordering::Relaxed),
            give_up: shared.must_give_up.load(Ordering::Relaxed),
        };
        for exchange in &mut self.exchanges {
            let failed = exchange.poll(
                gate,
                &mut self.interface,
                &mut self.sockets,
                &mut self.device.software_queues,
                shared_stats,
            );
            if let Err(why) = failed {
                shared.failures.lock().expect("nobody panics with it").push(why);
            }
        }
        let lost = self.device.software_queues.lost();
        if lost > self.lost {
            eprintln!("weir: host {}: {} frames for its software found no room", self.name, lost - self.lost);
            self.lost = lost;
        }
        // Sends replies at once.
        self.interface.poll(now, &mut self.device, &mut self.sockets);
    }
}
