//! Every file of `tests/bad` gives exactly the errors that its comments expect, all in one report.

use std::fs;
use std::path::{Path, PathBuf};

use crate::expectations::{self, file_name, files};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad")
}

#[test]
fn bad_files_give_the_errors_they_expect() {
    expectations::check(&folder(), |path, text| weir_config::parse(file_name(path), text));
}

#[test]
fn reports_show_file_line_and_help_in_plain_ascii() {
    for path in files(&folder()) {
        let text = fs::read_to_string(&path).unwrap();
        let name = file_name(&path);
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
