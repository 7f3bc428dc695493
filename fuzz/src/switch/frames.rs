//! Drawn frames: of a burst, forged messages, and any bytes.

use weir_units::{Class, MacAddr};
use weir_wire::mac_control::{ControlFrame, PfcFrame};
use weir_wire::{loop_guard, trailer};

use super::frame::FuzzFrame;
use super::plan::{LOSSLESS, SwitchPlan};
use crate::input::FuzzInput;

/// Stations at each port.
pub(super) const STATIONS: usize = 4;
const ETHERNET_BYTES: usize = 14;

/// Frames of one burst, which differ in length and flow.
#[derive(Clone, Debug)]
pub(super) struct FrameTemplate {
    frame: FuzzFrame,
    /// Class of the frames where they have the DSCP's.
    pub(super) class: Class,
    lengths: [u32; 2],
    /// Offset of the UDP ports, which tell flows apart.
    ports_at: Option<usize>,
}

/// Returns the address of a station at a port.
pub(super) fn station(port: usize, number: usize) -> MacAddr {
    MacAddr([2, 0, 0, 1, port as u8, number as u8])
}

/// Returns the port of the station that a frame is to reach; `None` if it is to no station.
pub(super) fn owner_of(frame: &FuzzFrame) -> Option<usize> {
    let [2, 0, 0, 1, port, _] = frame.data().get(..6)? else { return None };
    Some(usize::from(*port))
}

