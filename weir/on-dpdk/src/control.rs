//! Control socket and HTTP of a run: the control thread, which owns the switches, answers clients' questions.
//!
//! Answers use data that the control thread reads anyway: reports, which lcores publish between two bursts on request, and atomics. For any
//! number of clients, lcores are asked for a report at most once in [`FRESH`].

mod capture;
mod events;
mod reading;
mod watermarks;

use std::rc::Rc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_config::{ControlConfig, ControlSocket, PortState, SwitchConfig, names_port, port_of_key};
use weir_control::metrics::Metrics;
use weir_control::protocol::{
    ClearRequest, Clearable, ErrorReply, ErrorReplyKind, Hello, Reply, Request, ShowRequest, ShowView,
};
use weir_control::runtime_config::{Assignment, ChangeOutcome, ChangeReport, SetRequest, SwitchSelector};
use weir_control::state::{GapBucket, Lcore, LcoreWork, ViewReply};
use weir_control::{Answer, BindError, ControlListener, PendingRequest, Server};
use weir_dpdk_driver::{CpuUse, GapCounts, LcoreStats, Placement, RunningSwitches, Work, check_access, set_access};
use weir_experiments::Failure;
use weir_results::run_dir::EventKind;
use weir_switch_core::Report;
use weir_units::{Class, PortId, Span};
use weir_web::{LiveSite, http_address, is_local};

use crate::fault::Fault;
use crate::lldp::{LldpAgent, PortLoop};
use crate::losses::LossLog;
use crate::runtime_config::RuntimeConfigs;
use capture::CaptureLog;
use events::{EventLog, unix_ms};
use reading::{CounterBaseline, SwitchReading, TrafficRate, rates};
use watermarks::{Peaks, WatermarkPeaks};

/// Time for which a report is reused. Lcores are not asked more often, for any number of clients.
const FRESH: Duration = Duration::from_millis(20);

/// Clients' questions, and state kept for them.
pub(crate) struct Control {
    /// Server of the socket; `None` without a socket.
    server: Option<Server>,
    /// Server of HTTP; `None` without an address.
    http: Option<weir_web::Server>,
    questions: Receiver<PendingRequest>,
    events: EventLog,
    /// Counters of each switch when they were last cleared.
    bases: Vec<Option<CounterBaseline>>,
    /// Watermarks of each switch until they were last cleared.
    watermarks: Vec<WatermarkPeaks>,
    /// Counters of lcores when they were last cleared, in their order; none before.
    lcore_bases: Vec<LcoreBaseline>,
    /// Rates of each switch in the last interval.
    rates: Vec<Option<Vec<[TrafficRate; 2]>>>,
    reports: Option<(Instant, Rc<Vec<Report>>)>,
    runtime_configs: RuntimeConfigs,
    captures: CaptureLog,
}

/// Addresses at which clients find a run, claimed before it starts; `None` for a disabled kind.
#[derive(Default)]
pub(crate) struct ControlEndpoints {
    pub(crate) socket: Option<ControlListener>,
    pub(crate) http: Option<weir_web::HttpListener>,
}

/// The longest that a value may hold for a time, in milliseconds: a day.
const LASTS_MAX_MS: u64 = 86_400_000;

/// State of a run that answers need.
#[derive(Clone, Copy)]
pub(crate) struct ControlContext<'a> {
    pub(crate) switches: &'a [SwitchConfig],
    pub(crate) placement: &'a Placement,
    pub(crate) running: &'a RunningSwitches,
    pub(crate) losses: &'a LossLog,
    pub(crate) lldp: &'a LldpAgent,
}

#[derive(Clone, Copy)]
struct LcoreBaseline {
    polls: u64,
    busy_polls: u64,
    work: Work,
    gaps: GapCounts,
    cpu_use: CpuUse,
}

