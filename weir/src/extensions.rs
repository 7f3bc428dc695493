//! What a program of someone else's adds to the command.

use std::process::ExitCode;

use weir_arbitration::{ARBITRATIONS, ArbitrationKind};
use weir_experiments::real_frames::Source;
use weir_flowctl::{FLOW_CONTROLS, FlowControlKind};

/// Weir's command with kinds of the program's own, which files then choose by name like Weir's.
///
/// This is the whole `main` of such a program. Processes that it starts, such as the points of a sweep, are this program again.
/// `examples/` has one for each sort of kind.
///
/// ```ignore
/// fn main() -> ExitCode {
///     weir::Extensions::new().flow_control(&TimedStop).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
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

    /// Runs the command of the program's arguments, as [`main`](crate::main) does. With a kind that can't be added it says why, and
    /// runs nothing: the exit code is 2.
    pub fn main(self, real_frames: Source) -> ExitCode {
        for error in &self.errors {
            eprintln!("error: this program's extensions: {error}");
        }
        if self.errors.is_empty() { crate::main(real_frames) } else { ExitCode::from(2) }
    }
}
