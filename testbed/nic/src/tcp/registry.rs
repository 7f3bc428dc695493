//! All controls of TCP's window by name.

use weir_reader::{Registry, RegistryError};

use super::TcpControlKind;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::reno::Reno;

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
