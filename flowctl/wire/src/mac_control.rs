//! MAC control frame codec: 802.1Qbb PFC and 802.3x PAUSE (IEEE 802.3 Annexes 31B and 31D).
//!
//! A frame on the wire, without its FCS, 60 bytes:
//!
//! | bytes | PFC | PAUSE |
//! |---|---|---|
//! | 0..6 | 01-80-C2-00-00-01 | the same |
//! | 6..12 | source MAC of the port | the same |
//! | 12..14 | 0x8808 | the same |
//! | 14..16 | opcode 0x0101 | opcode 0x0001 |
//! | 16..18 | class-enable vector, low byte used | pause time in quanta |
//! | 18..34 | Time\[0\] to Time\[7\] in quanta | zero |
//! | 34..60 | zero | zero |
//!
//! Credits and queue lengths have frames of their own, [`CreditFrame`], [`CreditUpdate`] and [`QueueLengthFrame`]; one codec handles all.

use std::ops::Range;

use weir_units::{Bytes, CLASSES, Class, ClassSet, MacAddr};

mod extension;

/// Ethertype of MAC control frames.
pub const ETHERTYPE: u16 = 0x8808;
/// Length of the control frames that Weir sends, without FCS: the smallest frame.
pub const FRAME_BYTES: usize = 60;

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const TAG_BYTES: usize = 4;

mod field {
    use super::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    pub(super) const OPCODE: Range<usize> = 14..16;
    pub(super) const CLASS_ENABLE: Range<usize> = 16..18;
    pub(super) const PAUSE_TIME: Range<usize> = 16..18;
    /// Offset of Time\[0\].
    pub(super) const TIMES: usize = 18;
    pub(super) const PFC_END: usize = 34;
}

const OPCODE_PAUSE: u16 = 0x0001;
const OPCODE_PFC: u16 = 0x0101;

/// MAC control frame, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFrame {
    /// Priority-based flow control.
    Pfc(PfcFrame),
    /// 802.3x PAUSE of the whole link, in quanta; 0 resumes.
    Pause(u16),
    /// Credit limits of CBFC or time-based GFC.
    Credit(CreditFrame),
    /// Queue lengths of conceptual GFC.
    Queue(QueueLengthFrame),
    /// CF_Update or CC_Update of UEC's CBFC.
    Update(CreditUpdate),
    /// Message of another flow control, which parses the content itself.
    Raw(RawControlFrame),
}

/// PFC frame: a pause time for each class that its vector enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PfcFrame {
    /// Class-enable vector, bit j for class j. The state of other classes stays unchanged.
    pub enabled: ClassSet,
    /// Time\[j\] in quanta; 0 resumes. Meaningless where not enabled.
    pub times: [u16; CLASSES],
}

/// Credit frame: the limits that a port advertises to its peer, for CBFC and time-based GFC. Weir's own format, as Ethernet has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CreditFrame {
    /// Class-enable vector, bit j for class j. The state of other classes stays unchanged.
    pub enabled: ClassSet,
    /// FCCL of each class: the block, counted from the link's start modulo 2^32, up to which the peer may send.
    /// Meaningless where not enabled.
    pub limits: [u32; CLASSES],
    /// Count that resynchronises both ends.
    pub account: CreditAccount,
}

/// Number in a credit frame besides the limits. Frames alternate, as each has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CreditAccount {
    /// Absent account.
    #[default]
    None,
    /// Capacity of one class's queue at the frame's sender, in credit blocks.
    Buffer {
        /// Capacity B, in blocks.
        blocks: u32,
    },
    /// FCTBS: data that the frame's sender has sent in a class.
    Sent {
        /// Class of the count.
        class: Class,
        /// Blocks since the link's start, modulo 2^32, up to the frame.
        blocks: u32,
    },
}

/// Queue frame: the lengths of a port's ingress queues, for conceptual GFC. Weir's own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueueLengthFrame {
    /// Class-enable vector, bit j for class j. The state of other classes stays unchanged.
    pub enabled: ClassSet,
    /// Queue length q of each class, in bytes. Meaningless where not enabled.
    pub lengths: [u32; CLASSES],
}

