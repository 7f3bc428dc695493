//! What a NIC's model is made from.

use weir_flowctl::Mechanism;
use weir_units::{BitRate, Bytes, ClassSet, Span};

/// A NIC, and its link to the switch.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Rate of the link.
    pub rate: BitRate,
    /// Propagation delay of the link, one way.
    pub delay: Span,
    /// How far a late poll may catch up on rates: zero in virtual time.
    pub slack: Span,
    /// What the switch's port speaks.
    pub flow_control: Mechanism,
    /// The switch's lossless classes.
    pub lossless: ClassSet,
    /// Whether the NIC obeys the port's flow control.
    pub obeys: bool,
    /// Whether the NIC sends flow control of its own.
    pub pauses: bool,
    /// Queues that the host sends by.
    pub host_queues: usize,
    /// What frames of one class, with FCS, may take while they wait to be sent.
    pub send_buffer: Bytes,
    /// The most frames of one class that wait so.
    pub send_frames: usize,
    /// What stands between the link and the host.
    pub receive: ReceiveBuffer,
    /// How fast the host takes frames; `None` as fast as its device does.
    pub receive_rate: Option<BitRate>,
}

/// A receive buffer: a part for each lossless class, and one for all others. Frames count with their FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// What a lossless class may hold.
    pub lossless: Bytes,
    /// The most frames of one.
    pub lossless_frames: usize,
    /// What all other classes may hold together.
    pub lossy: Bytes,
    /// The most frames of theirs.
    pub lossy_frames: usize,
    /// A lossless class that holds so much is paused.
    pub xoff: Bytes,
    /// It goes on with no more than this.
    pub xon: Bytes,
}

impl ModelConfig {
    /// Frames that were read from a queue of the host and find no room, at most.
    pub const STASH_FRAMES: usize = 32;
    /// Frames on the link are reckoned to be this long at least, or wait before it.
    const LINK_FRAME_BYTES: u64 = 256;

    /// Frames that the link holds in each direction: what it brings while it is not polled for `slack`, and a burst.
    pub(crate) fn link_frames(&self) -> usize {
        let on_link = self.rate.bytes_in(self.delay + self.slack).get() / ModelConfig::LINK_FRAME_BYTES;
        on_link as usize + 2 * ModelConfig::STASH_FRAMES
    }

    /// Frames that the model may hold.
    pub fn frames_max(&self) -> usize {
        let lossless = self.lossless.len();
        let send = self.send_frames * weir_units::CLASSES + self.host_queues * ModelConfig::STASH_FRAMES;
        let receive = lossless * self.receive.lossless_frames + self.receive.lossy_frames;
        2 * self.link_frames() + send + receive
    }
}
