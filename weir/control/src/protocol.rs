//! Protocol of the control socket: a request is a line of JSON, and so is its reply.
//!
//! ```json
//! {"weir":1,"request":{"show":{"what":"interfaces"}}}
//! {"weir":1,"reply":{"switches":[{"switch":"lab","interfaces":[]}]}}
//! {"weir":1,"error":{"kind":"unknown","message":"no port of switch lab is named `p9`; its ports are: p0, p1"}}
//! ```
//!
//! The number is the protocol's version. In every version a line is an object with the number under `weir`, and an error has
//! a `message`, so that either end can name the other one's version.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capture::{CaptureRequest, CaptureStarted};
use crate::runtime_config::{ChangeReport, Configuration, Differences, SetRequest, SwitchSelector};
use crate::state::{Event, Lcore, ViewReply};

/// Version of the protocol. Increases with each incompatible change.
pub const VERSION: u64 = 1;
/// The longest request, without its line's end, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Asks for version, process and switches.
    Hello,
    /// Asks for state of the switches.
    Show(ShowRequest),
    /// Clears counters or watermarks.
    Clear(ClearRequest),
    /// Sets keys to new values.
    Set(SetRequest),
    /// Reads the switches' files and applies the changes that a running switch allows.
    Reload(SwitchSelector),
    /// Asks for the running configurations, as files.
    Configuration(SwitchSelector),
    /// Asks for the differences between the files and the running configurations.
    Differences(SwitchSelector),
    /// Captures frames that pass ports from now on, or are dropped there. They follow the reply on the connection, as pcapng, until the client
    /// ends its half of it, the switch ends, or there are as many as are wanted; then the connection ends.
    Capture(CaptureRequest),
}

/// Request for a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Kind of state.
    pub what: ShowView,
    /// Name of one switch; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Names of the ports; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

/// Kind of state that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShowView {
    /// Links, traffic and losses of ports.
    Interfaces,
    /// PFC frames and pauses of ports, by class.
    PfcCounters,
    /// Queues that are watched for PFC storms.
    PfcWatchdog,
    /// Delays until messages of flow control are sent, and until they are obeyed.
    PauseDelays,
    /// Ingress queues: occupancy, watermarks, drops.
    PriorityGroups,
    /// Egress queues: traffic, occupancy, watermarks, drops.
    Queues,
    /// Occupancy and watermarks of pools.
    BufferPools,
    /// Partition of the buffer, and its current thresholds.
    BufferConfiguration,
    /// The forwarding database.
    Mac,
    /// Gauges of the buffer policy.
    Policy,
    /// State by class of flow controls other than PFC's.
    FlowControl,
    /// Statistics of the process's lcores.
    Lcores,
    /// Lost frames: where, and why.
    Losses,
    /// Neighbours by LLDP, with their DCBX configuration.
    Lldp,
    /// Recent events.
    Events,
    /// All counters, as text in OpenMetrics' format.
    Metrics,
}

impl ShowView {
    /// Views of a switch, which together are its state. The others are of the process.
    pub const OF_A_SWITCH: [ShowView; 13] = [
        ShowView::Interfaces,
        ShowView::PfcCounters,
        ShowView::PfcWatchdog,
        ShowView::PauseDelays,
        ShowView::PriorityGroups,
        ShowView::Queues,
        ShowView::BufferPools,
        ShowView::BufferConfiguration,
        ShowView::Policy,
        ShowView::FlowControl,
        ShowView::Losses,
        ShowView::Mac,
        ShowView::Lldp,
    ];
}

/// Request to clear counters, watermarks or addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearRequest {
    /// Kind of state to clear.
    pub what: Clearable,
    /// Name of one switch; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
}

/// Kind of state that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clearable {
    /// Counters are shown from now on, for all clients. The switch's own go on.
    Counters,
    /// Watermarks but for the persistent ones.
    Watermarks,
    /// Persistent watermarks, as readers have them; metrics and the summary's go on.
    PersistentWatermarks,
    /// Addresses that were learned.
    Mac,
}

