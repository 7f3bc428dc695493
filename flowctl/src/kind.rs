//! What a file says of a port's flow control: its kind, and the settings of that kind.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Doc, Named, Table};
use weir_units::{BitRate, Bytes, Span};

use crate::{ControlledPort, Description, Mechanism, Tells};

/// A flow control that files choose by its name, the `kind` of `[ports.flow_control]`. It stands in
/// [`FLOW_CONTROLS`](crate::FLOW_CONTROLS).
///
/// Three things make one: the kind, which reads a port's table; its [`Settings`], what that port's file says; and a
/// [`Protocol`](crate::Protocol), made of the settings for the port's rate and buffer, which makes both sides of the port.
///
/// Its [gauges](Named::gauges) are what the upstream side shows of each lossless class, with the values of
/// [`Upstream::gauges`](crate::Upstream::gauges). Rates need none: they have a column of their own.
pub trait FlowControlKind: Named + Debug {
    /// Reads what a port's table gives. Where the port gives a bare word the table has no keys. Keys that are not among
    /// [`Named::keys`] have been refused.
    fn read(&self, table: &Table<'_>) -> FlowControl;
}

/// Which flow control a port speaks, as its file says; only one can stand on a link. All but PAUSE hold for the port's lossless
/// classes. It answers as its [`Settings`] do.
#[derive(Clone, Debug)]
pub struct FlowControl(Arc<dyn Settings>);

impl FlowControl {
    /// A flow control with these settings.
    pub fn new(settings: impl Settings) -> FlowControl {
        FlowControl(Arc::new(settings))
    }

    /// The settings, if they are of this type.
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

/// What a port's file says of its flow control, and what follows from that.
pub trait Settings: Any + Debug + Send + Sync {
    /// The word that files have for it.
    fn kind(&self) -> &'static str;

    /// What people call it, for reports.
    fn name(&self) -> &'static str;

    /// What its messages tell.
    fn tells(&self) -> Tells;

    /// The length that a lossless ingress queue of the port never passes; `None` where Xoff and headroom say when a queue is full.
    fn limit(&self) -> Option<Limit> {
        None
    }

    /// Whether something is reckoned from the port's rate, so that the file must give one.
    fn needs_rate(&self) -> bool {
        self.limit().is_some()
    }

    /// The unit that both ends count frames in, if they do: the buffer's cells must divide it.
    fn block(&self) -> Option<Bytes> {
        None
    }

    /// Notes values that do not go together, or not with the port's rate. Called once a port that is no clone, with each value
    /// within its range.
    fn check(&self, _port: &PortRules<'_>) {}

    /// What the port speaks at this rate, with this buffer. Clones speak what their port does.
    ///
    /// # Errors
    /// A value that breaks what the flow control promises.
    fn at(&self, port: &ControlledPort) -> Result<Mechanism, Refusal>;

    /// τ that the thresholds are made for; `None` where there are none.
    fn feedback_delay(&self, _port: &ControlledPort) -> Option<Span> {
        None
    }

    /// The closed form, for `weir check`: thresholds with their bounds, and what messages take of the link. `None` if there is nothing
    /// to say. Asked only where [`Settings::at`] refuses nothing.
    fn describe(&self, _port: &ControlledPort) -> Option<Description> {
        None
    }

    /// Settings that are legal but doubtful, for `weir check`: a sentence each.
    fn doubts(&self, _port: &ControlledPort) -> Vec<String> {
        Vec::new()
    }

    /// What follows where the peer says nothing for a second; `None` where that is no news.
    fn without_messages(&self) -> Option<&'static str> {
        None
    }

    /// How lossless frames could find no room at the port, and what to look at.
    fn overrun(&self) -> (&'static str, &'static str) {
        HEADROOM_VIOLATED
    }
}

/// [`Settings::overrun`] where pauses are what should have kept frames away.
pub(crate) const HEADROOM_VIOLATED: (&str, &str) =
    ("headroom violated", "does every peer obey PFC, and is delay right?");

/// The length that a queue never passes: B_m, or CBFC's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its key.
    pub key: &'static str,
    /// As configured; `None` is what the buffer keeps for a queue less a frame.
    pub given: Option<Bytes>,
    /// The length from which the sender slows down, as configured, with its key: below the limit.
    pub threshold: Option<(&'static str, Bytes)>,
    /// Whether the file declares that frames may be lost; `None` where it can't.
    pub is_unsafe: Option<bool>,
}

/// A port while its file is checked.
#[derive(Debug)]
pub struct PortRules<'d> {
    /// The file.
    pub doc: &'d Doc,
    /// The port's path in it: `ports[3]`.
    pub path: String,
    /// C, if the file gives it.
    pub rate: Option<BitRate>,
}

impl PortRules<'_> {
    /// The path of a key of its flow control.
    pub fn key(&self, key: &str) -> String {
        format!("{}.flow_control.{key}", self.path)
    }
}

/// Why a port's flow control can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key that is to blame.
    pub key: &'static str,
    /// The error, as a sentence.
    pub message: String,
    /// What to write instead.
    pub help: String,
}
