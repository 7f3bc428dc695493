//! Registry of TCP congestion controls by name.

use weir_reader::{Registry, RegistryError};

use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::reno::Reno;
use super::{Control, TcpControlKind};

static ALL: Registry<dyn TcpControlKind> = Registry::new("TCP", &[&Cubic, &Dctcp, &Reno]);

/// Adds a program's own kind, before the first file is read.
///
/// # Errors
/// The name is taken or can't be written in a file, or a file was read already.
pub fn add(kind: &'static dyn TcpControlKind) -> Result<(), RegistryError> {
    ALL.add(kind)
}

/// Returns all kinds: Weir's, then the added ones. Closes the registry: [`add`] fails from now on.
pub fn kinds() -> impl Iterator<Item = &'static dyn TcpControlKind> {
    ALL.all().iter().copied()
}

/// Kinds with their keys' defaults.
impl Control {
    /// Returns Reno (RFC 5681): a segment of growth per round trip, half the window after a loss.
    pub fn reno() -> Control {
        Control::of(&Reno)
    }

    /// Returns Cubic (RFC 9438).
    pub fn cubic() -> Control {
        Control::of(&Cubic)
    }

    /// Returns DCTCP (RFC 8257).
    pub fn dctcp() -> Control {
        Control::of(&Dctcp)
    }
}
