//! `weir-dpdk`: the whole command, linked with libdpdk. `weir` executes it for commands that need ports or real frames.

use std::process::ExitCode;

use weir::BackendSource;

fn main() -> ExitCode {
    weir_on_dpdk::take_the_commands_name();
    weir::main(BackendSource::BuiltIn(&weir_on_dpdk::Dpdk))
}
