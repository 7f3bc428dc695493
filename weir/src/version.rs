//! Version and features of this build.

use std::sync::LazyLock;

use weir_experiments::experiment;

/// Version and commit: `0.1.0 (3eeb51040f)`.
pub(crate) const SHORT: &str = experiment::VERSION;

/// Optional parts of a build: Cargo feature, purpose, and whether it is enabled.
const FEATURES: [(&str, &str, bool); 5] = [
    ("dpdk", "ports and real frames", cfg!(feature = "dpdk")),
    ("parquet", "tables of sweeps as Parquet", cfg!(feature = "parquet")),
    ("pdf", "figures as PDF", cfg!(feature = "pdf")),
    ("png", "figures as PNG", cfg!(feature = "png")),
    ("top", "weir top", cfg!(feature = "top")),
];

/// Version, features and DPDK's version, for `--version`.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let dpdk = DPDK.map(|version| format!("\nbuilt for DPDK {version}")).unwrap_or_default();
    format!("{SHORT}\n{}{dpdk}", features())
});

/// DPDK version that `weir-dpdk` is built with; at run time any of the same ABI serves.
#[cfg(feature = "dpdk")]
const DPDK: Option<&str> = Some(weir_on_dpdk::BUILT_FOR_DPDK);
#[cfg(not(feature = "dpdk"))]
const DPDK: Option<&str> = None;

/// `built with dpdk (ports and real frames); without png (figures as PNG)`.
pub(crate) fn features() -> String {
    let list = |built_in: bool| {
        let chosen = FEATURES.iter().filter(|(.., is)| *is == built_in);
        chosen.map(|(name, of, _)| format!("{name} ({of})")).collect::<Vec<_>>().join(", ")
    };
    let parts = [("built with", list(true)), ("without", list(false))];
    let parts = parts.iter().filter(|(_, list)| !list.is_empty()).map(|(word, list)| format!("{word} {list}"));
    parts.collect::<Vec<_>>().join("; ")
}
