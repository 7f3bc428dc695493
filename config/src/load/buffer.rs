//! `[buffer]`.

use weir_reader::{SIZE, Table};
use weir_units::{Alpha, Bytes, FRAME_BYTES_MIN};

use super::policy;
use crate::buffer::BUFFER_MAX;
use crate::{BufferConfig, Headroom};

/// A longer mean would be a mistake.
const MEAN_FRAME_MAX: u64 = 16_384;

pub(super) fn read(table: &Table<'_>) -> BufferConfig {
    let size_up = |key, least| table.quantity(key, &SIZE, least..=BUFFER_MAX);
    BufferConfig {
        size: size_up("size", Bytes::new(1)).unwrap_or(Bytes::mb(12)),
        cell_bytes: table.byte_count("cell_bytes", 1..=4_096).map_or(1, |n| n as u32),
        mean_frame: mean_frame(table),
        private: size_up("private", Bytes::ZERO).unwrap_or(Bytes::ZERO),
        headroom: headroom(table),
        xon_offset: size_up("xon_offset", Bytes::ZERO),
        xon_floor: size_up("xon_floor", Bytes::ZERO).unwrap_or(Bytes::ZERO),
        policy: policy::read(table),
        lossy_alpha: table.alpha("lossy_alpha").unwrap_or(Alpha::ONE),
    }
}

/// A key that has one word besides its quantities.
struct WordOr {
    key: &'static str,
    word: &'static str,
    /// What its quantities are, and an example.
    quantity: &'static str,
    example: &'static str,
}

impl WordOr {
    /// Whether a word stands there. Another one can only have been meant as the one there is, and is refused.
    fn is_word(&self, table: &Table<'_>) -> bool {
        let WordOr { key, word, quantity, example } = self;
        let written = table.has(key).then(|| table.word(key)).flatten();
        let wrong = |text: &str| text != *word && text.trim().starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(text) = written.filter(|text| wrong(text)) {
            let help = format!("write {key} = \"{word}\" or {key} = {example}");
            table.refuse(key, format!("\"{text}\" is neither \"{word}\" nor {quantity}"), help);
            return true;
        }
        written == Some(*word)
    }
}

fn mean_frame(table: &Table<'_>) -> Option<Bytes> {
    let key = WordOr { key: "mean_frame", word: "exact", quantity: "a number of bytes", example: "512" };
    if key.is_word(table) {
        return None;
    }
    let bytes = table.byte_count(key.key, FRAME_BYTES_MIN..=MEAN_FRAME_MAX).map(Bytes::new);
    Some(bytes.unwrap_or(BufferConfig::MEAN_FRAME))
}

fn headroom(table: &Table<'_>) -> Headroom {
    let key = WordOr { key: "headroom", word: "auto", quantity: "a size", example: "\"60KB\"" };
    if key.is_word(table) || !table.has(key.key) {
        return Headroom::Auto;
    }
    table.quantity(key.key, &SIZE, Bytes::ZERO..=BUFFER_MAX).map_or(Headroom::Auto, Headroom::Fixed)
}
