//! Captures: pcap and pcapng.

use std::sync::LazyLock;

use weir_trace::{Capture, FrameSelection};

use super::{bounded, write};
use crate::CaseOutcome;
use crate::input::FuzzInput;
use crate::mutation::SeedFiles;

/// A pcap file, and a pcapng file with an enhanced and a simple packet.
static CAPTURES: LazyLock<SeedFiles> = LazyLock::new(|| SeedFiles::new(vec![pcap(), pcapng()]));

/// Lengths of the frames, on the wire and in the file.
const FRAMES: [(u32, u32); 4] = [(60, 60), (64, 64), (1_514, 96), (60, 60)];

/// Returns a frame with an IPv4 header.
fn frame(length: u32) -> Vec<u8> {
    let mut frame =
        [&[2; 12][..], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
    frame.resize(length as usize, 0);
    frame
}

fn pcap() -> Vec<u8> {
    let mut file = Vec::new();
    let mut number = |number: u32| file.extend(number.to_le_bytes());
    [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 1].into_iter().for_each(&mut number);
    for (second, (wire, stored)) in (1..).zip(FRAMES) {
        [second, 5, stored, wire].into_iter().for_each(|number| file.extend(number.to_le_bytes()));
        file.extend(frame(stored));
    }
    file
}

fn pcapng() -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, content: &[u8]| {
        let padded = content.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend(content);
        file.resize(file.len() + padded - content.len(), 0);
        file.extend(length.to_le_bytes());
    };
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    block(0x0a0d_0d0a, &numbers(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    // Ethernet, with a resolution of nanoseconds.
    block(1, &numbers(&[1, 0, 1 << 16 | 9, 9, 0]));
    block(6, &[numbers(&[0, 0, 7, 60, 60]), frame(60), numbers(&[4 << 16 | 2, 1, 0])].concat());
    block(3, &[numbers(&[60]), frame(60)].concat());
    block(6, &[numbers(&[0, 0, 9, 96, 1_514]), frame(96)].concat());
    file
}

/// Reads a capture.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(bytes: &[u8]) -> CaseOutcome {
    let mut input = FuzzInput::new(bytes);
    let kind = input.byte();
    let selection = FrameSelection {
        with_mac_control: kind & 1 == 1,
        headers_suffice: kind & 2 == 2,
        interface: (kind & 12 == 12).then_some(0),
        frame_bytes_max: 9_018,
        memory_bytes_max: 16 << 20,
        ..FrameSelection::default()
    };
    let content = CAPTURES.draw(&mut input);
    let file = tempfile::NamedTempFile::new().expect("a file for captures");
    write(file.path(), &content);
    bounded(|| match Capture::read(file.path(), &selection) {
        Ok(capture) => {
            assert!(capture.frames().is_sorted_by_key(|frame| frame.at) && capture.first() <= capture.last());
            let stored: usize = capture.frames().iter().map(|frame| capture.bytes(frame).len()).sum();
            // Short frames are padded.
            assert!(stored <= content.len() * 60, "{stored} B of frames in a file of {} B", content.len());
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    })
}
