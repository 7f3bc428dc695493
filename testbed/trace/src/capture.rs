//! Capture files: pcap with micro- and nanoseconds, and pcapng with each interface's resolution.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};
use weir_config::{ReplayDirection, ReplayPace};
use weir_units::Span;
use weir_wire::mac_control::ControlFrame;

use crate::{cooked, headers};

/// Capture time of a frame in picoseconds since 1970, at the file's resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureTime(pub i128);

/// Capture file in memory.
#[derive(Clone, Debug)]
pub struct Capture {
    path: PathBuf,
    frames: Vec<TraceFrame>,
    bytes: Vec<u8>,
    skipped: SkippedFrames,
}

/// Frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFrame {
    /// Number in the file, from 1, as in Wireshark.
    pub number: u64,
    /// Capture time.
    pub at: CaptureTime,
    /// Direction at the capturing host, if the file has it.
    pub direction: Option<ReplayDirection>,
    /// Length without FCS, in bytes. It exceeds the stored bytes if the file has only the headers ([`FrameSelection::headers_suffice`]).
    pub length: usize,
    /// Range of the frame's bytes, without FCS, in the capture's bytes.
    pub(crate) bytes: Range<usize>,
}

/// Selection of a file's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSelection {
    /// Direction of the selected frames; frames of unknown direction are selected, too.
    pub direction: Option<ReplayDirection>,
    /// Interface of a pcapng file, from 0, whose frames are selected.
    pub interface: Option<u32>,
    /// Whether PAUSE, PFC and other MAC control frames are selected. They belong to the link on which they were captured.
    pub with_mac_control: bool,
    /// Whether truncated frames (snapshot length) are selected if the file has the headers up to RoCEv2's BTH or TCP's. Truncated frames
    /// can't be sent.
    pub headers_suffice: bool,
    /// Maximum length of a frame that can be sent, without FCS.
    pub frame_bytes_max: usize,
    /// Maximum memory of the frames, in bytes.
    pub memory_bytes_max: u64,
}

/// Frames of a file that were left out or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedFrames {
    /// Frames of the other direction, or of other interfaces.
    pub others: u64,
    /// MAC control frames.
    pub mac_control: u64,
    /// Truncated frames (snapshot length) without the headers needed.
    pub truncated: RejectedFrames,
    /// Frames longer than the maximum.
    pub too_long: RejectedFrames,
    /// Frames shorter than an Ethernet header.
    pub too_short: RejectedFrames,
    /// Selected frames that were shorter than Ethernet's minimum, and were padded with zeros.
    pub padded: u64,
    /// Selected frames that are in the file after a later one, by more than [`STEP_BACK_MAX`].
    pub out_of_order: u64,
    /// Selected frames that are after a later one by at most that much: they keep their place, with the later one's time.
    pub stepped_back: u64,
    /// Selected frames without a time: simple packets of pcapng.
    pub without_time: u64,
    /// Whether the file ends in the middle of a frame.
    pub file_is_cut: bool,
    /// Frames of interfaces that the file does not define.
    pub undefined_interface: u64,
    /// Frames of links that are not Ethernet, and the link type of the first one. Cooked ones count only if they are to be sent.
    pub other_links: Option<(u64, DataLink)>,
}

/// Frames that can't be sent: their number, and the first few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedFrames {
    /// Number of frames.
    pub frames: u64,
    /// Numbers of the first few, and their lengths.
    pub first: Vec<(u64, usize)>,
}

