//! Kinds of congestion control with tables of their own in the file.

use weir_nic::host::congestion;
use weir_nic::tcp::{self, TcpKeys};
use weir_reader::Named;

/// Returns the kinds with a table in `[nic]`, flows and workloads.
pub(super) fn kinds() -> impl Iterator<Item = &'static dyn Named> {
    let of_rdma = congestion::kinds().map(|kind| kind as &'static dyn Named);
    let of_tcp = tcp::kinds().map(|kind| kind as &'static dyn Named);
    of_rdma.chain(std::iter::once(&TcpKeys as &'static dyn Named)).chain(of_tcp)
}