/// CF_Update or CC_Update of UEC 1.0 (5.2). Weir's own format, as the public texts give no layout of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditUpdate {
    /// Meaning of the counts.
    pub count: CreditCount,
    /// Class-enable vector, bit j for class j. The state of other classes stays unchanged.
    pub enabled: ClassSet,
    /// Cyclic count of each class, in cells modulo 2^20. Meaningless where not enabled.
    pub cells: [u32; CLASSES],
    /// Size of a cell at the sender of the update. A peer with another size ignores it.
    pub cell_bytes: u32,
}

/// Count in a [`CreditUpdate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditCount {
    /// CF: cells that the receiver of the data has freed. CF_Update, an ordered set on a link of UEC.
    Freed,
    /// CC: cells of the data sent ahead of the frame. CC_Update.
    Consumed,
}

impl CreditUpdate {
    /// Bits of a count.
    pub const MASK: u32 = (1 << 20) - 1;
    /// Length of CF_Update as a control ordered set.
    pub const ORDERED_SET: Bytes = Bytes::new(8);
}

/// Message with an opcode unknown to this codec, of another flow control or of none here.
///
/// IEEE 802.3 leaves opcode [`RawControlFrame::EXTENSION`] to organisations, which the first three bytes of the content identify (Annex
/// 31C). The standard reserves all other free opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawControlFrame {
    /// Opcode other than PAUSE's and PFC's.
    pub opcode: u16,
    /// Bytes behind the opcode, to the end of the smallest frame; a shorter frame is padded with zeros.
    pub content: [u8; RawControlFrame::CONTENT_BYTES],
}

impl RawControlFrame {
    /// Opcode of MAC control extensions of organisations.
    pub const EXTENSION: u16 = extension::OPCODE;
    /// Length of the content behind the opcode.
    pub const CONTENT_BYTES: usize = FRAME_BYTES - field::OPCODE.end;

    /// Returns an extension message: three bytes that identify the organisation, followed by `payload`.
    ///
    /// # Panics
    /// If `payload` is longer than a frame has room for, 41 bytes.
    pub fn extension(identifier: [u8; 3], payload: &[u8]) -> RawControlFrame {
        let mut content = [0; RawControlFrame::CONTENT_BYTES];
        content[..3].copy_from_slice(&identifier);
        content[3..][..payload.len()].copy_from_slice(payload);
        RawControlFrame { opcode: RawControlFrame::EXTENSION, content }
    }

    /// Returns the content of an extension message of this organisation; `None` for any other message.
    pub fn extension_payload(&self, identifier: [u8; 3]) -> Option<&[u8; RawControlFrame::CONTENT_BYTES - 3]> {
        let payload = self.content.strip_prefix(&identifier)?;
        if self.opcode == RawControlFrame::EXTENSION { payload.try_into().ok() } else { None }
    }

    fn decode(opcode: u16, frame: &[u8]) -> RawControlFrame {
        let mut content = [0; RawControlFrame::CONTENT_BYTES];
        let there = frame.get(field::OPCODE.end..).unwrap_or(&[]);
        let length = there.len().min(content.len());
        content[..length].copy_from_slice(&there[..length]);
        RawControlFrame { opcode, content }
    }
}

/// Reason why bytes with the MAC control ethertype are no known frame. Such frames are counted and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The frame ends before its fields do.
    Truncated,
    /// The destination is not 01-80-C2-00-00-01.
    Destination,
    /// The frame has a VLAN tag. It is no MAC control frame (IEEE 802.3 clause 31 has the type behind the addresses), but must not be
    /// forwarded: a device that removes the tag would turn it into one.
    Tagged,
    /// The vector of a frame of PFC, credit or queue lengths enables no class. The frame is ignored, and not counted as its kind.
    NoClass,
}

