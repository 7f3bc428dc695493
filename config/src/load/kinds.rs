//! Keys of kinds that files select by name, and sentences about keys that a kind does not have.

use weir_reader::{Plugin, Problem, Table};

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

/// Reads `key`, which names one of these kinds, with the keys of the kind next to it, and refuses keys of other kinds; `None` without `key`.
/// `usual` is the default kind, and its effect.
pub(super) fn chosen_kind<K: ?Sized + Plugin, C>(
    table: &Table<'_>,
    key: &'static str,
    kinds: &[&'static K],
    usual: [&str; 2],
    read: impl Fn(&K) -> C,
) -> Option<C> {
    // Invalid values are reported even if the kind is unknown.
    let mut all: Vec<C> = kinds.iter().map(|kind| read(kind)).collect();
    let places: Vec<(&'static str, usize)> = kinds.iter().zip(0..).map(|(kind, place)| (kind.id(), place)).collect();
    let chosen = table.choice(key, &places);
    let name = chosen.map(|place| kinds[place].id());
    for (stray, owners) in keys_of_kinds(kinds) {
        if !table.has(stray) || name.is_some_and(|name| owners.contains(&name)) {
            continue;
        }
        let message = match name.filter(|name| *name != usual[0]) {
            None => format!("`{stray}` has no effect: {}", usual[1]),
            Some(name) => format!("`{key}` \"{name}\" has no `{stray}`"),
        };
        let help = format!("write {key} = {} too, or take it out", listed(&owners, "or"));
        table.doc().note(Problem::new(message, help).with_label(table.key_path(stray), ""));
    }
    chosen.map(|place| all.swap_remove(place))
}

/// Formats words as in a sentence: "a", "b" and "c".
pub(super) fn listed(names: &[&str], last: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|word| format!("\"{word}\"")).collect();
    match &quoted[..] {
        [before @ .., end] if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => quoted.concat(),
    }
}