/// Reply of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Version, process and switches.
    Hello(Hello),
    /// Each switch that was asked for.
    Switches(Vec<ViewReply>),
    /// The process's lcores.
    Lcores(Vec<Lcore>),
    /// Recent events, oldest first.
    Events(Vec<Event>),
    /// All counters, as text in OpenMetrics' format.
    Metrics(String),
    /// Completed actions, in a line for each switch.
    Done(Vec<String>),
    /// Results of changed keys, for each switch.
    Changed(Vec<ChangeReport>),
    /// Running configuration of each switch.
    Configurations(Vec<Configuration>),
    /// Differences between each switch's file and its running configuration.
    Differences(Vec<Differences>),
    /// Start of a capture, whose data follow.
    Capturing(CaptureStarted),
}

/// A process of `weir run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Weir's version.
    pub weir_version: String,
    /// The process's number.
    pub process: u32,
    /// The switches' names.
    pub switches: Vec<String>,
}

/// Reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReply {
    /// Kind of reason.
    pub kind: ErrorReplyKind,
    /// Reason and advice, in a sentence.
    pub message: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorReplyKind {
    /// The line is no request.
    Malformed,
    /// The request is of another version.
    Version,
    /// The request names an unknown object.
    Unknown,
    /// The switch can't answer now.
    Busy,
    /// A value that no file may have, or one that can't come into force while the switch runs.
    Invalid,
}

impl ErrorReply {
    /// Creates an error reply of this kind.
    pub fn new(kind: ErrorReplyKind, message: impl Into<String>) -> ErrorReply {
        ErrorReply { kind, message: message.into() }
    }
}

/// Formats a request as a line, with its end.
pub fn request_line(request: &Request) -> String {
    line(json!({ "weir": VERSION, "request": request }))
}

/// Formats an answer as a line, with its end.
pub(crate) fn answer_line(answer: &Result<Reply, ErrorReply>) -> String {
    line(match answer {
        Ok(reply) => json!({ "weir": VERSION, "reply": reply }),
        Err(refusal) => json!({ "weir": VERSION, "error": refusal }),
    })
}

/// Parses a request's line.
///
/// # Errors
/// Another version, or no request.
pub fn parse_request(line: &[u8]) -> Result<Request, ErrorReply> {
    let malformed = |message: String| ErrorReply::new(ErrorReplyKind::Malformed, message);
    let (version, mut parts) = parse_line(line).map_err(|what| malformed(format!("a request {what}")))?;
    if version != VERSION {
        let message = format!(
            "the running switch speaks version {VERSION} of the control protocol, and the request is of version {version}: use the \
             `weir` that the switch was started with"
        );
        return Err(ErrorReply::new(ErrorReplyKind::Version, message));
    }
    let request = parts.remove("request").ok_or_else(|| malformed("the line has no `request`".to_owned()))?;
    if let Some(key) = parts.keys().find(|key| *key != "weir") {
        return Err(malformed(format!("a line with a request has no `{key}`; its keys are `weir` and `request`")));
    }
    serde_json::from_value(request).map_err(|error| malformed(format!("no such request: {error}")))
}

/// Reason why a line is no answer of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyError {
    /// The line is of another version, with its message.
    Version(u64, String),
    /// The line is no answer.
    Malformed(String),
}

/// Parses an answer's line.
pub(crate) fn parse_answer(line: &[u8]) -> Result<Result<Reply, ErrorReply>, ReplyError> {
    let (version, mut parts) = parse_line(line).map_err(|what| ReplyError::Malformed(format!("an answer {what}")))?;
    let malformed = |error: serde_json::Error| ReplyError::Malformed(format!("malformed answer: {error}"));
    if version != VERSION {
        let message = parts.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
        return Err(ReplyError::Version(version, message.unwrap_or_default().to_owned()));
    }
    match (parts.remove("reply"), parts.remove("error")) {
        (Some(reply), None) => serde_json::from_value(reply).map(Ok).map_err(malformed),
        (None, Some(error)) => serde_json::from_value(error).map(Err).map_err(malformed),
        _ => Err(ReplyError::Malformed("an answer is neither a reply nor an error".to_owned())),
    }
}

/// Returns a line's version and its members, or the reason why it is malformed, worded to follow "a request".
fn parse_line(line: &[u8]) -> Result<(u64, serde_json::Map<String, Value>), String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("is a line of JSON: {error}"))?;
    let Value::Object(parts) = value else { return Err("is an object".to_owned()) };
    let version = parts.get("weir").and_then(Value::as_u64);
    version.map(|version| (version, parts)).ok_or_else(|| "has its version as a number under `weir`".to_owned())
}

