//! `[buffer]`.

use weir_reader::{Problem, RATE, SIZE, Table, rates};
use weir_units::{Alpha, Bytes, FRAME_BYTES_MIN};

use super::policy;
use crate::buffer::BUFFER_MAX;
use crate::{BufferConfig, Headroom, RateConfig};

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
        rates: rates_of(table),
    }
}

fn rates_of(buffer: &Table<'_>) -> Vec<RateConfig> {
    let mut given: Vec<(RateConfig, String)> = Vec::new();
    for table in buffer.tables("rates", "buffer.rates") {
        let rate = table.quantity("rate", &RATE, rates());
        if !table.has("rate") && table.doc().sound(&[&table.key_path("rate")]) {
            let problem =
                Problem::new("settings by rate need `rate`", "write rate = \"100Gbps\"").with_label(table.path(), "");
            table.doc().note(problem);
        }
        let size_up = |key| table.quantity(key, &SIZE, Bytes::ZERO..=BUFFER_MAX);
        let (private, headroom, alpha) = (size_up("private"), size_up("headroom"), table.alpha("alpha"));
        if !["private", "headroom", "alpha"].iter().any(|key| table.has(key)) {
            let problem = Problem::new(
                "these settings by rate set nothing",
                "write `headroom`, `private` or `alpha` of ports of this rate, or take them out",
            );
            table.doc().note(problem.with_label(table.path(), ""));
        }
        let Some(rate) = rate else { continue };
        if let Some((_, first)) = given.iter().find(|(of, _)| of.rate == rate) {
            let message = format!("{rate} has two [[buffer.rates]]");
            let problem = Problem::new(message, "put all keys of a rate into one of them");
            table.doc().note(problem.with_label(table.key_path("rate"), "again").with_label(first, "first here"));
            continue;
        }
        given.push((RateConfig { rate, private, headroom, alpha }, table.key_path("rate")));
    }
    given.into_iter().map(|(of, _)| of).collect()
}

/// Key whose value is a quantity or one keyword.
struct KeywordOrQuantity {
    key: &'static str,
    word: &'static str,
    /// Description of the quantity, and below an example.
    quantity: &'static str,
    example: &'static str,
}

impl KeywordOrQuantity {
    /// Whether the value is the keyword. Any other word is an error.
    fn is_word(&self, table: &Table<'_>) -> bool {
        let KeywordOrQuantity { key, word, quantity, example } = self;
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
    let key = KeywordOrQuantity { key: "mean_frame", word: "exact", quantity: "a number of bytes", example: "256" };
    if key.is_word(table) {
        return None;
    }
    let bytes = table.byte_count(key.key, FRAME_BYTES_MIN..=MEAN_FRAME_MAX).map(Bytes::new);
    Some(bytes.unwrap_or(BufferConfig::MEAN_FRAME))
}

fn headroom(table: &Table<'_>) -> Headroom {
    let key = KeywordOrQuantity { key: "headroom", word: "auto", quantity: "a size", example: "\"60KB\"" };
    if key.is_word(table) || !table.has(key.key) {
        return Headroom::Auto;
    }
    table.quantity(key.key, &SIZE, Bytes::ZERO..=BUFFER_MAX).map_or(Headroom::Auto, Headroom::Fixed)
}
