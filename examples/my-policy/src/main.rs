//! The command `weir` with one buffer policy more.

use std::process::ExitCode;

use my_policy::TwoSteps;

fn main() -> ExitCode {
    weir::Extensions::new().policy(&TwoSteps).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
}
