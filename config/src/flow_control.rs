//! Which flow control a port speaks, and with what.

use weir_units::{Bytes, Span};

/// Which flow control a port speaks; only one can stand on a link. All but PAUSE hold for the port's lossless classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// 802.1Qbb PFC; global PAUSE is counted and ignored.
    Pfc,
    /// 802.3x PAUSE; PFC is counted and ignored.
    Pause,
    /// Neither is sent or obeyed; lossless classes on such a port can overrun.
    None,
    /// Buffer-based Gentle Flow Control (GFC 4.2): the sender is slowed down by stages.
    GfcBuffer(GfcBufferConfig),
    /// Conceptual Gentle Flow Control (GFC 4.1): the sender's rate follows the queue's length, told whenever it changes.
    GfcConceptual(GfcConceptualConfig),
    /// Time-based Gentle Flow Control (GFC 5.2): the sender's rate follows the queue's length, told periodically.
    GfcTime(GfcTimeConfig),
    /// Credit-based flow control, as InfiniBand's.
    Cbfc(CbfcConfig),
}

impl FlowControl {
    /// What people call it, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            FlowControl::Pfc => "PFC",
            FlowControl::Pause => "PAUSE",
            FlowControl::None => "none",
            FlowControl::GfcBuffer(GfcBufferConfig { peer: GfcPeer::Gfc, .. }) => "GFC by stages",
            FlowControl::GfcBuffer(GfcBufferConfig { peer: GfcPeer::Pfc { .. }, .. }) => "GFC by stages, pulsed",
            FlowControl::GfcConceptual(_) => "GFC, conceptual",
            FlowControl::GfcTime(_) => "GFC by time",
            FlowControl::Cbfc(_) => "CBFC",
        }
    }

    /// Whether what the port sends and obeys is stages, which stand in PFC frames and are no pauses.
    pub fn tells_stages(&self) -> bool {
        matches!(self, FlowControl::GfcBuffer(GfcBufferConfig { peer: GfcPeer::Gfc, .. }))
    }

    /// Whether what the port sends is what its queues hold or have room for: credits, or lengths.
    pub fn tells_room(&self) -> bool {
        matches!(self, FlowControl::GfcConceptual(_) | FlowControl::GfcTime(_) | FlowControl::Cbfc(_))
    }

    /// Whether what the port sends is pauses, or would be if it spoke.
    pub fn tells_pauses(&self) -> bool {
        !self.tells_stages() && !self.tells_room()
    }

    /// B_m, or CBFC's buffer, with its key, as configured; `None` under flow control without one.
    pub fn limit(&self) -> Option<(&'static str, Option<Bytes>)> {
        match self {
            FlowControl::GfcBuffer(gfc) => Some(("b_m", gfc.b_m)),
            FlowControl::GfcConceptual(gfc) => Some(("b_m", gfc.b_m)),
            FlowControl::GfcTime(gfc) => Some(("b_m", gfc.b_m)),
            FlowControl::Cbfc(cbfc) => Some(("buffer", cbfc.buffer)),
            FlowControl::Pfc | FlowControl::Pause | FlowControl::None => None,
        }
    }

    /// The word that the file has for it: `kind` of `[ports.flow_control]`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            FlowControl::Pfc => "pfc",
            FlowControl::Pause => "pause",
            FlowControl::None => "none",
            FlowControl::GfcBuffer(_) => "gfc-buffer",
            FlowControl::GfcConceptual(_) => "gfc-conceptual",
            FlowControl::GfcTime(_) => "gfc-time",
            FlowControl::Cbfc(_) => "cbfc",
        }
    }
}

