//! Load balancing: the choice of a frame's port among several of equal cost.
//!
//! Files choose among [`PATH_SELECTORS`], each in a file here, by the `load_balancing` of a switch. Another crate adds one with a
//! [`PathSelectorKind`], which parses the switch's table; its [configuration](PathSelectorConfig); and a [`PathSelector`] for each
//! forwarder.

#![forbid(unsafe_code)]

mod drill;
mod flow_hash;
mod flowlet;
mod random;
mod round_robin;
mod shortest_queue;

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Plugin, Registry, Table};
use weir_units::{PortId, Time};

pub use flow_hash::FlowHash;
pub use flowlet::FlowletConfig;

/// Registry of the load balancing that files can choose. The first one, the flow's hash, is the default.
pub static PATH_SELECTORS: Registry<dyn PathSelectorKind> = Registry::new(
    "load balancing",
    &[&FlowHash, &random::KIND, &round_robin::KIND, &shortest_queue::KIND, &drill::KIND, &flowlet::KIND],
);

/// Load balancing that files choose by name. Its keys are next to `load_balancing` in `[switch]`.
pub trait PathSelectorKind: Plugin + Debug {
    /// Parses the table of a switch.
    fn read(&self, table: &Table<'_>) -> PathSelectorChoice;

    /// Returns whether frames of a flow may overtake each other.
    fn reorders(&self) -> bool {
        true
    }
}

/// Chosen load balancing; dereferences to its [configuration](PathSelectorConfig).
#[derive(Clone, Debug)]
pub struct PathSelectorChoice(Arc<dyn PathSelectorConfig>);

impl PathSelectorChoice {
    /// Wraps a configuration.
    pub fn new(config: impl PathSelectorConfig + 'static) -> PathSelectorChoice {
        PathSelectorChoice(Arc::new(config))
    }
}

/// Hash of the flow.
impl Default for PathSelectorChoice {
    fn default() -> PathSelectorChoice {
        PathSelectorChoice::new(FlowHash)
    }
}

impl Deref for PathSelectorChoice {
    type Target = dyn PathSelectorConfig;

    fn deref(&self) -> &(dyn PathSelectorConfig + 'static) {
        &*self.0
    }
}

/// Configuration of a switch's load balancing.
pub trait PathSelectorConfig: Debug + Send + Sync {
    /// Returns the name in files.
    fn kind(&self) -> &'static str;

    /// Returns the selector of one forwarder; `None` for the hash of the flow, which has no state.
    fn selector(&self) -> Option<Box<dyn PathSelector>>;
}

/// Selector of one forwarder: an lcore, or a switch in virtual time. A call takes no lock and allocates nothing.
pub trait PathSelector: Debug + Send {
    /// Returns the index of the frame's port, below the number of ports.
    fn select(&mut self, frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize;
}

/// Frame whose port is to be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// Arrival of the frame.
    pub now: Time,
    /// Hash of the frame's flow, which differs from switch to switch.
    pub flow_hash: u32,
    /// Length of the frame in bytes, without FCS.
    pub frame_bytes: u32,
}

/// Ports of equal cost toward a frame's destination: at least two.
pub trait EqualCostPorts {
    /// Returns the ports.
    fn ports(&self) -> &[PortId];

    /// Returns the length in bytes of a port's egress queue of the frame's class, by the port's index. A frame on the wire does not count.
    fn queue_bytes(&self, index: usize) -> u64;

    /// Returns whether the port at an index can't send the frame now: its peer has paused the class or given no credit, or it is closed.
    fn is_held(&self, index: usize) -> bool;

    /// Draws a number below `n`, which must not be 0.
    fn below(&mut self, n: u32) -> u32;
}

/// Length of a port's queue for comparison: a held port is longer than all others.
fn load(ports: &dyn EqualCostPorts, index: usize) -> (bool, u64) {
    (ports.is_held(index), ports.queue_bytes(index))
}

#[cfg(test)]
mod tests;
