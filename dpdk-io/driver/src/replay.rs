//! Capture files that a port replays without end, from memory.

use std::fs::File;
use std::io::{self, Read, Seek};

use pcap_file::PcapError;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

/// The most frames of a file that is replayed without end: 3 GB of memory with frames of 1,518 B.
pub(crate) const FRAMES_MAX: u64 = 2_000_000;

/// Reads a file, pcap or pcapng, and passes on each frame as it was captured: without FCS. It ends where a frame can't be read, as it
/// does for libpcap.
///
/// # Errors
/// The file can't be read, or is no capture file.
pub(crate) fn read(path: &str, on_frame: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic)?;
    file.rewind()?;
    if magic == PCAPNG { read_pcapng(file, on_frame) } else { read_pcap(file, on_frame) }
}

fn read_pcap(file: File, on_frame: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut reader = PcapReader::new(file).map_err(no_capture)?;
    while let Some(Ok(packet)) = reader.next_raw_packet() {
        on_frame(&packet.data);
    }
    Ok(())
}

fn read_pcapng(file: File, on_frame: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut reader = PcapNgReader::new(file).map_err(no_capture)?;
    while let Some(Ok(block)) = reader.next_block() {
        match block {
            Block::EnhancedPacket(packet) => on_frame(&packet.data),
            Block::SimplePacket(packet) => on_frame(&packet.data),
            Block::Packet(packet) => on_frame(&packet.data),
            _ => {}
        }
    }
    Ok(())
}

fn no_capture(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
    }
}

/// Magic number of a pcapng file; a pcap file begins with one of four others.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    /// A pcap file of frames of these lengths.
    pub(crate) fn write(path: &Path, lengths: &[usize]) {
        let mut bytes = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
        for length in lengths {
            bytes.extend([0; 8]);
            bytes.extend((*length as u32).to_le_bytes().repeat(2));
            bytes.resize(bytes.len() + length, 7);
        }
        std::fs::write(path, bytes).unwrap();
    }

    fn lengths(path: &str) -> io::Result<Vec<usize>> {
        let mut lengths = Vec::new();
        read(path, &mut |frame| lengths.push(frame.len()))?;
        Ok(lengths)
    }

    #[test]
    fn all_frames_of_a_file_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcap");
        let path = file.to_str().unwrap();
        write(&file, &[60, 9_014, 61]);
        assert_eq!(lengths(path).unwrap(), [60, 9_014, 61]);
        // The last frame is cut off.
        let contents = std::fs::read(&file).unwrap();
        std::fs::write(&file, &contents[..contents.len() - 1]).unwrap();
        assert_eq!(lengths(path).unwrap(), [60, 9_014]);
        write(&file, &[]);
        assert_eq!(lengths(path).unwrap(), [0; 0]);
        std::fs::write(&file, b"no capture file at all, and long enough").unwrap();
        assert!(lengths(path).is_err());
        std::fs::write(&file, b"").unwrap();
        assert!(lengths(path).is_err());
    }

    /// A section, an interface, and a frame of 60 B that is enhanced and one of 61 B that is simple.
    #[test]
    fn pcapng_is_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcapng");
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len().next_multiple_of(4) as u32 + 12).to_le_bytes();
            let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
            [&kind.to_le_bytes(), &length, body, &padding, &length].concat()
        };
        let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let interface = [1, 0, 0, 0, 0, 0, 4, 0];
        let enhanced = [&[0; 12][..], &60u32.to_le_bytes(), &60u32.to_le_bytes(), &[7; 60]].concat();
        let simple = [&61u32.to_le_bytes()[..], &[7; 61]].concat();
        let blocks =
            [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &enhanced), block(3, &simple)].concat();
        std::fs::write(&file, blocks).unwrap();
        let lengths = lengths(file.to_str().unwrap()).unwrap();
        assert!(lengths.len() == 2 && lengths.iter().all(|length| (60..=64).contains(length)), "{lengths:?}");
    }
}
