//! Places of nodes and ports in a scenario.

use weir_units::archive::Value;

/// A port of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Value)]
pub struct PortRef {
    /// The switch, by its place in the scenario.
    pub switch: usize,
    /// The port, by its place in the switch's configuration.
    pub port: usize,
}

/// The far end of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPeer {
    /// A host, by its place in the scenario.
    Host(usize),
    /// Another switch's port.
    Port(PortRef),
}
