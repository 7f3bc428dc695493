//! What a program of someone else's adds to the command.

use std::process::ExitCode;

use weir_arbitration::{ARBITRATIONS, ArbitrationKind};
use weir_experiments::real_frames::Source;
use weir_flowctl::{FLOW_CONTROLS, FlowControlKind};
use weir_mmu::policy::{POLICIES, PolicyKind};
use weir_nic::host::congestion::{self, CongestionControlKind};
use weir_nic::tcp::{self, TcpControlKind};
use weir_reader::{Gauge, Named, is_column_name};
use weir_results::run_dir::{FLOW_COLUMNS, QUEUE_COLUMNS};
use weir_scenario::file::is_key;

/// Weir's command with kinds of the program's own, which files then choose by name like Weir's.
///
/// This is the whole `main` of such a program. Processes that it starts, such as the points of a sweep, are this program again.
/// `examples/` has one for each sort of kind.
///
/// ```ignore
/// fn main() -> ExitCode {
///     weir::Extensions::new().policy(&TwoSteps).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
/// }
/// ```
#[derive(Debug, Default)]
pub struct Extensions {
    /// What was wrong with those added so far.
    errors: Vec<String>,
}

impl Extensions {
    /// Nothing but what Weir has.
    pub fn new() -> Extensions {
        Extensions::default()
    }

    /// Adds a buffer policy, which files choose by `[buffer] policy`.
    pub fn policy(mut self, kind: &'static dyn PolicyKind) -> Extensions {
        let added = check_gauges(kind).and_then(|()| POLICIES.add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Adds a flow control, which ports choose by `flow_control`, or its `kind`.
    pub fn flow_control(mut self, kind: &'static dyn FlowControlKind) -> Extensions {
        self.errors.extend(FLOW_CONTROLS.add(kind).err().map(|error| error.to_string()));
        self
    }

    /// Adds an arbitration of egress queues, which classes choose by `arbitration`.
    pub fn arbitration(mut self, kind: &'static dyn ArbitrationKind) -> Extensions {
        self.errors.extend(ARBITRATIONS.add(kind).err().map(|error| error.to_string()));
        self
    }

    /// Adds a congestion control of RDMA, which files choose by `congestion_control`.
    pub fn congestion_control(mut self, kind: &'static dyn CongestionControlKind) -> Extensions {
        let shown = congestion::GAUGES.iter().chain(kind.gauges());
        let added = check_names(kind, shown).and_then(|()| congestion::add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Adds what controls TCP's window, which files choose by `transport`.
    pub fn tcp_control(mut self, kind: &'static dyn TcpControlKind) -> Extensions {
        let shown = tcp::GAUGES.iter().chain(kind.gauges());
        let added = check_names(kind, shown).and_then(|()| tcp::add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Runs the command of the program's arguments, as [`main`](crate::main) does. With a kind that can't be added it says why, and
    /// runs nothing: the exit code is 2.
    pub fn main(self, real_frames: Source) -> ExitCode {
        for error in &self.errors {
            eprintln!("error: this program's extensions: {error}");
        }
        if self.errors.is_empty() { crate::main(real_frames) } else { ExitCode::from(2) }
    }
}

/// Whether the table of a congestion control can stand beside keys, and its gauges beside other columns.
fn check_names<'g>(kind: &dyn Named, gauges: impl Iterator<Item = &'g Gauge>) -> Result<(), String> {
    let name = kind.name();
    if is_key(name) {
        return Err(format!("\"{name}\" can't name a congestion control: it is a key of [nic], flows or workloads"));
    }
    let mut columns = FLOW_COLUMNS.to_vec();
    for gauge in gauges {
        if !is_column_name(gauge.name) {
            return Err(format!(
                "gauge \"{}\" of \"{name}\" can't name a column: write small letters, digits and `_`",
                gauge.name
            ));
        }
        if columns.contains(&gauge.name) {
            return Err(format!("gauge \"{}\" of \"{name}\" has the name of another column of flows", gauge.name));
        }
        columns.push(gauge.name);
    }
    Ok(())
}

/// Whether a policy's gauges can be columns beside those that there are.
fn check_gauges(kind: &'static dyn PolicyKind) -> Result<(), String> {
    let policy = kind.name();
    for gauge in kind.gauges() {
        let name = gauge.name;
        if !gauge.is_well_named() {
            return Err(format!(
                "gauge \"{name}\" of policy \"{policy}\" can't name a column: write small letters, digits and `_`, with _bytes at \
                 the end if it counts bytes and only then"
            ));
        }
        let is_other = |other: &&str| *other == name;
        if QUEUE_COLUMNS.iter().any(is_other) {
            return Err(format!(
                "gauge \"{name}\" of policy \"{policy}\" has the name of a column that every series has"
            ));
        }
    }
    Ok(())
}
