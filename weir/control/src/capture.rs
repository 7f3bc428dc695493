//! Request for a capture, and its reply.

use serde::{Deserialize, Serialize};

/// Request for frames of one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRequest {
    /// The switch; may be left out where there is one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Names of the captured ports; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Data of these classes, and PFC frames that name one of them; all, if none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<u8>,
    /// Filter of the frames that pass.
    pub passing: CaptureFrames,
    /// Direction of the captured frames; `None` for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<CaptureDirection>,
    /// Whether dropped frames are captured.
    pub drops: bool,
    /// Maximum captured bytes of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
    /// Number of frames after which the capture ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Duration in milliseconds after which the capture ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// Frames that pass a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureFrames {
    /// All frames.
    #[default]
    All,
    /// MAC control frames.
    Control,
    /// Captures drops only.
    None,
}

/// Direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureDirection {
    /// Received by the port.
    In,
    /// Sent by the port.
    Out,
}

/// A capture that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureStarted {
    /// The switch.
    pub switch: String,
    /// The ports, which are the capture's interfaces, in their order.
    pub ports: Vec<String>,
}
