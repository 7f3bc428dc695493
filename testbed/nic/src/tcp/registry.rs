//! Registry of TCP congestion controls by name.

use weir_reader::{Registry, RegistryError};

use super::cubic::CubicKind;
use super::dctcp::DctcpKind;
use super::reno::Reno;
use super::{TcpCongestionChoice, TcpCongestionKind};

static TCP_CONGESTION_CONTROLS: Registry<dyn TcpCongestionKind> =
    Registry::new("TCP", &[&CubicKind, &DctcpKind, &Reno]);

/// Adds a program's own kind, before the first file is read.
///
/// # Errors
/// The name is taken or can't be written in a file, or a file was read already.
pub fn add(kind: &'static dyn TcpCongestionKind) -> Result<(), RegistryError> {
    TCP_CONGESTION_CONTROLS.add(kind)
}

/// Returns all kinds: Weir's, then the added ones. Closes the registry: [`add`] fails from now on.
pub fn kinds() -> impl Iterator<Item = &'static dyn TcpCongestionKind> {
    TCP_CONGESTION_CONTROLS.all().iter().copied()
}

/// Kinds with their keys' defaults.
impl TcpCongestionChoice {
    /// Returns Reno (RFC 5681): a segment of growth per round trip, half the window after a loss.
    pub fn reno() -> TcpCongestionChoice {
        TcpCongestionChoice::with_defaults(&Reno)
    }

    /// Returns Cubic (RFC 9438).
    pub fn cubic() -> TcpCongestionChoice {
        TcpCongestionChoice::with_defaults(&CubicKind)
    }

    /// Returns DCTCP (RFC 8257).
    pub fn dctcp() -> TcpCongestionChoice {
        TcpCongestionChoice::with_defaults(&DctcpKind)
    }
}
