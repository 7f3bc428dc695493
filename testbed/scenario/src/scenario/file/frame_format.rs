//! `frames` of `[nic]`: lengths of frames.

use weir_nic::host::FrameSizes;

/// Frame format, which sets the frames' lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFormat {
    RoceV2,
    Ns3,
    /// Frames of `Ns3` whose stamps count in the length.
    Ns3Stamped,
}

impl FrameFormat {
    /// Returns the lengths of frames with this MTU.
    pub(super) fn sizes(self, mtu: u16) -> FrameSizes {
        match self {
            FrameFormat::RoceV2 => FrameSizes::rocev2(mtu),
            FrameFormat::Ns3 => FrameSizes::ns3(mtu),
            FrameFormat::Ns3Stamped => FrameSizes::ns3_stamped(mtu),
        }
    }
}
