//! Plug-ins that another program adds to the command.

use std::process::ExitCode;

use weir_arbitration::{ARBITERS, ArbiterKind};
use weir_experiments::plugin;
use weir_experiments::real_frames::BackendSource;
use weir_flowctl::{FLOW_CONTROLS, FlowControlKind};
use weir_load_balancing::{PATH_SELECTORS, PathSelectorKind};
use weir_mmu::policy::{BUFFER_POLICIES, BufferPolicyKind};
use weir_nic::host::congestion::{self, CongestionControlKind};
use weir_nic::host::entropy::{ENTROPY_KINDS, EntropyKind};
use weir_nic::tcp::{self, TcpCongestionKind};
use weir_reader::Gauge;

/// Weir's command with additional plug-ins, which files choose by name like Weir's own.
///
/// The example is the whole `main` of such a program. Processes that it starts, such as the points of a sweep, run the same program.
/// `examples/` has a program for each kind of plug-in.
///
/// ```ignore
/// fn main() -> ExitCode {
///     weir::Extensions::new().policy(&TwoStepsKind).main(weir::BackendSource::BuiltIn(&weir_on_dpdk::Dpdk))
/// }
/// ```
#[derive(Debug, Default)]
pub struct Extensions {
    /// Errors of the additions so far.
    errors: Vec<String>,
}

impl Extensions {
    /// Creates an empty set: only Weir's own plug-ins.
    pub fn new() -> Extensions {
        Extensions::default()
    }

    /// Adds a buffer policy, which files choose by `[buffer] policy`.
    pub fn policy(mut self, kind: &'static dyn BufferPolicyKind) -> Extensions {
        let added =
            plugin::check_policy(kind).and_then(|()| BUFFER_POLICIES.add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Adds a flow control, which ports choose by `flow_control`, or its `kind`.
    pub fn flow_control(mut self, kind: &'static dyn FlowControlKind) -> Extensions {
        let added =
            plugin::check_flow_control(kind).and_then(|()| FLOW_CONTROLS.add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Adds an arbitration of egress queues, which classes choose by `arbitration`.
    pub fn arbitration(mut self, kind: &'static dyn ArbiterKind) -> Extensions {
        self.errors.extend(ARBITERS.add(kind).err().map(|error| error.to_string()));
        self
    }

    /// Adds a load balancing among ports of equal cost, which switches choose by `load_balancing`.
    pub fn load_balancing(mut self, kind: &'static dyn PathSelectorKind) -> Extensions {
        self.errors.extend(PATH_SELECTORS.add(kind).err().map(|error| error.to_string()));
        self
    }

    /// Adds a choice of entropy values, which `[nic]` makes by `entropy`.
    pub fn entropy(mut self, kind: &'static dyn EntropyKind) -> Extensions {
        self.errors.extend(ENTROPY_KINDS.add(kind).err().map(|error| error.to_string()));
        self
    }

    /// Adds a congestion control of RDMA, which files choose by `congestion_control`.
    pub fn congestion_control(mut self, kind: &'static dyn CongestionControlKind) -> Extensions {
        let added = plugin::check_congestion_control(kind)
            .and_then(|()| congestion::add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Adds a TCP congestion control, which files choose by `transport`.
    pub fn tcp_control(mut self, kind: &'static dyn TcpCongestionKind) -> Extensions {
        let added = plugin::check_tcp_control(kind).and_then(|()| tcp::add(kind).map_err(|error| error.to_string()));
        self.errors.extend(added.err());
        self
    }

    /// Runs the command given by the program's arguments, like [`main`](crate::main). If a plug-in cannot be added, prints the reason
    /// and returns exit code 2 without running the command.
    pub fn main(mut self, real_frames: BackendSource) -> ExitCode {
        if self.errors.is_empty() {
            self.errors = clashes();
        }
        for error in &self.errors {
            eprintln!("error: this program's extensions: {error}");
        }
        if self.errors.is_empty() { crate::main(real_frames) } else { ExitCode::from(2) }
    }
}

/// Returns errors on gauge names that both a buffer policy and a flow control have.
fn clashes() -> Vec<String> {
    let of_policies = BUFFER_POLICIES.gauges();
    let is_taken = |gauge: &&'static Gauge| of_policies.iter().any(|other| other.name == gauge.name);
    let message = |gauge: &Gauge| {
        format!("a buffer policy and a flow control both have a gauge \"{}\": give one another name", gauge.name)
    };
    FLOW_CONTROLS.gauges().into_iter().filter(is_taken).map(message).collect()
}
