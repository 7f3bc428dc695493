//! Registry of buffer policies.

use std::sync::{Arc, LazyLock};

use weir_reader::{ConfigErrors, Format, Registry, Table, TableSchema, read_text};

use super::{
    BufferPolicyConfig, BufferPolicyKind, abm, adaptive_headroom, dsh, dynamic_threshold, oversubscription, reverie,
    sih, sonic, spfc, static_threshold,
};

/// Registry of all buffer policies. A policy of Weir is a file and a line here; a third-party program [adds](Registry::add) its own before
/// the first file is read.
pub static BUFFER_POLICIES: Registry<dyn BufferPolicyKind> = Registry::new("buffer policy", BUILT_IN);

/// Policies of Weir, in the order of the reference.
static BUILT_IN: &[&dyn BufferPolicyKind] = &[
    &static_threshold::StaticThresholdKind,
    &dynamic_threshold::DynamicThresholdKind,
    &spfc::SpfcKind,
    &sih::SihKind,
    &oversubscription::OversubscribedKind,
    &adaptive_headroom::AdaptiveHeadroomKind,
    &dsh::DshKind,
    &sonic::SonicKind,
    &abm::AbmKind,
    &reverie::ReverieKind,
];

/// Default policy.
pub const DEFAULT: &str = "dt";

/// Tables of all policies, `buffer.NAME`.
pub fn known_tables() -> impl Iterator<Item = TableSchema> {
    BUFFER_POLICIES.all().iter().map(|kind| TableSchema::of_kind("buffer", *kind))
}

/// Parses a policy's configuration from its name and the text of its table, for a switch without a file.
///
/// ```
/// let spfc = weir_mmu::policy::parse_config("spfc", "k_spfc = 8").unwrap();
/// assert_eq!(spfc.name(), "spfc");
/// let error = weir_mmu::policy::parse_config("spfc", "k = 8").unwrap_err().render(false);
/// assert!(error.contains("unknown key `k`"), "{error}");
/// ```
///
/// # Errors
/// There is no such policy, or the text is invalid.
pub fn parse_config(name: &str, table: &str) -> Result<Arc<dyn BufferPolicyConfig>, ConfigErrors> {
    static TABLES: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
        let root = TableSchema::table("", &[]).with_tables_of(["buffer"].into_iter());
        let buffer = TableSchema::table("buffer", &[]).with_tables_of(BUFFER_POLICIES.names());
        [root, buffer].into_iter().chain(known_tables()).collect()
    });
    let format = Format { what: "a policy's table", reference: "docs/POLICIES.md", repeated: "", tables: &TABLES };
    let text = format!("[buffer.{name}]\n{table}");
    let read = |root: &Table<'_>| {
        let buffer = root.table("buffer", "buffer");
        BUFFER_POLICIES.find(name).map(|kind| kind.parse(&buffer.table_of_kind(kind)))
    };
    let (config, source) = read_text("policy", &text, &format, read)?;
    config.ok_or_else(|| source.error_at("buffer", format!("there is no policy \"{name}\""), ""))
}