/// Compact JSON has no line's end within.
fn line(value: Value) -> String {
    let mut line = value.to_string();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{CaptureDirection, CaptureFrames};
    use crate::runtime_config::Assignment;

    #[test]
    fn a_request_reads_as_it_was_written() {
        let requests = [
            Request::Hello,
            Request::Show(ShowRequest {
                what: ShowView::PfcCounters,
                switch: Some("lab".into()),
                ports: vec!["p0".into()],
            }),
            Request::Clear(ClearRequest { what: Clearable::Watermarks, switch: None }),
            Request::Set(SetRequest {
                switch: None,
                changes: vec![
                    Assignment { key: "ports.p0.rate".into(), value: Some("\"5Mbps\"\n".into()) },
                    Assignment { key: "buffer.dt.alpha".into(), value: None },
                ],
                for_ms: Some(10_000),
            }),
            Request::Reload(SwitchSelector { switch: Some("lab".into()) }),
            Request::Configuration(SwitchSelector::default()),
            Request::Differences(SwitchSelector::default()),
            Request::Capture(CaptureRequest::default()),
            Request::Capture(CaptureRequest {
                ports: vec!["p0".into()],
                classes: vec![3],
                passing: CaptureFrames::Control,
                direction: Some(CaptureDirection::In),
                drops: true,
                snaplen: Some(96),
                frames: Some(10),
                for_ms: Some(1_500),
                ..CaptureRequest::default()
            }),
        ];
        for request in requests {
            let line = request_line(&request);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(parse_request(line.trim_end().as_bytes()), Ok(request));
        }
        let short = br#"{"weir":1,"request":{"show":{"what":"interfaces"}}}"#;
        assert!(parse_request(short).is_ok(), "what may be left out is left out");
        let set = br#"{"weir":1,"request":{"set":{"changes":[{"key":"ports.p0.rate"}]}}}"#;
        assert!(matches!(parse_request(set), Ok(Request::Set(SetRequest { for_ms: None, .. }))));
    }

    #[test]
    fn malformed_requests_are_refused_with_the_reason() {
        let refused = |line: &str| parse_request(line.as_bytes()).unwrap_err();
        for (line, expected) in [
            ("", "a request is a line of JSON"),
            ("[1]", "a request is an object"),
            ("{}", "under `weir`"),
            (r#"{"weir":"1"}"#, "under `weir`"),
            (r#"{"weir":1}"#, "no `request`"),
            (r#"{"weir":1,"request":"hello","reqest":1}"#, "no `reqest`"),
            (r#"{"weir":1,"request":"halt"}"#, "unknown variant `halt`"),
            (r#"{"weir":1,"request":{"show":{"what":"weather"}}}"#, "unknown variant `weather`"),
            (r#"{"weir":1,"request":{"show":{"what":"mac","prots":[]}}}"#, "unknown field `prots`"),
            (r#"{"weir":1,"request":{"set":{"changes":[{"kee":"a"}]}}}"#, "unknown field `kee`"),
            (r#"{"weir":1,"request":{"set":{"changes":[{"key":"a"}],"for":1}}}"#, "unknown field `for`"),
            (r#"{"weir":1,"request":{"set":{"changes":[],"for_ms":-1}}}"#, "invalid value"),
        ] {
            let refusal = refused(line);
            assert!(
                refusal.kind == ErrorReplyKind::Malformed && refusal.message.contains(expected),
                "{line}: {refusal:?}"
            );
        }
        // Nested deeper than any request.
        assert_eq!(refused(&"[".repeat(REQUEST_BYTES_MAX)).kind, ErrorReplyKind::Malformed);
        // The version is checked before all other members.
        let other = refused(r#"{"weir":2,"ask":{}}"#);
        assert!(other.kind == ErrorReplyKind::Version && other.message.contains("version 1"), "{other:?}");
    }

    #[test]
    fn an_answer_of_another_version_is_a_version_error() {
        let answer: Result<Reply, ErrorReply> = Ok(Reply::Done(vec!["done".into()]));
        assert_eq!(parse_answer(answer_line(&answer).as_bytes()), Ok(answer));
        let later = br#"{"weir":7,"error":{"kind":"age","message":"too old"}}"#;
        assert_eq!(parse_answer(later), Err(ReplyError::Version(7, "too old".into())));
        assert!(matches!(parse_answer(b"HTTP/1.1 400 Bad Request"), Err(ReplyError::Malformed(_))));
    }
}