impl ControlFrame {
    /// Returns whether a frame is a MAC control frame, well-formed or not, or would be one without its VLAN tags. It is never forwarded.
    #[inline]
    pub fn is_control(frame: &[u8]) -> bool {
        match word(frame, field::ETHERTYPE) {
            Some(ETHERTYPE) => true,
            Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ) => is_tagged_control(frame),
            _ => false,
        }
    }

    /// Decodes a frame that [`ControlFrame::is_control`] recognises. A zero source address is accepted, as test generators send it.
    ///
    /// # Errors
    /// If the frame is malformed: [`DecodeError`].
    pub fn decode(frame: &[u8]) -> Result<ControlFrame, DecodeError> {
        let opcode = word(frame, field::OPCODE).ok_or(DecodeError::Truncated)?;
        if word(frame, field::ETHERTYPE) != Some(ETHERTYPE) {
            return Err(DecodeError::Tagged);
        }
        if frame[field::DESTINATION] != MacAddr::MAC_CONTROL.0 {
            return Err(DecodeError::Destination);
        }
        match opcode {
            OPCODE_PAUSE => word(frame, field::PAUSE_TIME).map(ControlFrame::Pause).ok_or(DecodeError::Truncated),
            OPCODE_PFC => {
                if frame.len() < field::PFC_END {
                    return Err(DecodeError::Truncated);
                }
                let enabled = ClassSet::from_bits(frame[field::CLASS_ENABLE.start + 1]);
                if enabled.is_empty() {
                    return Err(DecodeError::NoClass);
                }
                let times = std::array::from_fn(|class| word(frame, time_field(class)).unwrap_or(0));
                Ok(ControlFrame::Pfc(PfcFrame { enabled, times }))
            }
            extension::OPCODE => extension::decode(frame),
            unknown => Ok(ControlFrame::Raw(RawControlFrame::decode(unknown, frame))),
        }
    }

    /// Returns the bytes on the wire of a message below the MAC, a control ordered set of UEC; `None` for a frame. Only virtual time has such
    /// links.
    pub fn ordered_set(&self) -> Option<Bytes> {
        let is_set = matches!(self, ControlFrame::Update(CreditUpdate { count: CreditCount::Freed, .. }));
        is_set.then_some(CreditUpdate::ORDERED_SET)
    }

    /// Encodes the frame for the wire, without FCS.
    pub fn encode(&self, source: MacAddr) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[field::DESTINATION].copy_from_slice(&MacAddr::MAC_CONTROL.0);
        frame[field::SOURCE].copy_from_slice(&source.0);
        frame[field::ETHERTYPE].copy_from_slice(&ETHERTYPE.to_be_bytes());
        match *self {
            ControlFrame::Pause(quanta) => {
                frame[field::OPCODE].copy_from_slice(&OPCODE_PAUSE.to_be_bytes());
                frame[field::PAUSE_TIME].copy_from_slice(&quanta.to_be_bytes());
            }
            ControlFrame::Credit(credit) => credit.encode(&mut frame),
            ControlFrame::Queue(queue) => queue.encode(&mut frame),
            ControlFrame::Update(update) => update.encode(&mut frame),
            ControlFrame::Raw(own) => {
                frame[field::OPCODE].copy_from_slice(&own.opcode.to_be_bytes());
                frame[field::OPCODE.end..].copy_from_slice(&own.content);
            }
            ControlFrame::Pfc(pfc) => {
                frame[field::OPCODE].copy_from_slice(&OPCODE_PFC.to_be_bytes());
                frame[field::CLASS_ENABLE].copy_from_slice(&u16::from(pfc.enabled.bits()).to_be_bytes());
                for class in pfc.enabled.iter() {
                    let time = pfc.times[class.index()];
                    frame[time_field(class.index())].copy_from_slice(&time.to_be_bytes());
                }
            }
        }
        frame
    }
}

impl PfcFrame {
    /// Returns the classes that the frame pauses.
    pub fn paused(&self) -> ClassSet {
        self.enabled.iter().filter(|class| self.times[class.index()] > 0).collect()
    }

    /// Returns the classes that the frame resumes.
    pub fn resumed(&self) -> ClassSet {
        self.enabled - self.paused()
    }
}

/// Whether the MAC control ethertype follows the frame's VLAN tags, of any number.
fn is_tagged_control(frame: &[u8]) -> bool {
    let mut types = (field::ETHERTYPE.start..).step_by(TAG_BYTES).map(|at| word(frame, at..at + 2));
    types.find(|kind| !matches!(kind, Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ))) == Some(Some(ETHERTYPE))
}

fn time_field(class: usize) -> Range<usize> {
    let start = field::TIMES + 2 * class;
    start..start + 2
}

