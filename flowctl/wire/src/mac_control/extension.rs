//! Weir's own frames: MAC control frames with the organisation-specific extension opcode (IEEE 802.3 Annexes 31A and 31C). Layout without
//! FCS:
//!
//! | bytes | content |
//! |---|---|
//! | 0..6 | 01-80-C2-00-00-01 |
//! | 6..12 | source MAC of the port |
//! | 12..14 | 0x8808 |
//! | 14..16 | opcode 0xFFFE |
//! | 16..19 | identifier 02-57-52 |
//! | 19 | message: 1 credit, 3 queue lengths, 4 CF_Update, 5 CC_Update |
//! | 20..22 | class-enable vector, low byte used |
//! | 22..54 | a number of 32 bits for each class |
//! | 54 | kind of account in a credit frame: 0, none; 1, the buffer; 2, data sent in a class |
//! | 55 | class of the account, or zero |
//! | 56..60 | the account, 32 bits; in an update the size of a cell |
//!
//! Reason for this opcode: the standard reserves all other free ones, and leaves this one to organisations, which three bytes identify.
//! Weir's are an address block administered locally (the U/L bit is set, IEEE 802c's AAI quadrant), which no organisation is ever assigned.
//! A station that does not know opcode or identifier discards the frame (IEEE 802.3 clause 31), and no bridge forwards its destination.

use std::ops::Range;

use weir_units::{CLASSES, Class, ClassSet};

use super::{
    ControlFrame, CreditAccount, CreditCount, CreditFrame, CreditUpdate, DecodeError, FRAME_BYTES, QueueLengthFrame,
    RawControlFrame,
};

mod field {
    use super::Range;
    pub(super) use crate::mac_control::field::OPCODE;

    pub(super) const IDENTIFIER: Range<usize> = 16..19;
    pub(super) const MESSAGE: usize = 19;
    pub(super) const CLASS_ENABLE: Range<usize> = 20..22;
    /// Offset of the number of class 0.
    pub(super) const NUMBERS: usize = 22;
    pub(super) const END: usize = 54;
    pub(super) const ACCOUNT: usize = 54;
    pub(super) const ACCOUNT_CLASS: usize = 55;
    pub(super) const ACCOUNT_NUMBER: Range<usize> = 56..60;
}

pub(super) const OPCODE: u16 = 0xfffe;
const IDENTIFIER: [u8; 3] = [0x02, 0x57, 0x52];
const MESSAGE_CREDIT: u8 = 1;
const MESSAGE_QUEUE: u8 = 3;
const MESSAGE_FREED: u8 = 4;
const MESSAGE_CONSUMED: u8 = 5;
const ACCOUNT_BUFFER: u8 = 1;
const ACCOUNT_SENT: u8 = 2;

/// Decodes the bytes behind the opcode.
pub(super) fn decode(frame: &[u8]) -> Result<ControlFrame, DecodeError> {
    if frame.len() < field::END {
        return Err(DecodeError::Truncated);
    }
    if frame[field::IDENTIFIER] != IDENTIFIER {
        return Ok(ControlFrame::Raw(RawControlFrame::decode(OPCODE, frame)));
    }
    let enabled = ClassSet::from_bits(frame[field::CLASS_ENABLE.start + 1]);
    let numbers = std::array::from_fn(|class| number(&frame[number_field(class)]));
    let update = |count| {
        let cell_bytes = frame.get(field::ACCOUNT_NUMBER).map_or(0, number);
        ControlFrame::Update(CreditUpdate { count, enabled, cells: numbers, cell_bytes })
    };
    let read = match frame[field::MESSAGE] {
        MESSAGE_FREED => update(CreditCount::Freed),
        MESSAGE_CONSUMED => update(CreditCount::Consumed),
        MESSAGE_CREDIT => ControlFrame::Credit(CreditFrame { enabled, limits: numbers, account: account(frame) }),
        MESSAGE_QUEUE => ControlFrame::Queue(QueueLengthFrame { enabled, lengths: numbers }),
        _ => return Ok(ControlFrame::Raw(RawControlFrame::decode(OPCODE, frame))),
    };
    if enabled.is_empty() { Err(DecodeError::NoClass) } else { Ok(read) }
}

/// Returns the account of a credit frame; none for a frame that ends before it, or an account of another kind.
fn account(frame: &[u8]) -> CreditAccount {
    let Some(blocks) = frame.get(field::ACCOUNT_NUMBER).map(number) else { return CreditAccount::None };
    let class = usize::from(frame[field::ACCOUNT_CLASS]);
    match frame[field::ACCOUNT] {
        ACCOUNT_BUFFER => CreditAccount::Buffer { blocks },
        ACCOUNT_SENT if class < CLASSES => CreditAccount::Sent { class: Class::ALL[class], blocks },
        _ => CreditAccount::None,
    }
}

