//! Formatting of quantities in decimals.

/// Formats `value / unit` in decimals, without trailing zeros, truncated to three places.
pub(crate) fn decimal(value: u64, unit: u64) -> String {
    let thousandths = u128::from(value) * 1_000 / u128::from(unit);
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
