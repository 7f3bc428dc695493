//! Specification of a figure.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_reader::{Key, Keys};

use crate::files::one_or_more;

/// Figure as specified by a sweep's `[[figures]]` or the command line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Name of the files; derived from the columns by default.
    pub name: Option<String>,
    /// Title above the figure.
    #[serde(default)]
    pub title: String,
    /// Parameter on the horizontal axis.
    pub x: String,
    /// Columns on the vertical axis, a panel each.
    #[serde(deserialize_with = "one_or_more")]
    pub y: Vec<String>,
    /// Keys that distinguish lines: the run, or parameters.
    #[serde(default, deserialize_with = "one_or_more")]
    pub by: Vec<String>,
    /// Key that distinguishes panels.
    pub panels: Option<String>,
    /// Required values of parameters.
    #[serde(default, rename = "where")]
    pub keep: BTreeMap<String, toml::Value>,
    /// True for a logarithmic horizontal axis.
    #[serde(default)]
    pub x_log: bool,
    /// True for a logarithmic vertical axis.
    #[serde(default)]
    pub y_log: bool,
}

/// Keys of `[[figures]]`.
pub(crate) const KEYS: Keys = &[&NAME, &TITLE, &X, &Y, &BY, &PANELS, &WHERE, &X_LOG, &Y_LOG];

const NAME: Key<()> =
    Key::other("name", "string", "Name of the figure's files, without extension.").or_else("made of the columns");
const TITLE: Key<()> = Key::other("title", "string", "Title of the figure.");
const X: Key<()> = Key::other(
    "x",
    "parameter",
    "Parameter on the horizontal axis. Texts other than numbers, fractions, times, rates and sizes get bars.",
)
.or_else("required");
const Y: Key<()> =
    Key::other("y", "column, or list of columns", "Columns on the vertical axis, a panel each.").or_else("required");
const BY: Key<()> = Key::other(
    "by",
    "parameter, or list of parameters",
    "What lines stand for: runs (`run` or `policy`), or values of one or several parameters.",
);
const PANELS: Key<()> = Key::other("panels", "parameter", "What panels stand for: runs, or values of a parameter.");
const WHERE: Key<()> =
    Key::other("where", "table", "Values of parameters that rows must have to be shown: `{ PARAMETER = VALUE }`.");
const X_LOG: Key<()> = Key::other("x_log", "boolean", "Whether the horizontal axis is logarithmic.").or("false");
const Y_LOG: Key<()> = Key::other("y_log", "boolean", "Whether the vertical axis is logarithmic.").or("false");
