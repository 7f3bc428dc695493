//! Test frames, from synthetic stations: UDP over IPv4, and mixed formats.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_units::{CLASSES, Class, FCS_BYTES, MacAddr};
use weir_wire::mac_control::{ControlFrame, CreditAccount, CreditFrame};
use weir_wire::rocev2::ipv4_checksum;

/// Length of the Ethernet, IPv4 and UDP headers.
pub(crate) const HEADER_BYTES: usize = 14 + 20 + 8;
/// Least number of frames in a round of a capture file, each of another flow. The file is replayed endlessly.
const FRAMES: u16 = 64;

/// Station with a MAC and an IP address. IP addresses are in 198.18.0.0/15, as those of DPDK's example l3fwd; 256 stations of a port have
/// different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    pub(crate) port: u8,
    pub(crate) number: u16,
}

impl Station {
    pub(crate) fn mac(self) -> MacAddr {
        let [high, low] = self.number.to_be_bytes();
        MacAddr([2, 0, 0, high, low, self.port])
    }

    fn ip(self) -> [u8; 4] {
        [198, 18, self.port, self.number as u8]
    }
}

/// Returns the headers of a frame of this length (without FCS), with RoCEv2's UDP destination port.
pub(crate) fn headers(from: Station, to: Station, dscp: u8, source_port: u16, length: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..6].copy_from_slice(&to.mac().0);
    header[6..12].copy_from_slice(&from.mac().0);
    header[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2]);
    header[16..18].copy_from_slice(&(length - 14).to_be_bytes());
    // Time to live, UDP.
    header[22..24].copy_from_slice(&[64, 17]);
    header[26..30].copy_from_slice(&from.ip());
    header[30..34].copy_from_slice(&to.ip());
    let checksum = ipv4_checksum(&header[14..34]);
    header[24..26].copy_from_slice(&checksum.to_be_bytes());
    header[34..36].copy_from_slice(&source_port.to_be_bytes());
    header[36..38].copy_from_slice(&4791u16.to_be_bytes());
    // The UDP checksum stays 0: no checksum.
    header[38..40].copy_from_slice(&(length - 34).to_be_bytes());
    header
}

/// Formats of test frames after the MAC addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formats {
    /// IPv4.
    Ipv4,
    /// IPv4, IPv6, tagged IPv4 and tagged IPv6, in turn. Each format has one frame per destination and class.
    Mixed,
}

/// Stations that send test frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderKind {
    /// The port's stations.
    Known,
    /// 2,048 further stations, in turn, in every second frame, and the stations in the others. A forwarding table without room for them
    /// finds each one new.
    NewInHalf,
    /// A station of all ports, in one of 64 frames: it moves with each such frame.
    OneMoving,
}

impl SenderKind {
    /// Returns the number of frames of a round, with as many stations.
    pub(crate) fn frames(self, stations: u16) -> u16 {
        match self {
            SenderKind::NewInHalf => 2 * NEW_SENDERS,
            SenderKind::Known | SenderKind::OneMoving => stations.next_multiple_of(FRAMES),
        }
    }
}

/// Contents of a capture file: frames from the stations of one port to those of others.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Source port of the frames.
    pub from: u8,
    /// Destination ports, in turn. Each is used for one frame per DSCP.
    pub to: &'a [u8],
    /// Frame length with FCS, at least 64 B.
    pub frame_bytes: u16,
    /// DSCPs of the frames, in turn.
    pub dscps: &'a [u8],
    /// Number of stations at each port, used in turn.
    pub stations: u16,
    /// Formats of the frames.
    pub formats: Formats,
    /// Senders of the frames.
    pub senders: SenderKind,
    /// Number of rounds of 64 frames before a CBFC message with credit for the whole advertised buffer. `None` sends no
    /// message.
    pub credit_after: Option<u16>,
    /// Whether IPv4 packets are ECN-capable: ECT(0), as RoCEv2's.
    pub is_ecn_capable: bool,
}