fn word(frame: &[u8], field: Range<usize>) -> Option<u16> {
    frame.get(field).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn a_pfc_frame_byte_by_byte() {
        let frame =
            ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(0x18), times: [9, 0, 0, 0xffff, 0, 0, 0, 0] })
                .encode(SOURCE);
        let mut expected = [0; 60];
        expected[..18]
            .copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x01, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x01, 0x01, 0x00, 0x18]);
        expected[24..26].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(frame, expected, "a class that is not enabled has no time");
    }

    #[test]
    fn a_pause_frame_byte_by_byte() {
        let frame = ControlFrame::Pause(0x1234).encode(SOURCE);
        assert_eq!(frame[12..18], [0x88, 0x08, 0x00, 0x01, 0x12, 0x34]);
        assert!(frame[18..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn malformed_frames_are_rejected_with_their_reason() {
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(1), times: [1; 8] }).encode(SOURCE);
        assert_eq!(ControlFrame::decode(&pfc[..33]), Err(DecodeError::Truncated));
        assert_eq!(ControlFrame::decode(&pfc[..15]), Err(DecodeError::Truncated));
        let mut no_class = pfc;
        no_class[17] = 0;
        assert_eq!(ControlFrame::decode(&no_class), Err(DecodeError::NoClass));
        let mut unicast = pfc;
        unicast[0] = 2;
        assert_eq!(ControlFrame::decode(&unicast), Err(DecodeError::Destination));
    }

    #[test]
    fn a_message_of_another_flow_control_is_handed_on_as_it_is() {
        let own = RawControlFrame::extension([0xaa, 0xbb, 0xcc], b"credit 7");
        let frame = ControlFrame::Raw(own).encode(SOURCE);
        assert_eq!(frame[12..20], [0x88, 0x08, 0xff, 0xfe, 0xaa, 0xbb, 0xcc, b'c']);
        assert_eq!(ControlFrame::decode(&frame), Ok(ControlFrame::Raw(own)));
        assert!(own.extension_payload([0xaa, 0xbb, 0xcc]).is_some_and(|payload| payload.starts_with(b"credit 7\0")));
        assert_eq!(
            (
                own.extension_payload([1, 2, 3]),
                RawControlFrame { opcode: 7, ..own }.extension_payload([0xaa, 0xbb, 0xcc])
            ),
            (None, None)
        );
        let mut unknown = ControlFrame::Pfc(PfcFrame { enabled: Class::new(0).alone(), times: [1; 8] }).encode(SOURCE);
        unknown[15] = 0x77;
        let Ok(ControlFrame::Raw(RawControlFrame { opcode: 0x0177, content })) = ControlFrame::decode(&unknown[..18])
        else {
            panic!("an opcode that nobody knows")
        };
        assert_eq!((content[1], content[2..].iter().max()), (1, Some(&0)), "what is not there reads as zeros");
    }

    #[test]
    fn the_upper_half_of_the_vector_is_ignored() {
        let mut frame =
            ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(1), times: [7; 8] }).encode(MacAddr::default());
        frame[16] = 0xff;
        let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(&frame) else { panic!("refused") };
        assert_eq!((pfc.enabled, pfc.times[0]), (ClassSet::from_bits(1), 7));
    }

    #[test]
    fn paused_and_resumed_part_the_vector() {
        let pfc = PfcFrame { enabled: ClassSet::from_bits(0b1010_0001), times: [5, 5, 5, 5, 5, 0, 5, 9] };
        assert_eq!((pfc.paused(), pfc.resumed()), (ClassSet::from_bits(0b1000_0001), ClassSet::from_bits(0b0010_0000)));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(enabled in (1..=255u8).prop_map(ClassSet::from_bits), times: [u16; 8], quanta: u16) {
            let times = std::array::from_fn(|class| if enabled.contains(Class::new(class as u8)) { times[class] } else { 0 });
            for frame in [ControlFrame::Pfc(PfcFrame { enabled, times }), ControlFrame::Pause(quanta)] {
                let bytes = frame.encode(SOURCE);
                prop_assert!(ControlFrame::is_control(&bytes));
                prop_assert_eq!(ControlFrame::decode(&bytes), Ok(frame));
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = ControlFrame::is_control(&bytes);
            let _ = ControlFrame::decode(&bytes);
        }
    }
}
