//! Data frames of a stream: IPv4 and UDP, with a label by which they are known when they come back.

use weir_units::{FCS_BYTES, MacAddr};
use weir_wire::rocev2::ipv4_checksum;

use crate::tester::Marking;

/// Stream and number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) stream: u32,
    pub(super) number: u32,
}

/// Label and mark of a received data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedLabel {
    pub(super) label: Label,
    /// Whether the frame is marked CE.
    pub(super) ce: bool,
}

/// Fields that all frames of a stream have.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamHeaders {
    pub(super) source: MacAddr,
    pub(super) destination: MacAddr,
    pub(super) marking: Marking,
    pub(super) ect: bool,
}

impl StreamHeaders {
    /// Writes a frame of a length, with FCS, that counts one that is not there.
    pub(super) fn write(&self, label: Label, frame_bytes: u32, frame: &mut Vec<u8>) {
        let length = (frame_bytes as usize).saturating_sub(FCS_BYTES as usize);
        frame.clear();
        frame.extend(self.destination.0);
        frame.extend(self.source.0);
        let dscp = match self.marking {
            Marking::Dscp(dscp) => dscp,
            Marking::Pcp(pcp) => {
                frame.extend(TAG);
                frame.extend((u16::from(pcp) << 13).to_be_bytes());
                0
            }
        };
        frame.extend(IPV4);
        let start = frame.len();
        let ip_bytes = (length.saturating_sub(start)).max(IP_BYTES + UDP_BYTES + LABEL_BYTES) as u16;
        frame.extend([0x45, dscp << 2 | if self.ect { ECT_0 } else { 0 }]);
        frame.extend(ip_bytes.to_be_bytes());
        // No identification, may not be fragmented, 64 hops, UDP.
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        // Addresses of 198.18.0.0/15, which RFC 2544 reserves for tests.
        frame.extend([198, 18, 0, self.source.0[5]]);
        frame.extend([198, 19, 0, self.destination.0[5]]);
        let sum = ipv4_checksum(&frame[start..]);
        frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        // The discard port; no checksum.
        for word in [u16::from(self.source.0[5]) + 49_152, 9, ip_bytes - IP_BYTES as u16, 0] {
            frame.extend(word.to_be_bytes());
        }
        frame.extend(MAGIC);
        frame.extend(label.stream.to_be_bytes());
        frame.extend(label.number.to_be_bytes());
        frame.resize(length.max(frame.len()), 0);
    }
}

/// Reads a frame; `None` unless a tester made it.
pub(super) fn read(frame: &[u8]) -> Option<ReceivedLabel> {
    let mut at = 12;
    if frame.get(at..at + 2)? == TAG {
        at += 4;
    }
    if frame.get(at..at + 2)? != IPV4 {
        return None;
    }
    let ip = frame.get(at + 2..)?;
    let payload = ip.get(IP_BYTES + UDP_BYTES..)?;
    if payload.get(..4)? != MAGIC {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    Some(ReceivedLabel { label: Label { stream: word(4)?, number: word(8)? }, ce: ip[1] & 3 == CE })
}

/// Source address of a frame.
pub(super) fn source(frame: &[u8]) -> Option<MacAddr> {
    frame.get(6..)?.first_chunk().map(|bytes| MacAddr(*bytes))
}

const TAG: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const LABEL_BYTES: usize = 12;
const MAGIC: [u8; 4] = *b"weiQ";
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(marking: Marking, ect: bool, bytes: u32) -> Vec<u8> {
        let headers = StreamHeaders {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            marking,
            ect,
        };
        let mut frame = Vec::new();
        headers.write(Label { stream: 7, number: 99 }, bytes, &mut frame);
        frame
    }

    #[test]
    fn frames_have_their_length_and_label() {
        for marking in [Marking::Dscp(46), Marking::Pcp(5)] {
            for bytes in [64, 65, 570, 1_518, 9_216] {
                let frame = frame(marking, true, bytes);
                assert_eq!(frame.len(), bytes as usize - 4);
                let expected = ReceivedLabel { label: Label { stream: 7, number: 99 }, ce: false };
                assert_eq!(read(&frame), Some(expected), "{marking:?} {bytes}");
            }
        }
    }

    /// The header of RFC 1071's kind: its sum over all words is 0xffff.
    #[test]
    fn headers_are_valid() {
        let bytes = frame(Marking::Dscp(46), true, 100);
        assert_eq!((bytes[14], bytes[15]), (0x45, 46 << 2 | 2));
        assert_eq!(ipv4_checksum(&bytes[14..34]), 0);
        assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]), 96 - 14);
        let tagged = frame(Marking::Pcp(5), false, 64);
        assert_eq!((&tagged[12..16], tagged[19]), (&[0x81, 0, 5 << 5, 0][..], 0));
    }

    #[test]
    fn marks_are_seen_and_other_frames_are_not() {
        let mut marked = frame(Marking::Dscp(3), true, 64);
        marked[15] |= 3;
        assert!(read(&marked).is_some_and(|frame| frame.ce));
        for other in [&[][..], &marked[..40], &[0; 60]] {
            assert_eq!(read(other), None);
        }
    }
}