impl Traffic<'_> {
    /// Writes a new capture file: a frame of each of 64 flows, or of as many as there are stations, in whole bursts; or [`Traffic::credit_after`] such rounds and a credit message.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn write_capture(&self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let length = self.frame_bytes - FCS_BYTES as u16;
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
            file.extend(word.to_le_bytes());
        }
        let mut add = |bytes: &[u8], length: u16| {
            for word in [0, 0, u32::from(length), u32::from(length)] {
                file.extend(word.to_le_bytes());
            }
            file.extend(bytes);
            file.extend(std::iter::repeat_n(0, usize::from(length) - bytes.len()));
        };
        let frames = self.senders.frames(self.stations);
        for flow in (0..self.credit_after.unwrap_or(1)).flat_map(|_| 0..frames) {
            let number = if self.senders == SenderKind::NewInHalf { flow / 2 } else { flow } % self.stations;
            // DSCPs change fastest, then destinations, then formats, so that all combinations occur.
            let (classes, turn) = (self.dscps.len(), usize::from(flow));
            let (dscp, to) = (self.dscps[turn % classes], self.to[turn / classes % self.to.len()]);
            let format = turn / (classes * self.to.len());
            let [mut from, mut to] = [self.from, to].map(|port| Station { port, number });
            match self.senders {
                SenderKind::NewInHalf if flow % 2 == 1 => from.number = self.stations + flow,
                SenderKind::OneMoving if flow % FRAMES == 0 => (from.port, to.number) = (MOVING, 1 % self.stations),
                _ => {}
            }
            let mut ipv4 = headers(from, to, dscp, 1_000 + flow, length);
            if self.is_ecn_capable {
                ipv4[15] |= 0b10;
                ipv4[24..26].fill(0);
                let checksum = ipv4_checksum(&ipv4[14..34]);
                ipv4[24..26].copy_from_slice(&checksum.to_be_bytes());
            }
            match (self.formats, format % 4) {
                (Formats::Ipv4, _) | (Formats::Mixed, 0) => add(&ipv4, length),
                (Formats::Mixed, 1) => add(&ipv6(&ipv4, dscp, length), length),
                (Formats::Mixed, 2) => add(&tagged(&headers(from, to, dscp, 1_000 + flow, length - TAG)), length),
                (Formats::Mixed, _) => add(&tagged(&ipv6(&ipv4, dscp, length - TAG)), length),
            }
        }
        if self.credit_after.is_some() {
            let station = Station { port: self.from, number: 0 };
            let frame = all_credit().encode(station.mac());
            add(&frame, frame.len() as u16);
        }
        let path = directory.join(format!("{name}.pcap"));
        fs::write(&path, file)?;
        Ok(path)
    }
}

/// Port number in the address of a [moving](SenderKind::OneMoving) station.
const MOVING: u8 = u8::MAX;
/// Stations of a port that are [new](SenderKind::NewInHalf).
const NEW_SENDERS: u16 = 2_048;

/// Returns Ethernet and IPv6 headers between the stations of a frame, without UDP: the shortest tagged frame has no room for it.
fn ipv6(ipv4: &[u8; HEADER_BYTES], dscp: u8, length: u16) -> [u8; 14 + 40] {
    const NO_NEXT_HEADER: u8 = 59;
    let mut header = [0; 14 + 40];
    header[..12].copy_from_slice(&ipv4[..12]);
    header[12..16].copy_from_slice(&[0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6]);
    header[18..20].copy_from_slice(&(length - 54).to_be_bytes());
    // Hop limit; addresses in the benchmarking network (RFC 5180), derived from those of IPv4.
    header[20..22].copy_from_slice(&[NO_NEXT_HEADER, 64]);
    for (at, address) in [(22, &ipv4[26..30]), (38, &ipv4[30..34])] {
        header[at..][..4].copy_from_slice(&[0x20, 0x01, 0, 2]);
        header[at + 12..][..4].copy_from_slice(address);
    }
    header
}

/// Length of a VLAN tag.
const TAG: u16 = 4;

