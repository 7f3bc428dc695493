//! Control socket and HTTP of a run: the control thread, which owns the switches, answers clients' questions.
//!
//! Answers use data that the control thread reads anyway: reports, which lcores publish between two bursts on request, and atomics. For any
//! number of clients, lcores are asked for a report at most once in [`FRESH`].

mod capture;
mod events;
mod reading;

use std::rc::Rc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_config::{ControlConfig, ControlSocket, SwitchConfig, port_of_key};
use weir_control::metrics::Metrics;
use weir_control::protocol::{Clear, Clearable, Hello, Refusal, RefusalKind, Reply, Request, Show, What};
use weir_control::state::{GapBucket, Lcore, LcoreWork, Shown};
use weir_control::steering::{Changed, Chosen, Outcome, Set};
use weir_control::{Answer, BindError, Bound, Question, Server};
use weir_dpdk_driver::{CpuUse, GapCounts, LcoreStats, Placement, RunningSwitches, Work, check_access, let_in};
use weir_experiments::Failure;
use weir_results::run_dir::EventKind;
use weir_switch_core::Report;
use weir_units::{Class, PortId, Span};
use weir_web::{Live, http_address, is_local};

use crate::fault::Fault;
use crate::losses::LossLog;
use crate::steering::Steering;
use capture::CaptureLog;
use events::{EventLog, unix_ms};
use reading::{Base, Reading, rates};

/// Time for which a report is reused. Lcores are not asked more often, for any number of clients.
const FRESH: Duration = Duration::from_millis(20);

/// Clients' questions, and state kept for them.
pub(crate) struct Control {
    /// Serves while it lives; `None` where there is no socket.
    server: Option<Server>,
    /// Likewise, where HTTP is asked for.
    http: Option<weir_web::Server>,
    questions: Receiver<Question>,
    events: EventLog,
    /// Counters of each switch when they were last cleared.
    bases: Vec<Option<Base>>,
    /// Counters of lcores when they were last cleared, in their order; none before.
    lcore_bases: Vec<LcoreBase>,
    /// Rates of each switch in the last interval.
    rates: Vec<Option<Vec<[u64; 2]>>>,
    reports: Option<(Instant, Rc<Vec<Report>>)>,
    steering: Steering,
    captures: CaptureLog,
}

/// Addresses at which clients find a run, claimed before it starts; `None` for a disabled kind.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) socket: Option<Bound>,
    pub(crate) http: Option<weir_web::Bound>,
}

/// The longest that a value may hold for a time, in milliseconds: a day.
const LASTS_MAX_MS: u64 = 86_400_000;

/// State of a run that answers need.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) switches: &'a [SwitchConfig],
    pub(crate) placement: &'a Placement,
    pub(crate) running: &'a RunningSwitches,
    pub(crate) losses: &'a LossLog,
}

#[derive(Clone, Copy)]
struct LcoreBase {
    polls: u64,
    busy_polls: u64,
    work: Work,
    gaps: GapCounts,
    cpu_use: CpuUse,
}

/// Claims the socket that an argument or the files ask for, or the usual one; `None` for none. To be called before anything
/// starts. Who is to be let in is then.
///
/// # Errors
/// The files do not agree; the group is none that a socket can be given to; another process has the path. Where nobody asked
/// for the socket, a run goes on without it.
pub(crate) fn claim(
    argument: Option<&str>,
    group: Option<&str>,
    switches: &[SwitchConfig],
) -> Result<Option<Bound>, Fault> {
    let ControlConfig { socket, mut access } = agreed(switches)?;
    if let (None, Some(group)) = (&access.group, group) {
        access.group = Some(group.to_owned());
        if let Some(finding) = check_access(&access) {
            let message = format!("--control-group: {}; {}", finding.message, finding.help);
            return Err(Failure::Argument(message).into());
        }
    }
    let asked = argument.map(ControlSocket::parse).or(socket);
    let bound = match &asked {
        Some(ControlSocket::Nowhere) => return Ok(None),
        Some(ControlSocket::At(path)) => {
            Bound::at(path.as_ref()).map_err(|error| refusal(argument, switches, &error))?
        }
        None => {
            let name = switches.first().map_or("weir", |switch| switch.name.as_str());
            match Bound::by_default(name) {
                Ok(bound) => bound,
                Err(error) => {
                    tracing::warn!("{error}: `weir show` can't reach this run; name another place with --control PATH");
                    return Ok(None);
                }
            }
        }
    };
    let_in(bound.path(), &access)
        .map_err(|finding| Failure::Argument(format!("{}; {}", finding.message, finding.help)))?;
    Ok(Some(bound))
}

