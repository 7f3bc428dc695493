//! What algorithms show of a flow while it runs.

/// A value of a flow's algorithm that is shown under a name, such as DCQCN's α.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Its name, with the unit at its end as in all tables: `rate_bps`, `window_bytes`, `alpha`.
    pub name: &'static str,
    /// What it is, with the paper's symbol.
    pub about: &'static str,
}
