//! Link layer retry: lost frames are sent again by the link itself.

use weir_units::{Bytes, Span};

/// Link layer retry of a link (LLR, UEC 1.0 §5.1), in both directions. Names are those of SONiC's profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlrPlan {
    /// Replay buffer: most bytes, without FCS, that the peer has not acknowledged. A full one stops the sender.
    pub outstanding_bytes: Bytes,
    /// Most frames that the peer has not acknowledged, up to [`LlrPlan::FRAMES_MAX`].
    pub outstanding_frames: u32,
    /// Time without progress after which a sender replays.
    pub replay_timer: Span,
    /// Replays without progress after which a sender gives up.
    pub replay_count: u32,
    /// Length of an outage from which the link counts as down.
    pub pcs_lost_timeout: Span,
    /// Longest frame of the link, without FCS.
    pub frame_bytes_max: u32,
}

impl LlrPlan {
    /// Maximum of outstanding frames: half of the numbers, which have 16 bits here (UEC: 20).
    pub const FRAMES_MAX: u32 = (1 << 15) - 1;
    /// Bytes of a message between the ends (control ordered set) on the link.
    pub const MESSAGE_BYTES: Bytes = Bytes::new(8);
    /// Least distance of two acknowledgements in bytes on the link (SAI, `CTLOS_TARGET_SPACING`).
    pub const MESSAGE_SPACING: Bytes = Bytes::new(2_048);
}
