//! One run of real hosts, in a thread of its own beside the one that samples the switches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_results::run_dir::RealHostSummary;
use weir_scenario::Scenario;

use super::flows::{self, Task};
use super::{FlowOutcome, Outcome};
use crate::HostError;
use crate::counters::{self, Counters};
use crate::host::{Host, HostClock};
use crate::probe::Found;
use crate::script;

/// How long the way between two hosts may take to carry a frame: links of guests come up a second after their switch.
const PATH_WITHIN: Duration = Duration::from_secs(40);
/// For short commands.
const SHORT: Duration = Duration::from_secs(60);

/// Hosts that get ready, send, and are asked what they counted. Ask [`Session::is_ready`] until it is, tell it to
/// [`Session::begin`], wait until it [is done](Session::is_done), and [`finish`](Session::finish) it.
#[derive(Debug)]
pub struct Session {
    thread: Option<JoinHandle<Result<Outcome, HostError>>>,
    begin: Sender<Instant>,
    ready: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

/// A host with what is known of it.
struct Known {
    host: Host,
    found: Found,
    clock: HostClock,
    before: Counters,
}

impl Session {
    /// Between the start of a scenario and the moment when clients are told of it, at least.
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
        let run = Run { tasks, hosts, neighbours, stop: stop.clone(), ready: ready.clone() };
        let thread = thread::Builder::new().name("weir-hosts".to_owned()).spawn(move || run.run(&begins));
        Session { thread: thread.ok(), begin, ready, stop }
    }

    /// Whether all hosts are ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The scenario begins at this instant, [`Session::LEAD`] from now.
    pub fn begin(&self, at: Instant) {
        // A thread that has ended tells why when it is asked.
        let _ = self.begin.send(at);
    }

    /// Whether it has ended, for good or not.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has what still runs end soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What came of it.
    ///
    /// # Errors
    /// Why hosts did not get ready.
    pub fn finish(mut self) -> Result<Outcome, HostError> {
        let lost = || HostError::Scenario("the thread of the real hosts is gone".to_owned());
        let thread = self.thread.take().ok_or_else(lost)?;
        drop(self.begin);
        thread.join().map_err(|_| lost())?
    }
}

struct Run {
    tasks: Vec<Task>,
    hosts: Vec<Option<Host>>,
    /// Addresses of all hosts of the scenario.
    neighbours: Vec<Neighbour>,
    stop: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
}

/// A host of the scenario, real or emulated.
struct Neighbour {
    name: String,
    ip: String,
    mac: String,
}

/// What a client's end came to: when it began, by the host's clock, and what it said.
type Said = Result<(Option<u64>, String), HostError>;

