//! References to ports of a scenario.

/// Port of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRef {
    /// Index of the switch in the scenario.
    pub switch: usize,
    /// Index of the port in the switch's configuration.
    pub port: usize,
}

/// Far end of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPeer {
    /// Host, by index in the scenario.
    Host(usize),
    /// Another switch's port.
    Port(PortRef),
}
