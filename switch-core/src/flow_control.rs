//! From a configuration to what each port speaks, with thresholds that keep to the theorems.

#[cfg(test)]
mod tests;

use weir_config::{ConfigErrors, FlowControl, GFC_AGEING_REFRESHES, GfcPeer, SwitchConfig};
use weir_flowctl::cbfc::Advertiser;
use weir_flowctl::gfc::{Mapping, StageTable, ThresholdError, length};
use weir_flowctl::gfc::{buffer_based_b1_max, conceptual_b0_max, time_based_b0_max};
use weir_flowctl::{Mechanism, wire_bytes};
use weir_units::{BitRate, Bytes, FCS_BYTES, LINK_OVERHEAD, Span};

use crate::build_error::BuildError;

/// C of a port that neither the configuration nor the device gives a rate: for quanta only, it is not shaped.
pub const RATE_UNKNOWN: BitRate = BitRate::gbps(10);

/// Looks at what all ports of a file speak, for before anything is started. A port without a rate, which under GFC and CBFC none
/// is, is taken for one of [`RATE_UNKNOWN`].
///
/// # Errors
/// All thresholds that break their theorem and all queues that the buffer does not keep enough for, where they are not declared
/// unsafe; each at its line.
pub fn check(config: &SwitchConfig) -> Result<(), ConfigErrors> {
    let wrong = config.real_ports().flat_map(|port| {
        let rate = config.ports[port].rate.unwrap_or(RATE_UNKNOWN);
        [mechanism(config, port, rate).err(), room(config, port).err()].into_iter().flatten()
    });
    ConfigErrors::joined(wrong.map(|error| error.at_line(config))).map_or(Ok(()), Err)
}

/// What a port speaks, at this rate.
///
/// # Errors
/// [`BuildError::Threshold`] if B_1 or B_0 breaks its theorem and is not declared unsafe.
pub fn mechanism(config: &SwitchConfig, port: usize, rate: BitRate) -> Result<Mechanism, BuildError> {
    let pfc = config.pfc;
    let (quanta, refresh_percent) = (pfc.quanta, pfc.refresh_percent);
    let limit = queue_limit(config, port).unwrap_or_default();
    // The theorems are about bytes that fill the buffer as they come over the wire.
    let reckoned = |span| config.buffer.span_in_cells(span);
    let highest = highest_threshold(config, port, rate);
    let refused = |key, error: ThresholdError| BuildError::Threshold {
        port,
        key,
        error,
        kept_free: kept_free(config, port, rate),
    };
    Ok(match config.ports[port].flow_control {
        FlowControl::None => Mechanism::None,
        FlowControl::Pfc => Mechanism::Pfc { quanta, refresh_percent },
        FlowControl::Pause => Mechanism::Pause { quanta, refresh_percent },
        FlowControl::GfcBuffer(gfc) => {
            let (b_m, tau) = (limit, reckoned(feedback_delay(config, port, rate)));
            let b_1 = gfc.b_1.or(highest);
            let make = if gfc.unsafe_thresholds {
                StageTable::without_guarantee(b_m, b_1.unwrap_or(Bytes::ZERO), rate)
            } else {
                b_1.map_or(Err(ThresholdError::Equation5 { highest }), |b_1| StageTable::new(b_m, b_1, rate, tau))
            };
            let stages = make.map_err(|error| refused("b_1", error))?;
            match gfc.peer {
                GfcPeer::Gfc => {
                    let refresh = gfc.refresh.unwrap_or_else(|| Advertiser::period_by_default(rate));
                    Mechanism::GfcBuffer { stages, refresh, ageing: gfc.ageing.unwrap_or(ageing_by_default(refresh)) }
                }
                GfcPeer::Pfc { period } => {
                    Mechanism::GfcPulse { stages, period: period.unwrap_or(GfcPeer::PULSE_PERIOD_DEFAULT) }
                }
            }
        }
        FlowControl::GfcConceptual(gfc) => {
            let (b_m, tau) = (limit, reckoned(feedback_delay(config, port, rate)));
            let b_0 = gfc.b_0.or(highest);
            let make = if gfc.unsafe_thresholds {
                Mapping::without_guarantee(b_m, b_0.unwrap_or(Bytes::ZERO), rate)
            } else {
                let safe = |b_0| Mapping::conceptual(b_m, b_0, rate, tau);
                b_0.map_or(Err(ThresholdError::Theorem41 { highest }), safe)
            };
            let refresh = gfc.refresh.unwrap_or_else(|| Advertiser::period_by_default(rate));
            Mechanism::GfcConceptual {
                mapping: make.map_err(|error| refused("b_0", error))?,
                period: conceptual_period(gfc.period, rate),
                refresh,
                ageing: gfc.ageing.unwrap_or(ageing_by_default(refresh)),
            }
        }
        FlowControl::GfcTime(gfc) => {
            let (b_m, tau) = (limit, reckoned(feedback_delay(config, port, rate)));
            let period = gfc.period.unwrap_or_else(|| Advertiser::period_by_default(rate));
            let b_0 = gfc.b_0.or(highest);
            let make = if gfc.unsafe_thresholds {
                Mapping::without_guarantee(b_m, b_0.unwrap_or(Bytes::ZERO), rate)
            } else {
                let safe = |b_0| Mapping::time_based(b_m, b_0, rate, tau, reckoned(period));
                b_0.map_or(Err(ThresholdError::Theorem51 { highest }), safe)
            };
            let (mapping, ageing) = (make.map_err(|error| refused("b_0", error))?, gfc.ageing);
            Mechanism::GfcTime { mapping, buffer: b_m, period, ageing: ageing.unwrap_or(ageing_by_default(period)) }
        }
        FlowControl::Cbfc(cbfc) => Mechanism::Cbfc {
            buffer: limit,
            period: cbfc.period.unwrap_or_else(|| Advertiser::period_by_default(rate)),
        },
    })
}

