//! Checks of plug-ins that another program adds.

use weir_flowctl::FlowControlKind;
use weir_mmu::policy::BufferPolicyKind;
use weir_nic::host::congestion::{self, CongestionControlKind};
use weir_nic::tcp::{self, TcpCongestionKind};
use weir_reader::{Gauge, Plugin};
use weir_results::run_dir::{FLOW_COLUMNS, QUEUE_COLUMNS, column_names};
use weir_scenario::file::is_key;

/// Checks the gauges of a buffer policy.
///
/// # Errors
/// A name that no column may have, or that another column has.
pub fn check_policy(kind: &dyn BufferPolicyKind) -> Result<(), String> {
    check_gauges(kind, kind.gauges().iter(), column_names(QUEUE_COLUMNS))
}

/// Checks the gauges of a flow control.
///
/// # Errors
/// Those of [`check_policy`].
pub fn check_flow_control(kind: &dyn FlowControlKind) -> Result<(), String> {
    check_gauges(kind, kind.gauges().iter(), column_names(QUEUE_COLUMNS))
}

/// Checks the name and the gauges of a congestion control.
///
/// # Errors
/// The name of a key of `[nic]`, or a gauge's name that no column may have, or that another column has.
pub fn check_congestion_control(kind: &dyn CongestionControlKind) -> Result<(), String> {
    check_table(kind)?;
    check_gauges(kind, congestion::GAUGES.iter().chain(kind.gauges()), column_names(FLOW_COLUMNS))
}

/// Checks the name and the gauges of a TCP congestion control.
///
/// # Errors
/// Those of [`check_congestion_control`].
pub fn check_tcp_control(kind: &dyn TcpCongestionKind) -> Result<(), String> {
    check_table(kind)?;
    check_gauges(kind, tcp::GAUGES.iter().chain(kind.gauges()), column_names(FLOW_COLUMNS))
}

/// Checks that the table name of a congestion control or TCP congestion control collides with no key of `[nic]`.
fn check_table(kind: &dyn Plugin) -> Result<(), String> {
    let name = kind.id();
    if is_key(name) {
        return Err(format!("\"{name}\" can't name a congestion control: it is a key of [nic], flows or workloads"));
    }
    Ok(())
}

/// Checks that gauge names are valid, and collide neither with these columns of every series nor with each other.
fn check_gauges<'g>(
    kind: &dyn Plugin,
    gauges: impl Iterator<Item = &'g Gauge>,
    columns: impl Iterator<Item = &'static str>,
) -> Result<(), String> {
    let mut columns: Vec<&str> = columns.collect();
    for gauge in gauges {
        let (name, kind) = (gauge.name, kind.id());
        if !gauge.is_well_named() {
            return Err(format!(
                "gauge \"{name}\" of \"{kind}\" can't name a column: write small letters, digits and `_`, with _bytes at the end \
                 if it counts bytes and only then"
            ));
        }
        if columns.contains(&name) {
            return Err(format!("gauge \"{name}\" of \"{kind}\" has the name of another column"));
        }
        columns.push(name);
    }
    Ok(())
}