/// Error in reading a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file does not exist or can't be read.
    #[error("{path}: can't be read: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The file has another format.
    #[error("{path}: no capture file ({what}): pcap and pcapng can be read; of others `editcap -F pcapng` makes one")]
    NoCapture {
        /// The file.
        path: String,
        /// Reason.
        what: String,
    },
    /// The link type is not Ethernet.
    #[error("{path}: frames of link type {link:?}, and none of Ethernet; capture on an Ethernet interface")]
    NoEthernet {
        /// The file.
        path: String,
        /// Link type of the frames.
        link: DataLink,
    },
    /// The selection has no frame.
    #[error("{path}: no usable frame: {what}")]
    Nothing {
        /// The file.
        path: String,
        /// Description of the frames that were left out.
        what: String,
    },
    /// The pace needs times, and frames have none.
    #[error(
        "{path}: {frames} frames have no time (simple packets of pcapng); send them at a rate, or as fast as can be"
    )]
    NoTimes {
        /// The file.
        path: String,
        /// Number of frames without a time.
        frames: u64,
    },
    /// The frames take more memory than the limit.
    #[error("{path}: takes more than {mb} MB of memory; cut it into pieces with `editcap -c FRAMES`")]
    TooLarge {
        /// The file.
        path: String,
        /// The limit.
        mb: u64,
    },
}

/// Largest step back of a clock that is disciplined, or read by several receive queues: the file has a flow's frames in order. Larger
/// steps are those of concatenated files.
pub const STEP_BACK_MAX: Span = Span::from_micros(100);
/// Shortest frame without FCS.
const FRAME_BYTES_MIN: usize = 60;
const ETHERNET_BYTES: usize = 14;
const FCS_BYTES: usize = 4;
/// Maximum number of frames that a message names.
const NAMED: usize = 5;
const PICOS_A_SECOND: i128 = 1_000_000_000_000;
/// Magic number of pcapng; pcap files have one of four others.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// Reader that reports its progress.
struct ProgressReader<'t> {
    file: File,
    on_progress: &'t mut dyn FnMut(u64),
}

impl Read for ProgressReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // The caller asks for large reads; progress is reported more often.
        let piece = to.len().min(PIECE);
        let bytes = self.file.read(&mut to[..piece])?;
        (self.on_progress)(bytes as u64);
        Ok(bytes)
    }
}

