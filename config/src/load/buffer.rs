//! `[buffer]`.

use weir_reader::{SIZE, Table};
use weir_units::{Alpha, Bytes};

use super::policy;
use crate::buffer::BUFFER_MAX;
use crate::{BufferConfig, Headroom};

pub(super) fn read(table: &Table<'_>) -> BufferConfig {
    let size_up = |key, least| table.quantity(key, &SIZE, least..=BUFFER_MAX);
    BufferConfig {
        size: size_up("size", Bytes::new(1)).unwrap_or(Bytes::mb(12)),
        cell_bytes: table.byte_count("cell_bytes", 1..=4_096).map_or(1, |n| n as u32),
        private: size_up("private", Bytes::ZERO).unwrap_or(Bytes::ZERO),
        headroom: headroom(table),
        xon_offset: size_up("xon_offset", Bytes::ZERO),
        policy: policy::read(table),
        lossy_alpha: table.alpha("lossy_alpha").unwrap_or(Alpha::ONE),
    }
}

fn headroom(table: &Table<'_>) -> Headroom {
    let word = table.has("headroom").then(|| table.word("headroom")).flatten();
    if word == Some("auto") || !table.has("headroom") {
        return Headroom::Auto;
    }
    // A word can only have been meant as the one there is.
    if let Some(word) = word.filter(|word| word.trim().starts_with(|c: char| c.is_ascii_alphabetic())) {
        table.refuse(
            "headroom",
            format!("\"{word}\" is neither \"auto\" nor a size"),
            "write headroom = \"auto\" or headroom = \"60KB\"",
        );
        return Headroom::Auto;
    }
    table.quantity("headroom", &SIZE, Bytes::ZERO..=BUFFER_MAX).map_or(Headroom::Auto, Headroom::Fixed)
}