/// Claims the address that an argument asks HTTP at.
///
/// # Errors
/// It is none; it is taken, or can't be had.
pub(crate) fn claim_http(argument: Option<&str>) -> Result<Option<weir_web::Bound>, Failure> {
    let Some(text) = argument else { return Ok(None) };
    let wrong = |said: String| Failure::Argument(format!("--http {text}: {said}"));
    let bound = weir_web::Bound::at(http_address(text).map_err(wrong)?).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(bound))
}

/// Returns the `[control]` table that the files have in common.
fn agreed(switches: &[SwitchConfig]) -> Result<ControlConfig, Fault> {
    let mut saying = switches.iter().filter(|switch| switch.control != ControlConfig::default());
    let Some(first) = saying.next() else { return Ok(ControlConfig::default()) };
    if let Some(other) = saying.find(|other| other.control != first.control) {
        let message = format!("a process has one control socket, and switch {} has it otherwise", first.name);
        let help = "write [control] alike in both files, or in one alone";
        return Err(Failure::Input(other.error_at("control", message, help)).into());
    }
    if let Some(finding) = check_access(&first.control.access) {
        return Err(Failure::Input(first.error_at("control.group", finding.message, finding.help)).into());
    }
    Ok(first.control.clone())
}

fn refusal(argument: Option<&str>, switches: &[SwitchConfig], error: &BindError) -> Fault {
    let help = match error {
        BindError::Live { .. } => "stop that process, or name another path",
        BindError::NoSocket(_) => "name a path that nothing is at",
        BindError::Failed { .. } => "name a short path in a directory that exists and may be written to",
    };
    let from_file = switches.iter().find(|switch| switch.control.socket.is_some()).filter(|_| argument.is_none());
    match from_file {
        Some(switch) => Failure::Input(switch.error_at("control.socket", error.to_string(), help)).into(),
        None => Failure::Argument(format!("--control: {error}; {help}")).into(),
    }
}

impl Control {
    /// Serves clients from now on.
    ///
    /// # Errors
    /// There can be no thread for it.
    pub(crate) fn begin(places: Places, switches: &[SwitchConfig]) -> Result<Control, Failure> {
        let (asker, questions) = weir_control::questions();
        let server = match places.socket {
            Some(bound) => {
                let server = bound.serve(asker.clone())?;
                tracing::info!("control socket {}: weir show interfaces", server.path().display());
                Some(server)
            }
            None => None,
        };
        let http = match places.http {
            Some(bound) => {
                let server = bound.serve(Box::new(Live::new(asker)))?;
                let address = server.address();
                tracing::info!("http://{address}/: the switches in a browser; http://{address}/metrics for Prometheus");
                if !is_local(&address) {
                    tracing::warn!(
                        "--http {address}: who reaches this address from other machines reads all that the switches show, without a \
                         password; nobody can change anything by HTTP"
                    );
                }
                Some(server)
            }
            None => None,
        };
        Ok(Control {
            server,
            http,
            questions,
            events: EventLog::default(),
            bases: switches.iter().map(|_| None).collect(),
            lcore_bases: Vec::new(),
            rates: vec![None; switches.len()],
            reports: None,
            steering: Steering::new(switches),
            captures: CaptureLog::default(),
        })
    }

