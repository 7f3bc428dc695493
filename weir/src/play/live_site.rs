//! Live runs as a site: the menu, and the running scenario with its parameters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use weir_experiments::Failure;
use weir_units::{Span, Time};
use weir_web::{ChangeRequest, EventStream, GetRequest, Response, Site, page_file};

use super::live_scenario::{LiveScenario, SCENARIOS};
use super::session::{Cursor, LiveSession};

/// Interval of the messages in a stream.
const EVERY: Duration = Duration::from_millis(100);
/// Virtual time per second, unless chosen otherwise.
pub(super) const SPEED_DEFAULT: Span = Span::from_millis(1);
/// Highest virtual time per second.
const SPEED_MAX: Span = Span::from_secs(1);

/// Site that runs one scenario of the menu at a time. Clones share it.
#[derive(Clone)]
pub(super) struct LiveRunsSite {
    state: Arc<Mutex<SiteState>>,
}

struct SiteState {
    /// Directory for the sessions' directories.
    output: PathBuf,
    speed: Span,
    session: Option<LiveSession>,
    /// Number of sessions so far.
    sessions: u64,
}

impl LiveRunsSite {
    /// Creates a site whose runs write their directories into `output`, and begin with this virtual time per second.
    pub(super) fn new(output: PathBuf, speed: Span) -> LiveRunsSite {
        LiveRunsSite { state: Arc::new(Mutex::new(SiteState { output, speed, session: None, sessions: 0 })) }
    }

    /// Stops the runs, which write their results.
    pub(super) fn stop(&self) {
        self.state().session = None;
    }

    fn state(&self) -> MutexGuard<'_, SiteState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<SiteState>) -> MutexGuard<'_, SiteState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site for LiveRunsSite {
    fn answer(&self, get: &GetRequest) -> Response {
        match get.path.as_str() {
            "/api/source" => json_response(&source()),
            "/api/stream" => {
                let (state, mut cursor) = (self.state.clone(), Cursor::default());
                let next = move || {
                    let state = lock(&state);
                    let news = state.session.as_ref().map_or_else(|| json!({}), |session| session.news(&mut cursor));
                    Some(news.to_string().into())
                };
                Response::Events(EventStream { every: EVERY, next: Box::new(next) })
            }
            path => page_file(path, "/api/source and /api/stream"),
        }
    }

    fn change(&self, request: &ChangeRequest) -> Response {
        let parameter = |name: &str| request.parameters.get(name).map_or("", String::as_str);
        let changed = match request.path.as_str() {
            "/api/start" => self.state().start(parameter("scenario")),
            "/api/set" => self.state().set(parameter("name"), parameter("value")),
            "/api/speed" => self.state().set_speed(parameter("value")),
            path => {
                let why = format!("there is no {path}: there are /api/start, /api/set and /api/speed");
                return Response::Refused { status: 404, why };
            }
        };
        match changed {
            Ok(reply) => json_response(&reply),
            Err(failure) => Response::Refused { status: 400, why: refusal(failure) },
        }
    }
}

/// Reason of a refused change. Places in a scenario's file are left out: the value was given on a page.
fn refusal(failure: Failure) -> String {
    let Failure::Input(errors) = failure else { return failure.into_message() };
    let mut reasons: Vec<String> = Vec::new();
    for error in errors.iter() {
        let help = error.help_text();
        let reason = error.message().to_owned() + if help.is_empty() { "" } else { "; " } + help;
        // Runs of a scenario have the same error.
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.join("\n")
}

impl SiteState {
    fn start(&mut self, name: &str) -> Result<Value, Failure> {
        let scenario = LiveScenario::find(name).ok_or_else(|| {
            let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            Failure::Argument(format!("no scenario is named `{name}`: there are {}", names.join(", ")))
        })?;
        self.restart(scenario, &BTreeMap::new())
    }

    /// Starts a scenario from 0, in place of the present session.
    fn restart(
        &mut self,
        scenario: &'static LiveScenario,
        values: &BTreeMap<&'static str, String>,
    ) -> Result<Value, Failure> {
        let session = LiveSession::start(scenario, values, self.sessions + 1, self.speed, &self.output)?;
        self.sessions += 1;
        self.session = Some(session);
        Ok(json!({ "session": self.sessions }))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<Value, Failure> {
        let session = self.session()?;
        let scenario = session.scenario;
        let parameter = scenario.parameter(name).ok_or_else(|| {
            let names: Vec<&str> = scenario.parameters.iter().map(|parameter| parameter.name).collect();
            Failure::Argument(format!("`{name}` is no parameter of {}: there are {}", scenario.name, names.join(", ")))
        })?;
        if let Some(key) = parameter.live_key {
            let at = session.set_live(parameter, key, value)?;
            return Ok(json!({ "at_ms": at.since(Time::ZERO).as_nanos() as f64 / 1e6 }));
        }
        let mut values = session.values();
        values.insert(parameter.name, value.to_owned());
        self.restart(scenario, &values)
    }

    fn set_speed(&mut self, text: &str) -> Result<Value, Failure> {
        let speed = text.parse::<Span>().ok().filter(|speed| *speed <= SPEED_MAX);
        let speed = speed.ok_or_else(|| {
            Failure::Argument(format!(
                "`{text}` is no virtual time per second: write 0s for a pause, or up to {SPEED_MAX}, as 1ms"
            ))
        })?;
        self.session()?.set_speed(speed);
        // A pause is not for the next session.
        if speed > Span::ZERO {
            self.speed = speed;
        }
        Ok(json!({}))
    }

    fn session(&self) -> Result<&LiveSession, Failure> {
        self.session.as_ref().ok_or_else(|| Failure::Argument("nothing runs: start a scenario".to_owned()))
    }
}

/// Description of the menu for the page.
fn source() -> Value {
    let scenarios = SCENARIOS.iter().map(|scenario| {
        let parameters = scenario.parameters.iter().map(|parameter| {
            json!({
                "name": parameter.name, "label": parameter.label, "values": parameter.values, "run": parameter.run,
                "is_live": parameter.live_key.is_some(), "value": parameter.value(scenario.text),
            })
        });
        json!({
            "name": scenario.name, "title": scenario.title, "hint": scenario.hint, "charts": scenario.charts,
            "parameters": parameters.collect::<Vec<_>>(),
        })
    });
    json!({ "kind": "menu", "scenarios": scenarios.collect::<Vec<_>>() })
}

fn json_response(value: &Value) -> Response {
    Response::File { kind: "application/json", content: Cow::Owned(value.to_string().into_bytes()) }
}
