//! Run of real hosts, in its own thread parallel to the sampling of switches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_results::run_dir::RealHostSummary;
use weir_scenario::Scenario;

use super::flows::{self, FlowTask};
use super::{FlowResult, RealHostsResult};
use crate::HostError;
use crate::counters::{self, Counters};
use crate::host::{Host, HostClock, SHORT};
use crate::probe::ProbeResult;
use crate::{script, sockets};

/// Longest time until a host answers another's ping: guests' links come up a second after their switch.
const PATH_WITHIN: Duration = Duration::from_secs(40);
/// Interval between checks of whether ranks have ended.
const RANKS_EVERY: Duration = Duration::from_millis(20);

/// Run of the real hosts. Poll [`Session::is_ready`], call [`Session::begin`], wait until it [is
/// done](Session::is_done), and [`finish`](Session::finish) it.
#[derive(Debug)]
pub struct Session {
    thread: Option<JoinHandle<Result<RealHostsResult, HostError>>>,
    begin: Sender<Instant>,
    ready: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    has_ranks: Arc<AtomicBool>,
}

/// Host with its probe result, clock and initial counters.
struct HostState {
    host: Host,
    found: ProbeResult,
    clock: HostClock,
    before: HostCounters,
}

/// Counters of a host, raw and parsed.
#[derive(Clone, Default)]
struct HostCounters {
    text: String,
    counters: Counters,
}

impl Session {
    /// Shortest time from [`Session::begin`] to the scenario's start.
    pub const LEAD: Duration = Duration::from_millis(1_500);

    pub(super) fn start(scenario: &Scenario, hosts: Vec<Option<Host>>, stop: Arc<AtomicBool>) -> Session {
        let (begin, begins) = channel();
        let ready = Arc::new(AtomicBool::new(false));
        let all = scenario.hosts.iter().map(|host| Neighbour {
            name: host.name.clone(),
            ip: host.nic.ip.to_string(),
            mac: host.nic.mac.to_string(),
        });
        let (tasks, neighbours) = (flows::tasks(scenario), all.collect());
        let has_ranks = Arc::new(AtomicBool::new(false));
        let (of_run, is_ready) = (stop.clone(), ready.clone());
        let run = SessionRun { tasks, hosts, neighbours, stop: of_run, ready: is_ready, has_ranks: has_ranks.clone() };
        let thread = thread::Builder::new().name("weir-hosts".to_owned()).spawn(move || run.run(&begins));
        Session { thread: thread.ok(), begin, ready, stop, has_ranks }
    }

    /// Whether all hosts are ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Starts the scenario at `at`, [`Session::LEAD`] from now.
    pub fn begin(&self, at: Instant) {
        // If the thread has ended, `finish` returns its error.
        let _ = self.begin.send(at);
    }

    /// Sets whether ranks run on the hosts: the run then continues. Call before [`Session::begin`], and when they have ended.
    pub fn set_ranks(&self, has_ranks: bool) {
        self.has_ranks.store(has_ranks, Ordering::Relaxed);
    }

    /// Whether the run has ended, successfully or not.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the running programs to end, without waiting for them.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the results.
    ///
    /// # Errors
    /// The hosts did not get ready.
    pub fn finish(mut self) -> Result<RealHostsResult, HostError> {
        let lost = || HostError::Scenario("the thread of the real hosts is gone".to_owned());
        let thread = self.thread.take().ok_or_else(lost)?;
        drop(self.begin);
        thread.join().map_err(|_| lost())?
    }
}

struct SessionRun {
    tasks: Vec<FlowTask>,
    hosts: Vec<Option<Host>>,
    neighbours: Vec<Neighbour>,
    stop: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
    has_ranks: Arc<AtomicBool>,
}

/// Host of the scenario, real or emulated.
struct Neighbour {
    name: String,
    ip: String,
    mac: String,
}

/// Host whose TCP connections are sampled.
struct SampledHost<'k> {
    client: &'k HostState,
    tasks: Vec<&'k FlowTask>,
}

