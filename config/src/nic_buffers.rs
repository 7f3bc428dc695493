//! Buffer sizes of a NIC model in front of a real host, derived from its switch.

use weir_flowctl::MessageKind;
use weir_units::{BitRate, Bytes};

use crate::{NicModelConfig, PortConfig, SwitchConfig};

/// Buffer sizes of a NIC. Frames count with their FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicBuffers {
    /// Maximum bytes of one class that wait for transmission.
    pub send: Bytes,
    /// Maximum frames of one class that wait for transmission.
    pub send_frames: u32,
    /// Maximum bytes of one lossless class that wait for the host.
    pub receive: Bytes,
    /// Maximum frames of one lossless class that wait for the host.
    pub receive_frames: u32,
    /// Maximum bytes of all other classes together.
    pub lossy: Bytes,
    /// Maximum frames of all other classes together.
    pub lossy_frames: u32,
    /// Xoff: occupancy at which a lossless class is paused.
    pub xoff: Bytes,
    /// Xon: occupancy at which a paused class resumes.
    pub xon: Bytes,
}

impl SwitchConfig {
    /// Buffer sizes of the NIC at a port; `None` for a port without a NIC.
    ///
    /// Headroom above Xoff follows the switch's rule, [`headroom_by_rule`](crate::headroom_by_rule) and C·reaction; by default the buffer
    /// also holds a burst of the switch. Under GFC and CBFC, where the peer never sends more than a limit, the buffer holds the limit and a frame.
    pub fn nic_buffers(&self, port: usize) -> Option<NicBuffers> {
        let config = &self.ports[port];
        let nic = config.nic?;
        let frame = self.frame_bytes_max();
        let after = self.nic_headroom(config);
        let burst = frame * u64::from(NicModelConfig::BURST_FRAMES);
        let xoff = nic.xoff.unwrap_or_else(|| match nic.receive_buffer {
            Some(buffer) => buffer.saturating_sub(after),
            None => NicModelConfig::XOFF_DEFAULT.max(frame * 2),
        });
        let limit = match config.flow_control.message_kind() {
            MessageKind::Nothing | MessageKind::Pfc | MessageKind::Pause => Bytes::ZERO,
            _ => {
                let given = config.flow_control.limit().and_then(|limit| limit.given);
                given.or_else(|| self.b_m_by_default(port)).map_or(Bytes::ZERO, |limit| limit + frame)
            }
        };
        let kept = (xoff + after).max(limit);
        let frames = |bytes: Bytes| (bytes.get() / NicModelConfig::FRAME_BYTES_MIN) as u32 + 1;
        let (receive, receive_frames) = match nic.receive_buffer {
            Some(buffer) => (buffer.max(limit), frames(buffer.max(limit))),
            None => {
                let most = frames(xoff + after).max((limit.get() / NicModelConfig::MEAN_FRAME_BYTES) as u32);
                (kept + burst, most + NicModelConfig::BURST_FRAMES)
            }
        };
        Some(NicBuffers {
            send: nic.send_buffer,
            send_frames: (nic.send_buffer.get() / NicModelConfig::SEND_FRAME_BYTES) as u32 + 1,
            receive,
            receive_frames,
            lossy: xoff,
            lossy_frames: frames(xoff),
            xoff,
            xon: nic.xon.unwrap_or_else(|| xoff.saturating_sub(frame * 2)),
        })
    }

    /// Maximum bytes that arrive after the NIC at a port has paused a class.
    pub fn nic_headroom(&self, port: &PortConfig) -> Bytes {
        let rate = port.rate.unwrap_or(BitRate::gbps(10));
        crate::headroom_by_rule(rate, port.delay, self.frame_bytes_max()) + rate.bytes_in(self.pfc.reaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(port: &str) -> NicBuffers {
        let text = format!(
            "[buffer]\nheadroom = \"100KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"100KB\"\n[pfc]\nreaction = \"100us\"\n\
             [[ports]]\nname = \"a\"\ntap = \"a\"\nrate = \"1Gbps\"\ndelay = \"8us\"\n{port}\n\
             [[ports]]\nname = \"b\"\ntap = \"b\"\nrate = \"1Gbps\"\n"
        );
        crate::parse("test.toml", &text).unwrap().nic_buffers(0).unwrap()
    }

    /// Maximum bytes after a PAUSE: 2 (1,000 + 1,522) + 3,840 + 12,500.
    const AFTER: u64 = 21_384;
    /// Bytes of 256 frames of maximum length.
    const BURST: u64 = 256 * 1_522;

    #[test]
    fn headroom_is_above_xoff_and_a_burst_above_that() {
        let by_default = buffers("nic = {}");
        assert_eq!((by_default.xoff, by_default.xon), (Bytes::kb(64), Bytes::new(64_000 - 2 * 1_522)));
        assert_eq!(by_default.receive.get(), 64_000 + AFTER + BURST);
        assert_eq!(by_default.receive_frames, ((64_000 + AFTER) / 64) as u32 + 1 + 256);
        assert_eq!((by_default.send, by_default.send_frames, by_default.lossy), (Bytes::kb(64), 251, Bytes::kb(64)));
    }

    #[test]
    fn a_given_buffer_is_cut_by_the_rule() {
        let given = buffers("nic = { receive_buffer = \"50KB\" }");
        assert_eq!((given.receive, given.xoff.get(), given.receive_frames), (Bytes::kb(50), 50_000 - AFTER, 782));
        let both = buffers("nic = { receive_buffer = \"50KB\", xoff = \"49KB\", xon = \"1KB\" }");
        assert_eq!((both.receive, both.xoff, both.xon), (Bytes::kb(50), Bytes::kb(49), Bytes::kb(1)));
    }

    /// Expects B_m and a frame.
    #[test]
    fn what_a_limit_lets_in_has_room() {
        let limited = buffers("nic = {}\nflow_control = { kind = \"gfc-buffer\", b_m = \"150KB\" }");
        assert_eq!(limited.receive.get(), 150_000 + 1_522 + BURST);
        let small =
            buffers("nic = { receive_buffer = \"50KB\" }\nflow_control = { kind = \"gfc-buffer\", b_m = \"150KB\" }");
        assert_eq!(small.receive.get(), 151_522, "less would lose what stages let in");
    }
}
