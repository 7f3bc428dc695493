//! Configuration of the NIC model in front of a real host. [`NicBuffers`](crate::NicBuffers) holds the derived sizes.

use weir_units::{BitRate, Bytes};

/// `nic` of a port. The NIC's link has the port's `rate`, `delay` and `flow_control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicModelConfig {
    /// `send_buffer`: maximum bytes of one class that wait for transmission; beyond, the host is held back.
    pub send_buffer: Bytes,
    /// `receive_buffer`: maximum bytes of one lossless class that wait for the host; `None` is the default.
    pub receive_buffer: Option<Bytes>,
    /// `xoff`: occupancy at which a lossless class is paused at the switch; `None` is the default.
    pub xoff: Option<Bytes>,
    /// `xon`: occupancy at which a paused class resumes; `None` is the default.
    pub xon: Option<Bytes>,
    /// `receive_rate`: maximum rate at which the host takes frames; `None` is the rate of its device.
    pub receive_rate: Option<BitRate>,
    /// `rx_pause`: whether the NIC obeys the port's flow control.
    pub obeys: bool,
    /// `tx_pause`: whether the NIC sends flow control of its own.
    pub pauses: bool,
    /// `core`: CPU that runs the NIC; `None` is the CPU that transmits on the port.
    pub core: Option<u32>,
}

impl NicModelConfig {
    /// Default of `xoff` without `receive_buffer`.
    pub(crate) const XOFF_DEFAULT: Bytes = Bytes::kb(64);
    pub(crate) const BUFFER_MAX: Bytes = Bytes::mb(16);
    /// Frames that the switch may send at once after a late poll: the capacity of the link to the NIC. By default the receive buffer holds
    /// them above its headroom.
    pub const BURST_FRAMES: u32 = 256;
    /// Minimum length that a waiting frame counts as, so that packet memory is bounded.
    pub(crate) const SEND_FRAME_BYTES: u64 = 256;
    /// Assumed mean length of frames under GFC and CBFC.
    pub(crate) const MEAN_FRAME_BYTES: u64 = 512;
    pub(crate) const FRAME_BYTES_MIN: u64 = 64;
}
