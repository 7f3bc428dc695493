//! Keys of the chosen buffer policy: `switch.buffer.*.alpha` sets the policy of the scenario and of each run that
//! chooses another.

use crate::table::key_path::{KeyPath, PathError};
use toml::{Table, Value};
use weir_mmu::policy::{BUFFER_POLICIES, DEFAULT};

/// Wildcard for the chosen policy.
const WHICHEVER: &str = "*";

/// Rank of a key in the order of settings: the policy is set before keys of the chosen policy.
pub(super) fn rank(path: &KeyPath) -> u8 {
    match path_keys(path)[..] {
        ["switch", "buffer", "policy"] => 0,
        ["switch", "buffer", WHICHEVER, _, ..] => 2,
        _ => 1,
    }
}

/// Sets a value at a path. A policy removes the tables of others, as in a run.
pub(super) fn set(path: &KeyPath, document: &mut Table, value: &Value) -> Result<(), PathError> {
    match path_keys(path)[..] {
        ["switch", "buffer", "policy"] => {
            let chosen = value.as_str().unwrap_or_default();
            if let Some(buffer) = buffer(document) {
                BUFFER_POLICIES.names().filter(|name| *name != chosen).for_each(|name| drop(buffer.remove(name)));
            }
            path.set(document, value)
        }
        ["switch", "buffer", WHICHEVER, key, ..] => {
            let places = places(document, path, key);
            if places.is_empty() {
                let message = format!("no policy of the scenario has `{key}`");
                return Err(PathError {
                    message,
                    help: "name a key that one of them has, or choose others".to_owned(),
                });
            }
            places.iter().try_for_each(|place| place.set(document, value))
        }
        _ => path.set(document, value),
    }
}

/// Converts a path to a key of one policy to the form with the wildcard.
pub(super) fn of_each_run(path: &KeyPath) -> Option<String> {
    match path_keys(path)[..] {
        ["switch", "buffer", policy, ref below @ ..] if !below.is_empty() && BUFFER_POLICIES.find(policy).is_some() => {
            Some(format!("switch.buffer.{WHICHEVER}.{}", below.join(".")))
        }
        _ => None,
    }
}

/// Paths of a key in each policy that has it: the scenario's, and that of each run that chooses one or sets the key
/// itself.
fn places(document: &mut Table, path: &KeyPath, key: &str) -> Vec<KeyPath> {
    let has_key = |policy: &str| {
        // An unknown policy's keys are left to the scenario's reader.
        BUFFER_POLICIES.find(policy).is_none_or(|kind| kind.keys().iter().any(|own| own.name() == key))
    };
    let below = |above: String, policy: &str| {
        let keys = path.keys()[3..].iter().map(|key| crate::table::key_path::quoted(key).into_owned());
        let keys: Vec<String> = [above, policy.to_owned()].into_iter().chain(keys).collect();
        KeyPath::parse(&keys.join(".")).expect("keys of a path")
    };
    let policy =
        |buffer: Option<&mut Table>| buffer.and_then(|buffer| Some(buffer.get("policy")?.as_str()?.to_owned()));
    let common = policy(buffer(document)).unwrap_or_else(|| DEFAULT.to_owned());
    let mut places = Vec::new();
    if has_key(&common) {
        places.push(below("switch.buffer".to_owned(), &common));
    }
    let runs = document.get_mut("runs").and_then(Value::as_array_mut).into_iter().flatten();
    for (n, run) in runs.enumerate() {
        let Some(buffer) = run.as_table_mut().and_then(buffer) else { continue };
        let own = policy(Some(&mut *buffer));
        let chosen = own.as_deref().unwrap_or(&common);
        if has_key(chosen) && (own.is_some() || buffer.contains_key(chosen)) {
            places.push(below(format!("runs.{n}.switch.buffer"), chosen));
        }
    }
    places
}

fn buffer(document: &mut Table) -> Option<&mut Table> {
    document.get_mut("switch")?.as_table_mut()?.get_mut("buffer")?.as_table_mut()
}

fn path_keys(path: &KeyPath) -> Vec<&str> {
    path.keys().iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "[switch.buffer]\npolicy = \"sih\"\n[switch.buffer.sih]\nalpha = 1\n[[runs]]\nname = \"SIH\"\n\
        [[runs]]\nname = \"SIH, 2\"\nswitch.buffer.sih.alpha = 2\n[[runs]]\nname = \"DSH\"\nswitch.buffer.policy = \"dsh\"\n\
        [[runs]]\nname = \"ST\"\nswitch.buffer.policy = \"static\"\n[[runs]]\nname = \"SIH, DWRR\"\nswitch.buffer.size = \"1MB\"\n";

    fn with_value(text: &str, at: &str, value: &str) -> Result<Table, String> {
        let mut document: Table = text.parse().unwrap();
        let set = set(&KeyPath::parse(at).unwrap(), &mut document, &Value::String(value.to_owned()));
        set.map(|()| document).map_err(|no| no.message)
    }

    #[test]
    fn a_key_of_whichever_policy_is_set_in_each_that_a_run_has() {
        let document = with_value(SCENARIO, "switch.buffer.*.alpha", "1/4").unwrap();
        let alpha = |buffer: &Value, policy: &str| Some(buffer.get(policy)?.get("alpha")?.to_string());
        assert_eq!(alpha(&document["switch"]["buffer"], "sih").as_deref(), Some("\"1/4\""));
        let runs = document["runs"].as_array().unwrap();
        let of_runs: Vec<Option<String>> = runs
            .iter()
            .map(|run| {
                let buffer = run.get("switch")?.get("buffer")?;
                BUFFER_POLICIES.names().find_map(|policy| alpha(buffer, policy))
            })
            .collect();
        let quarter = Some("\"1/4\"".to_owned());
        // The first and the last run have the common value; ST has no alpha.
        assert_eq!(of_runs, [None, quarter.clone(), quarter, None, None]);
    }

    #[test]
    fn a_policy_leaves_the_tables_of_others() {
        let document =
            with_value("[switch.buffer]\nsize = 1\n[switch.buffer.sih]\nalpha = 1\n", "switch.buffer.policy", "dsh")
                .unwrap();
        assert_eq!(document["switch"]["buffer"].to_string(), "{ size = 1, policy = \"dsh\" }");
        let [first, last] =
            ["switch.buffer.policy", "switch.buffer.*.alpha"].map(|at| rank(&KeyPath::parse(at).unwrap()));
        assert!(first < rank(&KeyPath::parse("switch.buffer.dsh.alpha").unwrap()) && last > 1);
    }

    #[test]
    fn unknown_keys_are_reported_and_dt_is_the_default() {
        assert_eq!(
            with_value(SCENARIO, "switch.buffer.*.alfa", "1").unwrap_err(),
            "no policy of the scenario has `alfa`"
        );
        let document = with_value("", "switch.buffer.*.alpha", "2").unwrap();
        assert_eq!(document["switch"]["buffer"]["dt"]["alpha"].as_str(), Some("2"));
        let form = |at: &str| of_each_run(&KeyPath::parse(at).unwrap());
        assert_eq!(form("switch.buffer.dsh.alpha").as_deref(), Some("switch.buffer.*.alpha"));
        assert_eq!((form("switch.buffer.size"), form("switch.buffer.policy")), (None, None));
    }
}
