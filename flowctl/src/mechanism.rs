//! What a port speaks with its peer.

use weir_units::{Bytes, Span};

use crate::gfc::{Mapping, StageTable};

/// A flow control with its parameters, from which both sides of a port are made: the [`MessageGenerator`](crate::MessageGenerator)
/// and the [`Regulator`](crate::Regulator). Both ends of a link need the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Nothing is told, nothing is obeyed.
    None,
    /// 802.1Qbb.
    Pfc {
        /// Pause time asked for, in quanta.
        quanta: u16,
        /// A PAUSE is repeated after this share of it.
        refresh_percent: u8,
    },
    /// 802.3x PAUSE of the whole link.
    Pause {
        /// Pause time asked for, in quanta.
        quanta: u16,
        /// A PAUSE is repeated after this share of it.
        refresh_percent: u8,
    },
    /// Buffer-based GFC.
    GfcBuffer {
        /// The same at both ends.
        stages: StageTable,
        /// After this long without change the stages are told again.
        refresh: Span,
        /// A stage that is not told again is forgotten after this long: the class has the line rate then.
        ageing: Span,
    },
    /// Buffer-based GFC toward a peer that only knows PFC, which is what is obeyed in turn.
    GfcPulse {
        /// Which rate a queue's length asks for.
        stages: StageTable,
        /// P, the period of the pauses.
        period: Span,
    },
    /// Conceptual GFC.
    GfcConceptual {
        /// Which rate a queue's length asks for.
        mapping: Mapping,
        /// The shortest time between two messages.
        period: Span,
        /// After this long without change the lengths are told again.
        refresh: Span,
        /// A length that is not told again is forgotten after this long: the class has the line rate then.
        ageing: Span,
    },
    /// Time-based GFC.
    GfcTime {
        /// Which rate a queue's length asks for.
        mapping: Mapping,
        /// B, what one class's queue may hold.
        buffer: Bytes,
        /// T, between two messages.
        period: Span,
        /// A rate that is not set again is forgotten after this long: the class has the line rate then.
        ageing: Span,
    },
    /// CBFC.
    Cbfc {
        /// What one class's queue may hold, and so the most credit that this end makes use of.
        buffer: Bytes,
        /// T, between two messages.
        period: Span,
    },
}

impl Mechanism {
    /// Whether its parameters are reckoned from the port's rate, as those of GFC and CBFC are: a port that speaks it keeps its
    /// rate. Pauses count in quanta, at whatever rate.
    pub fn is_made_for_a_rate(&self) -> bool {
        !matches!(self, Mechanism::None | Mechanism::Pfc { .. } | Mechanism::Pause { .. })
    }

    /// Whether what is told goes by the queues' lengths as they are: each arrival and departure may make a message due.
    pub fn goes_by_length(&self) -> bool {
        matches!(self, Mechanism::GfcBuffer { .. } | Mechanism::GfcPulse { .. } | Mechanism::GfcConceptual { .. })
    }
}
