//! The NIC that Weir puts in front of a real host: what a file says of it. The sizes that follow: [`NicBuffers`](crate::NicBuffers).

use weir_units::{BitRate, Bytes};

/// `nic` of a port. Its link has the port's `rate` and `delay`, and speaks the port's `flow_control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicModelConfig {
    /// `send_buffer`: what frames of one class may take in the NIC while they wait to be sent. The host is held back then.
    pub send_buffer: Bytes,
    /// `receive_buffer`: what frames of one lossless class may take until the host has them; `None` is the default.
    pub receive_buffer: Option<Bytes>,
    /// `xoff`: a lossless class that holds so much is paused at the switch; `None` is the default.
    pub xoff: Option<Bytes>,
    /// `xon`: a paused class that holds no more goes on; `None` is the default.
    pub xon: Option<Bytes>,
    /// `receive_rate`: how fast the host takes frames at most; `None` is as fast as its device does.
    pub receive_rate: Option<BitRate>,
    /// `obeys`: whether the NIC obeys the port's flow control.
    pub obeys: bool,
    /// `pauses`: whether the NIC sends flow control of its own.
    pub pauses: bool,
    /// `core`: the CPU that runs it; `None` is the one that transmits on the port.
    pub core: Option<u32>,
}

impl NicModelConfig {
    /// `send_buffer` where nothing is said.
    pub(crate) const SEND_BUFFER_DEFAULT: Bytes = Bytes::kb(64);
    /// `xoff` where neither it nor `receive_buffer` is given.
    pub(crate) const XOFF_DEFAULT: Bytes = Bytes::kb(64);
    /// No buffer of a NIC is larger.
    pub(crate) const BUFFER_MAX: Bytes = Bytes::mb(16);
    /// Frames that the switch may send at once after a poll that came late: as many as the link to the NIC takes. The receive buffer
    /// has room for them above its headroom by default.
    pub const BURST_FRAMES: u32 = 256;
    /// Waiting frames are counted as this long at least, so that packet memory is bounded.
    pub(crate) const SEND_FRAME_BYTES: u64 = 256;
    /// Frames that GFC and CBFC let in are taken for this long in the mean.
    pub(crate) const MEAN_FRAME_BYTES: u64 = 512;
    /// The smallest frame.
    pub(crate) const FRAME_BYTES_MIN: u64 = 64;
}

impl Default for NicModelConfig {
    /// As `nic = {}` gives it.
    fn default() -> NicModelConfig {
        NicModelConfig {
            send_buffer: NicModelConfig::SEND_BUFFER_DEFAULT,
            receive_buffer: None,
            xoff: None,
            xon: None,
            receive_rate: None,
            obeys: true,
            pauses: true,
            core: None,
        }
    }
}
