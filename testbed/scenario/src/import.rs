//! Experiments of other tools, made into scenarios.
//!
//! An import answers with a scenario file's text, the files that it names, and a [`Report`] of what it took as it is, what it
//! could only approximate, and what it left. It changes no file itself.

pub mod ns3;

use std::fmt;

/// A scenario made of other files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The scenario file's text.
    pub scenario: String,
    /// Files that it names, which belong beside it: their names and texts.
    pub beside: Vec<(String, String)>,
    /// What became of what.
    pub report: Report,
}

/// What became of what an import was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What the scenario says just as the files do.
    pub taken: Vec<Note>,
    /// What it says nearly, and how it differs.
    pub approximated: Vec<Note>,
    /// What it does not say, and why.
    pub left: Vec<Note>,
}

/// One thing that became of a file, or of a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file's name and, where there is one, the line, from 1. `None` for what no file says.
    pub at: Option<(String, Option<usize>)>,
    /// What became of it, in words.
    pub text: String,
}

/// Why there is no scenario, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// Its line, from 1, where one line is to blame.
    pub line: Option<usize>,
    /// The fault.
    pub problem: String,
    /// What to write or do instead.
    pub help: String,
}

/// All that was found wrong, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportErrors {
    /// The first [`ImportErrors::SHOWN_MAX`] of them, file by file in the order of the lines.
    pub errors: Vec<ImportError>,
    /// How many more there are.
    pub more: usize,
}

impl Note {
    /// A note on a line of a file.
    pub(crate) fn at(file: &str, line: usize, text: impl Into<String>) -> Note {
        Note { at: Some((file.to_owned(), Some(line))), text: text.into() }
    }

    /// A note on a file.
    pub(crate) fn of(file: &str, text: impl Into<String>) -> Note {
        Note { at: Some((file.to_owned(), None)), text: text.into() }
    }

    /// A note on what no file says.
    pub(crate) fn on_nothing(text: impl Into<String>) -> Note {
        Note { at: None, text: text.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((file, Some(line))) => write!(f, "{file}:{line}: {}", self.text),
            Some((file, None)) => write!(f, "{file}: {}", self.text),
            None => write!(f, "{}", self.text),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}; {}", self.file, self.problem, self.help),
            None => write!(f, "{}: {}; {}", self.file, self.problem, self.help),
        }
    }
}

impl ImportErrors {
    /// So many are shown, and the others counted: a wrong column makes an error of every line.
    pub const SHOWN_MAX: usize = 20;

    /// One error.
    pub(crate) fn one(
        file: &str,
        line: Option<usize>,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> ImportErrors {
        let error = ImportError { file: file.to_owned(), line, problem: problem.into(), help: help.into() };
        ImportErrors { errors: vec![error], more: 0 }
    }
}

impl fmt::Display for ImportErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if n == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for ImportErrors {}
