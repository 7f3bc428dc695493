//! Papers of the experiments: folders with an `about.toml` and a folder for each experiment.

use std::path::Path;

use serde::Deserialize;
use weir_config::ConfigErrors;
use weir_reader::{Format, Key, TableSchema, is_name, read_file, read_text};

use super::paper_file::toml_error;
use crate::Failure;

/// `about.toml`: citation of a paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    /// Position among papers, ascending; papers without it come last.
    #[serde(default = "last")]
    order: u32,
    /// Identifier in commands: `gfc`.
    pub id: String,
    /// Short name in a citation.
    pub name: String,
    /// Full title, if longer than the name.
    title: Option<String>,
    authors: String,
    venue: String,
    year: Option<u32>,
    /// Name of the paper's own scheme in the lines of its figures.
    scheme: Option<String>,
    /// Unspecified parameters that each map of the paper's figures has.
    #[serde(default)]
    pub axes: Vec<String>,
    /// Configuration that the paper's figures have in common, in a sentence.
    configuration: Option<String>,
}

const ABOUT: &str = "about.toml";

const FORMAT: Format = Format {
    what: "a paper's about.toml",
    reference: "docs/EXPERIMENTS.md",
    repeated: "",
    tables: &[TableSchema::table(
        "",
        &[&ID, &NAME, &TITLE, &AUTHORS, &VENUE, &YEAR, &ORDER, &SCHEME, &AXES, &CONFIGURATION],
    )],
};

const ID: Key<()> = Key::other("id", "name", "Prefix of the experiments' names.").or_else("required");
const NAME: Key<()> = Key::other("name", "string", "Short name.").or_else("required");
const TITLE: Key<()> = Key::other("title", "string", "Title.").or_else("`name`");
const AUTHORS: Key<()> = Key::other("authors", "string", "Authors.").or_else("required");
const VENUE: Key<()> = Key::other("venue", "string", "Venue.").or_else("required");
const YEAR: Key<()> = Key::other("year", "integer", "Year.");
const ORDER: Key<()> = Key::other("order", "integer", "Position among the papers.").or_else("last");

const SCHEME: Key<()> = Key::other(
    "scheme",
    "string",
    "Name of the paper's own scheme. Lines of its figures with this word in their name are drawn thicker, in warm colours.",
);
const AXES: Key<()> =
    Key::other("axes", "list of strings", "Unspecified parameters without which a map of a figure is refused.")
        .or_else("none");
const CONFIGURATION: Key<()> =
    Key::other("configuration", "string", "Configuration that the paper's figures have in common, in a sentence.");

impl Paper {
    /// Reads the paper of a folder; `None` without `about.toml`.
    pub(super) fn read(folder: &Path) -> Result<Option<Paper>, Failure> {
        let path = folder.join(ABOUT);
        if !path.is_file() {
            return Ok(None);
        }
        let text = read_file(&path, &FORMAT)?;
        let (paper, source) = parse(&path.display().to_string(), &text)?;
        if !is_name(&paper.id) || paper.id.contains('.') || paper.id == "all" {
            let message = format!("\"{}\" can't name a paper", paper.id);
            let help = "write 1 to 31 letters, digits, _ or -, which are not \"all\": id = \"gfc\"";
            return Err(source.error_at("id", message, help).into());
        }
        Ok(Some(paper))
    }

    pub(super) fn citation(&self) -> String {
        let year = self.year.map_or_else(String::new, |year| format!(" {year}"));
        format!("{}, {}, {}{year}", self.authors, self.name, self.venue)
    }

    pub(super) fn scheme(&self) -> Option<&str> {
        self.scheme.as_deref()
    }

    /// The common configuration as a further sentence; empty without one.
    pub(super) fn configuration_sentence(&self) -> String {
        self.configuration.as_ref().map_or_else(String::new, |configuration| format!(". Here: {configuration}"))
    }

    pub(super) fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

fn parse(name: &str, text: &str) -> Result<(Paper, weir_config::Source), ConfigErrors> {
    let ((), source) = read_text(name, text, &FORMAT, |_| ())?;
    toml::from_str(text).map(|paper| (paper, source.clone())).map_err(|error| toml_error(&source, &error))
}

fn last() -> u32 {
    u32::MAX
}

pub(super) fn is_one(folder: &Path) -> bool {
    folder.join(ABOUT).is_file()
}
