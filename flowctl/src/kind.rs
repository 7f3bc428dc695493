//! Flow control of a port in a configuration file: its kind, and the configuration of that kind.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Doc, Plugin, Table};
use weir_units::{BitRate, Bytes, Span};

use crate::{Description, FlowControlContext, MessageKind, PortFlowControl};

/// Kind of flow control, chosen by name as the `kind` of `[ports.flow_control]` from [`FLOW_CONTROLS`](crate::FLOW_CONTROLS).
///
/// A kind parses a port's table into a [`FlowControlConfig`], which builds a [`FlowControl`](crate::FlowControl) for the port's rate and
/// buffer, which creates both sides of the port.
///
/// Its [gauges](Plugin::gauges) belong to the receiver's lossless classes;
/// [`FlowControlReceiver::gauges`](crate::FlowControlReceiver::gauges) returns their values. Rates need no gauge, as they have their own
/// column.
pub trait FlowControlKind: Plugin + Debug {
    /// Parses a port's table. The table has no keys where the port gives a bare word. Keys outside [`Plugin::keys`] are rejected
    /// earlier.
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice;
}

/// Flow control configured for a port, at most one per link. All kinds but PAUSE apply to the port's lossless classes.
/// Dereferences to its [`FlowControlConfig`].
#[derive(Clone, Debug)]
pub struct FlowControlChoice(Arc<dyn FlowControlConfig>);

impl FlowControlChoice {
    /// Wraps the configuration of a flow control.
    pub fn new(config: impl FlowControlConfig) -> FlowControlChoice {
        FlowControlChoice(Arc::new(config))
    }

    /// Returns the configuration if it has type `S`.
    pub fn downcast<S: FlowControlConfig>(&self) -> Option<&S> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl Deref for FlowControlChoice {
    type Target = dyn FlowControlConfig;

    fn deref(&self) -> &(dyn FlowControlConfig + 'static) {
        &*self.0
    }
}

/// Configured flow control of a port, and the properties that follow.
pub trait FlowControlConfig: Any + Debug + Send + Sync {
    /// Returns the kind's name in files.
    fn kind(&self) -> &'static str;

    /// Returns the display name, for reports.
    fn label(&self) -> &'static str;

    /// Returns the kind of messages that the port sends.
    fn message_kind(&self) -> MessageKind;

    /// Returns the length that a lossless ingress queue never exceeds; `None` where Xoff and headroom bound the queue.
    fn limit(&self) -> Option<QueueLimit> {
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
    fn check(&self, _port: &PortCheck<'_>) {}

    /// Builds the flow control for the port's rate and buffer. Clones share their port's.
    ///
    /// # Errors
    /// A value that breaks the flow control's guarantee.
    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection>;

    /// Returns τ that the thresholds are made for; `None` without thresholds.
    fn feedback_delay(&self, _port: &FlowControlContext) -> Option<Span> {
        None
    }

    /// Returns the longest time after which a message is repeated, at this rate; `None` where it is not, or expires as a PAUSE does.
    fn repetition(&self, _rate: BitRate) -> Option<Span> {
        None
    }

    /// Returns the values that both ends of a link must have in common, each with its key in the file. Called only where
    /// [`FlowControlConfig::build`] succeeds.
    fn common_values(&self, _port: &FlowControlContext) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Describes the closed form for `weir check`: thresholds with their bounds, and the messages' share of the link. `None` if
    /// there is nothing to describe. Called only where [`FlowControlConfig::build`] succeeds.
    fn describe(&self, _port: &FlowControlContext) -> Option<Description> {
        None
    }

    /// Returns warnings on legal but doubtful settings for `weir check`, a sentence each.
    fn warnings(&self, _port: &FlowControlContext) -> Vec<String> {
        Vec::new()
    }

    /// Returns the effect of a peer that sends no message for a second; `None` where this is normal.
    fn silence_warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns the likely cause of lossless frames dropped for lack of buffer, and a question to check.
    fn loss_hint(&self) -> (&'static str, &'static str) {
        HEADROOM_VIOLATED
    }
}

/// Value of [`FlowControlConfig::loss_hint`] where pauses should have prevented the loss.
pub(crate) const HEADROOM_VIOLATED: (&str, &str) =
    ("headroom violated", "does every peer obey PFC, and is delay right?");

/// Queue length that is never exceeded: B_m, or CBFC's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
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
pub struct PortCheck<'d> {
    /// Configuration file.
    pub doc: &'d Doc,
    /// Path of the port in the file: `ports[3]`.
    pub path: String,
    /// C, if the file has it.
    pub rate: Option<BitRate>,
}

impl PortCheck<'_> {
    /// Returns the path of a key of the port's flow control.
    pub fn key(&self, key: &str) -> String {
        format!("{}.flow_control.{key}", self.path)
    }
}

/// Rejection of a port's flow control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRejection {
    /// Key at fault.
    pub key: &'static str,
    /// Error message, a sentence.
    pub message: String,
    /// Hint on the fix.
    pub help: String,
}