/// Result of a client: its start on the host's clock, and its output.
type ClientResult = Result<(Option<u64>, String), HostError>;

impl SessionRun {
    fn run(&self, begins: &Receiver<Instant>) -> Result<RealHostsResult, HostError> {
        let known = self.get_ready()?;
        // Emulated ends run elsewhere.
        let all = &known;
        let at = |end: fn(&FlowTask) -> usize| {
            self.tasks.iter().filter_map(move |task| Some((task, all[end(task)].as_ref()?)))
        };
        let servers: Mutex<BTreeMap<usize, String>> = Mutex::default();
        thread::scope(|scope| {
            for (task, server) in at(|task| task.server) {
                let (servers, stop) = (&servers, &self.stop);
                scope.spawn(move || {
                    let command = format!("exec timeout {} {}", task.within.as_secs() + 60, task.server(&server.found));
                    let ended = server.host.run(&command, task.within + SHORT * 2, stop);
                    let output = ended.map_or_else(|error| error.to_string(), |ended| ended.output);
                    servers.lock().expect("nobody panics with it").insert(task.number, output);
                });
            }
            let listening = at(|task| task.server).try_for_each(|(task, server)| {
                server.host.must(
                    &script::wait_for_listener(task.port),
                    &format!("{} does not listen", task.tool()),
                    &self.stop,
                )?;
                Ok(())
            });
            if let Err(error) = listening {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.ready.store(true, Ordering::Release);
            let Some(begins_at) = self.wait_for_begin(begins) else {
                self.stop.store(true, Ordering::Relaxed);
                return Ok((Vec::new(), Vec::new(), Instant::now()));
            };
            let clients: Vec<_> = at(|task| task.client)
                .map(|(task, client)| (task, scope.spawn(move || self.send(task, client, begins_at))))
                .collect();
            let have_ended = Arc::new(AtomicBool::new(false));
            let watchers: Vec<_> = self
                .watched(all)
                .map(|watched| {
                    let have_ended = have_ended.clone();
                    scope.spawn(move || {
                        let output = self.sample_connections(&watched, &have_ended);
                        (watched, output)
                    })
                })
                .collect();
            let results: Vec<(&FlowTask, ClientResult)> = clients
                .into_iter()
                .map(|(task, client)| (task, client.join().unwrap_or_else(|_| Ok((None, String::new())))))
                .collect();
            while self.has_ranks.load(Ordering::Relaxed) && !self.stop.load(Ordering::Relaxed) {
                thread::sleep(RANKS_EVERY);
            }
            have_ended.store(true, Ordering::Relaxed);
            let seen = watchers.into_iter().filter_map(|watcher| watcher.join().ok()).collect();
            // A server whose client has failed waits for another client.
            if results.iter().any(|(_, result)| result.is_err()) {
                self.stop.store(true, Ordering::Relaxed);
            }
            Ok((results, seen, begins_at))
        })
        .map(|(results, seen, begins_at): (_, Vec<(SampledHost<'_>, String)>, _)| {
            // The servers have ended too.
            let mut outcome = self.outcome(&known, results, begins_at);
            outcome.add_connections(&seen, begins_at);
            for (number, output) in servers.into_inner().unwrap_or_default() {
                let task = self.tasks.iter().find(|task| task.number == number);
                outcome.outputs.extend(task.map(|task| (format!("{}.server.txt", task.name), output)));
            }
            outcome
        })
    }

    /// Returns the hosts that send by TCP.
    fn watched<'k>(&'k self, known: &'k [Option<HostState>]) -> impl Iterator<Item = SampledHost<'k>> {
        known.iter().enumerate().filter_map(|(n, client)| {
            let tasks: Vec<&FlowTask> = self.tasks.iter().filter(|task| task.client == n && task.is_tcp()).collect();
            (!tasks.is_empty()).then_some(SampledHost { client: client.as_ref()?, tasks })
        })
    }

    /// Waits for [`Session::begin`]; `None` if the run is stopped.
    fn wait_for_begin(&self, begins: &Receiver<Instant>) -> Option<Instant> {
        loop {
            match begins.recv_timeout(Duration::from_millis(50)) {
                Ok(at) => return Some(at),
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    /// Prepares all hosts: sets addresses, checks prerequisites, and tests connectivity.
    fn get_ready(&self) -> Result<Vec<Option<HostState>>, HostError> {
        let known: Vec<Result<Option<HostState>, HostError>> = thread::scope(|scope| {
            let hosts = self.hosts.iter().enumerate();
            let threads: Vec<_> =
                hosts.map(|(n, host)| scope.spawn(move || self.prepare_host(n, host.as_ref()))).collect();
            threads.into_iter().map(|thread| thread.join().expect("nothing there panics")).collect()
        });
        let mut known = known.into_iter().collect::<Result<Vec<_>, _>>()?;
        thread::scope(|scope| {
            // From the real end, if the other is emulated.
            let path = |task: &FlowTask| match self.hosts[task.client] {
                Some(_) => (task.client, task.server),
                None => (task.server, task.client),
            };
            let mut paths: Vec<(usize, usize)> = self.tasks.iter().map(path).collect();
            paths.sort_unstable();
            paths.dedup();
            let threads: Vec<_> =
                paths.into_iter().map(|(from, to)| scope.spawn(move || self.wait_for_path(from, to))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("nothing there panics"))
        })?;
        // Initial counters exclude frames sent so far.
        for known in known.iter_mut().flatten() {
            known.before = self.count(known)?;
        }
        Ok(known)
    }

    fn prepare_host(&self, n: usize, host: Option<&Host>) -> Result<Option<HostState>, HostError> {
        let Some(host) = host else { return Ok(None) };
        // Static neighbour entries avoid ARP requests, which would be flooded and circulate forever in rings of
        // switches.
        let own = host.ip.to_string();
        let others = self.neighbours.iter().filter(|neighbour| neighbour.ip != own);
        let commands: Vec<String> = others
            .map(|Neighbour { ip, mac, .. }| {
                format!("ip neigh replace {ip} lladdr {mac} dev {} nud permanent", host.interface)
            })
            .collect();
        if !commands.is_empty() {
            host.must(&commands.join(" && "), "the other hosts' addresses can't be set", &self.stop)?;
        }
        let found = host.probe(&self.stop)?;
        for task in self.tasks.iter().filter(|task| task.client == n || task.server == n) {
            task.refuse_without(&found).map_err(|why| HostError::for_host(&host.name, why))?;
        }
        let clock = host.clock(&self.stop)?;
        Ok(Some(HostState { host: host.clone(), found, clock, before: HostCounters::default() }))
    }

    /// Waits until a host's ping to another is answered.
    fn wait_for_path(&self, from: usize, to: usize) -> Result<(), HostError> {
        let (Some(from), to) = (&self.hosts[from], &self.neighbours[to]) else { return Ok(()) };
        let deadline = Instant::now() + PATH_WITHIN;
        loop {
            let ended = from.run(&format!("ping -c 1 -W 1 {}", to.ip), SHORT, &self.stop)?;
            if ended.code == 0 {
                return Ok(());
            }
            if Instant::now() > deadline || self.stop.load(Ordering::Relaxed) {
                let why = format!("{} does not answer it: {}", to.name, ended.output.trim());
                return Err(HostError::for_host(&from.name, why));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn count(&self, known: &HostState) -> Result<HostCounters, HostError> {
        let script = counters::script(&known.host.interface, known.found.rdma.as_deref());
        let text = known.host.run(&script, SHORT, &self.stop)?.output;
        Ok(HostCounters { counters: counters::parse(&text), text })
    }

    /// Samples the connections of a host's TCP clients until they have ended.
    fn sample_connections(&self, watched: &SampledHost<'_>, has_ended: &Arc<AtomicBool>) -> String {
        let ports: Vec<u16> = watched.tasks.iter().map(|task| task.port).collect();
        let longest = watched.tasks.iter().map(|task| task.starts_after + task.within).max().unwrap_or_default();
        let script = sockets::script(&ports, longest);
        // The output so far is returned however the script ends.
        watched
            .client
            .host
            .run(&script, longest + SHORT * 2, has_ended)
            .map_or_else(|_| String::new(), |ended| ended.output)
    }

    fn send(&self, task: &FlowTask, client: &HostState, at: Instant) -> ClientResult {
        let command = task.client(&client.found, &task.server_ip.to_string());
        let clock = client.clock.time_at(at + task.starts_after);
        let script = script::run_at(clock, &command, task.within);
        let ended = client.host.run(&script, task.starts_after + task.within + SHORT, &self.stop)?;
        let (began, output) = script::begun(&ended.output);
        Ok((began, output.to_owned()))
    }

    fn outcome(
        &self,
        known: &[Option<HostState>],
        results: Vec<(&FlowTask, ClientResult)>,
        at: Instant,
    ) -> RealHostsResult {
        let mut outcome = RealHostsResult::default();
        let stopped = self.stop.load(Ordering::Relaxed);
        for (task, result) in results {
            let client = known[task.client].as_ref().expect("its client is real");
            let (began, output) = match result {
                Ok(result) => result,
                Err(error) => {
                    outcome.failures.push(format!("flow {}: {error}", task.name));
                    continue;
                }
            };
            match task.outcome(&output) {
                Ok(mut flow) => {
                    flow.tool.command = task.client(&client.found, &task.server_ip.to_string());
                    let asked = client.clock.time_at(at + task.starts_after);
                    flow.tool.late_ns = began.map(|began| (began as i64 - asked as i64) * 10_000_000);
                    outcome.put(task.number, flow);
                }
                Err(_) if stopped => {}
                Err(why) => outcome.failures.push(format!("flow {}: {} gave no result: {why}", task.name, task.tool())),
            }
            outcome.outputs.insert(format!("{}.client.txt", task.name), output);
        }
        for known in known.iter().flatten() {
            // A stopped run no longer has a connection to the host.
            let after = if stopped { Ok(known.before.clone()) } else { self.count(known) };
            let counters = match after {
                Ok(after) => {
                    let (name, before) = (&known.host.name, &known.before);
                    outcome.counters.extend(counters::rows(name, &before.counters, &after.counters));
                    outcome.outputs.insert(format!("{name}.before.txt"), before.text.clone());
                    outcome.outputs.insert(format!("{name}.after.txt"), after.text.clone());
                    counters::between(&before.counters, &after.counters)
                }
                Err(error) => {
                    outcome.failures.push(error.to_string());
                    Counters::new()
                }
            };
            outcome.hosts.push(RealHostSummary {
                name: known.host.name.clone(),
                backend: known.host.plan.backend.name().to_owned(),
                has_nic_model: known.host.plan.has_nic_model,
                kernel: known.found.kernel.clone(),
                interface: known.host.interface.clone(),
                rdma: known.found.rdma.clone(),
                counters,
            });
        }
        outcome
    }
}

impl RealHostsResult {
    /// Adds the samples of TCP connections.
    fn add_connections(&mut self, seen: &[(SampledHost<'_>, String)], at: Instant) {
        for (SampledHost { client, tasks }, output) in seen {
            self.outputs.insert(format!("{}.ss.txt", client.host.name), output.clone());
            let samples = sockets::parse(output);
            for task in tasks {
                let begins = client.clock.time_at(at);
                let rows = sockets::of_flow(&samples, task.port, begins, task.dilation);
                if let Some(Some(flow)) = self.flows.get_mut(task.number) {
                    flow.tool.connection = sockets::summary(&rows);
                }
                self.connections.extend(rows.into_iter().map(|row| (task.name.clone(), row)));
            }
        }
    }

    fn put(&mut self, number: usize, flow: FlowResult) {
        if self.flows.len() <= number {
            self.flows.resize(number + 1, None);
        }
        self.flows[number] = Some(flow);
    }
}