/// Claims the socket that an argument or the files name, or the default one; `None` if it is disabled. Sets its group and mode. Call it
/// before anything starts.
///
/// # Errors
/// The files disagree; the socket can't be given to the group; another process has the path. The default socket is optional: a run goes on
/// without it.
pub(crate) fn claim(
    argument: Option<&str>,
    group: Option<&str>,
    switches: &[SwitchConfig],
) -> Result<Option<ControlListener>, Fault> {
    let ControlConfig { socket, mut access } = agreed(switches)?;
    if let (None, Some(group)) = (&access.group, group) {
        access.group = Some(group.to_owned());
        if let Some(finding) = check_access(&access) {
            let message = format!("--control-group: {}; {}", finding.message, finding.help);
            return Err(Failure::Argument(message).into());
        }
    }
    let requested = argument.map(ControlSocket::parse).or(socket);
    let bound = match &requested {
        Some(ControlSocket::Nowhere) => return Ok(None),
        Some(ControlSocket::At(path)) => {
            ControlListener::bind(path.as_ref()).map_err(|error| refusal(argument, switches, &error))?
        }
        None => {
            let name = switches.first().map_or("weir", |switch| switch.name.as_str());
            match ControlListener::bind_default(name) {
                Ok(bound) => bound,
                Err(error) => {
                    tracing::warn!("{error}: `weir show` can't reach this run; name another place with --control PATH");
                    return Ok(None);
                }
            }
        }
    };
    set_access(bound.path(), &access)
        .map_err(|finding| Failure::Argument(format!("{}; {}", finding.message, finding.help)))?;
    Ok(Some(bound))
}

/// Claims the HTTP address of an argument.
///
/// # Errors
/// The address is invalid, taken or not available.
pub(crate) fn claim_http(argument: Option<&str>) -> Result<Option<weir_web::HttpListener>, Failure> {
    let Some(text) = argument else { return Ok(None) };
    let wrong = |message: String| Failure::Argument(format!("--http {text}: {message}"));
    let bound =
        weir_web::HttpListener::bind(http_address(text).map_err(wrong)?).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(bound))
}