impl Capture {
    /// Reads the selected frames of a file, in the order of their times. Like libpcap, it stops at a frame that can't be read.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn read(path: &Path, selection: &FrameSelection) -> Result<Capture, CaptureError> {
        Capture::read_with_progress(path, selection, &mut |_| {})
    }

    /// Reads like [`Capture::read`], and calls `on_progress` with the size in bytes of each read.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn read_with_progress(
        path: &Path,
        selection: &FrameSelection,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<Capture, CaptureError> {
        let name = || path.display().to_string();
        let failed = |error| CaptureError::Io { path: name(), error };
        let mut file = File::open(path).map_err(failed)?;
        let mut magic = [0; 4];
        match file.read_exact(&mut magic) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(CaptureError::NoCapture { path: name(), what: "it has less than 4 bytes".to_owned() });
            }
            other => other.map_err(failed)?,
        }
        file.rewind().map_err(failed)?;
        let mut capture =
            Capture { path: path.to_owned(), frames: Vec::new(), bytes: Vec::new(), skipped: SkippedFrames::default() };
        let file = BufReader::with_capacity(PIECE, ProgressReader { file, on_progress });
        if magic == PCAPNG {
            capture.read_pcapng(file, selection)?
        } else {
            capture.read_pcap(file, selection)?
        }
        if capture.frames.is_empty() {
            if let Some((_, link)) = capture.skipped.other_links {
                return Err(CaptureError::NoEthernet { path: name(), link });
            }
            return Err(CaptureError::Nothing { path: name(), what: capture.skipped.describe() });
        }
        capture.put_in_order();
        Ok(capture)
    }

    /// Sorts the frames by time. A frame whose time is a small step back stays in its place, with the time of the frame before.
    fn put_in_order(&mut self) {
        let mut before = self.frames[0].at;
        for frame in &mut self.frames {
            let back = before.0 - frame.at.0;
            if (1..=i128::from(STEP_BACK_MAX.as_picos())).contains(&back) {
                self.skipped.stepped_back += 1;
                frame.at = before;
            }
            self.skipped.out_of_order += u64::from(frame.at < before);
            before = frame.at;
        }
        self.frames.sort_by_key(|frame| frame.at);
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Frames, in the order of their times; at least one.
    pub fn frames(&self) -> &[TraceFrame] {
        &self.frames
    }

    /// Bytes of a frame, without FCS.
    pub fn bytes(&self, frame: &TraceFrame) -> &[u8] {
        &self.bytes[frame.bytes.clone()]
    }

    /// Calls `change` with each frame's bytes.
    pub fn each_mut(&mut self, mut change: impl FnMut(&mut [u8])) {
        for frame in &self.frames {
            change(&mut self.bytes[frame.bytes.clone()]);
        }
    }

    /// Returns the frames that were left out.
    pub fn skipped(&self) -> &SkippedFrames {
        &self.skipped
    }

    /// Returns the error of a capture that can't be replayed at this pace, because frames have no times.
    pub fn lacks_times(&self, pace: ReplayPace) -> Option<CaptureError> {
        let frames = self.skipped.without_time;
        let path = || self.path.display().to_string();
        (frames > 0 && matches!(pace, ReplayPace::Speed(_))).then(|| CaptureError::NoTimes { path: path(), frames })
    }

    /// Capture time of the first frame.
    pub fn first(&self) -> CaptureTime {
        self.frames[0].at
    }

    /// Capture time of the last frame.
    pub fn last(&self) -> CaptureTime {
        self.frames[self.frames.len() - 1].at
    }

    /// Returns frames and bytes, for a schedule.
    pub(crate) fn into_bytes(self) -> (Vec<TraceFrame>, Vec<u8>) {
        (self.frames, self.bytes)
    }

    fn read_pcap(
        &mut self,
        file: BufReader<ProgressReader<'_>>,
        selection: &FrameSelection,
    ) -> Result<(), CaptureError> {
        let mut reader = PcapReader::new(file).map_err(|error| self.no_capture(error))?;
        let header = reader.header();
        let link = CapturedLink::of_pcap(header.datalink);
        let picos = match header.ts_resolution {
            TsResolution::MicroSecond => 1_000_000,
            TsResolution::NanoSecond => 1_000,
        };
        let mut number = 0;
        while let Some(packet) = reader.next_raw_packet() {
            let Ok(packet) = packet else {
                self.skipped.file_is_cut = true;
                break;
            };
            number += 1;
            let at = CaptureTime(i128::from(packet.ts_sec) * PICOS_A_SECOND + i128::from(packet.ts_frac) * picos);
            let record = PacketRecord { number, at: Some(at), direction: None, interface: 0 };
            self.add_of_link(&link, record, &packet.data, packet.orig_len, selection)?;
        }
        Ok(())
    }

    fn read_pcapng(
        &mut self,
        file: BufReader<ProgressReader<'_>>,
        selection: &FrameSelection,
    ) -> Result<(), CaptureError> {
        let mut reader = PcapNgReader::new(file).map_err(|error| self.no_capture(error))?;
        // Interfaces are numbered from 0 in each section of the file.
        let (mut interfaces, mut section) = (Vec::<Interface>::new(), 0);
        let mut number = 0;
        while let Some(block) = reader.next_block() {
            let Ok(block) = block else {
                self.skipped.file_is_cut = true;
                break;
            };
            match block {
                Block::SectionHeader(_) => section = interfaces.len(),
                Block::InterfaceDescription(described) => interfaces.push(Interface::new(&described)),
                Block::EnhancedPacket(packet) => {
                    number += 1;
                    let place = section + packet.interface_id as usize;
                    let direction = packet.options.iter().find_map(|option| match option {
                        EnhancedPacketOption::Flags(flags) => direction(*flags),
                        _ => None,
                    });
                    let record = PacketRecord { number, at: None, direction, interface: place as u32 };
                    // The crate takes all units for nanoseconds.
                    let of = (interfaces.get(place), Some(packet.timestamp.as_nanos()));
                    self.add_of_interface(of, record, &packet.data, packet.original_len, selection)?;
                }
                Block::SimplePacket(packet) => {
                    number += 1;
                    // The block is padded; the padding's length is known only if the frame is whole.
                    let data = &packet.data[..packet.data.len().min(packet.original_len as usize)];
                    let record = PacketRecord { number, at: None, direction: None, interface: section as u32 };
                    let of = (interfaces.get(section), None);
                    self.add_of_interface(of, record, data, packet.original_len, selection)?;
                }
                Block::Packet(packet) => {
                    number += 1;
                    let place = section + usize::from(packet.interface_id);
                    let record = PacketRecord { number, at: None, direction: None, interface: place as u32 };
                    let of = (interfaces.get(place), Some(u128::from(packet.timestamp)));
                    self.add_of_interface(of, record, &packet.data, packet.original_len, selection)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a frame of a pcapng file's interface, if the file defines it, at a time in the interface's units.
    fn add_of_interface(
        &mut self,
        (interface, units): (Option<&Interface>, Option<u128>),
        record: PacketRecord,
        data: &[u8],
        original: u32,
        selection: &FrameSelection,
    ) -> Result<(), CaptureError> {
        let Some(interface) = interface else {
            self.skipped.undefined_interface += 1;
            return Ok(());
        };
        let record = PacketRecord { at: units.map(|units| interface.capture_time(units)), ..record };
        self.add_of_link(&interface.link, record, data, original, selection)
    }

    /// Adds a frame as it is on a link; a cooked one gets an Ethernet header if headers suffice.
    fn add_of_link(
        &mut self,
        link: &CapturedLink,
        record: PacketRecord,
        data: &[u8],
        original: u32,
        selection: &FrameSelection,
    ) -> Result<(), CaptureError> {
        let (data, original) = link.without_fcs(data, original);
        if link.kind == DataLink::ETHERNET {
            return self.add(&record, data, original, selection);
        }
        match cooked::layout(link.kind) {
            Some(layout) if selection.headers_suffice && data.len() < layout.bytes => {
                self.skipped.too_short.add(record.number, data.len());
                Ok(())
            }
            Some(layout) if selection.headers_suffice => {
                let frame = layout.ethernet(data);
                let original = (original + frame.len()).saturating_sub(data.len());
                let record = PacketRecord { direction: record.direction.or(layout.direction(data)), ..record };
                self.add(&record, &frame, original, selection)
            }
            _ => {
                self.skipped.other_links.get_or_insert((0, link.kind)).0 += 1;
                Ok(())
            }
        }
    }

    /// Adds an Ethernet frame, or counts the reason why not. `original` is its length on the link, without FCS if the file's frames have
    /// one.
    fn add(
        &mut self,
        record: &PacketRecord,
        data: &[u8],
        original: usize,
        selection: &FrameSelection,
    ) -> Result<(), CaptureError> {
        let skipped = &mut self.skipped;
        let is_other_direction =
            selection.direction.is_some() && record.direction.is_some() && selection.direction != record.direction;
        if is_other_direction || selection.interface.is_some_and(|interface| interface != record.interface) {
            skipped.others += 1;
            return Ok(());
        }
        if !selection.with_mac_control && ControlFrame::is_control(data) {
            skipped.mac_control += 1;
            return Ok(());
        }
        // Some tools capture frames without FCS, but count it in the length.
        let is_cut = original > data.len() && original - data.len() != FCS_BYTES;
        if is_cut && !(selection.headers_suffice && headers::has_required_headers(data, original)) {
            skipped.truncated.add(record.number, original);
            return Ok(());
        }
        if data.len() < ETHERNET_BYTES {
            skipped.too_short.add(record.number, data.len());
            return Ok(());
        }
        let length = if is_cut { original } else { data.len() };
        if length > selection.frame_bytes_max {
            skipped.too_long.add(record.number, length);
            return Ok(());
        }
        // Only a whole frame is padded: headers alone stay as they are.
        let stored = if is_cut { data.len() } else { data.len().max(FRAME_BYTES_MIN) };
        let taken = (self.bytes.len() + stored) as u64 + ((self.frames.len() + 1) * size_of::<TraceFrame>()) as u64;
        if taken > selection.memory_bytes_max {
            let path = self.path.display().to_string();
            return Err(CaptureError::TooLarge { path, mb: selection.memory_bytes_max / 1_000_000 });
        }
        skipped.padded += u64::from(stored > data.len());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.bytes.resize(start + stored, 0);
        skipped.without_time += u64::from(record.at.is_none());
        // A frame without a time has that of the frame before.
        let at = record.at.unwrap_or_else(|| self.frames.last().map_or(CaptureTime::default(), |frame| frame.at));
        let (number, direction) = (record.number, record.direction);
        self.frames.push(TraceFrame {
            number,
            at,
            direction,
            length: length.max(FRAME_BYTES_MIN),
            bytes: start..start + stored,
        });
        Ok(())
    }

    fn no_capture(&self, error: PcapError) -> CaptureError {
        let path = self.path.display().to_string();
        match error {
            PcapError::IoError(error) => CaptureError::Io { path, error },
            error => CaptureError::NoCapture { path, what: error.to_string() },
        }
    }
}

/// A frame's record in the file, without its bytes.
struct PacketRecord {
    number: u64,
    at: Option<CaptureTime>,
    direction: Option<ReplayDirection>,
    interface: u32,
}

/// Link on which frames were captured.
#[derive(Clone, Copy, Debug)]
struct CapturedLink {
    kind: DataLink,
    /// Bytes of FCS that frames end with.
    fcs_bytes: usize,
}

/// An interface of a pcapng file.
struct Interface {
    link: CapturedLink,
    /// Picoseconds of a unit, as numerator and denominator.
    picos: (i128, i128),
    offset: i128,
}

impl CapturedLink {
    /// Splits a pcap file's link type: bits 0 to 15 are the type; if bit 26 is set, bits 28 to 31 are the FCS's length in words of 16 bits
    /// (draft-ietf-opsawg-pcap, 4).
    fn of_pcap(written: DataLink) -> CapturedLink {
        let bits = u32::from(written);
        let fcs_bytes = if bits & 1 << 26 != 0 { 2 * (bits >> 28) as usize } else { 0 };
        CapturedLink { kind: DataLink::from(bits & 0xffff), fcs_bytes }
    }

    /// Returns a frame's bytes and its length on the link, both without FCS.
    fn without_fcs<'d>(&self, data: &'d [u8], original: u32) -> (&'d [u8], usize) {
        let original = original as usize;
        let length = if self.fcs_bytes == FCS_BYTES { original.saturating_sub(FCS_BYTES) } else { original };
        (&data[..data.len().min(length)], length)
    }
}

impl Interface {
    fn new(described: &InterfaceDescriptionBlock<'_>) -> Interface {
        // Default: microseconds.
        let (mut picos, mut offset, mut fcs_bytes) = ((1_000_000, 1), 0, 0);
        for option in &described.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(resolution) => picos = picos_of(*resolution),
                // The option is a signed number of seconds.
                InterfaceDescriptionOption::IfTsOffset(seconds) => {
                    offset = i128::from(*seconds as i64) * PICOS_A_SECOND;
                }
                InterfaceDescriptionOption::IfFcsLen(bits) => fcs_bytes = usize::from(*bits) / 8,
                _ => {}
            }
        }
        Interface { link: CapturedLink { kind: described.linktype, fcs_bytes }, picos, offset }
    }

    fn capture_time(&self, units: u128) -> CaptureTime {
        CaptureTime(units as i128 * self.picos.0 / self.picos.1 + self.offset)
    }
}

/// Picoseconds of a unit, as a fraction. The option's highest bit selects a power of 2 or of 10.
fn picos_of(resolution: u8) -> (i128, i128) {
    let power = u32::from(resolution & 0x7f);
    if resolution & 0x80 != 0 {
        return (PICOS_A_SECOND, 1i128 << power.min(64));
    }
    match power {
        0..=12 => (10i128.pow(12 - power), 1),
        finer => (1, 10i128.pow((finer - 12).min(20))),
    }
}

fn direction(flags: u32) -> Option<ReplayDirection> {
    match flags & 0b11 {
        1 => Some(ReplayDirection::In),
        2 => Some(ReplayDirection::Out),
        _ => None,
    }
}

impl RejectedFrames {
    fn add(&mut self, number: u64, bytes: usize) {
        self.frames += 1;
        if self.first.len() < NAMED {
            self.first.push((number, bytes));
        }
    }

    /// Formats `3 (number 4 of 9014 B, …)`.
    fn describe(&self) -> String {
        let named = self.first.iter().map(|(number, bytes)| format!("number {number} of {bytes} B"));
        let more = if self.frames as usize > self.first.len() { ", …" } else { "" };
        format!("{} ({}{more})", self.frames, named.collect::<Vec<_>>().join(", "))
    }
}

impl SkippedFrames {
    /// Number of frames that were selected but can't be sent.
    pub fn rejected(&self) -> u64 {
        let other_links = self.other_links.map_or(0, |(frames, _)| frames);
        self.truncated.frames + self.too_long.frames + self.too_short.frames + self.undefined_interface + other_links
    }

    /// Whether all selected frames of a whole file were taken.
    pub fn is_complete(&self) -> bool {
        self.rejected() == 0 && !self.file_is_cut
    }

    /// Describes the frames in one phrase for each kind; `nothing` if all were taken unchanged.
    pub fn describe(&self) -> String {
        let counted = |frames: u64, what: &str| (frames > 0).then(|| format!("{frames} {what}"));
        let named = |rejected: &RejectedFrames, what: &str| {
            (rejected.frames > 0).then(|| format!("{what}: {}", rejected.describe()))
        };
        let all = [
            named(&self.truncated, "of which the file has only the beginning"),
            named(&self.too_long, "longer than can be sent"),
            named(&self.too_short, "without a header"),
            counted(self.mac_control, "MAC control frames (--mac-control sends them too)"),
            counted(self.others, "of the other direction or another interface"),
            counted(self.padded, "padded to 60 B"),
            counted(self.out_of_order, "put into the order of their times"),
            counted(self.stepped_back, "at the time of the frame before, as the clock went back by up to 100 us"),
            counted(self.undefined_interface, "of interfaces that the file does not define"),
            self.other_links.map(|(frames, link)| format!("{frames} of other links than Ethernet ({link:?})")),
            self.file_is_cut.then(|| "the file ends in the middle of a frame".to_owned()),
        ];
        let description = all.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if description.is_empty() { "nothing".to_owned() } else { description }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ALL: FrameSelection = FrameSelection {
        direction: None,
        interface: None,
        with_mac_control: false,
        headers_suffice: false,
        frame_bytes_max: 9_014,
        memory_bytes_max: 1 << 30,
    };

    /// A pcap file of frames with these seconds, fractions, lengths on the wire and bytes.
    pub(crate) fn pcap(magic: u32, frames: &[(u32, u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut file = magic.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
        for (seconds, fraction, original, bytes) in frames {
            for word in [*seconds, *fraction, bytes.len() as u32, *original] {
                file.extend(word.to_le_bytes());
            }
            file.extend(bytes);
        }
        file
    }

    fn read(bytes: &[u8], selection: &FrameSelection) -> Result<Capture, CaptureError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Capture::read(file.path(), selection)
    }

    const MICROSECONDS: u32 = 0xa1b2_c3d4;
    const NANOSECONDS: u32 = 0xa1b2_3c4d;

    #[test]
    fn each_read_is_reported() {
        // More than one read takes.
        let frames: Vec<_> = (0..2_000).map(|n| (n, 0, 1_000, vec![2; 1_000])).collect();
        let (file, bytes) = (tempfile::NamedTempFile::new().unwrap(), pcap(MICROSECONDS, &frames));
        std::fs::write(file.path(), &bytes).unwrap();
        let mut pieces = Vec::new();
        let capture = Capture::read_with_progress(file.path(), &ALL, &mut |bytes| pieces.push(bytes)).unwrap();
        assert_eq!((capture.frames().len(), pieces.iter().sum::<u64>()), (2_000, bytes.len() as u64));
        assert!(pieces.iter().filter(|bytes| **bytes > 0).count() > 1, "{pieces:?}");
    }

    #[test]
    fn stamps_are_as_fine_as_the_file_has_them() {
        let frames = [(7, 5, 60, vec![2; 60]), (7, 999, 60, vec![2; 60])];
        let at = |magic| read(&pcap(magic, &frames), &ALL).unwrap().frames().iter().map(|f| f.at.0).collect::<Vec<_>>();
        assert_eq!(at(MICROSECONDS), [7_000_005_000_000, 7_000_999_000_000]);
        assert_eq!(at(NANOSECONDS), [7_000_000_005_000, 7_000_000_999_000]);
        assert_eq!(picos_of(9), (1_000, 1));
        assert_eq!(picos_of(6), (1_000_000, 1));
        assert_eq!(picos_of(15), (1, 1_000));
        assert_eq!(picos_of(0x80 | 10), (PICOS_A_SECOND, 1_024));
    }

    #[test]
    fn each_frame_that_is_not_sent_has_a_reason() {
        let mut pause = vec![0; 60];
        pause[..14].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08]);
        let frames = [
            (1, 0, 60, vec![2; 60]),
            (1, 1, 900, vec![2; 96]),
            (1, 2, 9_100, vec![2; 9_100]),
            (1, 3, 6, vec![2; 6]),
            (1, 4, 60, pause),
            (0, 9, 42, vec![2; 42]),
        ];
        let file = pcap(MICROSECONDS, &frames);
        let capture = read(&file, &ALL).unwrap();
        let left = capture.skipped();
        assert_eq!((left.truncated.first.clone(), left.too_long.first.clone()), (vec![(2, 900)], vec![(3, 9_100)]));
        assert_eq!((left.too_short.frames, left.mac_control, left.padded, left.out_of_order), (1, 1, 1, 1));
        assert_eq!(left.rejected(), 3);
        // The last one has the earliest time, and is padded.
        assert_eq!(capture.frames().iter().map(|frame| frame.number).collect::<Vec<_>>(), [6, 1]);
        assert_eq!(capture.bytes(&capture.frames()[0]).len(), 60);
        assert!(left.describe().contains("only the beginning: 1 (number 2 of 900 B)"), "{}", left.describe());
        let with_control = FrameSelection { with_mac_control: true, ..ALL };
        assert_eq!(read(&file, &with_control).unwrap().frames().len(), 3);
        assert!(read(&file[..file.len() - 1], &ALL).unwrap().skipped().file_is_cut);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let message = |bytes: &[u8]| read(bytes, &ALL).unwrap_err().to_string();
        assert!(message(b"no").contains("less than 4 bytes"));
        assert!(message(b"no capture file at all, and long enough").contains("no capture file"));
        assert!(message(&pcap(MICROSECONDS, &[])).contains("no usable frame: nothing"));
        let mut wifi = pcap(MICROSECONDS, &[(1, 0, 60, vec![2; 60])]);
        wifi[20] = 105;
        assert!(message(&wifi).contains("and none of Ethernet"));
        let small = FrameSelection { memory_bytes_max: 100, ..ALL };
        let file = pcap(MICROSECONDS, &[(1, 0, 60, vec![2; 60]), (1, 0, 60, vec![2; 60])]);
        assert!(read(&file, &small).unwrap_err().to_string().contains("editcap -c"));
    }

    #[test]
    fn a_link_type_may_have_the_length_of_the_fcs() {
        let mut file = pcap(MICROSECONDS, &[(1, 0, 68, vec![2; 68]), (1, 1, 1_000, vec![2; 96])]);
        file[20..24].copy_from_slice(&0x2400_0001u32.to_le_bytes());
        let capture = read(&file, &ALL).unwrap();
        assert_eq!((capture.frames()[0].length, capture.bytes(&capture.frames()[0]).len()), (64, 64));
        assert_eq!(capture.skipped().truncated.first, [(2, 996)]);
    }

    #[test]
    fn frames_without_an_interface_and_of_other_links_are_counted() {
        let mut cooked = section(6, 0);
        // The first interface is Linux's cooked link, a second one Ethernet, and there is no third one.
        cooked[36] = 113;
        let ethernet = section(6, 0).split_off(28);
        let of_interface = |interface: u32| {
            let mut packet = enhanced(1_000, None);
            packet[8..12].copy_from_slice(&interface.to_le_bytes());
            packet
        };
        let file = [cooked, ethernet, of_interface(0), of_interface(1), of_interface(2)].concat();
        let capture = read(&file, &ALL).unwrap();
        let skipped = capture.skipped();
        assert_eq!(capture.frames().iter().map(|frame| frame.number).collect::<Vec<_>>(), [2]);
        assert_eq!((skipped.undefined_interface, skipped.other_links), (1, Some((1, DataLink::LINUX_SLL))));
        assert_eq!((skipped.rejected(), skipped.is_complete()), (2, false));
        let text = skipped.describe();
        assert!(
            text.ends_with("1 of interfaces that the file does not define; 1 of other links than Ethernet (LINUX_SLL)"),
            "{text}"
        );
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len().next_multiple_of(4) as u32 + 12).to_le_bytes();
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        [&kind.to_le_bytes(), &length, body, &padding, &length].concat()
    }

    /// A section with an interface of this resolution and offset.
    fn section(resolution: u8, offset: i64) -> Vec<u8> {
        let head = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let options =
            [&[9, 0, 1, 0, resolution, 0, 0, 0][..], &[14, 0, 8, 0], &offset.to_le_bytes(), &[0, 0, 0, 0]].concat();
        let interface = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &options].concat();
        [block(0x0a0d_0d0a, &head), block(1, &interface)].concat()
    }

    fn enhanced(units: u64, flags: Option<u32>) -> Vec<u8> {
        let mut body = 0u32.to_le_bytes().to_vec();
        body.extend(((units >> 32) as u32).to_le_bytes());
        body.extend((units as u32).to_le_bytes());
        body.extend(60u32.to_le_bytes().repeat(2));
        body.extend([2; 60]);
        if let Some(flags) = flags {
            body.extend([2, 0, 4, 0]);
            body.extend(flags.to_le_bytes());
            body.extend([0; 4]);
        }
        block(6, &body)
    }

    #[test]
    fn pcapng_has_hardware_stamps_offsets_and_directions() {
        let file = [
            section(9, 100),
            enhanced(5, Some(1)),
            enhanced(1_700_000_000_000_000_007, Some(2)),
            section(12, 0),
            enhanced(3, None),
        ]
        .concat();
        let capture = read(&file, &ALL).unwrap();
        let at: Vec<i128> = capture.frames().iter().map(|frame| frame.at.0).collect();
        assert_eq!(at, [3, 100 * PICOS_A_SECOND + 5_000, 1_700_000_100_000_000_007_000]);
        let only = |selection| read(&file, &selection).unwrap().frames().iter().map(|f| f.number).collect::<Vec<_>>();
        assert_eq!(only(FrameSelection { direction: Some(ReplayDirection::In), ..ALL }), [3, 1]);
        assert_eq!(only(FrameSelection { interface: Some(1), ..ALL }), [3]);
    }
}