    /// Answers clients until the deadline, so that other work of the thread proceeds under any load of questions.
    pub(crate) fn answer_until(&mut self, deadline: Instant, asked: Asked<'_>) {
        self.captures.end_over(asked.running);
        for (index, changed) in self.steering.expire(asked.running) {
            self.tell_changed("back to what was before", index, &changed);
        }
        while Instant::now() < deadline {
            match self.questions.recv_deadline(deadline) {
                Ok(question) => self.reply(question, asked),
                Err(RecvTimeoutError::Timeout) => return,
                // Servers hold the other end as long as they live; without any there is nobody to wait for.
                Err(RecvTimeoutError::Disconnected) => self.questions = crossbeam_channel::never(),
            }
        }
    }

    /// Notes an event for `weir show events`.
    pub(crate) fn note(&mut self, config: &SwitchConfig, port: PortId, class: Option<Class>, kind: &EventKind<'_>) {
        let port = &config.ports[port.index()].name;
        self.events.note(&config.name, Some(port), class.map(Class::index), kind.name(), kind.detail());
    }

    /// Disconnects clients, who learn that the switch is about to end. Ends captures and logs them.
    pub(crate) fn close(&mut self) {
        self.questions = crossbeam_channel::never();
        self.server = None;
        self.http = None;
        self.captures.tell_over();
    }

    /// The rates of switch `index` in the interval that has just ended.
    pub(crate) fn note_rates(&mut self, index: usize, before: &Report, now: &Report) {
        self.rates[index] = Some(rates(before, now));
    }

    fn reply(&mut self, question: Question, asked: Asked<'_>) {
        let Request::Capture(wanted) = &question.request else {
            let answer = self.answer(&question.request, asked);
            return question.answer(answer);
        };
        match chosen_one(asked.switches, wanted.switch.as_deref())
            .and_then(|index| self.captures.begin(index, wanted, asked))
        {
            Ok((capturing, stream)) => {
                let what = format!("weir capture: {} begins", capturing.ports.join(", "));
                tracing::info!(switch = %capturing.switch, "{what}");
                question.answer_with(Reply::Capturing(capturing), Box::new(stream));
            }
            Err(refusal) => question.answer(Err(refusal)),
        }
    }

    fn answer(&mut self, request: &Request, asked: Asked<'_>) -> Answer {
        match request {
            Request::Hello => Ok(Reply::Hello(Hello {
                weir_version: env!("CARGO_PKG_VERSION").to_owned(),
                process: std::process::id(),
                switches: asked.switches.iter().map(|switch| switch.name.clone()).collect(),
            })),
            Request::Show(show) => self.show(show, asked),
            Request::Clear(clear) => self.clear(clear, asked),
            Request::Set(set) => self.set(set, asked),
            Request::Reload(Chosen { switch }) => {
                let chosen = chosen(asked.switches, switch.as_deref())?;
                Ok(Reply::Changed(self.reload(&chosen, asked.running)?))
            }
            Request::Configuration(Chosen { switch }) => {
                let chosen = chosen(asked.switches, switch.as_deref())?;
                Ok(Reply::Configurations(self.steering.configurations(&chosen)))
            }
            Request::Differences(Chosen { switch }) => {
                let chosen = chosen(asked.switches, switch.as_deref())?;
                Ok(Reply::Differences(self.steering.differences(&chosen)?))
            }
            Request::Capture(_) => Err(Refusal::new(RefusalKind::Malformed, "a capture has a connection of its own")),
        }
    }

    fn set(&mut self, set: &Set, asked: Asked<'_>) -> Answer {
        let index = chosen_one(asked.switches, set.switch.as_deref())?;
        if let Some(ms) = set.for_ms.filter(|ms| *ms > LASTS_MAX_MS) {
            let message =
                format!("{ms} ms is longer than a day: leave the time out, and set the value back when it is over");
            return Err(Refusal::new(RefusalKind::Invalid, message));
        }
        if set.changes.is_empty() {
            return Err(Refusal::new(RefusalKind::Invalid, "no key is given: write one such as ports.p0.rate=5Gbps"));
        }
        let changed = self.steering.set(asked.running, index, &set.changes, set.for_ms.map(Duration::from_millis))?;
        self.tell_changed("weir set", index, &changed);
        Ok(Reply::Changed(vec![changed]))
    }

