//! Configuration of a NIC model.

use weir_flowctl::PortFlowControl;
use weir_units::{BitRate, Bytes, ClassSet, Span};

/// Configuration of a NIC and its link to the switch.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Rate of the link.
    pub rate: BitRate,
    /// Propagation delay of the link, one way.
    pub delay: Span,
    /// Longest lateness of a poll that rates may catch up on: zero in virtual time.
    pub slack: Span,
    /// Flow control of the switch's port.
    pub flow_control: PortFlowControl,
    /// Lossless classes of the switch.
    pub lossless: ClassSet,
    /// Whether the NIC obeys the port's flow control.
    pub obeys: bool,
    /// Whether the NIC sends flow control of its own.
    pub pauses: bool,
    /// Number of the host's transmit queues.
    pub host_queues: usize,
    /// Send-buffer size of a class, in bytes of frames with FCS.
    pub send_buffer: Bytes,
    /// Send-buffer size of a class, in frames.
    pub send_frames: usize,
    /// Receive buffer between the link and the host.
    pub receive: ReceiveBuffer,
    /// Rate at which the host takes frames; `None` for its device's rate.
    pub receive_rate: Option<BitRate>,
}

/// Receive buffer: a share for each lossless class, and one for all others. Frames count with their FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Size of a lossless class's share, in bytes.
    pub lossless: Bytes,
    /// Size of a lossless class's share, in frames.
    pub lossless_frames: usize,
    /// Size of the share of all other classes, in bytes.
    pub lossy: Bytes,
    /// Size of the share of all other classes, in frames.
    pub lossy_frames: usize,
    /// Occupancy from which a lossless class is paused.
    pub xoff: Bytes,
    /// Occupancy up to which a paused class resumes.
    pub xon: Bytes,
}

impl ModelConfig {
    /// Limit on frames that were read from a host queue and find no room.
    pub const STASH_FRAMES: usize = 32;
    /// Least length assumed for frames on the link or waiting for it.
    const LINK_FRAME_BYTES: u64 = 256;

    /// Returns the link's capacity in frames, each direction: arrivals during `delay` and a `slack` without polls,
    /// and two bursts.
    pub(crate) fn link_frames(&self) -> usize {
        let on_link = self.rate.bytes_in(self.delay + self.slack).get() / ModelConfig::LINK_FRAME_BYTES;
        on_link as usize + 2 * ModelConfig::STASH_FRAMES
    }

    /// Returns the number of frames that the model may hold.
    pub fn frames_max(&self) -> usize {
        let lossless = self.lossless.len();
        let send = self.send_frames * weir_units::CLASSES + self.host_queues * ModelConfig::STASH_FRAMES;
        let receive = lossless * self.receive.lossless_frames + self.receive.lossy_frames;
        2 * self.link_frames() + send + receive
    }
}
