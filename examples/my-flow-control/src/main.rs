//! The command `weir` with one flow control more.

use std::process::ExitCode;

use my_flow_control::TimedStopKind;

fn main() -> ExitCode {
    weir::Extensions::new().flow_control(&TimedStopKind).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
}
