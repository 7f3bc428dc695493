//! Software of emulated hosts that communicate with real hosts: ARP, ping and TCP by smoltcp, and perftest's exchange
//! of queue-pair parameters over TCP. Data frames don't pass here: the emulated NIC handles them on its lcore.

mod link;
mod talk;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as RealInstant};

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use weir_hosts::exchange::Side;
use weir_scenario::Scenario;

use crate::board::Board;
use crate::door::{Door, Inside, door};
use link::Link;
use talk::Talk;

const EVERY: Duration = Duration::from_millis(1);

/// Software of a run's emulated hosts. Runs in a thread from [`Software::start`] until it is dropped.
pub(super) struct Software {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Channels between hosts' lcores and their software, before the run.
pub(super) struct Doors {
    /// Lcore side of each host; `None` if no real host communicates with the host.
    pub(super) doors: Vec<Option<Door>>,
    insides: Vec<(usize, Inside)>,
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

impl Doors {
    /// Creates channels for the emulated hosts that have flows from or to real ones.
    pub(super) fn of(scenario: &Scenario) -> Doors {
        let has_flows = |host: usize| {
            let mut flows = scenario.flows.iter();
            !scenario.is_real(host)
                && flows.any(|flow| {
                    (flow.from == host && scenario.is_real(flow.to)) || (flow.to == host && scenario.is_real(flow.from))
                })
        };
        let mut doors = Doors { doors: Vec::new(), insides: Vec::new() };
        for host in 0..scenario.hosts.len() {
            doors.doors.push(has_flows(host).then(|| {
                let (door, inside) = door();
                doors.insides.push((host, inside));
                door
            }));
        }
        doors
    }
}

impl Software {
    /// Starts the software: the hosts respond from now on.
    pub(super) fn start(scenario: &Scenario, insides: Doors, board: &Arc<Board>) -> std::io::Result<Software> {
        let shared = Arc::new(Shared::default());
        let insides = insides.insides.into_iter();
        let mut hosts: Vec<HostSoftware> =
            insides.map(|(host, inside)| HostSoftware::new(scenario, host, inside)).collect();
        let is_none = hosts.is_empty();
        let talks = || hosts.iter().flat_map(|host| &host.talks);
        let clients = talks().filter(|talk| talk.side() == Side::Client).count();
        shared.unconnected.store(clients, Ordering::Relaxed);
        shared.unfinished.store(talks().count(), Ordering::Relaxed);
        let (of_thread, board) = (shared.clone(), board.clone());
        let run = move || {
            while !of_thread.stop.load(Ordering::Acquire) {
                hosts.iter_mut().for_each(|host| host.poll(&of_thread, &board));
                let talks = || hosts.iter().flat_map(|host| &host.talks);
                // Release: a reader that sees zero also sees the failures. Pairs with Acquire in `is_connected` and
                // `is_done`.
                of_thread.unconnected.store(talks().filter(|talk| talk.is_awaited()).count(), Ordering::Release);
                of_thread.unfinished.store(talks().filter(|talk| !talk.is_over()).count(), Ordering::Release);
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
    link: Link,
    interface: Interface,
    sockets: SocketSet<'static>,
    talks: Vec<Talk>,
    started: RealInstant,
    /// Lost frames already reported.
    lost: u64,
}

impl HostSoftware {
    fn new(scenario: &Scenario, host: usize, inside: Inside) -> HostSoftware {
        let nic = &scenario.hosts[host].nic;
        let mut link = Link::new(scenario, host, inside);
        let mut config = Config::new(EthernetAddress(nic.mac.0).into());
        // Seeds TCP sequence numbers differently for each run: a guest may still know connections of the last run.
        config.random_seed =
            u64::from(std::process::id()) << 32 | RealInstant::now().elapsed().as_nanos() as u64 ^ host as u64;
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // All hosts of a scenario are in one network.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(nic.ip), 0));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let talks = Talk::of_host(scenario, host, &mut sockets);
        let (name, started) = (scenario.hosts[host].name.clone(), RealInstant::now());
        HostSoftware { name, link, interface, sockets, talks, started, lost: 0 }
    }

    fn poll(&mut self, shared: &Shared, board: &Board) {
        let now = Instant::from_micros(self.started.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
        let may = talk::May {
            connect: shared.may_connect.load(Ordering::Relaxed),
            give_up: shared.must_give_up.load(Ordering::Relaxed),
        };
        for talk in &mut self.talks {
            let failed = talk.poll(may, &mut self.interface, &mut self.sockets, &mut self.link.inside, board);
            if let Err(why) = failed {
                shared.failures.lock().expect("nobody panics with it").push(why);
            }
        }
        let lost = self.link.inside.lost();
        if lost > self.lost {
            eprintln!("weir: host {}: {} frames for its software found no room", self.name, lost - self.lost);
            self.lost = lost;
        }
        // Sends replies at once.
        self.interface.poll(now, &mut self.link, &mut self.sockets);
    }
}