    /// Reads the files of these switches again and applies the changes that a running switch allows.
    ///
    /// # Errors
    /// A file can't be read, or is wrong: nothing is applied then.
    fn reload(&mut self, chosen: &[usize], running: &RunningSwitches) -> Result<Vec<Changed>, Refusal> {
        let all = self.steering.reload(running, chosen)?;
        for (index, changed) in chosen.iter().zip(&all) {
            self.tell_changed("reload", *index, changed);
        }
        Ok(all)
    }

    /// Handles SIGHUP: reloads the files that have changed since they were last read. Unchanged files keep the clients' settings, since
    /// SIGHUP may only be meant to rotate logs.
    pub(crate) fn reload_changed(&mut self, running: &RunningSwitches) {
        let changed = self.steering.changed_files();
        if !changed.is_empty()
            && let Err(refusal) = self.reload(&changed, running)
        {
            tracing::error!("SIGHUP: nothing is applied: {}", refusal.message.trim_end());
        }
    }

    /// Configurations with which the switches run now.
    pub(crate) fn configs(&self) -> Rc<[SwitchConfig]> {
        self.steering.configs().clone()
    }

    /// Logs changes of keys, and records them for `weir show events`.
    fn tell_changed(&mut self, what: &str, index: usize, changed: &Changed) {
        let name = self.steering.configs()[index].name.clone();
        for change in &changed.changes {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
            let said = format!("{}: {} -> {}", change.key, value(&change.was), value(&change.is));
            let why = change.why.as_deref().unwrap_or_default().trim_end();
            match change.outcome {
                Outcome::Applied => tracing::info!(switch = %name, "{what}: {said}"),
                Outcome::Unchanged => continue,
                Outcome::NeedsRestart => tracing::warn!(switch = %name, "{what}: {said} needs a restart: {why}"),
                Outcome::Refused => tracing::error!(switch = %name, "{what}: {said} is not applied: {why}"),
            }
            let event = match change.outcome {
                Outcome::Applied | Outcome::Unchanged => "key_set",
                Outcome::NeedsRestart => "key_needs_restart",
                Outcome::Refused => "key_refused",
            };
            let names = || self.steering.configs()[index].ports.iter().map(|port| &port.name);
            let number = change.key.strip_prefix("ports.").and_then(|key| port_of_key(key, names()));
            let port = number.and_then(|(number, _)| names().nth(number)).cloned();
            self.events.note(&name, port.as_deref(), None, event, said);
        }
        changed.notes.iter().for_each(|note| tracing::info!(switch = %name, "{note}"));
        if changed.changes.is_empty() {
            tracing::info!(switch = %name, "{what}: nothing has changed");
        }
    }

    fn show(&mut self, show: &Show, asked: Asked<'_>) -> Answer {
        let chosen = chosen(asked.switches, show.switch.as_deref())?;
        let ports = ports_of(asked.switches, &chosen, &show.ports)?;
        match show.what {
            What::Lcores => return Ok(Reply::Lcores(self.lcores(asked))),
            What::Events => {
                let names: Vec<&str> = chosen.iter().map(|index| asked.switches[*index].name.as_str()).collect();
                return Ok(Reply::Events(self.events.of(&names, &show.ports)));
            }
            What::Metrics => return self.metrics(asked),
            _ => {}
        }
        let reports = self.reports(asked)?;
        let mut shown = Vec::new();
        for (index, ports) in chosen.into_iter().zip(ports) {
            let reading = self.reading(asked, index, &reports[index], ports, self.bases[index].as_ref());
            let (switch, base) = (reading.config.name.clone(), reading.base);
            let counters_cleared_unix_ms = base.map(|base| base.unix_ms);
            let Some(state) = reading.state(show.what) else { continue };
            shown.push(Shown { switch, counters_cleared_unix_ms, state });
        }
        Ok(Reply::Switches(shown))
    }

