//! Capture files that a port replays without end. DPDK's driver copies such a file into mbufs of the packet pool when it starts, one
//! for each frame, and keeps them: the pool must have that many more, and room for the longest frame in one.

use std::fs::File;
use std::io::{self, Read, Seek};

use pcap_file::PcapError;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use weir_config::{Device, SwitchConfig};

/// The most frames of a file that is replayed without end: 4.5 GB of packet memory at the usual MTU.
pub(crate) const FRAMES_MAX: u64 = 2_000_000;

/// Size of a capture file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayFileSize {
    pub frames: u64,
    /// Length of the longest frame, as it was captured: without FCS.
    pub frame_bytes_max: usize,
}

impl ReplayFileSize {
    /// Reads through a file, pcap or pcapng. It ends where a frame can't be read, as it does for libpcap.
    ///
    /// # Errors
    /// The file can't be read, or is no capture file.
    pub(crate) fn read(path: &str) -> io::Result<ReplayFileSize> {
        let mut file = File::open(path)?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic)?;
        file.rewind()?;
        if magic == PCAPNG { ReplayFileSize::read_pcapng(file) } else { ReplayFileSize::read_pcap(file) }
    }

    fn read_pcap(file: File) -> io::Result<ReplayFileSize> {
        let (mut reader, mut replay) = (PcapReader::new(file).map_err(no_capture)?, ReplayFileSize::default());
        while let Some(Ok(packet)) = reader.next_raw_packet() {
            replay.add(packet.data.len());
        }
        Ok(replay)
    }

    fn read_pcapng(file: File) -> io::Result<ReplayFileSize> {
        let (mut reader, mut replay) = (PcapNgReader::new(file).map_err(no_capture)?, ReplayFileSize::default());
        while let Some(Ok(block)) = reader.next_block() {
            match block {
                Block::EnhancedPacket(packet) => replay.add(packet.data.len()),
                Block::SimplePacket(packet) => replay.add(packet.data.len()),
                Block::Packet(packet) => replay.add(packet.data.len()),
                _ => {}
            }
        }
        Ok(replay)
    }

    fn add(&mut self, frame_bytes: usize) {
        self.frames += 1;
        self.frame_bytes_max = self.frame_bytes_max.max(frame_bytes);
    }
}

/// Frames that ports of these switches replay without end. A file that can't be read counts 0: [`check_machine`](crate::check_machine)
/// refuses it.
pub(crate) fn replayed(switches: &[SwitchConfig]) -> u64 {
    let devices = switches.iter().flat_map(|switch| &switch.ports).map(|port| &port.device);
    let files = devices.filter_map(|device| match device {
        Device::Pcap { rx: Some(file), infinite: true, .. } => Some(file),
        _ => None,
    });
    files.map(|file| ReplayFileSize::read(file).unwrap_or_default().frames.min(FRAMES_MAX)).sum()
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

    #[test]
    fn frames_are_counted_and_the_longest_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcap");
        let path = file.to_str().unwrap();
        write(&file, &[60, 9_014, 61]);
        assert_eq!(ReplayFileSize::read(path).unwrap(), ReplayFileSize { frames: 3, frame_bytes_max: 9_014 });
        // The last frame is cut off.
        let contents = std::fs::read(&file).unwrap();
        std::fs::write(&file, &contents[..contents.len() - 1]).unwrap();
        assert_eq!(ReplayFileSize::read(path).unwrap().frames, 2);
        write(&file, &[]);
        assert_eq!(ReplayFileSize::read(path).unwrap(), ReplayFileSize::default());
        std::fs::write(&file, b"no capture file at all, and long enough").unwrap();
        assert!(ReplayFileSize::read(path).is_err());
        std::fs::write(&file, b"").unwrap();
        assert!(ReplayFileSize::read(path).is_err());
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
        let replay = ReplayFileSize::read(file.to_str().unwrap()).unwrap();
        assert_eq!(replay.frames, 2);
        assert!((60..=64).contains(&replay.frame_bytes_max), "{replay:?}");
    }
}
