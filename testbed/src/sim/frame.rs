//! Frames on their way, and the memory for them.

use weir_switch_core::Telemetry;
use weir_switch_core::packet::{Packet, Parsed};

use crate::host::NicFrame;
use crate::link::LinkFrame;

/// A frame between two hosts, by pointer, as an mbuf is: wires and queues hold no more than that, and what the frame says stays
/// where it is.
#[derive(Clone, Debug)]
pub(super) struct Frame(Box<NicFrame>);

/// Memory of frames that have arrived, for the next ones; the last that came back goes first, since it is in the cache.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Frame>);

impl Frame {
    #[inline]
    pub(super) fn content(&mut self) -> &mut NicFrame {
        &mut self.0
    }

    pub(super) fn says(&self) -> &NicFrame {
        &self.0
    }
}

impl Spare {
    #[inline]
    pub(super) fn frame(&mut self, content: NicFrame) -> Frame {
        match self.0.pop() {
            Some(mut frame) => {
                *frame.0 = content;
                frame
            }
            None => Frame(Box::new(content)),
        }
    }

    #[inline]
    pub(super) fn take_back(&mut self, frame: Frame) {
        self.0.push(frame);
    }
}

impl LinkFrame for Frame {
    fn is_control(&self) -> bool {
        LinkFrame::is_control(self.says())
    }

    fn dscp(&self) -> Option<u8> {
        self.says().dscp()
    }
}

impl Packet for Frame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.0.frame_bytes()
    }

    #[inline]
    fn is_control(&self) -> bool {
        Packet::is_control(&*self.0)
    }

    #[inline]
    fn parse(&self) -> Parsed {
        self.0.parse()
    }

    #[inline]
    fn mark_ce(&mut self) -> bool {
        self.0.mark_ce()
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        self.0.flow_hash()
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        self.0.wants_telemetry()
    }

    #[inline]
    fn stamp(&mut self, telemetry: &Telemetry) {
        self.0.stamp(telemetry);
    }
}
