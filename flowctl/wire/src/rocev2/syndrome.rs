//! Syndrome of an acknowledgement's AETH.

use weir_units::Span;

use super::ReadError;

/// Kind of an acknowledgement (IBA 9.7.5.2.1, tables 43 to 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive, with an encoded credit count; [`Syndrome::ACK`] without credits.
    Ack {
        /// Encoded credits, 5 bits; 31: end-to-end credits are not in use.
        credits: u8,
    },
    /// Negative (RNR): no buffer is posted for the message of the frame's PSN. Retry after [`Syndrome::wait`].
    RnrNak {
        /// Encoded time, 5 bits.
        timer: u8,
    },
    /// Negative: the frame's PSN was expected, and a later one arrived.
    SequenceError,
    /// Negative: the responder has closed the connection.
    Nak(NakCode),
}

/// NAK code: the reason why a responder has closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// The opcode, length or order of packets is invalid.
    InvalidRequest,
    /// The memory's key, range or rights do not allow the access.
    RemoteAccess,
    /// The responder could not complete the request.
    RemoteOperation,
    /// The reliable datagram context is invalid.
    InvalidDatagram,
}

/// High bits of a negative acknowledgement; the code is in the low five bits.
const NEGATIVE: u8 = 0x60;
const NOT_READY: u8 = 0x20;
const LOW: u8 = 0x1f;
/// Timer values in units of 10 us (IBA table 45).
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

    /// Returns the minimum wait before a retry; zero without one.
    pub const fn wait(self) -> Span {
        match self {
            Syndrome::RnrNak { timer } => Span::from_micros(10 * WAITS[(timer & LOW) as usize]),
            _ => Span::ZERO,
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & LOW,
            Syndrome::RnrNak { timer } => NOT_READY | timer & LOW,
            Syndrome::SequenceError => NEGATIVE,
            Syndrome::Nak(nak) => NEGATIVE | nak.code(),
        }
    }

    pub(super) fn from_byte(byte: u8) -> Result<Syndrome, ReadError> {
        match (byte & !LOW, byte & LOW) {
            (0, credits) => Ok(Syndrome::Ack { credits }),
            (NOT_READY, timer) => Ok(Syndrome::RnrNak { timer }),
            (NEGATIVE, 0) => Ok(Syndrome::SequenceError),
            (NEGATIVE, code) => {
                let known = NakCode::ALL.into_iter().find(|nak| nak.code() == code);
                known.map(Syndrome::Nak).ok_or(ReadError::Syndrome(byte))
            }
            _ => Err(ReadError::Syndrome(byte)),
        }
    }
}

impl NakCode {
    /// All codes.
    pub const ALL: [NakCode; 4] =
        [NakCode::InvalidRequest, NakCode::RemoteAccess, NakCode::RemoteOperation, NakCode::InvalidDatagram];

    /// Returns the name in the InfiniBand specification.
    pub const fn name(self) -> &'static str {
        match self {
            NakCode::InvalidRequest => "invalid request",
            NakCode::RemoteAccess => "remote access error",
            NakCode::RemoteOperation => "remote operational error",
            NakCode::InvalidDatagram => "invalid RD request",
        }
    }

    const fn code(self) -> u8 {
        match self {
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccess => 2,
            NakCode::RemoteOperation => 3,
            NakCode::InvalidDatagram => 4,
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
        assert_eq!(Syndrome::from_byte(0x62), Ok(Syndrome::Nak(NakCode::RemoteAccess)));
    }

    #[test]
    fn timers_are_the_tables() {
        let wait = |timer| Syndrome::RnrNak { timer }.wait();
        assert_eq!([1, 12, 31].map(wait), [10, 640, 491_520].map(Span::from_micros));
        assert_eq!((wait(0), Syndrome::ACK.wait()), (Span::from_micros(655_360), Span::ZERO));
        // Except for 0, each time is longer than the previous one.
        assert!((2..32).all(|timer| wait(timer) > wait(timer - 1)));
    }
}