    fn metrics(&mut self, asked: Asked<'_>) -> Answer {
        let reports = self.reports(asked)?;
        let all = |index: usize| (0..asked.switches[index].ports.len()).collect();
        let switches = (0..asked.switches.len())
            .map(|index| self.reading(asked, index, &reports[index], all(index), None).metrics())
            .collect();
        let lcores = lcores(asked, &[]);
        let metrics = Metrics { weir_version: env!("CARGO_PKG_VERSION").to_owned(), switches, lcores };
        Ok(Reply::Metrics(metrics.text()))
    }

    fn clear(&mut self, clear: &Clear, asked: Asked<'_>) -> Answer {
        let chosen = chosen(asked.switches, clear.switch.as_deref())?;
        let is_all = chosen.len() == asked.switches.len();
        if clear.what == Clearable::Counters {
            // Fresh reports, so that the base includes all counts until now.
            self.reports = None;
            if is_all {
                self.lcore_bases = asked.running.lcores().map(|(cpu, stats)| LcoreBase::of(cpu, stats)).collect();
            }
        }
        let mut done = Vec::new();
        for index in chosen {
            let name = &asked.switches[index].name;
            let (event, said) = match clear.what {
                Clearable::Counters => {
                    let reports = self.reports(asked)?;
                    let losses = asked.losses.last(index).to_vec();
                    let nics = asked.running.nic_reports(index);
                    self.bases[index] = Some(Base { unix_ms: unix_ms(), report: reports[index].clone(), losses, nics });
                    ("counters_cleared", "counters are shown from now on; the summary's go on".to_owned())
                }
                Clearable::Watermarks => {
                    asked.running.shared(index).mmu.restart_watermarks();
                    ("watermarks_cleared", "watermarks begin anew; the persistent ones go on".to_owned())
                }
                Clearable::Mac => {
                    let forgotten = asked.running.shared(index).fdb.forget_learned();
                    let flooded = "frames to them are flooded until they are heard again";
                    ("mac_cleared", format!("{forgotten} learned addresses are forgotten: {flooded}"))
                }
            };
            tracing::info!(switch = %name, "weir clear: {said}");
            self.events.note(name, None, None, event, said.clone());
            done.push(format!("{name}: {said}"));
        }
        Ok(Reply::Done(done))
    }

    fn lcores(&self, asked: Asked<'_>) -> Vec<Lcore> {
        lcores(asked, &self.lcore_bases)
    }

    /// Reports of all switches, new or nearly so.
    fn reports(&mut self, asked: Asked<'_>) -> Result<Rc<Vec<Report>>, Refusal> {
        if let Some((at, reports)) = &self.reports
            && at.elapsed() < FRESH
        {
            return Ok(reports.clone());
        }
        let reports = asked.running.reports().map_err(|error| Refusal::new(RefusalKind::Busy, error.to_string()))?;
        let reports = Rc::new(reports);
        self.reports = Some((Instant::now(), reports.clone()));
        Ok(reports)
    }

    fn reading<'r>(
        &'r self,
        asked: Asked<'r>,
        index: usize,
        report: &'r Report,
        ports: Vec<usize>,
        base: Option<&'r Base>,
    ) -> Reading<'r> {
        Reading {
            config: &self.steering.configs()[index],
            shared: asked.running.shared(index),
            report,
            losses: asked.losses.last(index),
            nics: asked.running.nic_reports(index),
            base,
            rates: self.rates[index].as_deref(),
            now: asked.running.now(),
            unix_ms: unix_ms(),
            ports,
        }
    }
}

impl LcoreBase {
    fn of(cpu: u32, stats: &LcoreStats) -> LcoreBase {
        let (polls, busy_polls) = stats.polls();
        LcoreBase { polls, busy_polls, work: stats.work(), gaps: stats.gaps().counts(), cpu_use: stats.cpu_use(cpu) }
    }
}

