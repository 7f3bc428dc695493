//! `weir compare`: results compared with those of other tools, and of other backends.

use clap::Subcommand;
use weir_experiments::compare::Ns3Arguments;
use weir_experiments::reproduce::backends::BackendsArguments;

/// Commands of `weir compare`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// An ns-3 simulator's fct.txt and pfc.txt: slowdowns by message size and PAUSEs, with the spread of the seeds of both sides.
    ///
    /// Each file is recognised by its content. The exit code is 0 if all figures agree or are inside the spread, 1 if some
    /// differ, and 2 if a file is wrong.
    Ns3(Ns3Arguments),
    /// An experiment in virtual time, with real frames and with real hosts: its numbers, claims and verdicts side by side, as
    /// `weir reproduce` left them.
    Backends(BackendsArguments),
}
