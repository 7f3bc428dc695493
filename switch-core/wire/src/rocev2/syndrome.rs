//! What an acknowledgement says: the syndrome of its AETH.

use weir_units::Span;
use weir_units::archive::Value;

use super::ReadError;

/// The kind of an acknowledgement (IBA 9.7.5.2.1, tables 43 to 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub enum Syndrome {
    /// Positive, with an encoded credit count; [`Syndrome::ACK`] for none.
    Ack {
        /// 5 bits; 31: end-to-end credits are not in use.
        credits: u8,
    },
    /// Negative: no buffer waits for the message of the frame's PSN. It may be sent again after [`Syndrome::wait`].
    NotReady {
        /// 5 bits, which encode a time.
        timer: u8,
    },
    /// Negative: the frame's PSN was expected, and a later one came.
    SequenceError,
    /// Negative: the responder has given up the connection.
    Refused(Refusal),
}

/// Why a responder has given up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Value)]
pub enum Refusal {
    /// An opcode, a length or an order of packets that may not be.
    InvalidRequest,
    /// The key, the range or the rights of the memory do not allow it.
    RemoteAccess,
    /// The responder could not complete it.
    RemoteOperation,
    /// For a reliable datagram, whose context has none such.
    InvalidDatagram,
}

/// Negative acknowledgements are of this kind, with their code in the low five bits.
const NEGATIVE: u8 = 0x60;
const NOT_READY: u8 = 0x20;
const LOW: u8 = 0x1f;
/// What timers stand for, in units of 10 us (IBA table 45).
const WAITS: [u64; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072,
    4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

impl Syndrome {
    /// Positive, without credits.
    pub const ACK: Syndrome = Syndrome::Ack { credits: 31 };

    /// Whether the packet of the frame's PSN is not acknowledged, but only those before it.
    pub const fn is_negative(self) -> bool {
        !matches!(self, Syndrome::Ack { .. })
    }

    /// How long a sender is to wait before it sends again; zero where it need not.
    pub const fn wait(self) -> Span {
        match self {
            Syndrome::NotReady { timer } => Span::from_micros(10 * WAITS[(timer & LOW) as usize]),
            _ => Span::ZERO,
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & LOW,
            Syndrome::NotReady { timer } => NOT_READY | timer & LOW,
            Syndrome::SequenceError => NEGATIVE,
            Syndrome::Refused(refusal) => NEGATIVE | refusal.code(),
        }
    }

    pub(super) fn from_byte(byte: u8) -> Result<Syndrome, ReadError> {
        match (byte & !LOW, byte & LOW) {
            (0, credits) => Ok(Syndrome::Ack { credits }),
            (NOT_READY, timer) => Ok(Syndrome::NotReady { timer }),
            (NEGATIVE, 0) => Ok(Syndrome::SequenceError),
            (NEGATIVE, code) => {
                let known = Refusal::ALL.into_iter().find(|refusal| refusal.code() == code);
                known.map(Syndrome::Refused).ok_or(ReadError::Syndrome(byte))
            }
            _ => Err(ReadError::Syndrome(byte)),
        }
    }
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 4] =
        [Refusal::InvalidRequest, Refusal::RemoteAccess, Refusal::RemoteOperation, Refusal::InvalidDatagram];

    /// As InfiniBand has it.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::InvalidRequest => "invalid request",
            Refusal::RemoteAccess => "remote access error",
            Refusal::RemoteOperation => "remote operational error",
            Refusal::InvalidDatagram => "invalid RD request",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Refusal::InvalidRequest => 1,
            Refusal::RemoteAccess => 2,
            Refusal::RemoteOperation => 3,
            Refusal::InvalidDatagram => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_as_it_is_written_or_reserved() {
        let mut reserved = 0;
        for byte in 0..=255 {
            match Syndrome::from_byte(byte) {
                Ok(syndrome) => assert_eq!(syndrome.to_byte(), byte),
                Err(error) => {
                    assert_eq!(error, ReadError::Syndrome(byte));
                    reserved += 1;
                }
            }
        }
        assert_eq!(reserved, 256 - 32 - 32 - 5);
        assert_eq!(Syndrome::from_byte(0x62), Ok(Syndrome::Refused(Refusal::RemoteAccess)));
    }

    #[test]
    fn timers_are_the_tables() {
        let wait = |timer| Syndrome::NotReady { timer }.wait();
        assert_eq!([1, 12, 31].map(wait), [10, 640, 491_520].map(Span::from_micros));
        assert_eq!((wait(0), Syndrome::ACK.wait()), (Span::from_micros(655_360), Span::ZERO));
        // But for 0, each is longer than the one before.
        assert!((2..32).all(|timer| wait(timer) > wait(timer - 1)));
    }
}
