//! `[buffer]`.

use weir_reader::{Key, Problem, Table};
use weir_units::Bytes;

use super::policy;
use crate::keys::{buffer as keys, buffer_rates};
use crate::{BufferConfig, Headroom, RateConfig};

pub(super) fn read(table: &Table<'_>) -> BufferConfig {
    BufferConfig {
        size: table.get(&keys::SIZE),
        cell_bytes: table.get(&keys::CELL_BYTES).get() as u32,
        slices: table.get(&keys::SLICES),
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

/// Whether the value is the key's keyword. Any other word is an error, whose text describes the quantity and has an example.
fn is_keyword(table: &Table<'_>, key: &Key<Bytes>, quantity: &str, example: &str) -> bool {
    let (name, keyword) = (key.name, key.keyword().unwrap_or_default());
    let is_wrong = |text: &&str| *text != keyword && text.trim().starts_with(|c: char| c.is_ascii_alphabetic());
    if let Some(text) = table.word(name).filter(is_wrong) {
        let help = format!("write {name} = \"{keyword}\" or {name} = {example}");
        table.refuse(name, format!("\"{text}\" is neither \"{keyword}\" nor {quantity}"), help);
        return true;
    }
    table.is_keyword(key)
}

fn mean_frame(table: &Table<'_>) -> Option<Bytes> {
    let is_exact = is_keyword(table, &keys::MEAN_FRAME, "a number of bytes", "256");
    (!is_exact).then(|| table.get(&keys::MEAN_FRAME))
}

fn headroom(table: &Table<'_>) -> Headroom {
    if is_keyword(table, &keys::HEADROOM, "a size", "\"60KB\"") {
        return Headroom::Auto;
    }
    table.given(&keys::HEADROOM).map_or(Headroom::Auto, Headroom::Fixed)
}
