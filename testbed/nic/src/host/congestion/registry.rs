//! Registry of congestion controls by name.

use weir_reader::{Registry, RegistryError};

use super::dcqcn::DcqcnKind;
use super::dcqcn_ns3::DcqcnNs3Kind;
use super::dctcp::DctcpKind;
use super::hpcc::HpccKind;
use super::hpcc_pint::HpccPintKind;
use super::power_tcp::{PowerTcpKind, ThetaPowerTcpKind};
use super::timely::TimelyKind;
use super::{CongestionControlKind, NONE};
use crate::parameters::Values;

/// Name of the registry's kinds in error messages.
const KIND_NAME: &str = "congestion control";

static CONGESTION_CONTROLS: Registry<dyn CongestionControlKind> = Registry::new(
    KIND_NAME,
    &[&DcqcnKind, &DcqcnNs3Kind, &DctcpKind, &TimelyKind, &HpccKind, &HpccPintKind, &PowerTcpKind, &ThetaPowerTcpKind],
);

/// Adds a program's own kind, before the first file is read.
///
/// # Errors
/// Another kind or preset has its name, or that of one of its presets; a name can't be written in a file; or files were read
/// already.
pub fn add(kind: &'static dyn CongestionControlKind) -> Result<(), RegistryError> {
    if names_of(kind).contains(&NONE) {
        return Err(RegistryError::NameTaken { sort: KIND_NAME, name: NONE });
    }
    CONGESTION_CONTROLS.add_with_aliases(kind, names_of)
}

/// Returns all kinds: Weir's, then the added ones. Closes the registry: [`add`] fails from now on.
pub fn kinds() -> impl Iterator<Item = &'static dyn CongestionControlKind> {
    CONGESTION_CONTROLS.all().iter().copied()
}

/// Returns all names that a file may choose, with the source of each one's parameters.
pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_kind = |kind: &'static dyn CongestionControlKind| {
        let is_own = kind.presets().iter().any(|preset| preset.name == kind.id());
        let own = (!is_own).then(|| (kind.id(), "the keys' defaults"));
        own.into_iter().chain(kind.presets().iter().map(|preset| (preset.name, preset.about)))
    };
    std::iter::once((NONE, "no congestion control")).chain(kinds().flat_map(of_kind))
}

/// Returns the kind of a name, and the preset's values.
pub fn find(name: &str) -> Option<(&'static dyn CongestionControlKind, Values)> {
    kinds().find_map(|kind| {
        let preset = kind.presets().iter().find(|preset| preset.name == name).map(|preset| preset.values);
        preset.or((kind.id() == name).then_some(&[][..])).map(|values| (kind, values))
    })
}

/// Returns the names of a kind and its presets, each once.
fn names_of(kind: &'static dyn CongestionControlKind) -> Vec<&'static str> {
    let mut names = vec![kind.id()];
    names.extend(kind.presets().iter().map(|preset| preset.name).filter(|name| *name != kind.id()));
    names
}