impl FrameTemplate {
    /// Draws the frames that a port receives. From peers that obey, all frames have a class that the peer knows.
    pub(super) fn draw(input: &mut FuzzInput<'_>, plan: &SwitchPlan, port: usize, obeys: bool) -> FrameTemplate {
        let class = input.byte() & 7;
        // Each copy of a flooded frame is charged to its ingress queue, so that headroom for the line rate does not cover them.
        let floods = !(obeys && LOSSLESS.contains(Class::new(class)));
        let destination = match input.below(16) {
            number if !floods => station(number % plan.real_ports, input.below(STATIONS)),
            0 => MacAddr::BROADCAST,
            1 => MacAddr([1, 0, 0x5e, 0, 0, 1]),
            2 => MacAddr([1, 0x80, 0xc2, 0, 0, input.byte() & 0x1f]),
            3 => MacAddr([2, 0, 0, 9, input.byte(), input.byte()]),
            4 => loop_guard::FORWARDED,
            number => station(number % plan.real_ports, input.below(STATIONS)),
        };
        let at = if input.one_in(16) { input.below(plan.real_ports) } else { port };
        let mut source = station(at, input.below(STATIONS));
        if !obeys && input.one_in(64) {
            source.0[0] |= 1;
        }
        let kind = input.byte();
        let is_tagged = kind & 3 == 3 && !obeys;
        let mut head = Vec::with_capacity(128);
        head.extend(destination.0);
        head.extend(source.0);
        if is_tagged {
            let vlan = *input.one_of(&[0u16, 10, 20, 30]);
            head.extend([0x81, 0x00]);
            head.extend((u16::from(class) << 13 | vlan).to_be_bytes());
            if kind & 0x80 != 0 {
                head.extend([0x88, 0xa8, 0, 1]);
            }
        }
        let mut ports_at = None;
        let has_class = match kind >> 2 & 7 {
            0 => {
                head.extend([0x08, 0x06]);
                false
            }
            1 => {
                head.extend([0x86, 0xdd, 0x60 | class >> 2, class << 6 | kind & 0x20, 0, 0, 0, 40, 17, 64]);
                head.extend([0xfd; 32]);
                ports_at = Some(head.len());
                head.extend([0, 1, 0x12, 0xb7, 0, 8, 0, 0]);
                true
            }
            _ => {
                head.extend([0x08, 0x00, 0x45, class << 2 | kind >> 6 & 3, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
                head.extend([10, 0, 0, port as u8, 10, 0, 0, 9]);
                ports_at = Some(head.len());
                head.extend([0, 1, 0x12, 0xb7, 0, 26, 0, 0]);
                let telemetry = &mut [0; trailer::bytes_with(2)];
                trailer::write(telemetry, weir_units::Time::ZERO, true, &[]);
                head.resize(ETHERNET_BYTES + 46, 0);
                head.extend(&*telemetry);
                true
            }
        };
        let longest =
            if obeys { 1_514 } else { *input.one_of(&[1_514u32, 1_514, 1_514, 1_514, 1_514, 1_514, 1_600, 9_018]) };
        let lengths = match input.below(16) {
            0 if !obeys => [0, 60],
            0..7 => [60, 60],
            7 => [head.len() as u32; 2],
            8 => [60, longest],
            9..12 => [60, 200],
            _ => [longest, longest],
        };
        let lengths = lengths.map(|length| if obeys { length.max(60) } else { length });
        let mut frame = FuzzFrame::new(&head, 104);
        frame.stream = (has_class && !is_tagged).then_some(class).or((has_class && is_tagged).then_some(8 | class));
        let class = if has_class { class } else { 0 };
        FrameTemplate { frame, class: Class::new(class), lengths, ports_at }
    }

    /// Returns the frame of a number, with the numbers of its ingress port and in order of arrival.
    #[inline]
    pub(super) fn frame(&self, number: usize, from: u8, sequence: u32) -> FuzzFrame {
        let mut frame = self.frame.clone();
        if let Some(at) = self.ports_at {
            frame.data_mut()[at + 1] = number as u8;
        }
        let [shortest, longest] = self.lengths;
        let length = if shortest == longest {
            longest
        } else {
            // Lengths in no order.
            shortest + (number as u32).wrapping_mul(0x9e37_79b1) % (longest - shortest + 1)
        };
        frame.set_length(length);
        // A header that is cut off has no class.
        frame.stream = frame.stream.filter(|_| length >= 64);
        frame.from = from;
        frame.sequence = sequence;
        frame
    }
}

/// Draws a control frame, as an attacker would send it.
pub(super) fn forged(input: &mut FuzzInput<'_>) -> FuzzFrame {
    let message = match input.below(4) {
        0 => ControlFrame::Pause(input.word()),
        1 | 2 => {
            let enabled = weir_units::ClassSet::from_bits(input.byte());
            let quanta = input.word();
            let long = input.byte();
            let times = std::array::from_fn(|class| if long >> class & 1 == 1 { quanta } else { quanta >> 12 });
            ControlFrame::Pfc(PfcFrame { enabled, times })
        }
        _ => return control_bytes(input),
    };
    let bytes = message.encode(station(0, 9));
    FuzzFrame::new(&bytes, bytes.len() as u32)
}

/// Draws a frame with the header of a MAC control frame and any content: also those of credit, lengths and other extensions.
fn control_bytes(input: &mut FuzzInput<'_>) -> FuzzFrame {
    let kind = input.byte();
    let mut bytes = MacAddr::MAC_CONTROL.0.to_vec();
    bytes.extend(station(0, 9).0);
    if kind & 0x0f == 0 {
        bytes.extend([0x81, 0x00, 0, 1]);
    }
    bytes.extend([0x88, 0x08]);
    match kind >> 4 {
        0 => bytes.extend(input.word().to_be_bytes()),
        1 | 2 => bytes.extend([1, 1]),
        // Weir's extensions: their identifier, a message, and the classes that it enables.
        _ => {
            let messages = [1, 3, 4, 5, input.byte()];
            bytes.extend([0xff, 0xfe, 0x02, 0x57, 0x52, *input.one_of(&messages), 0, input.byte()]);
        }
    }
    let rest = input.bytes(44);
    bytes.extend(rest);
    let length = if kind & 0x0f == 1 { bytes.len() } else { bytes.len().max(60) };
    FuzzFrame::new(&bytes, length as u32)
}

/// Draws a frame of any bytes.
pub(super) fn any_bytes(input: &mut FuzzInput<'_>) -> FuzzFrame {
    let length = usize::from(input.byte());
    let bytes = input.bytes(length.min(80));
    FuzzFrame::new(bytes, if length < 128 { bytes.len() as u32 } else { length as u32 * 8 })
}
