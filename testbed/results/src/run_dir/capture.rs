//! Frames of one port as pcapng, for Wireshark and tshark.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, PcapError};
use weir_switch_core::Direction;
use weir_units::{BitRate, MacAddr, Time};

/// Writer of one port's frames, with timestamps in nanoseconds of scenario time: 1 January 1970 in the file is the scenario's
/// start.
pub struct CaptureWriter<W: Write> {
    pcapng: PcapNgWriter<W>,
    frames: u64,
}

/// Port of a capture.
#[derive(Clone, Debug)]
pub struct CapturePort {
    /// Name of the port.
    pub name: String,
    /// MAC address of the port.
    pub mac: MacAddr,
    /// Rate of the port, if known.
    pub rate: Option<BitRate>,
}

impl<W: Write> CaptureWriter<W> {
    /// Starts a capture: writes the section and the interface.
    pub fn new(writer: W, port: &CapturePort) -> io::Result<CaptureWriter<W>> {
        /// Timestamp resolution: 10^-9 s.
        const NANOSECONDS: u8 = 9;
        let mut pcapng = PcapNgWriter::new(writer).map_err(io_error)?;
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(&port.name)),
            InterfaceDescriptionOption::IfDescription(Cow::Borrowed(
                "port of a Weir run; time counts from the scenario's start",
            )),
            InterfaceDescriptionOption::IfMacAddr(Cow::Borrowed(&port.mac.0)),
        ];
        options.extend(port.rate.map(|rate| InterfaceDescriptionOption::IfSpeed(rate.as_bps())));
        options.push(InterfaceDescriptionOption::IfTsResol(NANOSECONDS));
        let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        pcapng.write_block(&interface.into_block()).map_err(io_error)?;
        Ok(CaptureWriter { pcapng, frames: 0 })
    }

    /// Adds a frame (without FCS) that passed the port at `at`.
    pub fn write(&mut self, at: Time, direction: Direction, frame: &[u8]) -> io::Result<()> {
        let flags = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at.as_nanos()),
            original_len: frame.len() as u32,
            data: Cow::Borrowed(frame),
            options: vec![EnhancedPacketOption::Flags(flags)],
        };
        self.pcapng.write_block(&packet.into_block()).map_err(io_error)?;
        self.frames += 1;
        Ok(())
    }

    /// Flushes the capture; returns its number of frames.
    pub fn finish(self) -> io::Result<u64> {
        self.pcapng.into_inner().flush()?;
        Ok(self.frames)
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