impl CreditFrame {
    /// Writes the opcode and the bytes behind it.
    pub(super) fn encode(&self, frame: &mut [u8; FRAME_BYTES]) {
        encode(frame, MESSAGE_CREDIT, self.enabled, &self.limits);
        let (kind, class, blocks) = match self.account {
            CreditAccount::None => return,
            CreditAccount::Buffer { blocks } => (ACCOUNT_BUFFER, 0, blocks),
            CreditAccount::Sent { class, blocks } => (ACCOUNT_SENT, class.index() as u8, blocks),
        };
        frame[field::ACCOUNT] = kind;
        frame[field::ACCOUNT_CLASS] = class;
        frame[field::ACCOUNT_NUMBER].copy_from_slice(&blocks.to_be_bytes());
    }
}

impl CreditUpdate {
    /// Writes the opcode and the bytes behind it.
    pub(super) fn encode(&self, frame: &mut [u8; FRAME_BYTES]) {
        let message = match self.count {
            CreditCount::Freed => MESSAGE_FREED,
            CreditCount::Consumed => MESSAGE_CONSUMED,
        };
        encode(frame, message, self.enabled, &self.cells);
        frame[field::ACCOUNT_NUMBER].copy_from_slice(&self.cell_bytes.to_be_bytes());
    }
}

impl QueueLengthFrame {
    /// Writes the opcode and the bytes behind it.
    pub(super) fn encode(&self, frame: &mut [u8; FRAME_BYTES]) {
        encode(frame, MESSAGE_QUEUE, self.enabled, &self.lengths);
    }
}

fn encode(frame: &mut [u8; FRAME_BYTES], message: u8, enabled: ClassSet, numbers: &[u32; CLASSES]) {
    frame[field::OPCODE].copy_from_slice(&OPCODE.to_be_bytes());
    frame[field::IDENTIFIER].copy_from_slice(&IDENTIFIER);
    frame[field::MESSAGE] = message;
    frame[field::CLASS_ENABLE].copy_from_slice(&u16::from(enabled.bits()).to_be_bytes());
    for class in enabled.iter() {
        frame[number_field(class.index())].copy_from_slice(&numbers[class.index()].to_be_bytes());
    }
}

