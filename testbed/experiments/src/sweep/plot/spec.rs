//! Specification of a figure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_reader::{Key, Keys};

use crate::files::one_or_more;

/// Figure as specified by a sweep's `[[figures]]` or the command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Name of the files; derived from the columns by default.
    pub name: Option<String>,
    /// Title above the figure.
    #[serde(default)]
    pub title: String,
    /// Width on paper, for which panels are placed.
    pub width: Option<FigureWidth>,
    /// Label of the horizontal axis in place of the parameter's name.
    pub x_label: Option<String>,
    /// Label of the vertical axes in place of the column's name.
    pub y_label: Option<String>,
    /// Quantity whose distribution over messages is drawn, in place of `x` and `y`.
    pub cdf: Option<MessageQuantity>,
    /// Workload of the messages.
    pub traffic: Option<String>,
    /// Parameter on the horizontal axis, or `message_size`; empty with `cdf`.
    #[serde(default)]
    pub x: String,
    /// Columns on the vertical axis, a panel each.
    #[serde(default, deserialize_with = "one_or_more")]
    pub y: Vec<String>,
    /// Keys that distinguish lines: the run, or parameters.
    #[serde(default, deserialize_with = "one_or_more")]
    pub by: Vec<String>,
    /// Key that distinguishes panels.
    pub panels: Option<String>,
    /// Required values of parameters.
    #[serde(default, rename = "where")]
    pub keep: BTreeMap<String, toml::Value>,
    /// Value of the first of `by`: panels have the differences of the other lines to its line.
    pub versus: Option<String>,
    /// True for a logarithmic horizontal axis.
    #[serde(default)]
    pub x_log: bool,
    /// True for a logarithmic vertical axis.
    #[serde(default)]
    pub y_log: bool,
}

/// Width of a figure on paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FigureWidth {
    /// One column of two: 240 pt, panels below each other.
    Column,
    /// Both columns: 504 pt, two panels a row.
    Page,
}

impl FigureWidth {
    /// Returns the width in points.
    pub(super) fn points(self) -> u32 {
        match self {
            FigureWidth::Column => 240,
            FigureWidth::Page => 504,
        }
    }
}

/// Quantity of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MessageQuantity {
    /// Completion time.
    Fct,
    /// Completion time divided by that in an empty network.
    Slowdown,
}

/// Name of the horizontal axis that has the size bins of messages.
pub(super) const MESSAGE_SIZE: &str = "message_size";

/// Keys of `[[figures]]`.
pub(crate) const KEYS: Keys =
    &[&NAME, &TITLE, &WIDTH, &CDF, &TRAFFIC, &X, &X_LABEL, &Y, &Y_LABEL, &BY, &PANELS, &WHERE, &VERSUS, &X_LOG, &Y_LOG];

const NAME: Key<()> =
    Key::other("name", "string", "Name of the figure's files, without extension.").or_else("made of the columns");
const TITLE: Key<()> = Key::other("title", "string", "Title of the figure.");
const WIDTH: Key<()> = Key::other(
    "width",
    "`\"column\"` or `\"page\"`",
    "Width on paper: 240 pt with panels below each other, or 504 pt with two a row.",
);
const X_LABEL: Key<()> =
    Key::other("x_label", "string", "Label of the horizontal axis.").or_else("the parameter's name");
const Y_LABEL: Key<()> = Key::other("y_label", "string", "Label of the vertical axes.").or_else("the column's name");
const CDF: Key<()> = Key::other(
    "cdf",
    "`\"fct\"` or `\"slowdown\"`",
    "Distribution of the messages of all seeds, in place of `x` and `y`. Unfinished messages keep a line below 100 %.",
);
const TRAFFIC: Key<()> =
    Key::other("traffic", "string", "Workload of the distribution's messages.").or_else("the only one");
const X: Key<()> = Key::other(
    "x",
    "parameter",
    "Parameter on the horizontal axis, or `message_size`: the size bins of a workload. Texts other than numbers, fractions, times, rates \
     and sizes get bars.",
)
.or_else("required, but for `cdf`");
const Y: Key<()> = Key::other("y", "column, or list of columns", "Columns on the vertical axis, a panel each.")
    .or_else("required, but for `cdf`");
const BY: Key<()> = Key::other(
    "by",
    "parameter, or list of parameters",
    "What lines stand for: runs (`run` or `policy`), or values of one or several parameters.",
);
const PANELS: Key<()> = Key::other("panels", "parameter", "What panels stand for: runs, or values of a parameter.");
const WHERE: Key<()> =
    Key::other("where", "table", "Values of parameters that rows must have to be shown: `{ PARAMETER = VALUE }`.");
const VERSUS: Key<()> = Key::other(
    "versus",
    "string",
    "Value of the first of `by`, such as a run: further panels have the differences of other lines to its line, paired by seed.",
);
const X_LOG: Key<()> = Key::other("x_log", "boolean", "Whether the horizontal axis is logarithmic.").or("false");
const Y_LOG: Key<()> = Key::other("y_log", "boolean", "Whether the vertical axis is logarithmic.").or("false");
