//! The command `weir` with one congestion control more.

use std::process::ExitCode;

use my_congestion_control::GentleAimdKind;

fn main() -> ExitCode {
    weir::Extensions::new().congestion_control(&GentleAimdKind).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
}
