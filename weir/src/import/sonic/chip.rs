//! Switch chips: their cells, and the shared pool that thresholds are of.
//!
//! Sources: sonic-mgmt `ansible/group_vars/sonic/variables` (models), `tests/qos/files/qos_params.*.yaml` (cells at which a queue alone sends
//! PFC, for the pools of sonic-buildimage's templates), and `tests/qos/files/mellanox/qos_param_generator.py`.

use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath};

/// Switch chip.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chip {
    pub(super) name: &'static str,
    /// Beginnings of the names of switch models (`hwsku`).
    models: &'static [&'static str],
    /// Size of a buffer cell.
    pub(super) cell_bytes: Option<u32>,
    pub(super) pool: SharedPool,
}

/// Shared pool of a chip, as a part of its pool's size in SONiC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedPool {
    /// Size, less headroom and reservations.
    Rest,
    /// Full size; headroom and reservations come in addition. Each slice of the buffer has its share, and its own thresholds.
    Full { slices: u64 },
}

const TRIDENT: SharedPool = SharedPool::Rest;
const TOMAHAWK: SharedPool = SharedPool::Full { slices: 4 };
const SPECTRUM: SharedPool = SharedPool::Full { slices: 1 };

#[rustfmt::skip]
static CHIPS: [Chip; 9] = [
    Chip { name: "td2", models: &["Force10-S6000", "ACS-S6000", "Arista-7050-QX", "Arista-7050QX", "Nexus-3164"], cell_bytes: Some(208), pool: TRIDENT },
    Chip { name: "td3", models: &["Arista-7050CX3"], cell_bytes: Some(256), pool: TRIDENT },
    Chip { name: "th", models: &["Force10-S6100", "Arista-7060CX-32S", "Celestica-DX010", "Seastone-DX010"], cell_bytes: Some(208), pool: TOMAHAWK },
    Chip { name: "th2", models: &["Arista-7260CX3"], cell_bytes: Some(208), pool: TOMAHAWK },
    Chip { name: "spc1", models: &["ACS-MSN2", "Mellanox-SN2"], cell_bytes: Some(96), pool: SPECTRUM },
    Chip { name: "spc2", models: &["ACS-MSN3", "Mellanox-SN3"], cell_bytes: Some(144), pool: SPECTRUM },
    Chip { name: "spc3", models: &["ACS-MSN4", "ACS-SN4", "Mellanox-SN4"], cell_bytes: Some(144), pool: SPECTRUM },
    Chip { name: "spc4", models: &["ACS-SN56", "Mellanox-SN56"], cell_bytes: Some(192), pool: SPECTRUM },
    Chip { name: "nvidia", models: &["Mellanox-", "ACS-MSN", "ACS-SN"], cell_bytes: None, pool: SPECTRUM },
];

/// Chip of `--chip`.
pub(super) fn chip(name: &str) -> Result<&'static Chip, String> {
    let names = || CHIPS.each_ref().map(|chip| chip.name).join(", ");
    CHIPS.iter().find(|chip| chip.name == name).ok_or_else(|| format!("write one of {}", names()))
}

/// Chip of the command line, or of DEVICE_METADATA's model; `None` if unknown.
pub(super) fn of_tables(tables: &mut ConfigDb, given: Option<&'static Chip>) -> Option<&'static Chip> {
    const AT: FieldPath<'static> = FieldPath::new("DEVICE_METADATA", "localhost", "hwsku");
    let model = tables.field("DEVICE_METADATA", "localhost", "hwsku").unwrap_or_default().to_owned();
    let by_model = CHIPS.iter().find(|chip| chip.models.iter().any(|start| model.starts_with(start)));
    let chip = given.or(by_model);
    let outcome = if chip.is_some() { ImportOutcome::Taken } else { ImportOutcome::Approximated };
    let detail = match (chip, given) {
        (Some(chip), None) => format!("chip {}", chip.name),
        (Some(chip), Some(_)) => format!("chip {}, of --chip", chip.name),
        (None, _) => {
            format!(
                "unknown chip, read as td2 and td3; --chip has {}",
                CHIPS.each_ref().map(|chip| chip.name).join(", ")
            )
        }
    };
    tables.account_absent(outcome, AT, detail);
    chip
}