/// The switch that is asked for, by its place.
fn chosen_one(switches: &[SwitchConfig], name: Option<&str>) -> Result<usize, Refusal> {
    let chosen = chosen(switches, name)?;
    let [index] = chosen[..] else {
        let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
        let message = format!("several switches run: choose one with --switch: {}", names.join(", "));
        return Err(Refusal::new(RefusalKind::Unknown, message));
    };
    Ok(index)
}

/// The switches that are asked for, by their places.
fn chosen(switches: &[SwitchConfig], name: Option<&str>) -> Result<Vec<usize>, Refusal> {
    let all = 0..switches.len();
    let Some(name) = name else { return Ok(all.collect()) };
    let found: Vec<usize> = all.filter(|index| switches[*index].name == name).collect();
    if found.is_empty() {
        let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
        let message = format!("no switch of this process is named `{name}`; it runs: {}", names.join(", "));
        return Err(Refusal::new(RefusalKind::Unknown, message));
    }
    Ok(found)
}

/// The ports of each chosen switch that are asked for, in the order of its file.
fn ports_of(switches: &[SwitchConfig], chosen: &[usize], names: &[String]) -> Result<Vec<Vec<usize>>, Refusal> {
    let ports = || chosen.iter().map(|index| &switches[*index].ports);
    if let Some(unknown) = names.iter().find(|name| !ports().flatten().any(|port| port.name == **name)) {
        let known: Vec<&str> = ports().flatten().map(|port| port.name.as_str()).collect();
        let message = format!("no port is named `{unknown}`; the ports are: {}", known.join(", "));
        return Err(Refusal::new(RefusalKind::Unknown, message));
    }
    let is_wanted = |name: &String| names.is_empty() || names.contains(name);
    let wanted = ports().map(|ports| (0..ports.len()).filter(|port| is_wanted(&ports[*port].name)).collect());
    Ok(wanted.collect())
}

/// Lcore statistics, since these bases if there are any.
fn lcores(asked: Asked<'_>, bases: &[LcoreBase]) -> Vec<Lcore> {
    let Asked { switches, placement, running, .. } = asked;
    let roles = |cpu: u32| {
        let switches = switches.iter().zip(&placement.switches);
        let of_switch = switches.flat_map(|(switch, placed)| {
            let roles = placed.plan.lcores.iter().zip(&placed.on);
            roles.map(move |(role, on)| (placement.cpus[*on], format!("{}: {role}", switch.name)))
        });
        of_switch.filter(|(on, _)| *on == cpu).map(|(_, role)| role).collect()
    };
    let lcore = |(number, (cpu, stats)): (usize, (u32, &LcoreStats))| {
        let mut now = LcoreBase::of(cpu, stats);
        if let Some(base) = bases.get(number) {
            now.polls = now.polls.saturating_sub(base.polls);
            now.busy_polls = now.busy_polls.saturating_sub(base.busy_polls);
            now.work = now.work.since(&base.work);
            now.gaps = now.gaps.since(&base.gaps);
            now.cpu_use = now.cpu_use.since(&base.cpu_use);
        }
        let gaps = now.gaps.report();
        let (nanos, millis) = (Span::as_nanos, |span: Duration| span.as_millis() as u64);
        Lcore {
            cpu,
            roles: roles(cpu),
            polls: now.polls,
            busy_polls: now.busy_polls,
            work: LcoreWork {
                packets: now.work.taken.packets,
                bursts: now.work.taken.bursts,
                timed_packets: now.work.timed_packets,
                timed_ns: nanos(now.work.timed),
                tsc_hz: running.counter_hz(),
            },
            gap_p50_ns: nanos(gaps.p50),
            gap_p99_ns: nanos(gaps.p99),
            gap_p999_ns: nanos(gaps.p999),
            gap_max_ns: nanos(gaps.max),
            gaps: now.gaps.lengths().map(|(up_to, polls)| GapBucket { up_to_ns: nanos(up_to), polls }).collect(),
            cpu_waited_ms: now.cpu_use.waited.map(millis),
            cpu_preempted: now.cpu_use.preempted,
            cpu_stolen_ms: now.cpu_use.stolen.map(millis),
        }
    };
    running.lcores().enumerate().map(lcore).collect()
}