fn number_field(class: usize) -> Range<usize> {
    let start = field::NUMBERS + 4 * class;
    start..start + 4
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

const _: () = assert!(field::NUMBERS + 4 * CLASSES == field::END && field::END <= FRAME_BYTES);
const _: () = assert!(field::ACCOUNT == field::END && field::ACCOUNT_NUMBER.end == FRAME_BYTES);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::MacAddr;

    use super::*;
    use crate::mac_control::ControlFrame;

    const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn credits(enabled: ClassSet, limits: [u32; CLASSES]) -> CreditFrame {
        CreditFrame { enabled, limits, account: CreditAccount::None }
    }

    fn encoded(frame: CreditFrame) -> [u8; FRAME_BYTES] {
        ControlFrame::Credit(frame).encode(SOURCE)
    }

    fn decoded(frame: &[u8]) -> Result<CreditFrame, DecodeError> {
        match ControlFrame::decode(frame)? {
            ControlFrame::Credit(credit) => Ok(credit),
            other => panic!("read as {other:?}"),
        }
    }

    #[test]
    fn a_credit_frame_byte_by_byte() {
        let limits = [9, 0, 0, 0x1234_5678, 0, 0, 0, u32::MAX];
        let frame = encoded(credits(ClassSet::from_bits(0x88), limits));
        let mut expected = [0; 60];
        expected[..22].copy_from_slice(&[
            0x01, 0x80, 0xc2, 0, 0, 0x01, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0xff, 0xfe, 0x02, 0x57, 0x52, 1, 0x00, 0x88,
        ]);
        expected[34..38].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        expected[50..54].copy_from_slice(&[0xff; 4]);
        assert_eq!(frame, expected, "a class that is not enabled has no limit");
    }

    #[test]
    fn malformed_frames_are_rejected_with_their_reason() {
        let credit = encoded(credits(ClassSet::from_bits(1), [1; CLASSES]));
        let with = |at: usize, byte: u8| {
            let mut frame = credit;
            frame[at] = byte;
            decoded(&frame)
        };
        assert_eq!(decoded(&credit[..53]), Err(DecodeError::Truncated));
        assert_eq!(decoded(&credit[..15]), Err(DecodeError::Truncated));
        assert_eq!(with(0, 2), Err(DecodeError::Destination));
        assert_eq!(with(21, 0), Err(DecodeError::NoClass));
        assert_eq!(
            with(20, 0xff).map(|frame| frame.enabled),
            Ok(ClassSet::from_bits(1)),
            "the vector's upper half is ignored"
        );
    }

    #[test]
    fn what_others_say_is_no_credit() {
        let credit = encoded(credits(ClassSet::from_bits(1), [1; CLASSES]));
        for (at, byte, opcode) in [(15, 0xff, 0xffff), (18, 0x53, 0xfffe), (19, 2, 0xfffe)] {
            let mut frame = credit;
            frame[at] = byte;
            let Ok(ControlFrame::Raw(own)) = ControlFrame::decode(&frame) else { panic!("byte {at}") };
            assert_eq!((own.opcode, &own.content[..]), (opcode, &frame[16..]));
        }
    }

    #[test]
    fn a_queue_frame_is_message_3() {
        let lengths = [9, 0, 0, 75_000, 0, 0, 0, 0];
        let frame = ControlFrame::Queue(QueueLengthFrame { enabled: ClassSet::from_bits(8), lengths }).encode(SOURCE);
        let mut expected = encoded(credits(ClassSet::from_bits(8), lengths));
        expected[19] = 3;
        assert_eq!((frame, &frame[34..38]), (expected, &[0x00, 0x01, 0x24, 0xf8][..]));
        let read = QueueLengthFrame { enabled: ClassSet::from_bits(8), lengths: [0, 0, 0, 75_000, 0, 0, 0, 0] };
        assert_eq!(ControlFrame::decode(&frame), Ok(ControlFrame::Queue(read)));
    }

    #[test]
    fn counts_of_cells_are_messages_4_and_5_with_the_size_of_a_cell() {
        let cells = [9, 0, 0, 75_000, 0, 0, 0, 0];
        for (count, message) in [(CreditCount::Freed, 4), (CreditCount::Consumed, 5)] {
            let update = CreditUpdate { count, enabled: ClassSet::from_bits(9), cells, cell_bytes: 0x1234 };
            let frame = ControlFrame::Update(update).encode(SOURCE);
            let mut expected = encoded(credits(ClassSet::from_bits(9), cells));
            expected[19] = message;
            expected[58..].copy_from_slice(&[0x12, 0x34]);
            assert_eq!((frame, ControlFrame::decode(&frame)), (expected, Ok(ControlFrame::Update(update))));
            let cut = ControlFrame::Update(CreditUpdate { cell_bytes: 0, ..update });
            assert_eq!(ControlFrame::decode(&frame[..59]), Ok(cut), "no peer has cells of no size");
            let is_set = ControlFrame::Update(update).ordered_set() == Some(CreditUpdate::ORDERED_SET);
            assert_eq!(is_set, count == CreditCount::Freed);
        }
    }

    #[test]
    fn accounts_byte_by_byte() {
        let with =
            |account| encoded(CreditFrame { account, ..credits(ClassSet::from_bits(1), [1; CLASSES]) })[54..].to_vec();
        assert_eq!(with(CreditAccount::None), [0; 6]);
        assert_eq!(with(CreditAccount::Buffer { blocks: 0x1234 }), [1, 0, 0, 0, 0x12, 0x34]);
        assert_eq!(
            with(CreditAccount::Sent { class: Class::new(3), blocks: u32::MAX }),
            [2, 3, 0xff, 0xff, 0xff, 0xff]
        );
        // A truncated account, one of an unknown kind, or one of an invalid class is ignored.
        let full = encoded(CreditFrame {
            account: CreditAccount::Buffer { blocks: 7 },
            ..credits(ClassSet::from_bits(1), [1; CLASSES])
        });
        let read = |frame: &[u8]| decoded(frame).unwrap().account;
        assert_eq!((read(&full), read(&full[..59])), (CreditAccount::Buffer { blocks: 7 }, CreditAccount::None));
        for (kind, class) in [(3, 0), (2, 8), (2, 0xff)] {
            let mut invalid = full;
            (invalid[54], invalid[55]) = (kind, class);
            assert_eq!(read(&invalid), CreditAccount::None);
        }
    }

    fn any_account() -> impl Strategy<Value = CreditAccount> {
        prop_oneof![
            Just(CreditAccount::None),
            any::<u32>().prop_map(|blocks| CreditAccount::Buffer { blocks }),
            (0..CLASSES, any::<u32>())
                .prop_map(|(class, blocks)| CreditAccount::Sent { class: Class::ALL[class], blocks }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(enabled in (1..=255u8).prop_map(ClassSet::from_bits), limits: [u32; CLASSES], account in any_account()) {
            let limits = std::array::from_fn(|class| if enabled.contains(Class::new(class as u8)) { limits[class] } else { 0 });
            let frame = CreditFrame { enabled, limits, account };
            prop_assert_eq!(decoded(&encoded(frame)), Ok(frame));
        }

        /// Damages a valid frame anywhere. An accepted frame must encode to the decoded contents.
        #[test]
        fn damaged_frames_are_decoded_or_refused(cut in 0..61usize, damage in prop::collection::vec((0..60usize, any::<u8>()), 0..4)) {
            let mut frame = encoded(credits(ClassSet::ALL, [7; CLASSES]));
            damage.iter().for_each(|(at, byte)| frame[*at] = *byte);
            if let Ok(ControlFrame::Credit(credit)) = ControlFrame::decode(&frame[..cut]) {
                for class in credit.enabled.iter() {
                    let field = number_field(class.index());
                    prop_assert_eq!(&encoded(credit)[field.clone()], &frame[field]);
                }
            }
        }
    }
}
