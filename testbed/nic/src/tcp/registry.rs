//! All controls of TCP's window by name.

use weir_reader::{Registry, RegistryError};

use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::reno::Reno;
use super::{Control, TcpControlKind};

static ALL: Registry<dyn TcpControlKind> = Registry::new("TCP", &[&Cubic, &Dctcp, &Reno]);

/// Adds a kind of a program's own, before the first file is read.
///
/// # Errors
/// Another has its name, it can't be written in a file, or files were read already.
pub fn add(kind: &'static dyn TcpControlKind) -> Result<(), RegistryError> {
    ALL.add(kind)
}

/// All kinds: Weir's, then those that were added. From now on none is added.
pub fn kinds() -> impl Iterator<Item = &'static dyn TcpControlKind> {
    ALL.all().iter().copied()
}

/// Kinds with their keys' defaults.
impl Control {
    /// RFC 5681: one segment more a round trip, half the window after a loss.
    pub fn reno() -> Control {
        Control::of(&Reno)
    }

    /// RFC 9438.
    pub fn cubic() -> Control {
        Control::of(&Cubic)
    }

    /// RFC 8257.
    pub fn dctcp() -> Control {
        Control::of(&Dctcp)
    }
}