/// Returns the `[control]` table that the files have in common.
fn agreed(switches: &[SwitchConfig]) -> Result<ControlConfig, Fault> {
    let mut saying = switches.iter().filter(|switch| switch.control != ControlConfig::default());
    let Some(first) = saying.next() else { return Ok(ControlConfig::default()) };
    if let Some(other) = saying.find(|other| other.control != first.control) {
        let message = format!("[control] differs from that of switch {}: a process has one control socket", first.name);
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
    /// Its thread can't be started.
    pub(crate) fn begin(endpoints: ControlEndpoints, switches: &[SwitchConfig]) -> Result<Control, Failure> {
        let (asker, questions) = weir_control::control_channel();
        let server = match endpoints.socket {
            Some(bound) => {
                let server = bound.serve(asker.clone())?;
                tracing::info!("control socket {}: weir show interfaces", server.path().display());
                Some(server)
            }
            None => None,
        };
        let http = match endpoints.http {
            Some(bound) => {
                let server = bound.serve(Box::new(LiveSite::new(asker)))?;
                let address = server.address();
                tracing::info!("http://{address}/: the switches in a browser; http://{address}/metrics for Prometheus");
                if !is_local(&address) {
                    tracing::warn!(
                        "--http {address}: anyone who reaches this address reads all that the switches show, without a \
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
            watermarks: switches.iter().map(|_| WatermarkPeaks::default()).collect(),
            lcore_bases: Vec::new(),
            rates: vec![None; switches.len()],
            reports: None,
            runtime_configs: RuntimeConfigs::new(switches),
            captures: CaptureLog::default(),
        })
    }

    /// Answers clients until the deadline, so that other work of the thread proceeds under any load of questions.
    pub(crate) fn answer_until(&mut self, deadline: Instant, context: ControlContext<'_>) {
        self.captures.end_over(context.running);
        for (index, changed) in self.runtime_configs.expire(context.running) {
            self.log_changes("previous value restored", index, &changed);
        }
        while Instant::now() < deadline {
            match self.questions.recv_deadline(deadline) {
                Ok(question) => self.reply(question, context),
                Err(RecvTimeoutError::Timeout) => return,
                // Servers hold the other end as long as they live; without one no question comes.
                Err(RecvTimeoutError::Disconnected) => self.questions = crossbeam_channel::never(),
            }
        }
    }

    /// Closes a port that hears another one of its switch, until it is set up again. Returns false if it is closed already.
    pub(crate) fn close_loop(&mut self, found: PortLoop, running: &RunningSwitches) -> bool {
        let config = &self.configs()[found.switch];
        let (port, other) = (&config.ports[found.port.index()], &config.ports[found.other.index()].name);
        if port.state == PortState::Down {
            return false;
        }
        let cabled = format!("the port is cabled to port {other} of this switch, or other bridges join them");
        let change = Assignment { key: format!("ports.{}.state", port.name), value: Some("down".to_owned()) };
        match self.runtime_configs.set(running, found.switch, &[change], None) {
            Ok(changed) => {
                tracing::error!(
                    switch = %config.name, port = %port.name,
                    "{cabled}: it is closed; remove the loop, then: weir set ports.{}.state=up", port.name
                );
                self.log_changes("loop guard", found.switch, &changed);
                true
            }
            Err(refusal) => {
                let why = refusal.message.trim_end();
                tracing::error!(switch = %config.name, port = %port.name, "{cabled}, and can't be closed: {why}");
                false
            }
        }
    }

    /// Records an event for `weir show events`.
    pub(crate) fn record_event(
        &mut self,
        config: &SwitchConfig,
        port: PortId,
        class: Option<Class>,
        kind: &EventKind<'_>,
    ) {
        let port = &config.ports[port.index()].name;
        self.events.record(&config.name, Some(port), class.map(Class::index), kind.name(), kind.detail());
    }

    /// Disconnects clients, who learn that the switch is about to end. Ends captures and logs them.
    pub(crate) fn close(&mut self) {
        self.questions = crossbeam_channel::never();
        self.server = None;
        self.http = None;
        self.captures.log_ended();
    }

    /// The rates of switch `index` in the interval that has just ended.
    pub(crate) fn record_rates(&mut self, index: usize, before: &Report, now: &Report) {
        self.rates[index] = Some(rates(before, now));
    }

    fn reply(&mut self, question: PendingRequest, context: ControlContext<'_>) {
        let Request::Capture(wanted) = &question.request else {
            let answer = self.answer(&question.request, context);
            return question.answer(answer);
        };
        match chosen_one(context.switches, wanted.switch.as_deref())
            .and_then(|index| self.captures.begin(index, wanted, context))
        {
            Ok((capturing, stream)) => {
                let what = format!("weir capture: {} begins", capturing.ports.join(", "));
                tracing::info!(switch = %capturing.switch, "{what}");
                question.answer_with(Reply::Capturing(capturing), Box::new(stream));
            }
            Err(refusal) => question.answer(Err(refusal)),
        }
    }

    fn answer(&mut self, request: &Request, context: ControlContext<'_>) -> Answer {
        match request {
            Request::Hello => Ok(Reply::Hello(Hello {
                weir_version: env!("CARGO_PKG_VERSION").to_owned(),
                process: std::process::id(),
                switches: context.switches.iter().map(|switch| switch.name.clone()).collect(),
            })),
            Request::Show(show) => self.show(show, context),
            Request::Clear(clear) => self.clear(clear, context),
            Request::Set(set) => self.set(set, context),
            Request::Reload(SwitchSelector { switch }) => {
                let chosen = chosen(context.switches, switch.as_deref())?;
                Ok(Reply::Changed(self.reload(&chosen, context.running)?))
            }
            Request::Configuration(SwitchSelector { switch }) => {
                let chosen = chosen(context.switches, switch.as_deref())?;
                Ok(Reply::Configurations(self.runtime_configs.configurations(&chosen)))
            }
            Request::Differences(SwitchSelector { switch }) => {
                let chosen = chosen(context.switches, switch.as_deref())?;
                Ok(Reply::Differences(self.runtime_configs.differences(&chosen)?))
            }
            Request::Capture(_) => {
                Err(ErrorReply::new(ErrorReplyKind::Malformed, "a capture has a connection of its own"))
            }
        }
    }

    fn set(&mut self, set: &SetRequest, context: ControlContext<'_>) -> Answer {
        let index = chosen_one(context.switches, set.switch.as_deref())?;
        if let Some(ms) = set.for_ms.filter(|ms| *ms > LASTS_MAX_MS) {
            let message =
                format!("{ms} ms is longer than a day: leave the time out, and set the value back when it is over");
            return Err(ErrorReply::new(ErrorReplyKind::Invalid, message));
        }
        if set.changes.is_empty() {
            return Err(ErrorReply::new(
                ErrorReplyKind::Invalid,
                "no key is given: write one such as ports.p0.rate=5Gbps",
            ));
        }
        let changed =
            self.runtime_configs.set(context.running, index, &set.changes, set.for_ms.map(Duration::from_millis))?;
        self.log_changes("weir set", index, &changed);
        Ok(Reply::Changed(vec![changed]))
    }

    /// Reads the files of these switches again and applies the changes that a running switch allows.
    ///
    /// # Errors
    /// A file can't be read, or is wrong: nothing is applied then.
    fn reload(&mut self, chosen: &[usize], running: &RunningSwitches) -> Result<Vec<ChangeReport>, ErrorReply> {
        let all = self.runtime_configs.reload(running, chosen)?;
        for (index, changed) in chosen.iter().zip(&all) {
            self.log_changes("reload", *index, changed);
        }
        Ok(all)
    }

    /// Handles SIGHUP: reloads the files that have changed since they were last read. Unchanged files keep the clients' settings, since
    /// SIGHUP may only be meant to rotate logs.
    pub(crate) fn reload_changed(&mut self, running: &RunningSwitches) {
        let changed = self.runtime_configs.changed_files();
        if !changed.is_empty()
            && let Err(refusal) = self.reload(&changed, running)
        {
            tracing::error!("SIGHUP: nothing is applied: {}", refusal.message.trim_end());
        }
    }

    /// Configurations with which the switches run now.
    pub(crate) fn configs(&self) -> Rc<[SwitchConfig]> {
        self.runtime_configs.configs().clone()
    }

    /// Logs changes of keys, and records them for `weir show events`.
    fn log_changes(&mut self, what: &str, index: usize, changed: &ChangeReport) {
        let name = self.runtime_configs.configs()[index].name.clone();
        for change in &changed.changes {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
            let text = format!("{}: {} -> {}", change.key, value(&change.was), value(&change.is));
            let why = change.why.as_deref().unwrap_or_default().trim_end();
            match change.outcome {
                ChangeOutcome::Applied => tracing::info!(switch = %name, "{what}: {text}"),
                ChangeOutcome::Unchanged => continue,
                ChangeOutcome::NeedsRestart => tracing::warn!(switch = %name, "{what}: {text} needs a restart: {why}"),
                ChangeOutcome::Refused => tracing::error!(switch = %name, "{what}: {text} is not applied: {why}"),
            }
            let event = match change.outcome {
                ChangeOutcome::Applied | ChangeOutcome::Unchanged => "key_set",
                ChangeOutcome::NeedsRestart => "key_needs_restart",
                ChangeOutcome::Refused => "key_refused",
            };
            let names = || self.runtime_configs.configs()[index].ports.iter().map(|port| &port.name);
            let number = change.key.strip_prefix("ports.").and_then(|key| port_of_key(key, names()));
            let port = number.and_then(|(number, _)| names().nth(number)).cloned();
            self.events.record(&name, port.as_deref(), None, event, text);
        }
        changed.notes.iter().for_each(|note| tracing::info!(switch = %name, "{note}"));
        if changed.changes.is_empty() {
            tracing::info!(switch = %name, "{what}: nothing has changed");
        }
    }

    fn show(&mut self, show: &ShowRequest, context: ControlContext<'_>) -> Answer {
        let chosen = chosen(context.switches, show.switch.as_deref())?;
        let ports = ports_of(context.switches, &chosen, &show.ports)?;
        match show.what {
            ShowView::Lcores => return Ok(Reply::Lcores(self.lcores(context))),
            ShowView::Events => {
                let names: Vec<&str> = chosen.iter().map(|index| context.switches[*index].name.as_str()).collect();
                return Ok(Reply::Events(self.events.matching(&names, &show.ports)));
            }
            ShowView::Metrics => return self.metrics(context),
            _ => {}
        }
        let reports = self.reports(context)?;
        let mut shown = Vec::new();
        for (index, ports) in chosen.into_iter().zip(ports) {
            let cleared = &self.watermarks[index];
            let peaks = [&cleared.user, &cleared.persistent];
            let reading = self.reading(context, index, &reports[index], ports, peaks, self.bases[index].as_ref());
            let (switch, base) = (reading.config.name.clone(), reading.base);
            let counters_cleared_unix_ms = base.map(|base| base.unix_ms);
            let Some(state) = reading.state(show.what) else { continue };
            shown.push(ViewReply { switch, counters_cleared_unix_ms, state });
        }
        Ok(Reply::Switches(shown))
    }

    fn metrics(&mut self, context: ControlContext<'_>) -> Answer {
        let reports = self.reports(context)?;
        let all = |index: usize| (0..context.switches[index].ports.len()).collect();
        let metrics = |index: usize| {
            let cleared = &self.watermarks[index];
            let peaks = [&cleared.user, &cleared.since_start];
            self.reading(context, index, &reports[index], all(index), peaks, None).metrics()
        };
        let switches = (0..context.switches.len()).map(metrics).collect();
        let lcores = lcores(context, &[]);
        let metrics = Metrics { weir_version: env!("CARGO_PKG_VERSION").to_owned(), switches, lcores };
        Ok(Reply::Metrics(metrics.text()))
    }

    fn clear(&mut self, clear: &ClearRequest, context: ControlContext<'_>) -> Answer {
        let chosen = chosen(context.switches, clear.switch.as_deref())?;
        let is_all = chosen.len() == context.switches.len();
        if clear.what == Clearable::Counters {
            // Fresh reports, so that the base includes all counts until now.
            self.reports = None;
            if is_all {
                self.lcore_bases =
                    context.running.lcores().map(|(cpu, stats)| LcoreBaseline::from_stats(cpu, stats)).collect();
            }
        }
        let mut done = Vec::new();
        for index in chosen {
            let name = &context.switches[index].name;
            let (event, message) = match clear.what {
                Clearable::Counters => {
                    let reports = self.reports(context)?;
                    let losses = context.losses.last(index).to_vec();
                    let nics = context.running.nic_reports(index);
                    self.bases[index] =
                        Some(CounterBaseline { unix_ms: unix_ms(), report: reports[index].clone(), losses, nics });
                    ("counters_cleared", "counters are shown from now on; the summary's go on".to_owned())
                }
                Clearable::Watermarks | Clearable::PersistentWatermarks => {
                    let is_persistent = clear.what == Clearable::PersistentWatermarks;
                    self.watermarks[index].clear(is_persistent, &context.running.shared(index).mmu);
                    let (cleared, others) = match is_persistent {
                        true => ("persistent watermarks", "the others and the summary's"),
                        false => ("watermarks", "the persistent ones"),
                    };
                    ("watermarks_cleared", format!("{cleared} begin anew; {others} go on"))
                }
                Clearable::Mac => {
                    let forgotten = context.running.shared(index).fdb.clear_learned();
                    let flooded = "frames to them are flooded until they are heard again";
                    ("mac_cleared", format!("{forgotten} learned addresses are forgotten: {flooded}"))
                }
            };
            tracing::info!(switch = %name, "weir clear: {message}");
            self.events.record(name, None, None, event, message.clone());
            done.push(format!("{name}: {message}"));
        }
        Ok(Reply::Done(done))
    }

    fn lcores(&self, context: ControlContext<'_>) -> Vec<Lcore> {
        lcores(context, &self.lcore_bases)
    }

    /// Reports of all switches, at most [`FRESH`] old.
    fn reports(&mut self, context: ControlContext<'_>) -> Result<Rc<Vec<Report>>, ErrorReply> {
        if let Some((at, reports)) = &self.reports
            && at.elapsed() < FRESH
        {
            return Ok(reports.clone());
        }
        let reports =
            context.running.reports().map_err(|error| ErrorReply::new(ErrorReplyKind::Busy, error.to_string()))?;
        let reports = Rc::new(reports);
        self.reports = Some((Instant::now(), reports.clone()));
        Ok(reports)
    }

    fn reading<'r>(
        &'r self,
        context: ControlContext<'r>,
        index: usize,
        report: &'r Report,
        ports: Vec<usize>,
        peaks: [&'r Peaks; 2],
        base: Option<&'r CounterBaseline>,
    ) -> SwitchReading<'r> {
        SwitchReading {
            config: &self.runtime_configs.configs()[index],
            shared: context.running.shared(index),
            report,
            losses: context.losses.last(index),
            lldp: (index, context.lldp),
            nics: context.running.nic_reports(index),
            base,
            peaks,
            rates: self.rates[index].as_deref(),
            now: context.running.now(),
            unix_ms: unix_ms(),
            ports,
        }
    }
}

impl LcoreBaseline {
    fn from_stats(cpu: u32, stats: &LcoreStats) -> LcoreBaseline {
        let (polls, busy_polls) = stats.polls();
        LcoreBaseline {
            polls,
            busy_polls,
            work: stats.work(),
            gaps: stats.gaps().counts(),
            cpu_use: stats.cpu_use(cpu),
        }
    }
}

/// Index of the requested switch.
fn chosen_one(switches: &[SwitchConfig], name: Option<&str>) -> Result<usize, ErrorReply> {
    let chosen = chosen(switches, name)?;
    let [index] = chosen[..] else {
        let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
        let message = format!("several switches run: choose one with --switch: {}", names.join(", "));
        return Err(ErrorReply::new(ErrorReplyKind::Unknown, message));
    };
    Ok(index)
}

/// Indices of the requested switches.
fn chosen(switches: &[SwitchConfig], name: Option<&str>) -> Result<Vec<usize>, ErrorReply> {
    let all = 0..switches.len();
    let Some(name) = name else { return Ok(all.collect()) };
    let found: Vec<usize> = all.filter(|index| switches[*index].name == name).collect();
    if found.is_empty() {
        let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
        let message = format!("no switch of this process is named `{name}`; it runs: {}", names.join(", "));
        return Err(ErrorReply::new(ErrorReplyKind::Unknown, message));
    }
    Ok(found)
}

/// Indices of the requested ports of each chosen switch, in the order of its file.
fn ports_of(switches: &[SwitchConfig], chosen: &[usize], names: &[String]) -> Result<Vec<Vec<usize>>, ErrorReply> {
    let ports = || chosen.iter().map(|index| &switches[*index].ports);
    if let Some(unknown) = names.iter().find(|name| !ports().flatten().any(|port| names_port(name, &port.name))) {
        let known: Vec<&str> = ports().flatten().map(|port| port.name.as_str()).collect();
        let message = format!("no port is named `{unknown}`; the ports are: {}", known.join(", "));
        return Err(ErrorReply::new(ErrorReplyKind::Unknown, message));
    }
    let is_wanted = |port: &String| names.is_empty() || names.iter().any(|name| names_port(name, port));
    let wanted = ports().map(|ports| (0..ports.len()).filter(|port| is_wanted(&ports[*port].name)).collect());
    Ok(wanted.collect())
}

/// Lcore statistics, since these bases if there are any.
fn lcores(context: ControlContext<'_>, bases: &[LcoreBaseline]) -> Vec<Lcore> {
    let ControlContext { switches, placement, running, .. } = context;
    let roles = |cpu: u32| {
        let switches = switches.iter().zip(&placement.switches);
        let of_switch = switches.flat_map(|(switch, placed)| {
            let roles = placed.plan.lcores.iter().zip(&placed.on);
            roles.map(move |(role, on)| (placement.cpus[*on], format!("{}: {role}", switch.name)))
        });
        of_switch.filter(|(on, _)| *on == cpu).map(|(_, role)| role).collect()
    };
    let lcore = |(number, (cpu, stats)): (usize, (u32, &LcoreStats))| {
        let mut now = LcoreBaseline::from_stats(cpu, stats);
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
                packets: now.work.tally.packets,
                bursts: now.work.tally.bursts,
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
