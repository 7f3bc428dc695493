//! Frames of one class in a capture of a running switch.

use std::io::{BufRead, BufReader, Read};

use weir_control::capture::CaptureDirection;
use weir_flowctl::Quantum;
use weir_units::{BitRate, Bytes, Class, FCS_BYTES};
use weir_wire::mac_control::ControlFrame;

use super::watch::{FrameRole, TimedFrame};
use crate::capture::{CopyError, PACKET, STATISTICS, next_block, number, option};

/// Captured bytes of each frame, enough for a whole control frame.
pub(super) const SNAPLEN: u32 = 64;
/// Most frames of one pause.
const FRAMES_MAX: usize = 1 << 20;

/// Result of a capture.
#[derive(Debug, Default)]
pub(super) struct CapturedFrames {
    /// Frames in the order of their times.
    pub(super) frames: Vec<TimedFrame>,
    /// Frames that are missing.
    pub(super) missed: u64,
    /// Whether the capture was complete.
    pub(super) is_complete: bool,
}

/// Reads a capture to its end. `class` is watched, on a link of this rate.
///
/// # Errors
/// If the connection breaks, or the data are no capture.
pub(super) fn read(
    stream: &mut BufReader<impl Read>,
    class: Class,
    rate: BitRate,
) -> Result<CapturedFrames, CopyError> {
    let mut seen = CapturedFrames::default();
    let mut block = Vec::new();
    while !stream.fill_buf().map_err(CopyError::Read)?.is_empty() {
        match next_block(stream, &mut block)? {
            PACKET => {
                let frame =
                    packet(&block, class, rate).ok_or_else(|| CopyError::Malformed("a frame is cut".to_owned()))?;
                if seen.frames.len() < FRAMES_MAX {
                    seen.frames.push(frame);
                } else {
                    seen.missed += 1;
                }
            }
            STATISTICS => {
                const DROPPED: u16 = 5;
                seen.missed += option(&block[20..], DROPPED).and_then(number).unwrap_or(0);
                seen.is_complete = true;
            }
            _ => {}
        }
    }
    seen.frames.sort_by_key(|frame| frame.at_ns);
    Ok(seen)
}

/// Parses a frame of a big-endian pcapng block with nanoseconds; `None` unless it is data or a PAUSE of the class.
fn packet(block: &[u8], class: Class, rate: BitRate) -> Option<TimedFrame> {
    const FLAGS: u16 = 2;
    let word = |at: usize| Some(u32::from_be_bytes(*block.get(at..)?.first_chunk()?));
    let at_ns = u64::from(word(12)?) << 32 | u64::from(word(16)?);
    let (kept, length) = (word(20)? as usize, word(24)?);
    let bytes = block.get(28..28 + kept)?;
    let options = block.get(28 + kept.next_multiple_of(4)..)?;
    let flags = u32::from_be_bytes(*option(options, FLAGS)?.first_chunk()?);
    let direction = if flags & 3 == 1 { CaptureDirection::In } else { CaptureDirection::Out };
    let pause = |quanta: u16| match quanta {
        0 => FrameRole::Resume,
        quanta => FrameRole::Pause(Quantum::for_rate(rate).times(quanta)),
    };
    let role = match ControlFrame::decode(bytes) {
        Ok(ControlFrame::Pfc(pfc)) if pfc.enabled.contains(class) => pause(pfc.times[class.index()]),
        Ok(ControlFrame::Pause(quanta)) => pause(quanta),
        _ if ControlFrame::is_control(bytes) => FrameRole::Other,
        _ => FrameRole::Data(Bytes::new(u64::from(length) + FCS_BYTES)),
    };
    Some(TimedFrame { at_ns, direction, role })
}

#[cfg(test)]
mod tests {
    use weir_units::{CLASSES, MacAddr};
    use weir_wire::mac_control::PfcFrame;

    use super::*;

    const RATE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);

    /// A block as `weir capture` gets it.
    fn block(at_ns: u64, flags: u32, bytes: &[u8], length: u32) -> Vec<u8> {
        let mut contents = Vec::new();
        for word in [0, (at_ns >> 32) as u32, at_ns as u32, bytes.len() as u32, length] {
            contents.extend(word.to_be_bytes());
        }
        contents.extend(bytes);
        contents.resize(contents.len().next_multiple_of(4), 0);
        // Options: a comment of 5 bytes, the flags, the end.
        contents.extend([&[0, 1, 0, 5][..], b"class\0\0\0", &[0, 2, 0, 4], &flags.to_be_bytes(), &[0; 4]].concat());
        let size = (contents.len() as u32 + 12).to_be_bytes();
        [&PACKET.to_be_bytes()[..], &size, &contents, &size].concat()
    }

    fn pfc(quanta: u16) -> Vec<u8> {
        let mut times = [0; CLASSES];
        times[3] = quanta;
        ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times }).encode(MacAddr([2; 6])).to_vec()
    }

    #[test]
    fn frames_are_what_they_are_to_the_class() {
        const AT: u64 = 1_764_000_000_123_456_789;
        let other = PfcFrame { enabled: Class::new(4).alone(), times: [9; CLASSES] };
        let other = ControlFrame::Pfc(other).encode(MacAddr([2; 6]));
        let blocks = [
            block(AT + 5, 1, &[7; 61], 1_496),
            block(AT, 2, &pfc(u16::MAX), 60),
            block(AT + 9, 2, &pfc(0), 60),
            block(AT + 10, 2, &other, 60),
            block(AT + 11, 1, &ControlFrame::Pause(10).encode(MacAddr([2; 6])), 60),
        ];
        let seen = read(&mut BufReader::new(&blocks.concat()[..]), CLASS, RATE).unwrap();
        let longest = Quantum::for_rate(RATE).times(u16::MAX);
        let expected = [
            (0, CaptureDirection::Out, FrameRole::Pause(longest)),
            (5, CaptureDirection::In, FrameRole::Data(Bytes::new(1_500))),
            (9, CaptureDirection::Out, FrameRole::Resume),
            (10, CaptureDirection::Out, FrameRole::Other),
            (11, CaptureDirection::In, FrameRole::Pause(Quantum::for_rate(RATE).times(10))),
        ];
        let expected = expected.map(|(after, direction, role)| TimedFrame { at_ns: AT + after, direction, role });
        assert_eq!(seen.frames, expected);
        assert!(!seen.is_complete && seen.missed == 0, "no statistics");
    }

    #[test]
    fn a_truncated_frame_is_an_error() {
        let mut cut = block(0, 1, &[7; 60], 60);
        // The captured length exceeds the block.
        cut[20..24].copy_from_slice(&9_999u32.to_be_bytes());
        let read = read(&mut BufReader::new(&cut[..]), CLASS, RATE);
        assert!(matches!(read, Err(CopyError::Malformed(_))), "{read:?}");
    }
}
