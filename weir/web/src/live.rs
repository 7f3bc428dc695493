//! A running switch as a site.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use weir_control::ControlHandle;
use weir_control::metrics::plain;
use weir_control::protocol::{ErrorReply, Reply, Request, ShowRequest, ShowView, VERSION};

use crate::page;
use crate::request::GetRequest;
use crate::server::{EventStream, Response, Site};

/// Interval of the states in a stream.
const EVERY: Duration = Duration::from_millis(500);
/// Time for which a state, and a text of metrics, is reused: the switch is not asked more often, for any number of clients.
const FRESH: Duration = Duration::from_millis(200);
/// MIME type of the Prometheus text format, for clients without OpenMetrics.
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// MIME type of OpenMetrics, as Prometheus expects it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Site of the process's switches. The control thread answers its requests, like those of control-socket clients.
#[derive(Debug)]
pub struct LiveSite {
    shared: Arc<LiveState>,
}

#[derive(Debug)]
struct LiveState {
    control: ControlHandle,
    started: Instant,
    last: Mutex<Option<(Instant, Arc<str>)>>,
    last_metrics: Mutex<Option<(Instant, Arc<str>)>>,
}

impl LiveSite {
    /// Creates a site that requests state by `control`.
    pub fn new(control: ControlHandle) -> LiveSite {
        LiveSite {
            shared: Arc::new(LiveState {
                control,
                started: Instant::now(),
                last: Mutex::default(),
                last_metrics: Mutex::default(),
            }),
        }
    }
}

impl Site for LiveSite {
    fn answer(&self, get: &GetRequest) -> Response {
        match get.path.as_str() {
            "/metrics" => match self.shared.metrics() {
                Ok(text) if get.wants_plain_text => file(PLAIN_METRICS, plain(&text)),
                Ok(text) => file(OPEN_METRICS, text.to_string()),
                Err(refused) => refused,
            },
            "/api/source" => file(page::JSON, json!({ "kind": "live" }).to_string()),
            "/api/state" => match self.shared.state() {
                Ok(state) => file(page::JSON, state.to_string()),
                Err(refusal) => busy(refusal),
            },
            "/api/stream" => Response::Events(events(self.shared.clone())),
            path => page::file(path, "/metrics, /api/state and /api/stream"),
        }
    }
}

fn events(shared: Arc<LiveState>) -> EventStream {
    // A busy switch is asked again.
    let next =
        move || Some(shared.state().unwrap_or_else(|refusal| json!({ "error": refusal.message }).to_string().into()));
    EventStream { every: EVERY, next: Box::new(next) }
}

impl LiveState {
    fn ask(&self, what: ShowView) -> Result<Reply, ErrorReply> {
        self.control.ask(Request::Show(ShowRequest { what, switch: None, ports: Vec::new() }))
    }

    /// Complete state of the switches, as JSON. Clients that ask at once share one state.
    fn state(&self) -> Result<Arc<str>, ErrorReply> {
        fresh(&self.last, || Ok(self.read()?.to_string().into()))
    }

    /// Metrics, as OpenMetrics, shared as well.
    fn metrics(&self) -> Result<Arc<str>, Response> {
        fresh(&self.last_metrics, || match self.ask(ShowView::Metrics) {
            Ok(Reply::Metrics(text)) => Ok(text.into()),
            other => Err(unexpected_reply(other)),
        })
    }

    fn read(&self) -> Result<Value, ErrorReply> {
        let Reply::Hello(hello) = self.control.ask(Request::Hello)? else { return Ok(Value::Null) };
        // Reports are as old as the first view's at the earliest, so rates by this clock are nearly true.
        let at_ms = self.started.elapsed().as_secs_f64() * 1e3;
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let mut switches: Vec<Map<String, Value>> = Vec::new();
        for what in ShowView::OF_A_SWITCH {
            let Reply::Switches(shown) = self.ask(what)? else { continue };
            switches.resize(shown.len(), Map::new());
            for (switch, shown) in switches.iter_mut().zip(shown) {
                if let Ok(Value::Object(view)) = serde_json::to_value(shown) {
                    switch.extend(view);
                }
            }
        }
        let mut state = json!({
            "weir": VERSION,
            "weir_version": hello.weir_version,
            "process": hello.process,
            "unix_ms": unix_ms,
            "at_ms": at_ms,
            "switches": switches,
        });
        for what in [ShowView::Lcores, ShowView::Events] {
            if let Ok(Value::Object(reply)) = serde_json::to_value(self.ask(what)?)
                && let Value::Object(state) = &mut state
            {
                state.extend(reply);
            }
        }
        Ok(state)
    }
}

/// Returns the last text, or a new one where that is no longer fresh.
fn fresh<E>(
    last: &Mutex<Option<(Instant, Arc<str>)>>,
    read: impl FnOnce() -> Result<Arc<str>, E>,
) -> Result<Arc<str>, E> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, text)) = &*last
        && at.elapsed() < FRESH
    {
        return Ok(text.clone());
    }
    let text = read()?;
    *last = Some((Instant::now(), text.clone()));
    Ok(text)
}

fn file(kind: &'static str, text: String) -> Response {
    Response::File { kind, content: Cow::Owned(text.into_bytes()) }
}

fn busy(refusal: ErrorReply) -> Response {
    Response::Refused { status: 503, why: refusal.message }
}

fn unexpected_reply(reply: Result<Reply, ErrorReply>) -> Response {
    match reply {
        Err(refusal) => busy(refusal),
        Ok(_) => Response::Refused { status: 500, why: "the switch's answer belongs to another request".to_owned() },
    }
}
