//! Command `weir` with one more flow control.

use std::process::ExitCode;

use my_flow_control::TimedStopKind;

fn main() -> ExitCode {
    weir::Extensions::new().flow_control(&TimedStopKind).main(weir::BackendSource::BuiltIn(&weir_on_dpdk::Dpdk))
}