impl Run {
    fn run(&self, begins: &Receiver<Instant>) -> Result<Outcome, HostError> {
        let known = self.get_ready()?;
        // An emulated host's end is its own business.
        let all = &known;
        let at =
            |end: fn(&Task) -> usize| self.tasks.iter().filter_map(move |task| Some((task, all[end(task)].as_ref()?)));
        let servers: Mutex<BTreeMap<usize, String>> = Mutex::default();
        thread::scope(|scope| {
            for (task, server) in at(|task| task.to) {
                let (servers, stop) = (&servers, &self.stop);
                scope.spawn(move || {
                    let command = format!("exec timeout {} {}", task.within.as_secs() + 60, task.server(&server.found));
                    let ended = server.host.run(&command, task.within + SHORT * 2, stop);
                    let said = ended.map_or_else(|error| error.to_string(), |ended| ended.output);
                    servers.lock().expect("nobody panics with it").insert(task.number, said);
                });
            }
            let listening = at(|task| task.to).try_for_each(|(task, server)| {
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
                return Ok((Vec::new(), Instant::now()));
            };
            let clients: Vec<_> = at(|task| task.from)
                .map(|(task, client)| (task, scope.spawn(move || self.send(task, client, begins_at))))
                .collect();
            let said: Vec<(&Task, Said)> = clients
                .into_iter()
                .map(|(task, client)| (task, client.join().unwrap_or_else(|_| Ok((None, String::new())))))
                .collect();
            // A server whose client has failed waits for another one.
            if said.iter().any(|(_, said)| said.is_err()) {
                self.stop.store(true, Ordering::Relaxed);
            }
            Ok((said, begins_at))
        })
        .map(|(said, begins_at)| {
            // Servers have ended too.
            let mut outcome = self.outcome(&known, said, begins_at);
            for (number, said) in servers.into_inner().unwrap_or_default() {
                let task = self.tasks.iter().find(|task| task.number == number);
                outcome.said.extend(task.map(|task| (format!("{}.server.txt", task.name), said)));
            }
            outcome
        })
    }

    /// Whoever samples the switches says when.
    fn wait_for_begin(&self, begins: &Receiver<Instant>) -> Option<Instant> {
        loop {
            match begins.recv_timeout(Duration::from_millis(50)) {
                Ok(at) => return Some(at),
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    /// All hosts know each other, have what they need, and reach each other.
    fn get_ready(&self) -> Result<Vec<Option<Known>>, HostError> {
        let known: Vec<Result<Option<Known>, HostError>> = thread::scope(|scope| {
            let hosts = self.hosts.iter().enumerate();
            let threads: Vec<_> =
                hosts.map(|(n, host)| scope.spawn(move || self.make_known(n, host.as_ref()))).collect();
            threads.into_iter().map(|thread| thread.join().expect("nothing there panics")).collect()
        });
        let mut known = known.into_iter().collect::<Result<Vec<_>, _>>()?;
        thread::scope(|scope| {
            // From the real end, where the other one is emulated.
            let way = |task: &Task| match self.hosts[task.from] {
                Some(_) => (task.from, task.to),
                None => (task.to, task.from),
            };
            let mut ways: Vec<(usize, usize)> = self.tasks.iter().map(way).collect();
            ways.sort_unstable();
            ways.dedup();
            let threads: Vec<_> =
                ways.into_iter().map(|(from, to)| scope.spawn(move || self.try_way(from, to))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("nothing there panics"))
        })?;
        // What was sent so far is not the run's.
        for known in known.iter_mut().flatten() {
            known.before = self.count(known)?;
        }
        Ok(known)
    }

    fn make_known(&self, n: usize, host: Option<&Host>) -> Result<Option<Known>, HostError> {
        let Some(host) = host else { return Ok(None) };
        // No question for an address is flooded, which rings of switches carry without end.
        let own = host.ip.to_string();
        let others = self.neighbours.iter().filter(|neighbour| neighbour.ip != own);
        let told: Vec<String> = others
            .map(|Neighbour { ip, mac, .. }| {
                format!("ip neigh replace {ip} lladdr {mac} dev {} nud permanent", host.interface)
            })
            .collect();
        if !told.is_empty() {
            host.must(&told.join(" && "), "it can't be told of the other hosts' addresses", &self.stop)?;
        }
        let found = host.probe(&self.stop)?;
        for task in self.tasks.iter().filter(|task| task.from == n || task.to == n) {
            task.refuse_without(&found).map_err(|why| HostError::of(&host.name, why))?;
        }
        let clock = host.clock(&self.stop)?;
        Ok(Some(Known { host: host.clone(), found, clock, before: Counters::new() }))
    }

    /// Waits until frames get from one host to another and back.
    fn try_way(&self, from: usize, to: usize) -> Result<(), HostError> {
        let (Some(from), to) = (&self.hosts[from], &self.neighbours[to]) else { return Ok(()) };
        let deadline = Instant::now() + PATH_WITHIN;
        loop {
            let ended = from.run(&format!("ping -c 1 -W 1 {}", to.ip), SHORT, &self.stop)?;
            if ended.code == 0 {
                return Ok(());
            }
            if Instant::now() > deadline || self.stop.load(Ordering::Relaxed) {
                let why = format!("{} does not answer it: {}", to.name, ended.output.trim());
                return Err(HostError::of(&from.name, why));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn count(&self, known: &Known) -> Result<Counters, HostError> {
        let script = counters::script(&known.host.interface, known.found.rdma.as_deref());
        Ok(counters::parse(&known.host.run(&script, SHORT, &self.stop)?.output))
    }

    fn send(&self, task: &Task, client: &Known, at: Instant) -> Said {
        let command = task.client(&client.found, &task.server_ip.to_string());
        let clock = client.clock.at(at + task.starts_after);
        let script = script::at(clock, &command, task.within);
        let ended = client.host.run(&script, task.starts_after + task.within + SHORT, &self.stop)?;
        let (began, said) = script::begun(&ended.output);
        Ok((began, said.to_owned()))
    }

    fn outcome(&self, known: &[Option<Known>], said: Vec<(&Task, Said)>, at: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let stopped = self.stop.load(Ordering::Relaxed);
        for (task, said) in said {
            let client = known[task.from].as_ref().expect("its client is real");
            let (began, said) = match said {
                Ok(said) => said,
                Err(error) => {
                    outcome.failures.push(format!("flow {}: {error}", task.name));
                    continue;
                }
            };
            match task.outcome(&said) {
                Ok(mut flow) => {
                    flow.tool.command = task.client(&client.found, &task.server_ip.to_string());
                    let asked = client.clock.at(at + task.starts_after);
                    flow.tool.late_ns = began.map(|began| (began as i64 - asked as i64) * 10_000_000);
                    outcome.put(task.number, flow);
                }
                Err(_) if stopped => {}
                Err(why) => outcome.failures.push(format!("flow {}: {} gave no result: {why}", task.name, task.tool())),
            }
            outcome.said.insert(format!("{}.client.txt", task.name), said);
        }
        for known in known.iter().flatten() {
            let after = if stopped { Ok(known.before.clone()) } else { self.count(known) };
            let counters = match after {
                Ok(after) => counters::between(&known.before, &after),
                Err(error) => {
                    outcome.failures.push(error.to_string());
                    Counters::new()
                }
            };
            outcome.hosts.push(RealHostSummary {
                name: known.host.name.clone(),
                reach: known.host.plan.reach.name().to_owned(),
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

impl Outcome {
    fn put(&mut self, number: usize, flow: FlowOutcome) {
        if self.flows.len() <= number {
            self.flows.resize(number + 1, None);
        }
        self.flows[number] = Some(flow);
    }
}