/// `kind = "gfc-buffer"`: stages `R_k = C / 2^k` from `B_k = B_m − (B_m − B_1) / 2^(k−1)` on. With the names of GFC (4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcBufferConfig {
    /// `tau`: τ, the feedback delay at most; without the period of pulses, which adds to it. `None` is by the rule
    /// `2 MTU/C + 2 D_prop + [pfc] reaction`.
    pub tau: Option<Span>,
    /// `b_m`: B_m, the length that a queue never passes. `None` is [`SwitchConfig::b_m_by_default`].
    ///
    /// [`SwitchConfig::b_m_by_default`]: crate::SwitchConfig::b_m_by_default
    pub b_m: Option<Bytes>,
    /// `b_1`: B_1, the length from which the sender has half the rate. `None` is the highest safe one, `B_m − 2 C τ`.
    pub b_1: Option<Bytes>,
    /// `refresh`: a stage is told again after this long. `None` is 65,535 byte times at the port's rate.
    pub refresh: Option<Span>,
    /// `ageing`: a stage that is not told again is forgotten after this long. `None` is [`GFC_AGEING_REFRESHES`] times `refresh`.
    pub ageing: Option<Span>,
    /// `peer`: what the other end understands.
    pub peer: GfcPeer,
    /// `unsafe_thresholds`: B_1 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

/// `ageing` where the file gives none, in refresh periods: with their default of 65,535 byte times as long as a PAUSE of PFC
/// lasts at most, 65,535 quanta of 64 B.
pub const GFC_AGEING_REFRESHES: u64 = 64;
/// `ageing` is at least so many refresh periods, so that messages may be lost.
pub const GFC_AGEING_REFRESHES_MIN: u64 = 4;

/// What the other end of a link with buffer-based GFC understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GfcPeer {
    /// GFC's stages.
    Gfc,
    /// PFC alone, as most NICs: a stage is made of pauses of `P (1 − R_k/C)` in each period P.
    Pfc {
        /// `pulse_period`: P, which adds to τ. `None` is [`GfcPeer::PULSE_PERIOD_DEFAULT`].
        period: Option<Span>,
    },
}

impl GfcPeer {
    /// P where the file gives none.
    pub const PULSE_PERIOD_DEFAULT: Span = Span::from_micros(100);
}

/// `kind = "gfc-conceptual"`: the rate is C up to B_0, and `C (B_m − q) / (B_m − B_0)` above. With the names of GFC (4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcConceptualConfig {
    /// `tau`: τ, as for [`GfcBufferConfig`]; without the period, which adds to it.
    pub tau: Option<Span>,
    /// `b_m`: B_m, as for [`GfcBufferConfig`].
    pub b_m: Option<Bytes>,
    /// `b_0`: B_0, the length from which the sender slows down. `None` is the highest safe one, `B_m − 4 C τ` (GFC, theorem 4.1).
    pub b_0: Option<Bytes>,
    /// `period`: the shortest time between two messages, which the paper takes for nothing. `None` is 1,250 byte times at the
    /// port's rate.
    pub period: Option<Span>,
    /// `refresh`: lengths are told again after this long. `None` is 65,535 byte times at the port's rate.
    pub refresh: Option<Span>,
    /// `ageing`: a length that is not told again is forgotten after this long. `None` is [`GFC_AGEING_REFRESHES`] times `refresh`.
    pub ageing: Option<Span>,
    /// `unsafe_thresholds`: B_0 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

/// `kind = "gfc-time"`: the rate is C up to B_0, and `C (B_m − q) / (B_m − B_0)` above. With the names of GFC (5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcTimeConfig {
    /// `tau`: τ, as for [`GfcBufferConfig`].
    pub tau: Option<Span>,
    /// `b_m`: B_m, as for [`GfcBufferConfig`].
    pub b_m: Option<Bytes>,
    /// `b_0`: B_0, the length from which the sender slows down. `None` is the highest safe one,
    /// `B_m − (√(τ/T) + 1)² C T` (GFC, theorem 5.1).
    pub b_0: Option<Bytes>,
    /// `period`: T, the time between two messages. `None` is 65,535 byte times at the port's rate.
    pub period: Option<Span>,
    /// `ageing`: a rate that no message sets again is forgotten after this long. `None` is [`GFC_AGEING_REFRESHES`] times T.
    pub ageing: Option<Span>,
    /// `unsafe_thresholds`: B_0 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

/// `kind = "cbfc"`: the sender has credit for what the queue has room for, and sends nothing without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbfcConfig {
    /// `buffer`: what one ingress queue may hold. `None` is [`SwitchConfig::b_m_by_default`].
    ///
    /// [`SwitchConfig::b_m_by_default`]: crate::SwitchConfig::b_m_by_default
    pub buffer: Option<Bytes>,
    /// `period`: the time between two messages. `None` is 65,535 byte times at the port's rate.
    pub period: Option<Span>,
}
