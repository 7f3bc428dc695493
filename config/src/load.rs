//! From a file's text to a checked configuration.

mod buffer;
mod classes;
mod clones;
mod device;
mod flow_control;
mod flow_rules;
mod policy;
mod ports;
mod reserves;
mod rules;
mod switch;
mod watchdog;

use std::fs;
use std::path::Path;
use std::thread;

use toml::de::DeTable;

use crate::error::Problem;
use crate::read::{Doc, Table};
use crate::{ConfigError, ConfigErrors, Source, SwitchConfig};

/// No switch of 64 ports needs a hundredth of this.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Ten times what the deepest text needs. Only what is touched takes memory.
const STACK_BYTES: usize = 32 << 20;

/// Reads and checks a file.
///
/// # Errors
/// All that is wrong with it, or that it can't be read or is not UTF-8.
pub fn load(path: &Path) -> Result<SwitchConfig, ConfigErrors> {
    let name = path.display().to_string();
    let unreadable = |message: String, help: &str| {
        let error = Source::unread(&name, "").error(Problem::new(message, help));
        ConfigErrors::from(error)
    };
    let bytes = fs::read(path)
        .map_err(|error| unreadable(format!("can't read the file: {error}"), "name a switch's TOML file"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("the file is no UTF-8 text: byte {at} starts no character"), "save it as UTF-8")
    })?;
    parse(&name, &text)
}

/// Checks a text. `name` stands for the file in messages; the switch takes its name from it where the text gives none.
///
/// # Errors
/// All that is wrong with the text. Errors of TOML's syntax come alone: what follows one can't be trusted.
pub fn parse(name: &str, text: &str) -> Result<SwitchConfig, ConfigErrors> {
    if text.len() > TEXT_BYTES_MAX {
        let problem = Problem::new("the file is larger than 1 MiB", "name a switch's TOML file");
        return Err(ConfigErrors::from(Source::unread(name, "").error(problem)));
    }
    // The parser stops at 80 levels of inline tables and at 80 parts of a dotted key, but their product can stand in a
    // file, and dropping such a tree overflows the stack of a usual thread.
    let parser = thread::Builder::new().name("config".to_owned()).stack_size(STACK_BYTES);
    thread::scope(|scope| match parser.spawn_scoped(scope, || parse_in_thread(name, text)) {
        Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => {
            let problem = Problem::new(format!("can't start a thread to read the file: {error}"), "");
            Err(ConfigErrors::from(Source::unread(name, "").error(problem)))
        }
    })
}

fn parse_in_thread(name: &str, text: &str) -> Result<SwitchConfig, ConfigErrors> {
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    if let Some(errors) = ConfigErrors::of(syntax_errors.iter().map(|error| syntax(name, text, error)).collect()) {
        return Err(errors);
    }
    let doc = Doc::new(Source::new(name, text, table.get_ref()));
    let mut config = switch::read(&Table::root(&doc, table.get_ref()), name);
    rules::check(&doc, &config);
    config.source = doc.into_source()?;
    Ok(config)
}

fn syntax(name: &str, text: &str, error: &toml::de::Error) -> ConfigError {
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
    // Spans of the parser may end within a character; a report needs whole ones.
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=span.start).rev().find(boundary).unwrap_or(0);
    let end = (span.end.max(start)..=text.len()).find(boundary).unwrap_or(text.len());
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    ConfigError::new(source, message.to_owned(), syntax_help(message, line), vec![(start..end, String::new())])
}

/// What to write for the slips that people make most: a quantity or a word without quotes, a key given twice.
fn syntax_help(message: &str, line: &str) -> String {
    if message.contains("duplicate key") {
        return "give the key once, and each table (but [[ports]] and its like) once".to_owned();
    }
    if message.contains("string") && message.contains("expected `\"`") {
        return "close the quotes on the same line".to_owned();
    }
    let value = line.split_once('=').map(|(key, value)| (key.trim(), value.split('#').next().unwrap_or("").trim()));
    match value {
        Some((key, "")) => format!("write a value after {key} ="),
        Some((key, value)) if !value.contains(['"', '\'', '[', '{']) && value.contains(|c: char| c.is_alphabetic()) => {
            format!("put the value in quotes: {key} = \"{value}\"")
        }
        _ => "see docs/CONFIGURATION.md for a complete example".to_owned(),
    }
}
