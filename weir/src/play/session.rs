//! Runs of a scenario in virtual time, side by side, at a pace of the clock, with settings that change while they go on.
//!
//! A change takes effect in all runs at the same virtual instant, after the sample that each has last begun. It is appended to the
//! scenario in the runs' directories as a table of `[[changes]]`, so that the file repeats the runs.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_experiments::{Failure, experiment};
use weir_reader::Unit;
use weir_results::run_dir::{RunDir, Topology, queue_gauges};
use weir_scenario::file::{self, ScenarioRun};
use weir_scenario::{PortRef, RuntimeChange, Scenario};
use weir_sim::{LiveControl, LiveSample, SimBackend, Threads};
use weir_units::{Class, Span, Time};

use super::live_scenario::{LiveParameter, LiveScenario, check_value};
use super::tail_reader::TailReader;

/// Runs of a scenario, until they end or the session is dropped.
pub(super) struct LiveSession {
    pub scenario: &'static LiveScenario,
    /// Number, for pages to notice another session.
    pub number: u64,
    shared: Arc<SessionContext>,
    threads: Vec<JoinHandle<()>>,
}

struct SessionContext {
    state: Mutex<SessionState>,
    /// Signalled by each sample, and when the pace or the changes have changed.
    changed: Condvar,
    stop: AtomicBool,
}

struct SessionState {
    /// Scenario with all changes so far.
    text: String,
    /// Values of the parameters.
    values: BTreeMap<&'static str, String>,
    pace: Pace,
    runs: Vec<RunState>,
}

/// State of a run.
struct RunState {
    directory: PathBuf,
    /// Description that does not change.
    about: Value,
    /// Names of the columns.
    header: Vec<String>,
    /// Rows of the series and events so far, as arrays in JSON.
    rows: Vec<Arc<str>>,
    events: Vec<Arc<str>>,
    /// Instant of the last sample.
    at: Time,
    /// Instant up to which the run may go.
    granted: Time,
    sample_every: Span,
    end: Time,
    deadlock: Option<Time>,
    /// Number of changes in the text that are for this run.
    changes: usize,
    /// Changes that the run has not taken yet.
    pending: Vec<RuntimeChange>,
    /// Outcome of a run that has ended, in sentences.
    outcome: Option<Vec<String>>,
}

/// Relation of virtual time and the clock.
struct Pace {
    /// Virtual time per second; zero for a pause.
    speed: Span,
    /// Instants that correspond.
    anchor: (Instant, Time),
}

/// Place of a client in the rows and events of a session.
#[derive(Default)]
pub(super) struct Cursor {
    session: Option<u64>,
    runs: Vec<(usize, usize)>,
}

/// Virtual time by which runs may fall behind the pace on a slow machine before the pace follows them: half a second of the clock.
const BEHIND_MAX: Duration = Duration::from_millis(500);
/// Delay of a change after the last sample that a run has begun.
const CHANGE_AFTER: Span = Span::from_micros(1);
/// Name of a scenario's copy.
const COPY: &str = "scenario.toml";

