//! Reader of TOML files of a known format: reports all errors at once, each with position and suggestion.
//!
//! A [`Format`] lists the tables and keys of a kind of file. [`read_text`] parses a text and passes its top level, a [`Table`], to the
//! reader of that kind. Each invalid value is recorded in the [`Doc`] and reads as if absent. The result is the reader's value or
//! [`ConfigErrors`] with all errors.
//!
//! A [`Registry`] holds the kinds that files select by name, such as buffer policies; each kind owns its [`Key`]s, and may report
//! [`Gauge`]s.
//!
//! [`settings`] overlays parts of files; errors of the result point at the original lines.
//!
//! ```
//! // The error for an unknown key suggests the most similar known key.
//! assert_eq!(weir_reader::nearest("ahlpa", &["alpha", "k_spfc", "tc"]), Some("alpha"));
//! ```

#![forbid(unsafe_code)]

mod any_key;
mod error;
mod gauge;
mod key;
mod names;
mod read;
mod registry;
mod schema;
pub mod settings;
mod source;

pub use any_key::{AnyKey, Keys};
pub use error::{ConfigError, ConfigErrors, Problem};
pub use gauge::{Gauge, Gauges, Unit, distinct_gauges};
pub use key::Key;
pub use names::{NAME_RULE, is_name};
pub use read::*;
pub use registry::{Plugin, Registry, RegistryError};
pub use schema::{Schema, TableSchema, nearest};
pub use source::Source;
