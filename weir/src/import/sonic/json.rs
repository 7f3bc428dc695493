//! JSON objects that keep keys given twice, which serde_json's own drop.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Object, or another value.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum JsonValue {
    Object(JsonObject),
    Other(Value),
}

/// Keys and values in their order.
pub(super) struct JsonObject(Vec<(String, JsonValue)>);

impl JsonObject {
    /// Creates an object with one value, of an empty key.
    pub(super) fn with_value(value: Value) -> JsonObject {
        JsonObject(vec![(String::new(), JsonValue::Other(value))])
    }

    /// Returns keys and values.
    ///
    /// # Errors
    /// A key that is given twice.
    pub(super) fn entries(self) -> Result<Vec<(String, JsonValue)>, String> {
        let mut known = BTreeSet::new();
        match self.0.iter().find(|(key, _)| !known.insert(key)) {
            Some((key, _)) => Err(key.clone()),
            None => Ok(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonObject, D::Error> {
        struct ObjectReader;
        impl<'de> Visitor<'de> for ObjectReader {
            type Value = JsonObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(JsonObject(entries))
            }
        }
        deserializer.deserialize_map(ObjectReader)
    }
}
