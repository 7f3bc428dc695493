//! A figure as it is asked for.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::files::one_or_more;

/// A figure, as a sweep's `[[figures]]` and the command line have it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// The name of its files; made of the columns if it is not said.
    pub name: Option<String>,
    /// Above it.
    #[serde(default)]
    pub title: String,
    /// What goes across: a parameter.
    pub x: String,
    /// What goes up: columns, a panel each.
    #[serde(deserialize_with = "one_or_more")]
    pub y: Vec<String>,
    /// What lines differ in: the run, or parameters.
    #[serde(default, deserialize_with = "one_or_more")]
    pub by: Vec<String>,
    /// What panels differ in.
    pub panels: Option<String>,
    /// Values of parameters that rows must have.
    #[serde(default, rename = "where")]
    pub keep: BTreeMap<String, toml::Value>,
    /// Logarithmic axes.
    #[serde(default)]
    pub x_log: bool,
    /// Logarithmic axes.
    #[serde(default)]
    pub y_log: bool,
}

/// The keys of `[[figures]]`.
pub(crate) const KEYS: &[&str] = &["name", "title", "x", "y", "by", "panels", "where", "x_log", "y_log"];
