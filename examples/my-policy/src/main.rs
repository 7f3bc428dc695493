//! Command `weir` with one more buffer policy.

use std::process::ExitCode;

use my_policy::TwoStepsKind;

fn main() -> ExitCode {
    weir::Extensions::new().policy(&TwoStepsKind).main(weir::BackendSource::BuiltIn(&weir_on_dpdk::Dpdk))
}