/// How long GFC goes by a message that is not repeated, where the file says nothing.
fn ageing_by_default(refresh: Span) -> Span {
    refresh * GFC_AGEING_REFRESHES
}

/// The shortest time between two messages of conceptual GFC, as configured or by default.
fn conceptual_period(given: Option<Span>, rate: BitRate) -> Span {
    given.unwrap_or_else(|| length::Generator::period_by_default(rate))
}

/// How long a lossless ingress queue of a port may grow under GFC and CBFC: B_m, or CBFC's buffer, as configured or by
/// default. `None` under all else.
pub fn queue_limit(config: &SwitchConfig, port: usize) -> Option<Bytes> {
    let (_, given) = config.ports[port].flow_control.limit()?;
    Some(given.or(config.b_m_by_default(port)).unwrap_or_default())
}

/// Whether the buffer keeps as much for a port's queues as they may hold, and the frame that passes their limit: under the static
/// policy, since every other policy's thresholds move.
///
/// # Errors
/// [`BuildError::Room`] if it keeps less, and that is not declared unsafe.
pub fn room(config: &SwitchConfig, port: usize) -> Result<(), BuildError> {
    let flow_control = &config.ports[port].flow_control;
    match (flow_control.limit(), queue_limit(config, port), config.kept_for_a_queue(port)) {
        (Some((key, _)), Some(limit), Some(kept)) if !is_unsafe(flow_control) && !has_room(config, port) => {
            Err(BuildError::Room { port, key, limit, kept })
        }
        _ => Ok(()),
    }
}

/// Whether what the buffer keeps for a port's queue takes the longest that it may be and a frame, both in whole cells.
pub fn has_room(config: &SwitchConfig, port: usize) -> bool {
    let cell = u64::from(config.buffer.cell_bytes);
    match (queue_limit(config, port), config.b_m_by_default(port)) {
        (Some(limit), Some(highest)) => limit.get() / cell * cell <= highest.get(),
        _ => true,
    }
}

/// Whether a port's thresholds are declared unsafe.
pub fn is_unsafe(flow_control: &FlowControl) -> bool {
    match flow_control {
        FlowControl::GfcBuffer(gfc) => gfc.unsafe_thresholds,
        FlowControl::GfcConceptual(gfc) => gfc.unsafe_thresholds,
        FlowControl::GfcTime(gfc) => gfc.unsafe_thresholds,
        FlowControl::Pfc | FlowControl::Pause | FlowControl::None | FlowControl::Cbfc(_) => false,
    }
}

