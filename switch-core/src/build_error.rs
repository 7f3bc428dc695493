//! Why a configuration makes no switch, and at which of its lines.

use std::fmt;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_flowctl::gfc::ThresholdError;
use weir_mmu::LayoutError;
use weir_units::{Bytes, MacAddr, Span};

/// Why a configuration makes no switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The buffer's segments do not fit.
    Layout(LayoutError),
    /// More can depart from a port in the policy's window than it counts.
    Window {
        /// The key of the window.
        key: &'static str,
        /// The longest that the fastest port allows.
        longest: Span,
    },
    /// A threshold of GFC does not keep to its theorem, so that the buffer may overflow.
    Threshold {
        /// The port, by its place.
        port: usize,
        /// The key of the threshold.
        key: &'static str,
        /// Which theorem, and the bound.
        error: ThresholdError,
    },
    /// A static address does not fit the forwarding table.
    StaticMac(MacAddr),
}

impl BuildError {
    /// The error, pointing at the configuration's line that it comes from.
    pub fn at_line(&self, config: &SwitchConfig) -> ConfigErrors {
        match self {
            BuildError::Layout(_) => config.error_at("buffer.size", self.to_string(), "make the buffer larger"),
            BuildError::Window { key, longest } => {
                config.error_at(key, self.to_string(), format!("write \"{longest}\" or less"))
            }
            BuildError::Threshold { port, key, error } => {
                let at = format!("ports[{port}].flow_control");
                let at = match config.source.line_of(&format!("{at}.{key}")) {
                    Some(_) => format!("{at}.{key}"),
                    None => at,
                };
                let help = match highest(error) {
                    Some(highest) => {
                        format!(
                            "write {key} = \"{highest}\" or less; for an experiment that may lose frames, unsafe_thresholds = true"
                        )
                    }
                    None => "make b_m larger or tau smaller; for an experiment that may lose frames, write \
                             unsafe_thresholds = true"
                        .to_owned(),
                };
                config.error_at(&at, self.to_string(), help)
            }
            BuildError::StaticMac(_) => config.error_at("static_macs", self.to_string(), "leave out some of them"),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Layout(error) => error.fmt(f),
            BuildError::Window { longest, .. } => {
                write!(f, "the fastest port sends more in this window than is counted; {longest} is the longest")
            }
            BuildError::Threshold { key, error, .. } => match error {
                ThresholdError::NotBelowBuffer => write!(f, "`{key}` is not below `b_m`"),
                ThresholdError::Theorem41 { highest } => above(f, key, "B_m - 4 C tau (GFC, theorem 4.1)", *highest),
                ThresholdError::Equation5 { highest } => above(f, key, "B_m - 2 C tau (GFC, equation 5)", *highest),
                ThresholdError::Theorem51 { highest } => {
                    above(f, key, "B_m - (sqrt(tau/T) + 1)^2 C T (GFC, theorem 5.1)", *highest)
                }
            },
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
