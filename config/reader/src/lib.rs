//! Reads TOML files of a known format: all errors at once, each with its place and what to write instead.
//!
//! A [`Format`] names the tables and keys of a kind of file. [`read_text`] parses a text and hands its top level, a [`Table`], to
//! whoever knows what the keys mean. Each value that is wrong is noted in the [`Doc`], and reads as if it were not there; in the
//! end there is what was made of the file, or [`ConfigErrors`], all of them.
//!
//! What a file chooses by name, such as a buffer policy, stands in a [`Registry`]; each kind owns its [`Key`]s, and may show [`Gauge`]s.
//!
//! [`settings`] lays parts of files over each other; the errors of what they make point at the lines that they came from.
//!
//! ```
//! // An unknown key is told with the known one that it most likely should have been.
//! assert_eq!(weir_reader::nearest("ahlpa", &["alpha", "k_spfc", "tc"]), Some("alpha"));
//! ```

#![forbid(unsafe_code)]

mod error;
mod gauge;
mod key;
mod known;
mod names;
mod read;
mod registry;
pub mod settings;
mod source;

pub use error::{ConfigError, ConfigErrors, Problem};
pub use gauge::{Gauge, Gauges, Unit, distinct_gauges};
pub use key::Key;
pub use known::{Known, KnownTable, nearest};
pub use names::{NAME_RULE, is_name};
pub use read::*;
pub use registry::{Named, Registry, RegistryError};
pub use source::Source;
