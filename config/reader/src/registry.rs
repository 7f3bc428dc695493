//! Registries of kinds that files select by name: Weir's own, and those that a third-party program adds.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Gauge, Keys, NAME_RULE, distinct_gauges, is_name};

/// Kind that a file selects by name, with parameters of its own.
pub trait Plugin: Sync {
    /// Name by which a file selects the kind.
    fn id(&self) -> &'static str;

    /// Parameters: all keys that the kind's table may have.
    fn keys(&self) -> Keys {
        &[]
    }

    /// Run-time gauges: columns of `series.csv`, figures of the summary, sections of the report, a line of `weir check`.
    fn gauges(&self) -> &'static [Gauge] {
        &[]
    }
}

/// Registry of all kinds of one sort, such as all buffer policies: Weir's own in their order, then the added ones.
///
/// A program adds its kinds first, and reads files afterwards. The first reading seals the registry.
#[derive(Debug)]
pub struct Registry<K: ?Sized + 'static> {
    sort: &'static str,
    built_in: &'static [&'static K],
    added: Mutex<Vec<&'static K>>,
    all: OnceLock<Vec<&'static K>>,
}

/// Reason why a kind was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Name of another kind.
    #[error("there are two kinds of {sort} named \"{name}\"")]
    NameTaken {
        /// Sort of the registry.
        sort: &'static str,
        /// Name of the kind.
        name: &'static str,
    },
    /// Name that a file can't write.
    #[error("\"{name}\" can't name a {sort}: write {rule}", rule = NAME_RULE)]
    InvalidName {
        /// Sort of the registry.
        sort: &'static str,
        /// Name of the kind.
        name: &'static str,
    },
    /// Addition after a file was read without the kind.
    #[error("the {sort} \"{name}\" comes too late: add it before the first file is read")]
    Sealed {
        /// Sort of the registry.
        sort: &'static str,
        /// Name of the kind.
        name: &'static str,
    },
}

impl<K: ?Sized + Plugin> Registry<K> {
    /// Creates a registry of Weir's own kinds; `sort` names one of them in messages: `buffer policy`.
    pub const fn new(sort: &'static str, built_in: &'static [&'static K]) -> Registry<K> {
        Registry { sort, built_in, added: Mutex::new(Vec::new()), all: OnceLock::new() }
    }

    /// Adds a kind.
    ///
    /// # Errors
    /// The name is taken, can't be written in a file, or a file was already read.
    pub fn add(&self, kind: &'static K) -> Result<(), RegistryError> {
        self.add_with_aliases(kind, |kind| vec![kind.id()])
    }

    /// Adds a kind that files select by several names, such as those of sets of its parameters; `names` returns the names of each kind.
    ///
    /// # Errors
    /// Those of [`add`](Registry::add), for each of the names.
    pub fn add_with_aliases(
        &self,
        kind: &'static K,
        names: impl Fn(&'static K) -> Vec<&'static str>,
    ) -> Result<(), RegistryError> {
        let (sort, own) = (self.sort, names(kind));
        if let Some(name) = own.iter().copied().find(|name| !is_name(name)) {
            return Err(RegistryError::InvalidName { sort, name });
        }
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        if self.all.get().is_some() {
            return Err(RegistryError::Sealed { sort, name: kind.id() });
        }
        let taken: Vec<&str> = self.built_in.iter().chain(added.iter()).flat_map(|other| names(*other)).collect();
        if let Some(name) = own.iter().copied().find(|name| taken.contains(name)) {
            return Err(RegistryError::NameTaken { sort, name });
        }
        added.push(kind);
        Ok(())
    }

    /// Returns all kinds, and seals the registry.
    pub fn all(&self) -> &[&'static K] {
        self.all.get_or_init(|| {
            let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
            self.built_in.iter().chain(added.iter()).copied().collect()
        })
    }

    /// Finds the kind of this name.
    pub fn find(&self, name: &str) -> Option<&'static K> {
        self.all().iter().copied().find(|kind| kind.id() == name)
    }

    /// Gauges of all kinds, each name once.
    pub fn gauges(&self) -> Vec<&'static Gauge> {
        distinct_gauges(self.all().iter().flat_map(|kind| kind.gauges()))
    }

    /// Returns all names, in the order of [`all`](Registry::all).
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all().iter().map(|kind| kind.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Colour(&'static str);

    impl Plugin for Colour {
        fn id(&self) -> &'static str {
            self.0
        }
    }

    static RED: Colour = Colour("red");
    static BLUE: Colour = Colour("blue");
    static OTHER_RED: Colour = Colour("red");
    static NO_NAME: Colour = Colour("dark blue");

    #[test]
    fn kinds_are_added_once_and_before_they_are_chosen_from() {
        static COLOURS: &[&Colour] = &[&RED];
        let colours = Registry::new("colour", COLOURS);
        assert_eq!(colours.add(&OTHER_RED), Err(RegistryError::NameTaken { sort: "colour", name: "red" }));
        assert_eq!(colours.add(&NO_NAME), Err(RegistryError::InvalidName { sort: "colour", name: "dark blue" }));
        assert_eq!(colours.add(&BLUE), Ok(()));
        assert_eq!(colours.add(&BLUE), Err(RegistryError::NameTaken { sort: "colour", name: "blue" }));
        assert_eq!(colours.names().collect::<Vec<_>>(), ["red", "blue"]);
        assert_eq!(colours.find("blue").map(|colour| colour.0), Some("blue"));
        assert!(colours.find("green").is_none());
        static GREEN: Colour = Colour("green");
        assert_eq!(colours.add(&GREEN), Err(RegistryError::Sealed { sort: "colour", name: "green" }));
    }

    #[test]
    fn a_kind_may_have_several_names() {
        static COLOURS: &[&Colour] = &[&RED];
        static GREEN: Colour = Colour("green");
        let colours = Registry::new("colour", COLOURS);
        let names = |colour: &Colour| match colour.0 {
            "red" => vec!["red", "green"],
            "blue" => vec!["blue", "light blue"],
            other => vec![other],
        };
        assert_eq!(
            colours.add_with_aliases(&GREEN, names),
            Err(RegistryError::NameTaken { sort: "colour", name: "green" })
        );
        assert_eq!(
            colours.add_with_aliases(&BLUE, names),
            Err(RegistryError::InvalidName { sort: "colour", name: "light blue" })
        );
        assert_eq!(colours.names().collect::<Vec<_>>(), ["red"]);
    }
}
