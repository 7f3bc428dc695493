//! What kinds show while they run.

/// A number that a flow control, or the algorithm of a flow, shows while it runs, such as DCQCN's α. Buffer policies, whose gauges
/// stand in tables and summaries too, have a type of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Its name, with the unit at its end as in all tables: `credit_bytes`, `rate_bps`, `alpha`.
    pub name: &'static str,
    /// What it is, with the paper's symbol.
    pub about: &'static str,
}

/// Whether a gauge's name can be a column's: small letters, digits and `_`.
pub fn is_column_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_good)
}
