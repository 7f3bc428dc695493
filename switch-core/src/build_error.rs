//! Why a configuration makes no switch, and at which of its lines.

use std::fmt;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_flowctl::gfc::ThresholdError;
use weir_mmu::LayoutError;
use weir_mmu::policy::PolicyError;
use weir_units::{Bytes, MacAddr};

/// Why a configuration makes no switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The buffer's segments do not fit.
    Layout(LayoutError),
    /// The policy can't work with ports of these rates.
    Policy(PolicyError),
    /// A threshold of GFC does not keep to its theorem, so that the buffer may overflow.
    Threshold {
        /// The port, by its place.
        port: usize,
        /// The key of the threshold.
        key: &'static str,
        /// Which theorem, and the bound.
        error: ThresholdError,
        /// What must be free above the threshold, whatever B_m is.
        kept_free: Option<Bytes>,
    },
    /// A lossless ingress queue may grow longer than what the buffer keeps for it, so that frames may be lost:
    /// of [`crate::flow_control::check`].
    Room {
        /// The port, by its place.
        port: usize,
        /// The key of the limit.
        key: &'static str,
        /// How long the queue may grow; one frame can come on top.
        limit: Bytes,
        /// What the buffer keeps.
        kept: Bytes,
    },
    /// A static address does not fit the forwarding table.
    StaticMac(MacAddr),
}

impl BuildError {
    /// The error, pointing at the configuration's line that it comes from.
    pub fn at_line(&self, config: &SwitchConfig) -> ConfigErrors {
        match self {
            BuildError::Layout(_) => config.error_at("buffer.size", self.to_string(), "make the buffer larger"),
            BuildError::Policy(PolicyError { key, message, help }) => {
                config.error_at(&config.buffer.policy.at(key), message, help)
            }
            BuildError::Threshold { port, key, error, kept_free } => {
                let help = match (highest(error), kept_free) {
                    (Some(highest), _) => format!("write {key} = \"{highest}\" or less"),
                    (None, Some(free)) => {
                        format!(
                            "b_m must be above {free}: make it larger (or `threshold` in [buffer.static]), or tau smaller"
                        )
                    }
                    (None, None) => "make b_m larger or tau smaller".to_owned(),
                };
                config.error_at(&flow_control(*port, key), self.to_string(), help + FOR_AN_EXPERIMENT)
            }
            BuildError::Room { port, key, .. } => {
                let help = match config.b_m_by_default(*port) {
                    Some(highest) if highest > Bytes::ZERO => {
                        format!("write {key} = \"{highest}\" or less, or a larger `threshold` in [buffer.static]")
                    }
                    _ => "write a larger `threshold` in [buffer.static]".to_owned(),
                };
                let experiment = if *key == "b_m" { FOR_AN_EXPERIMENT } else { "" };
                config.error_at(&flow_control(*port, key), self.to_string(), help + experiment)
            }
            BuildError::StaticMac(_) => config.error_at("static_macs", self.to_string(), "leave out some of them"),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Layout(error) => error.fmt(f),
            BuildError::Policy(error) => error.fmt(f),
            BuildError::Threshold { key, error, .. } => match error {
                ThresholdError::NotBelowBuffer => write!(f, "`{key}` is not below `b_m`"),
                ThresholdError::Theorem41 { highest } => above(f, key, "B_m - 4 C tau (GFC, theorem 4.1)", *highest),
                ThresholdError::Equation5 { highest } => above(f, key, "B_m - 2 C tau (GFC, equation 5)", *highest),
                ThresholdError::Theorem51 { highest } => {
                    above(f, key, "B_m - (sqrt(tau/T) + 1)^2 C T (GFC, theorem 5.1)", *highest)
                }
            },
            BuildError::Room { key, limit, kept, .. } => write!(
                f,
                "`{key}` {limit} and a frame for each part are more than the {kept} that the buffer keeps for a queue (`private`, `threshold` \
                 and headroom): the queue may overflow"
            ),
            BuildError::StaticMac(address) => {
                write!(
                    f,
                    "the forwarding table has no place for the static address {address}: too many share its bucket"
                )
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// A key of a port's flow control. Where the file does not have it, its default did the harm, and errors point at the table.
fn flow_control(port: usize, key: &str) -> String {
    format!("ports[{port}].flow_control.{key}")
}

/// The bound that a threshold breaks, where there is one.
fn highest(error: &ThresholdError) -> Option<Bytes> {
    match error {
        ThresholdError::NotBelowBuffer => None,
        ThresholdError::Theorem41 { highest }
        | ThresholdError::Equation5 { highest }
        | ThresholdError::Theorem51 { highest } => *highest,
    }
}

fn above(f: &mut fmt::Formatter<'_>, key: &str, bound: &str, highest: Option<Bytes>) -> fmt::Result {
    match highest {
        Some(highest) => write!(f, "`{key}` is above {bound}, which is {highest}: the buffer may overflow"),
        None => write!(f, "no `{key}` keeps to {bound}: the buffer is too small for this feedback delay"),
    }
}

const FOR_AN_EXPERIMENT: &str = "; for an experiment that may lose frames, unsafe_thresholds = true";
