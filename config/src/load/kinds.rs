//! Keys of kinds that files select by name, and sentences about keys that a kind does not have.

use weir_reader::Plugin;

/// Keys of all kinds, in order, each with the names of its kinds.
pub(crate) fn keys_of_kinds<K: ?Sized + Plugin>(kinds: &[&'static K]) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in kinds {
        for key in kind.keys() {
            match keys.iter_mut().find(|(name, _)| *name == key.name()) {
                Some((_, owners)) => owners.push(kind.id()),
                None => keys.push((key.name(), vec![kind.id()])),
            }
        }
    }
    keys
}

/// Formats words as in a sentence: "a", "b" and "c".
pub(super) fn listed(names: &[&str], last: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|word| format!("\"{word}\"")).collect();
    match &quoted[..] {
        [before @ .., end] if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => quoted.concat(),
    }
}
