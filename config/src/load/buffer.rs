//! `[buffer]`.

use weir_reader::{Problem, SIZE, Table};
use weir_units::Bytes;

use super::policy;
use crate::keys::{buffer as keys, buffer_rates};
use crate::{BufferConfig, Headroom, RateConfig};

pub(super) fn read(table: &Table<'_>) -> BufferConfig {
    BufferConfig {
        size: table.get(&keys::SIZE),
        cell_bytes: table.get(&keys::CELL_BYTES).get() as u32,
        mean_frame: mean_frame(table),
        private: table.get(&keys::PRIVATE),
        headroom: headroom(table),
        xon_offset: table.given(&keys::XON_OFFSET),
        xon_floor: table.get(&keys::XON_FLOOR),
        policy: policy::read(table),
        lossy_alpha: table.get(&keys::LOSSY_ALPHA),
        rates: rates_of(table),
    }
}

fn rates_of(buffer: &Table<'_>) -> Vec<RateConfig> {
    let mut given: Vec<(RateConfig, String)> = Vec::new();
    for table in buffer.tables("rates", "buffer.rates") {
        let rate = table.given(&buffer_rates::RATE);
        if !table.has("rate") && table.doc().sound(&[&table.key_path("rate")]) {
            let problem =
                Problem::new("settings by rate need `rate`", "write rate = \"100Gbps\"").with_label(table.path(), "");
            table.doc().note(problem);
        }
        let (private, headroom) = (table.given(&buffer_rates::PRIVATE), table.given(&buffer_rates::HEADROOM));
        let alpha = table.given(&buffer_rates::ALPHA);
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
    let key =
        KeywordOrQuantity { key: keys::MEAN_FRAME.name, word: "exact", quantity: "a number of bytes", example: "256" };
    if key.is_word(table) {
        return None;
    }
    let valid = keys::MEAN_FRAME.valid();
    let bytes = table.byte_count(key.key, valid.start().get()..=valid.end().get()).map(Bytes::new);
    Some(bytes.unwrap_or(BufferConfig::MEAN_FRAME))
}

fn headroom(table: &Table<'_>) -> Headroom {
    let key = KeywordOrQuantity { key: keys::HEADROOM.name, word: "auto", quantity: "a size", example: "\"60KB\"" };
    if key.is_word(table) || !table.has(key.key) {
        return Headroom::Auto;
    }
    table.quantity(key.key, &SIZE, keys::HEADROOM.valid()).map_or(Headroom::Auto, Headroom::Fixed)
}
