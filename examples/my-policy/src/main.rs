//! The command `weir` with one buffer policy more.

use std::process::ExitCode;

use my_policy::TwoStepsKind;

fn main() -> ExitCode {
    weir::Extensions::new().policy(&TwoStepsKind).main(weir::Source::BuiltIn(&weir_on_dpdk::Dpdk))
}
