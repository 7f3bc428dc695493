//! Kinds of flow-control messages.

/// Kind of MAC control frame that a port sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The port sends no flow-control messages.
    Nothing,
    /// Classes to pause, in PFC frames.
    Pfc,
    /// Pause of the whole link, in PAUSE frames.
    Pause,
    /// Pauses that produce a mean rate, in PFC frames.
    Pulses,
    /// Stages in PFC frames, which do not pause.
    Stages,
    /// Queue lengths or credits, in Weir's own frames.
    LengthsOrCredits,
    /// Messages of another flow control, in [frames of its own](weir_wire::mac_control::RawControlFrame).
    Custom,
}

impl MessageKind {
    /// Whether the messages are pauses; true also for a port that sends none.
    pub fn pauses(self) -> bool {
        matches!(self, MessageKind::Nothing | MessageKind::Pfc | MessageKind::Pause | MessageKind::Pulses)
    }

    /// Whether a running port may switch to another flow control of this group. These have no state shared by both ends and no
    /// thresholds of their own.
    pub fn is_switchable(self) -> bool {
        matches!(self, MessageKind::Nothing | MessageKind::Pfc | MessageKind::Pause)
    }

    /// Whether the messages pause single classes, and the port obeys such pauses: it has PFC.
    pub fn has_pfc(self) -> bool {
        matches!(self, MessageKind::Pfc | MessageKind::Pulses)
    }

    /// Whether the messages advertise the MMU's XOFF classes: PFC and PAUSE.
    pub fn advertises_xoff(self) -> bool {
        matches!(self, MessageKind::Pfc | MessageKind::Pause)
    }
}
