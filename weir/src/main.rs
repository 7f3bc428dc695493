//! `weir`, linked without libdpdk, so that it starts wherever it is copied.

use std::process::ExitCode;

use weir::BackendSource;

fn main() -> ExitCode {
    let real_frames = if cfg!(feature = "dpdk") {
        BackendSource::External(weir::dpdk_exec::exec_dpdk)
    } else {
        BackendSource::NotBuilt
    };
    weir::main(real_frames)
}