impl LiveSession {
    /// Starts the runs of a scenario with these values of its parameters, in a new directory below `output`.
    ///
    /// # Errors
    /// A wrong value, or a directory that can't be made.
    pub(super) fn start(
        scenario: &'static LiveScenario,
        values: &BTreeMap<&'static str, String>,
        number: u64,
        speed: Span,
        output: &Path,
    ) -> Result<LiveSession, Failure> {
        let mut text = scenario.text.to_owned();
        for (parameter, value) in scenario.parameters.iter().filter_map(|of| Some((of, values.get(of.name)?))) {
            check_value(value).map_err(Failure::Argument)?;
            text = parameter.with_value(&text, value);
        }
        let directory = free_directory(output, scenario.name);
        let runs = file::parse(&directory.join(COPY), &text)?;
        let values = scenario.parameters.iter().map(|of| (of.name, of.value(&text).to_owned())).collect();
        let mut states = Vec::new();
        let mut planned = Vec::new();
        for run in runs {
            let directory = directory.join(run.name.to_lowercase().replace(' ', "-"));
            let run_dir = experiment::directory(&directory)?;
            run_dir.write_scenario(&text)?;
            states.push(RunState::new(&run, directory));
            planned.push((run, run_dir));
        }
        let pace = Pace { speed, anchor: (Instant::now(), Time::ZERO) };
        let state = SessionState { text, values, pace, runs: states };
        let shared = Arc::new(SessionContext {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let mut session = LiveSession { scenario, number, shared, threads: Vec::new() };
        for (n, (run, run_dir)) in planned.into_iter().enumerate() {
            let shared = session.shared.clone();
            let thread = std::thread::Builder::new().name(format!("weir-run-{n}"));
            session.threads.push(thread.spawn(move || conduct(&shared, n, &run, run_dir))?);
        }
        Ok(session)
    }

    /// Values of the parameters.
    pub(super) fn values(&self) -> BTreeMap<&'static str, String> {
        self.shared.state().values.clone()
    }

    /// Sets the virtual time per second; zero pauses the runs.
    pub(super) fn set_speed(&self, speed: Span) {
        let mut state = self.shared.state();
        let at = state.runs.iter().map(|run| run.at).max().unwrap_or(Time::ZERO);
        state.pace = Pace { speed, anchor: (Instant::now(), at) };
        self.shared.changed.notify_all();
    }

    /// Changes a parameter in the runs that go on, which can take it; returns the virtual instant of the change.
    ///
    /// # Errors
    /// A wrong value, or an end of the runs.
    pub(super) fn set_live(&self, parameter: &LiveParameter, key: &str, value: &str) -> Result<Time, Failure> {
        check_value(value).map_err(Failure::Argument)?;
        let mut state = self.shared.state();
        let at = state.runs.iter().map(|run| run.granted).max().unwrap_or(Time::ZERO) + CHANGE_AFTER;
        let is_over = state.runs.iter().any(|run| run.outcome.is_some() || at > run.end);
        if is_over {
            return Err(Failure::Argument("the runs are at their end: start them again".to_owned()));
        }
        let mut text = format!(
            "{}\n[[changes]]\nat = \"{}\"\nkey = \"{key}\"\nvalue = {}\n",
            state.text,
            at.since(Time::ZERO),
            parameter.toml(&state.text, value)
        );
        if let Some(run) = parameter.run {
            text += &format!("run = \"{run}\"\n");
        }
        let runs = file::parse(&state.runs[0].directory.join(COPY), &text)?;
        for (run, parsed) in state.runs.iter_mut().zip(&runs) {
            let changes = &parsed.scenario.changes;
            run.pending.extend_from_slice(&changes[run.changes..]);
            run.changes = changes.len();
            fs::write(run.directory.join(COPY), &text)?;
        }
        state.text = text;
        state.values.insert(parameter.name, value.to_owned());
        self.shared.changed.notify_all();
        Ok(at)
    }

    /// Returns the news since the client's last call, and moves its place.
    pub(super) fn news(&self, cursor: &mut Cursor) -> Value {
        let state = self.shared.state();
        let is_new = cursor.session != Some(self.number);
        if is_new {
            *cursor = Cursor { session: Some(self.number), runs: vec![(0, 0); state.runs.len()] };
        }
        let runs = state.runs.iter().zip(&mut cursor.runs).map(|(run, place)| run.news(place, is_new));
        json!({
            "session": self.number,
            "scenario": self.scenario.name,
            "values": state.values,
            "speed_us": state.pace.speed.as_nanos() as f64 / 1e3,
            "runs": runs.collect::<Vec<_>>(),
        })
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A run looks at the flag and waits under the lock.
        drop(self.shared.state());
        self.shared.changed.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl SessionContext {
    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// First directory that does not exist: `OUTPUT/ring-1`, `OUTPUT/ring-2`.
fn free_directory(output: &Path, name: &str) -> PathBuf {
    (1..).map(|number: u32| output.join(format!("{name}-{number}"))).find(|path| !path.exists()).expect("one is free")
}

/// Executes a run to its end or stop.
fn conduct(shared: &SessionContext, number: usize, run: &ScenarioRun, run_dir: RunDir) {
    let backend = SimBackend { expects: run.expects, ns3_files: false, threads: Threads::Exactly(NonZeroUsize::MIN) };
    let series = TailReader::new(run_dir.path().join("series.csv"));
    let events = TailReader::new(run_dir.path().join("events.csv"));
    let mut live = RunControl { shared, number, series, events };
    let result = backend.run_live(&run.scenario, run_dir, &mut live, &shared.stop);
    let outcome = match result {
        Ok(summary) => summary.failures,
        Err(error) => vec![error.to_string()],
    };
    live.publish().runs[number].outcome = Some(outcome);
    shared.changed.notify_all();
}

/// Control of one of the runs.
struct RunControl<'s> {
    shared: &'s SessionContext,
    number: usize,
    series: TailReader,
    events: TailReader,
}

impl RunControl<'_> {
    /// Publishes the rows and events since the last call.
    fn publish(&mut self) -> MutexGuard<'_, SessionState> {
        let (rows, events) = (self.series.numbers(), self.events.rows());
        let mut state = self.shared.state();
        let run = &mut state.runs[self.number];
        run.rows.extend(rows);
        run.events.extend(events);
        if run.header.is_empty() {
            run.header = self.series.header().to_vec();
        }
        state
    }
}

impl LiveControl for RunControl<'_> {
    fn after_sample(&mut self, sample: &LiveSample) -> Vec<RuntimeChange> {
        let (shared, number) = (self.shared, self.number);
        let mut state = self.publish();
        let run = &mut state.runs[number];
        (run.at, run.deadlock) = (sample.at, sample.deadlock);
        let next = sample.at + run.sample_every;
        shared.changed.notify_all();
        while !shared.stop.load(Ordering::Relaxed) {
            let others_wait = state.runs.iter().all(|run| run.at >= sample.at || run.outcome.is_some());
            let wait = if others_wait { state.pace.wait_until(next) } else { None };
            match wait {
                Some(Duration::ZERO) => break,
                Some(wait) => {
                    state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let run = &mut state.runs[number];
        run.granted = next;
        std::mem::take(&mut run.pending)
    }
}

impl Pace {
    /// Returns the time of the clock until virtual time is at `next`; `None` in a pause.
    fn wait_until(&mut self, next: Time) -> Option<Duration> {
        let speed = u128::from(self.speed.as_picos());
        let ahead = u128::from(next.since(self.anchor.1).as_picos());
        let due = u64::try_from((ahead * 1_000_000_000).checked_div(speed)?).unwrap_or(u64::MAX);
        let (due, now) = (Duration::from_nanos(due), self.anchor.0.elapsed());
        if now > due + BEHIND_MAX {
            self.anchor = (Instant::now(), next);
        }
        Some(due.saturating_sub(now))
    }
}

impl RunState {
    fn new(run: &ScenarioRun, directory: PathBuf) -> RunState {
        let scenario = &run.scenario;
        RunState {
            about: about(&run.name, scenario, &directory),
            directory,
            header: Vec::new(),
            rows: Vec::new(),
            events: Vec::new(),
            at: Time::ZERO,
            granted: Time::ZERO + scenario.sample_every,
            sample_every: scenario.sample_every,
            end: scenario.end,
            deadlock: None,
            changes: scenario.changes.len(),
            pending: Vec::new(),
            outcome: None,
        }
    }

    fn news(&self, (rows, events): &mut (usize, usize), is_new: bool) -> Value {
        let parsed = |text: &Arc<str>| serde_json::from_str::<Value>(text).expect("a row is JSON");
        let ms = |at: Time| at.as_nanos() as f64 / 1e6;
        let mut news = json!({
            "at_ms": ms(self.at),
            "deadlock_ms": self.deadlock.map(ms),
            "outcome": self.outcome,
            "rows": self.rows[*rows..].iter().map(parsed).collect::<Vec<_>>(),
            "events": self.events[*events..].iter().map(parsed).collect::<Vec<_>>(),
        });
        if (is_new || *rows == 0) && !self.rows.is_empty() {
            news["about"] = self.about.clone();
            news["header"] = json!(self.header);
        }
        (*rows, *events) = (self.rows.len(), self.events.len());
        news
    }
}

/// Describes a run, in the form of a recorded one.
fn about(name: &str, scenario: &Scenario, directory: &Path) -> Value {
    let ports = scenario.switches.iter().enumerate().flat_map(|(number, switch)| {
        switch.ports.iter().enumerate().map(move |(place, port)| {
            let id = scenario.port_name(PortRef { switch: number, port: place });
            let lossless = Class::ALL.into_iter().filter(|class| switch.classes.lossless.contains(*class));
            let lossless: Vec<usize> = lossless.map(Class::index).collect();
            json!({ "name": id, "flow_control": port.flow_control.label(), "lossless": lossless })
        })
    });
    let flows = scenario.flows.iter().map(
        |flow| json!({ "name": flow.name, "from": scenario.host_name(flow.from), "to": scenario.host_name(flow.to) }),
    );
    let gauges = queue_gauges().into_iter().map(|gauge| {
        let on = if let Unit::State { on, .. } = gauge.unit { Some(on) } else { None };
        json!({ "name": gauge.name, "on": on })
    });
    json!({
        "label": name,
        "directory": directory,
        "policy": scenario.policy,
        "duration_ms": scenario.end.as_nanos() as f64 / 1e6,
        "topology": Topology::from_scenario(scenario),
        "ports": ports.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "gauges": gauges.collect::<Vec<_>>(),
    })
}
