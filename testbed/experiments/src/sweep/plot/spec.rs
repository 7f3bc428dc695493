//! Specification of a figure.

use std::collections::BTreeMap;

use serde::Deserialize;

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
pub(crate) const KEYS: &[&str] = &["name", "title", "x", "y", "by", "panels", "where", "x_log", "y_log"];
