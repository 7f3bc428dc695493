//! Every file of `tests/bad` gives exactly the errors that its comments expect, all in one go.
//!
//! `#~ message | help` expects an error on its own line, whose message and help contain these texts; `#~^` means the
//! line above, and `#~?` any line or none. Several may share a line.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
struct Expected {
    line: Option<usize>,
    message: String,
    help: String,
}

fn expectations(text: &str) -> Vec<Expected> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for comment in line.split("#~").skip(1) {
            let (line, comment) = match comment.as_bytes().first() {
                Some(b'^') => (Some(index), &comment[1..]),
                Some(b'?') => (None, &comment[1..]),
                _ => (Some(index + 1), comment),
            };
            let (message, help) = comment.split_once(" | ").expect("`#~ message | help`");
            all.push(Expected { line, message: message.trim().to_owned(), help: help.trim().to_owned() });
        }
    }
    all
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn bad_files_give_the_errors_they_expect() {
    let mut wrong = String::new();
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut expected = expectations(&text);
        assert!(!expected.is_empty(), "{name} expects nothing");
        let Err(errors) = weir_config::parse(name, &text) else {
            wrong += &format!("{name}: no error\n");
            continue;
        };
        for error in errors.iter() {
            let fits = |wanted: &Expected| {
                (wanted.line.is_none() || wanted.line == error.line())
                    && error.message().contains(&wanted.message)
                    && error.help_text().contains(&wanted.help)
            };
            match expected.iter().position(fits) {
                Some(index) => drop(expected.remove(index)),
                None => wrong += &format!("{name}:{:?}: unexpected: {error} | {}\n", error.line(), error.help_text()),
            }
        }
        for missing in expected {
            wrong += &format!("{name}: missing {missing:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn reports_show_file_line_and_help_in_plain_ascii() {
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Err(errors) = weir_config::parse(name, &text) else { continue };
        let report = errors.render(false);
        assert!(report.contains(name) && report.contains("help:"), "{report}");
        assert!(!report.contains('\u{1b}') && !report.contains('╭'), "{report}");
        if text.is_ascii() && !report.contains('α') {
            assert!(report.is_ascii(), "{report}");
        }
        assert!(errors.render(true).contains('\u{1b}'));
    }
}
