//! `weir`, linked without libdpdk, so that it starts wherever it is copied.

use std::process::ExitCode;

use weir::Source;

fn main() -> ExitCode {
    let real_frames = if cfg!(feature = "dpdk") { Source::Elsewhere(weir::beside::take_over) } else { Source::LeftOut };
    weir::main(real_frames)
}
