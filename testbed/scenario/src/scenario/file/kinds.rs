//! Kinds of congestion control with tables of their own in the file.

use weir_nic::host::congestion;
use weir_nic::tcp::{self, TcpKeys};
use weir_reader::Plugin;

/// Returns the kinds with a table in `[nic]`, flows and workloads.
pub(super) fn kinds() -> impl Iterator<Item = &'static dyn Plugin> {
    let of_rdma = congestion::kinds().map(|kind| kind as &'static dyn Plugin);
    let of_tcp = tcp::kinds().map(|kind| kind as &'static dyn Plugin);
    of_rdma.chain(std::iter::once(&TcpKeys as &'static dyn Plugin)).chain(of_tcp)
}
