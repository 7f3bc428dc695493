//! Errors of a configuration from which no switch can be built, with their lines.

use std::fmt;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_flowctl::{ConfigRejection, FOR_AN_EXPERIMENT};
use weir_mmu::LayoutError;
use weir_mmu::policy::PolicyError;
use weir_units::{Bytes, MacAddr};

/// Reason why no switch can be built from a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The buffer's segments do not fit.
    Layout(LayoutError),
    /// The policy can't work with ports of these rates.
    Policy(PolicyError),
    /// A value of a port's flow control breaks one of its guarantees, such as a GFC threshold its theorem.
    FlowControl {
        /// Index of the port.
        port: usize,
        /// Key, error, and replacement.
        refusal: ConfigRejection,
    },
    /// A lossless ingress queue may grow longer than the buffer's reserve for it, so that frames may be lost; found by
    /// [`crate::flow_control::check`].
    Room {
        /// Index of the port.
        port: usize,
        /// Key of the limit.
        key: &'static str,
        /// Length limit of the queue, which one frame can exceed.
        limit: Bytes,
        /// Bytes that the buffer reserves.
        kept: Bytes,
    },
    /// A static address does not fit the forwarding table.
    StaticMac(MacAddr),
}

impl BuildError {
    /// Returns the error with its line in the configuration.
    pub fn at_line(&self, config: &SwitchConfig) -> ConfigErrors {
        match self {
            BuildError::Layout(_) => config.error_at("buffer.size", self.to_string(), "make the buffer larger"),
            BuildError::Policy(PolicyError { key, message, help }) => {
                config.error_at(&config.buffer.policy.key_path(key), message, help)
            }
            BuildError::FlowControl { port, refusal } => {
                config.error_at(&flow_control(*port, refusal.key), self.to_string(), refusal.help.clone())
            }
            BuildError::Room { port, key, .. } => {
                let help = match config.b_m_by_default(*port) {
                    Some(highest) if highest > Bytes::ZERO => {
                        format!("write {key} = \"{highest}\" or less, or a larger `threshold` in [buffer.static]")
                    }
                    _ => "write a larger `threshold` in [buffer.static]".to_owned(),
                };
                let may_be_unsafe =
                    config.ports[*port].flow_control.limit().is_some_and(|limit| limit.is_unsafe.is_some());
                let experiment = if may_be_unsafe { FOR_AN_EXPERIMENT } else { "" };
                config.error_at(&flow_control(*port, key), self.to_string(), help + experiment)
            }
            BuildError::StaticMac(_) => {
                config.error_at("static_macs", self.to_string(), "remove some static addresses")
            }
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Layout(error) => error.fmt(f),
            BuildError::Policy(error) => error.fmt(f),
            BuildError::FlowControl { refusal, .. } => f.write_str(&refusal.message),
            BuildError::Room { key, limit, kept, .. } => write!(
                f,
                "`{key}` {limit} and a frame for each part are more than the {kept} that the buffer keeps for a queue (`private`, `threshold` \
                 and headroom): the queue may overflow"
            ),
            BuildError::StaticMac(address) => {
                write!(f, "static address {address}: its bucket of the forwarding table is full")
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// Returns the path of a key of a port's flow control. If the file lacks the key, its default is at fault, and errors point at the table.
fn flow_control(port: usize, key: &str) -> String {
    format!("ports[{port}].flow_control.{key}")
}
