//! What messages are about.

/// What a port's messages tell its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// It sends none.
    Nothing,
    /// Which classes are to pause, in PFC frames.
    Pfc,
    /// That the link is to pause, in PAUSE frames.
    Pause,
    /// Pauses that make a mean rate, in PFC frames.
    Pulses,
    /// Stages, in PFC frames: they are no pauses.
    Stages,
    /// What its queues hold or have room for: lengths or credits, in Weir's own frames.
    Room,
    /// What only this flow control knows, in [frames of its own](weir_wire::mac_control::OwnFrame).
    Own,
}

impl Tells {
    /// Whether these are pauses, or would be if the port spoke.
    pub fn pauses(self) -> bool {
        matches!(self, Tells::Nothing | Tells::Pfc | Tells::Pause | Tells::Pulses)
    }

    /// Whether a port that tells these may turn to another flow control that does, while it runs: those have no state that both ends
    /// count on, and no thresholds of their own.
    pub fn may_change(self) -> bool {
        matches!(self, Tells::Nothing | Tells::Pfc | Tells::Pause)
    }

    /// Whether these say which classes the MMU wants paused: PFC and PAUSE.
    pub fn off_classes(self) -> bool {
        matches!(self, Tells::Pfc | Tells::Pause)
    }
}
