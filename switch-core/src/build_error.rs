//! Why a configuration makes no switch, and at which of its lines.

use std::fmt;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_mmu::LayoutError;
use weir_units::{MacAddr, Span};

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
