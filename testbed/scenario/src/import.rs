//! Imports of other tools' experiments.
//!
//! An import returns a scenario file's text, the files that it names, and a [`ImportReport`] of exact, approximated and omitted settings. It
//! changes no file itself.

pub mod chakra;
mod collectives;
mod document;
mod fabric;
pub mod goal;
pub mod htsim;
pub mod ns3;
pub mod simai;
mod text;

use std::fmt;
use std::path::Path;

pub use fabric::FabricOptions;
pub(crate) use text::SourceFile;

use crate::data_file;
use crate::workload::{ScheduleError, SchedulePlace};

/// Scenario imported from another tool's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedScenario {
    /// The scenario file's text.
    pub scenario: String,
    /// Names and contents of further files that the scenario names, to be written to its folder.
    pub files: Vec<(String, Vec<u8>)>,
    /// Report of the import.
    pub report: ImportReport,
}

/// Report of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Settings that the scenario has exactly.
    pub taken: Vec<ImportNote>,
    /// Settings that the scenario approximates, with the difference.
    pub approximated: Vec<ImportNote>,
    /// Settings that the scenario omits, with the reason.
    pub left: Vec<ImportNote>,
}

/// Fact about a file, or a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// Name of the file and, where there is one, line from 1. `None` for facts that no file has.
    pub at: Option<(String, Option<usize>)>,
    /// Description.
    pub text: String,
}

/// Error of an import, with a fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, where a single line is wrong.
    pub line: Option<usize>,
    /// Description of the error.
    pub problem: String,
    /// Fix.
    pub help: String,
}

/// Errors of an import, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportErrors {
    /// The first [`ImportErrors::SHOWN_MAX`] errors, file by file in the order of the lines.
    pub errors: Vec<ImportError>,
    /// Number of further errors.
    pub more: usize,
}

impl ImportNote {
    pub(crate) fn for_line(file: &str, line: usize, text: impl Into<String>) -> ImportNote {
        ImportNote { at: Some((file.to_owned(), Some(line))), text: text.into() }
    }

    pub(crate) fn for_file(file: &str, text: impl Into<String>) -> ImportNote {
        ImportNote { at: Some((file.to_owned(), None)), text: text.into() }
    }

    /// Creates a note on a fact that no file has.
    pub(crate) fn general(text: impl Into<String>) -> ImportNote {
        ImportNote { at: None, text: text.into() }
    }
}

/// Reads a file; returns its name without folders, and its content.
///
/// # Errors
/// It can't be read.
pub(crate) fn read_file(path: &Path) -> Result<(String, Vec<u8>), ImportErrors> {
    let cannot = |error| {
        let problem = format!("can't read the file: {error}");
        ImportErrors::one(&path.display().to_string(), None, problem, "name a file of the simulator")
    };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    data_file::read(path).map_err(cannot).map(|content| (name, content))
}

/// Reads a text file.
///
/// # Errors
/// It can't be read, or is no text.
pub(crate) fn read_text(path: &Path) -> Result<SourceFile, ImportErrors> {
    let (name, content) = read_file(path)?;
    let no_text = |_| ImportErrors::one(&name, None, "this is no text", "name a text file of the simulator");
    let text = String::from_utf8(content).map_err(no_text)?;
    Ok(SourceFile { name, text })
}

impl fmt::Display for ImportNote {
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
    /// Maximum number of errors listed; the rest are counted. A wrong column makes an error of every line.
    pub const SHOWN_MAX: usize = 20;

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

impl ImportErrors {
    /// Returns the error of a file of dependent messages; `help` is its fix if it has none.
    fn of_schedule(file: &str, error: &ScheduleError, help: &str) -> ImportErrors {
        let (problem, help) = error.message.split_once("; ").unwrap_or((&error.message, help));
        match error.place {
            SchedulePlace::Line(line) => ImportErrors::one(file, Some(line as usize), problem, help),
            SchedulePlace::Byte(byte) => ImportErrors::one(file, None, format!("byte {byte}: {problem}"), help),
        }
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
