//! From a configuration to what each port speaks, with thresholds that keep to the theorems.

use weir_config::{FlowControl, GfcPeer, SwitchConfig};
use weir_flowctl::cbfc::Advertiser;
use weir_flowctl::gfc::{Mapping, StageTable, ThresholdError, feedback_delay_max, stage};
use weir_flowctl::gfc::{buffer_based_b1_max, time_based_b0_max};
use weir_flowctl::{Mechanism, wire_bytes};
use weir_units::{BitRate, Bytes, FCS_BYTES, Span};

use crate::build_error::BuildError;

/// The period of pulses toward a peer that only knows PFC.
pub const PULSE_PERIOD: Span = Span::from_micros(100);

/// What a port speaks, at this rate.
///
/// # Errors
/// [`BuildError::Threshold`] if B_1 or B_0 breaks its theorem and is not declared unsafe.
pub fn mechanism(config: &SwitchConfig, port: usize, rate: BitRate) -> Result<Mechanism, BuildError> {
    let pfc = config.pfc;
    let (quanta, refresh_percent) = (pfc.quanta, pfc.refresh_percent);
    let b_m = |given: Option<Bytes>| given.or(config.b_m_by_default(port)).unwrap_or_default();
    let refused = |key, error: ThresholdError| BuildError::Threshold { port, key, error };
    Ok(match config.ports[port].flow_control {
        FlowControl::None => Mechanism::None,
        FlowControl::Pfc => Mechanism::Pfc { quanta, refresh_percent },
        FlowControl::Pause => Mechanism::Pause { quanta, refresh_percent },
        FlowControl::GfcBuffer(gfc) => {
            let (b_m, tau) = (b_m(gfc.b_m), feedback_delay(config, port, rate));
            let highest = buffer_based_b1_max(b_m, rate, tau);
            let b_1 = gfc.b_1.or(highest);
            let make = if gfc.unsafe_thresholds {
                StageTable::without_guarantee(b_m, b_1.unwrap_or(Bytes::ZERO), rate)
            } else {
                b_1.map_or(Err(ThresholdError::Equation5 { highest }), |b_1| StageTable::new(b_m, b_1, rate, tau))
            };
            let stages = make.map_err(|error| refused("b_1", error))?;
            match gfc.peer {
                GfcPeer::Gfc => Mechanism::GfcBuffer {
                    stages,
                    refresh: gfc.refresh.unwrap_or_else(|| stage::Generator::refresh_by_default(rate)),
                },
                GfcPeer::Pfc { period } => Mechanism::GfcPulse { stages, period: period.unwrap_or(PULSE_PERIOD) },
            }
        }
        FlowControl::GfcTime(gfc) => {
            let (b_m, tau) = (b_m(gfc.b_m), feedback_delay(config, port, rate));
            let period = gfc.period.unwrap_or_else(|| Advertiser::period_by_default(rate));
            let highest = time_based_b0_max(b_m, rate, tau, period);
            let b_0 = gfc.b_0.or(highest);
            let make = if gfc.unsafe_thresholds {
                Mapping::without_guarantee(b_m, b_0.unwrap_or(Bytes::ZERO), rate)
            } else {
                let safe = |b_0| Mapping::time_based(b_m, b_0, rate, tau, period);
                b_0.map_or(Err(ThresholdError::Theorem51 { highest }), safe)
            };
            Mechanism::GfcTime { mapping: make.map_err(|error| refused("b_0", error))?, buffer: b_m, period }
        }
        FlowControl::Cbfc(cbfc) => Mechanism::Cbfc {
            buffer: b_m(cbfc.buffer),
            period: cbfc.period.unwrap_or_else(|| Advertiser::period_by_default(rate)),
        },
    })
}

/// τ of a port, as configured or by the rule `2·MTU/C + 2·D_prop + reaction` (gfc eq. 6). With a peer that only knows PFC it has
/// the period of the pulses too.
pub fn feedback_delay(config: &SwitchConfig, port: usize, rate: BitRate) -> Span {
    let (tau, pulses) = match config.ports[port].flow_control {
        FlowControl::GfcBuffer(gfc) => match gfc.peer {
            GfcPeer::Gfc => (gfc.tau, Span::ZERO),
            GfcPeer::Pfc { period } => (gfc.tau, period.unwrap_or(PULSE_PERIOD)),
        },
        FlowControl::GfcTime(gfc) => (gfc.tau, Span::ZERO),
        _ => (None, Span::ZERO),
    };
    let frame = wire_bytes((config.frame_bytes_max().get() - FCS_BYTES) as u32);
    let by_rule = || feedback_delay_max(rate, frame, config.ports[port].delay, config.pfc.reaction);
    tau.unwrap_or_else(by_rule) + pulses
}

/// The highest B_1 or B_0 of a port that keeps to its theorem, under GFC; `None` otherwise, and where the buffer is too
/// small for any.
pub fn highest_threshold(config: &SwitchConfig, port: usize, mechanism: &Mechanism, rate: BitRate) -> Option<Bytes> {
    let tau = feedback_delay(config, port, rate);
    match mechanism {
        Mechanism::GfcBuffer { stages, .. } | Mechanism::GfcPulse { stages, .. } => {
            buffer_based_b1_max(stages.b_m(), rate, tau)
        }
        Mechanism::GfcTime { mapping, period, .. } => time_based_b0_max(mapping.b_m(), rate, tau, *period),
        _ => None,
    }
}
