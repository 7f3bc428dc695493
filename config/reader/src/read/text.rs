//! Parsing of a file up to its top level.

use std::fs;
use std::path::Path;
use std::thread;

use toml::de::DeTable;

use crate::{ConfigError, ConfigErrors, Doc, Problem, Schema, Source, Table, TableSchema};

/// Maximum length of a file in bytes: over a hundred times that of a switch of 64 ports.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Stack size of the parser thread: ten times the need of the deepest text. Only touched pages take memory.
const STACK_BYTES: usize = 32 << 20;

/// Format of a kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Kind of file in messages: `a switch's TOML file`.
    pub what: &'static str,
    /// Document with a complete example.
    pub reference: &'static str,
    /// Table that may occur more than once: `[[ports]]`.
    pub repeated: &'static str,
    /// Known tables. A table that is absent here, or has no keys here, may have any key.
    pub tables: &'static [TableSchema],
}

/// Reads the text of a file of this format.
///
/// # Errors
/// The file can't be read, or is not UTF-8.
pub fn read_file(path: &Path, format: &Format) -> Result<String, ConfigErrors> {
    let name = path.display().to_string();
    let unreadable = |message: String, help: &str| {
        let error = Source::unread(&name, "").error(Problem::new(message, help));
        ConfigErrors::from(error)
    };
    let bytes = fs::read(path)
        .map_err(|error| unreadable(format!("can't read the file: {error}"), &format!("name {}", format.what)))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("the file is no UTF-8 text: byte {at} starts no character"), "save it as UTF-8")
    })
}

/// Parses a text and passes its top level to `read`. `name` is the file's name in messages.
///
/// # Errors
/// All errors that `read` records in the document. A syntax error of TOML is reported alone: keys after it can't be trusted.
pub fn read_text<T: Send>(
    name: &str,
    text: &str,
    format: &Format,
    read: impl FnOnce(&Table<'_>) -> T + Send,
) -> Result<(T, Source), ConfigErrors> {
    if text.len() > TEXT_BYTES_MAX {
        let problem = Problem::new("the file is larger than 1 MiB", format!("name {}", format.what));
        return Err(ConfigErrors::from(Source::unread(name, "").error(problem)));
    }
    // The parser stops at 80 levels of inline tables and at 80 parts of a dotted key, but a file can hold their product, and dropping such
    // a tree overflows a default stack.
    let parser = thread::Builder::new().name("config".to_owned()).stack_size(STACK_BYTES);
    thread::scope(|scope| match parser.spawn_scoped(scope, || read_in_thread(name, text, format, read)) {
        Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => {
            let problem = Problem::new(format!("can't start a thread to read the file: {error}"), "");
            Err(ConfigErrors::from(Source::unread(name, "").error(problem)))
        }
    })
}

fn read_in_thread<T>(
    name: &str,
    text: &str,
    format: &Format,
    read: impl FnOnce(&Table<'_>) -> T,
) -> Result<(T, Source), ConfigErrors> {
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    let errors = syntax_errors.iter().map(|error| syntax(name, text, format, error)).collect();
    if let Some(errors) = ConfigErrors::from_vec(errors) {
        return Err(errors);
    }
    let doc = Doc::new(Source::new(name, text, table.get_ref()), Schema(format.tables));
    let made = read(&Table::root(&doc, table.get_ref()));
    Ok((made, doc.into_source()?))
}

fn syntax(name: &str, text: &str, format: &Format, error: &toml::de::Error) -> ConfigError {
    let source = Source::unread(name, text);
    let message = match error.message() {
        unquoted if unquoted.starts_with("string values must be quoted") => {
            "a value that is no number, true or false needs quotes"
        }
        other => other,
    };
    let Some(span) = error.span().filter(|span| span.start.max(span.end) <= text.len()) else {
        return source.error(Problem::new(message, ""));
    };
    // Spans of the parser may end within a character; a report needs whole characters.
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=span.start).rev().find(boundary).unwrap_or(0);
    let end = (span.end.max(start)..=text.len()).find(boundary).unwrap_or(text.len());
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let help = syntax_help(message, line, format);
    ConfigError::new(source, message.to_owned(), help, vec![(start..end, String::new())])
}

/// Returns help for the most frequent mistakes: a quantity or a word without quotes, a duplicate key.
fn syntax_help(message: &str, line: &str, format: &Format) -> String {
    if message.contains("duplicate key") {
        return format!("give the key once, and each table (but {} and its like) once", format.repeated);
    }
    if message.contains("string") && message.contains("expected `\"`") {
        return "close the quotes on the same line".to_owned();
    }
    let value = line.split_once('=').map(|(key, value)| (key.trim(), value.split('#').next().unwrap_or("").trim()));
    match value {
        Some((key, "")) => format!("write a value after {key} ="),
        Some((key, value)) if !value.contains(['"', '\'', '[', '{']) && value.contains(|c: char| c.is_alphabetic()) => {
            let plain = value.trim_matches(|c: char| "“”„‘’‚«»".contains(c));
            format!("put the value in quotes: {key} = \"{plain}\"")
        }
        _ => format!("see {} for a complete example", format.reference),
    }
}