/// τ of a port under GFC, by its terms (gfc eq. 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackDelay {
    /// As configured, in place of the rule; without [`FeedbackDelay::period`].
    pub given: Option<Span>,
    /// 2·MTU/C: a frame under way at each end, as a real wire counts it.
    pub frames: Span,
    /// 2·D_prop: to the peer and back.
    pub wire: Span,
    /// `[pfc] reaction`: how long a message takes to be made and obeyed.
    pub reaction: Span,
    /// How long a change may wait for its message: P, with a peer that only knows PFC; T, the shortest time between two
    /// messages, of conceptual GFC.
    pub period: Span,
}

impl FeedbackDelay {
    /// That of a port at this rate.
    pub fn of(config: &SwitchConfig, port: usize, rate: BitRate) -> FeedbackDelay {
        let (given, period) = match config.ports[port].flow_control {
            FlowControl::GfcBuffer(gfc) => match gfc.peer {
                GfcPeer::Gfc => (gfc.tau, Span::ZERO),
                GfcPeer::Pfc { period } => (gfc.tau, period.unwrap_or(GfcPeer::PULSE_PERIOD_DEFAULT)),
            },
            FlowControl::GfcConceptual(gfc) => (gfc.tau, conceptual_period(gfc.period, rate)),
            FlowControl::GfcTime(gfc) => (gfc.tau, Span::ZERO),
            _ => (None, Span::ZERO),
        };
        let frame = wire_bytes((config.frame_bytes_max().get() - FCS_BYTES) as u32, LINK_OVERHEAD);
        FeedbackDelay {
            given,
            frames: rate.time_for(frame) * 2,
            wire: config.ports[port].delay * 2,
            reaction: config.pfc.reaction,
            period,
        }
    }

    /// What the rule gives, without the period: `2·MTU/C + 2·D_prop + reaction`.
    pub fn by_rule(&self) -> Span {
        self.frames + self.wire + self.reaction
    }

    /// τ, with the period.
    pub fn total(&self) -> Span {
        self.given.unwrap_or(self.by_rule()) + self.period
    }
}

/// τ of a port: [`FeedbackDelay::total`].
pub fn feedback_delay(config: &SwitchConfig, port: usize, rate: BitRate) -> Span {
    FeedbackDelay::of(config, port, rate).total()
}

/// The highest B_1 or B_0 of a port at this rate that keeps to its theorem, under GFC; `None` otherwise, and where the buffer is
/// too small for any.
pub fn highest_threshold(config: &SwitchConfig, port: usize, rate: BitRate) -> Option<Bytes> {
    highest_below(config, port, rate, queue_limit(config, port)?)
}

/// What must be free above B_1 or B_0, whatever B_m is: 2Cτ, 4Cτ, or (√(τ/T) + 1)²·C·T. `None` where a port speaks no GFC.
fn kept_free(config: &SwitchConfig, port: usize, rate: BitRate) -> Option<Bytes> {
    let any = Bytes::new(u64::MAX);
    Some(any - highest_below(config, port, rate, any)?)
}

/// [`highest_threshold`] below this B_m. The theorems are about bytes that fill the buffer as they come over the wire.
fn highest_below(config: &SwitchConfig, port: usize, rate: BitRate, b_m: Bytes) -> Option<Bytes> {
    let tau = config.buffer.span_in_cells(feedback_delay(config, port, rate));
    match config.ports[port].flow_control {
        FlowControl::GfcBuffer(_) => buffer_based_b1_max(b_m, rate, tau),
        FlowControl::GfcConceptual(_) => conceptual_b0_max(b_m, rate, tau),
        FlowControl::GfcTime(gfc) => {
            let period = gfc.period.unwrap_or_else(|| Advertiser::period_by_default(rate));
            time_based_b0_max(b_m, rate, tau, config.buffer.span_in_cells(period))
        }
        _ => None,
    }
}
