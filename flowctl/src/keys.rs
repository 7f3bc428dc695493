//! Readers of flow-control settings.

use weir_reader::{Key, SIZE, TIME, Table};
use weir_units::{Bytes, Span};

/// Maximum length of a queue in a file: the largest buffer.
const SIZE_MAX: Bytes = Bytes::mb(2_000);

/// Reads a size, if the table has it.
pub(crate) fn given_size(table: &Table<'_>, key: &Key) -> Option<Bytes> {
    table.quantity(key.name, &SIZE, Bytes::new(1)..=SIZE_MAX)
}

/// Reads a time up to a second, if the table has it.
pub(crate) fn given_time(table: &Table<'_>, key: &Key, least: Span) -> Option<Span> {
    table.quantity(key.name, &TIME, least..=Span::from_secs(1))
}