/// Inserts a VLAN tag into a frame's first bytes. The switch classifies the frame by its IP header.
fn tagged(frame: &[u8]) -> Vec<u8> {
    let tag = [0x81, 0, 0, 1];
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// Returns a message with the largest credit limit: enough for 137 GB, bounded by the receiver's buffer at any time. The credit is
/// for the lossless class of the preset `roce`.
fn all_credit() -> ControlFrame {
    let last = i32::MAX as u32;
    let account = CreditAccount::Buffer { blocks: last };
    let mut limits = [0; CLASSES];
    limits[LOSSLESS.index()] = last;
    ControlFrame::Credit(CreditFrame { enabled: LOSSLESS.alone(), limits, account })
}

/// Lossless class of the preset `roce`.
pub(crate) const LOSSLESS: Class = Class::new(3);

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use weir_wire::ethernet::{self, Parsed};

    use super::*;

    #[test]
    fn headers_are_those_of_a_valid_packet() {
        let (from, to) = (Station { port: 1, number: 7 }, Station { port: 2, number: 7 });
        let header = headers(from, to, 26, 1_003, 60);
        assert_eq!((ethernet::source(&header), header[15] >> 2), (from.mac(), 26));
        assert_eq!(u16::from_be_bytes([header[16], header[17]]), 46);
        assert_eq!(u16::from_be_bytes([header[38], header[39]]), 26);
        // A header with its checksum in it sums up to all ones.
        assert_eq!(ipv4_checksum(&header[14..34]), 0);
    }

    #[test]
    fn a_capture_has_frames_of_all_flows_and_classes() {
        let directory = tempfile::tempdir().unwrap();
        let traffic = Traffic {
            from: 0,
            to: &[1],
            frame_bytes: 512,
            dscps: &[26, 0],
            stations: 4,
            formats: Formats::Ipv4,
            senders: SenderKind::Known,
            credit_after: Some(2),
            is_ecn_capable: false,
        };
        let file = fs::read(traffic.write_capture(directory.path(), "a").unwrap()).unwrap();
        assert_eq!(file.len(), 24 + 2 * 64 * (16 + 508) + 16 + 60);
        assert_eq!(ControlFrame::decode(&file[file.len() - 60..]), Ok(all_credit()));
        let frame = |n: usize| &file[24 + n * 524 + 16..][..508];
        assert_eq!((0..4).map(|n| frame(n)[15] >> 2).collect::<Vec<_>>(), [26, 0, 26, 0]);
        assert_eq!((0..6).map(|n| frame(n)[4]).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1]);
        assert_ne!(frame(0)[34..36], frame(63)[34..36]);
        assert_eq!(frame(5), frame(64 + 5));
    }

    #[test]
    fn new_and_moving_senders_only_send() {
        let directory = tempfile::tempdir().unwrap();
        let addresses = |senders| {
            let traffic = Traffic {
                from: 0,
                to: &[1],
                frame_bytes: 64,
                dscps: &[26],
                stations: 64,
                formats: Formats::Ipv4,
                senders,
                credit_after: None,
                is_ecn_capable: false,
            };
            let file = fs::read(traffic.write_capture(directory.path(), "a").unwrap()).unwrap();
            let frames = file[24..].chunks_exact(16 + 60).map(|frame| &frame[16..]);
            let address = |bytes: &[u8]| bytes.first_chunk().map(|bytes| MacAddr(*bytes)).unwrap();
            frames.map(|frame| (address(&frame[6..]), address(frame))).collect::<Vec<_>>()
        };
        let station = |port, number| Station { port, number }.mac();
        let moving = addresses(SenderKind::OneMoving);
        assert_eq!((moving.len(), moving[0]), (64, (station(255, 0), station(1, 1))));
        assert_eq!(moving[63], (station(0, 63), station(1, 63)));
        let new = addresses(SenderKind::NewInHalf);
        assert_eq!(new[2..4], [(station(0, 1), station(1, 1)), (station(0, 64 + 3), station(1, 1))]);
        assert_eq!(new.iter().map(|(from, _)| from).collect::<BTreeSet<_>>().len(), 64 + 2_048);
    }

    /// The switch parses equally many frames of each class, destination and format.
    #[test]
    fn mixed_frames_are_of_all_kinds() {
        let directory = tempfile::tempdir().unwrap();
        let traffic = Traffic {
            from: 0,
            to: &[1, 2, 3, 4],
            frame_bytes: 64,
            dscps: &[26, 0],
            stations: 64,
            formats: Formats::Mixed,
            senders: SenderKind::Known,
            credit_after: None,
            is_ecn_capable: false,
        };
        let file = fs::read(traffic.write_capture(directory.path(), "a").unwrap()).unwrap();
        assert_eq!(file.len(), 24 + 64 * (16 + 60));
        let mut seen = BTreeMap::new();
        for n in 0..64 {
            let frame = &file[24 + n * 76 + 16..][..60];
            let (Parsed::Data(headers), glance) = (ethernet::parse(frame), ethernet::parse_fast(frame)) else {
                panic!("frame {n} is no data")
            };
            assert!(glance.is_plain, "{n}");
            assert_eq!(Some(glance.dscp), headers.dscp);
            assert_eq!((headers.destination.0[4], ethernet::source(frame).0[4]), (n as u8, n as u8));
            let is_tagged = frame[12..14] == [0x81, 0];
            let ip = if is_tagged { &frame[18..] } else { &frame[14..] };
            *seen.entry((headers.dscp, headers.destination.0[5], ip[0] >> 4, is_tagged)).or_insert(0) += 1;
        }
        assert_eq!((seen.len(), seen.values().all(|frames| *frames == 2)), (2 * 4 * 4, true), "{seen:?}");
    }
}
