//! `[buffer]` and its policies' tables.

use weir_units::{Alpha, Bytes};

use crate::error::Problem;
use crate::read::{SIZE, Table};
use crate::{BufferConfig, Headroom, PolicyConfig};

/// The MMU counts a queue's segments in 31 bits.
const BUFFER_MAX: Bytes = Bytes::mb(2_000);

pub(super) fn read(table: &Table<'_>) -> BufferConfig {
    let size_up = |key, least| table.quantity(key, &SIZE, least..=BUFFER_MAX);
    BufferConfig {
        size: size_up("size", Bytes::new(1)).unwrap_or(Bytes::mb(12)),
        cell_bytes: table.byte_count("cell_bytes", 1..=4_096).map_or(1, |n| n as u32),
        private: size_up("private", Bytes::ZERO).unwrap_or(Bytes::ZERO),
        headroom: headroom(table),
        xon_offset: size_up("xon_offset", Bytes::ZERO),
        policy: policy(table),
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

/// The policy's name, its table read, and the tables of the others refused.
fn policy(table: &Table<'_>) -> PolicyConfig {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Static,
        Dt,
        Sih,
    }
    let kinds = [("static", Kind::Static), ("dt", Kind::Dt), ("sih", Kind::Sih)];
    let chosen = table.choice("policy", &kinds).unwrap_or(Kind::Dt);
    // Each is read so that its own errors are told even if it must go.
    let fixed = table.table("static", "buffer.static");
    let threshold = fixed.quantity("threshold", &SIZE, Bytes::new(1)..=BUFFER_MAX);
    let dt = table.table("dt", "buffer.dt").alpha("alpha").unwrap_or(Alpha::ONE);
    let sih = table.table("sih", "buffer.sih").alpha("alpha").unwrap_or(Alpha::ONE);
    for (name, kind) in kinds {
        if kind != chosen && table.has(name) && table.doc().sound(&["buffer.policy"]) {
            let policy = kinds.iter().find(|(_, kind)| *kind == chosen).map_or("", |(name, _)| name);
            let given = if table.has("policy") { "" } else { " (the default)" };
            let message = format!("[buffer.{name}] is given, but `policy` is \"{policy}\"{given}");
            let problem =
                Problem::new(message, format!("write policy = \"{name}\" in [buffer], or take [buffer.{name}] out"))
                    .at_key(table.at(name), "not the chosen policy")
                    .at(table.at("policy"), "chosen here");
            table.doc().note(problem);
        }
    }
    match chosen {
        Kind::Static => PolicyConfig::Static { threshold },
        Kind::Dt => PolicyConfig::Dt { alpha: dt },
        Kind::Sih => PolicyConfig::Sih { alpha: sih },
    }
}
