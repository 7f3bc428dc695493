//! Command `weir` with one more congestion control.

use std::process::ExitCode;

use my_congestion_control::GentleAimdKind;

fn main() -> ExitCode {
    weir::Extensions::new().congestion_control(&GentleAimdKind).main(weir::BackendSource::BuiltIn(&weir_on_dpdk::Dpdk))
}
