//! Flow control of a port in a configuration file: its kind, and the settings of that kind.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Doc, Named, Table};
use weir_units::{BitRate, Bytes, Span};

use crate::{ControlledPort, Description, Mechanism, Tells};

/// Kind of flow control, chosen by name as the `kind` of `[ports.flow_control]` from [`FLOW_CONTROLS`](crate::FLOW_CONTROLS).
///
/// A kind reads a port's table into [`Settings`]. The settings make a [`Protocol`](crate::Protocol) for the port's rate and
/// buffer, and the protocol makes both sides of the port.
///
/// Its [gauges](Named::gauges) belong to the upstream side's lossless classes; [`Upstream::gauges`](crate::Upstream::gauges)
/// returns their values. Rates need no gauge, as they have their own column.
pub trait FlowControlKind: Named + Debug {
    /// Reads a port's table. The table has no keys where the port gives a bare word. Keys outside [`Named::keys`] are rejected
    /// earlier.
    fn read(&self, table: &Table<'_>) -> FlowControl;
}

/// Flow control configured for a port, at most one per link. All kinds but PAUSE apply to the port's lossless classes.
/// Dereferences to its [`Settings`].
#[derive(Clone, Debug)]
pub struct FlowControl(Arc<dyn Settings>);

impl FlowControl {
    /// Wraps the settings of a flow control.
    pub fn new(settings: impl Settings) -> FlowControl {
        FlowControl(Arc::new(settings))
    }

    /// Returns the settings if they have type `S`.
    pub fn downcast<S: Settings>(&self) -> Option<&S> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl Deref for FlowControl {
    type Target = dyn Settings;

    fn deref(&self) -> &(dyn Settings + 'static) {
        &*self.0
    }
}

/// Configured flow control of a port, and the properties that follow.
pub trait Settings: Any + Debug + Send + Sync {
    /// Returns the kind's name in files.
    fn kind(&self) -> &'static str;

    /// Returns the display name, for reports.
    fn name(&self) -> &'static str;

    /// Returns the kind of messages that the port sends.
    fn tells(&self) -> Tells;

    /// Returns the length that a lossless ingress queue never passes; `None` where Xoff and headroom bound the queue.
    fn limit(&self) -> Option<Limit> {
        None
    }

    /// Whether a parameter depends on the port's rate, so that the file must give the rate.
    fn needs_rate(&self) -> bool {
        self.limit().is_some()
    }

    /// Returns the unit in which both ends count frames, if any. The buffer's cell must divide it.
    fn block(&self) -> Option<Bytes> {
        None
    }

    /// Reports values that conflict with each other or with the port's rate. Called once for a port that is no clone, with each
    /// value within its range.
    fn check(&self, _port: &PortRules<'_>) {}

    /// Builds the mechanism for the port's rate and buffer. Clones share their port's.
    ///
    /// # Errors
    /// A value that breaks the flow control's guarantee.
    fn at(&self, port: &ControlledPort) -> Result<Mechanism, Refusal>;

    /// Returns τ that the thresholds are made for; `None` without thresholds.
    fn feedback_delay(&self, _port: &ControlledPort) -> Option<Span> {
        None
    }

    /// Describes the closed form for `weir check`: thresholds with their bounds, and the messages' share of the link. `None` if
    /// there is nothing to describe. Called only where [`Settings::at`] succeeds.
    fn describe(&self, _port: &ControlledPort) -> Option<Description> {
        None
    }

    /// Returns warnings on legal but doubtful settings for `weir check`, a sentence each.
    fn doubts(&self, _port: &ControlledPort) -> Vec<String> {
        Vec::new()
    }

    /// Returns the effect of a peer that sends no message for a second; `None` where this is normal.
    fn without_messages(&self) -> Option<&'static str> {
        None
    }

    /// Returns the likely cause of lossless frames dropped for lack of buffer, and a question to check.
    fn overrun(&self) -> (&'static str, &'static str) {
        HEADROOM_VIOLATED
    }
}

/// Value of [`Settings::overrun`] where pauses should have prevented the loss.
pub(crate) const HEADROOM_VIOLATED: (&str, &str) =
    ("headroom violated", "does every peer obey PFC, and is delay right?");

/// Queue length that is never passed: B_m, or CBFC's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Key in the file.
    pub key: &'static str,
    /// Configured length; `None` means the buffer's share of a queue less a frame.
    pub given: Option<Bytes>,
    /// Configured length from which the sender slows down, with its key. Below the limit.
    pub threshold: Option<(&'static str, Bytes)>,
    /// Whether the file permits lossy thresholds; `None` if it has no such key.
    pub is_unsafe: Option<bool>,
}

/// Port under check, with its file.
#[derive(Debug)]
pub struct PortRules<'d> {
    /// Configuration file.
    pub doc: &'d Doc,
    /// Path of the port in the file: `ports[3]`.
    pub path: String,
    /// C, if the file has it.
    pub rate: Option<BitRate>,
}

impl PortRules<'_> {
    /// Returns the path of a key of the port's flow control.
    pub fn key(&self, key: &str) -> String {
        format!("{}.flow_control.{key}", self.path)
    }
}

/// Rejection of a port's flow control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Key at fault.
    pub key: &'static str,
    /// Error message, a sentence.
    pub message: String,
    /// Hint on the fix.
    pub help: String,
}
