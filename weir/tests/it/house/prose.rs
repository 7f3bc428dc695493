//! How sentences of documentation and comments start.
//!
//! A sentence starts a paragraph, an item, a heading or a table's cell, or stands behind a full stop, a question or an exclamation mark. Code
//! between fences does not count.

use std::fs;
use std::path::{Path, PathBuf};

/// Starts that put something before the subject, or name it by a pronoun.
const SHUNNED: [&str; 4] = ["The same", "Of", "Those", "What is"];

/// A sentence that CONTRIBUTING.md warns of.
const WARNING: &str = "What is no data, or is copied.";

/// Folders of what others wrote, of builds and of runs.
const OTHERS: [&str; 5] = ["target", "vendor", "shared", "runs", "__pycache__"];

/// Sentences that start with one of those, each with its file and the line of its paragraph; and how many files were looked at.
pub(super) fn shunned_in(repository: &Path) -> (Vec<String>, usize) {
    let mut files = Vec::new();
    collect(repository, &mut files);
    let found = files.iter().flat_map(|file| {
        let name = file.strip_prefix(repository).unwrap_or(file).display().to_string();
        let text = fs::read_to_string(file).unwrap_or_default();
        let paragraphs = Syntax::of(file).map(|syntax| syntax.paragraphs(&text)).unwrap_or_default();
        paragraphs
            .into_iter()
            .flat_map(|(line, text)| shunned(&text).into_iter().map(move |start| (line, start)).collect::<Vec<_>>())
            .map(move |(line, start)| format!("{name}:{line}: {start}"))
            .collect::<Vec<_>>()
    });
    (found.collect(), files.len())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_aside =
            name.starts_with('.') || name.starts_with("target-") || OTHERS.contains(&name) || path.is_symlink();
        match (is_aside, path.is_dir()) {
            (true, _) => {}
            (false, true) => collect(&path, files),
            (false, false) if Syntax::of(&path).is_some() => files.push(path),
            (false, false) => {}
        }
    }
}

/// What marks prose in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `//`, `///` and `//!`.
    Rust,
    /// `//`, and `/* … */`.
    C,
    /// `#`.
    Shell,
    /// `#`, and between `"""`.
    Python,
    /// All but code.
    Markdown,
}

impl Syntax {
    fn of(file: &Path) -> Option<Syntax> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Some(Syntax::Rust),
            Some("c" | "h" | "js" | "css") => Some(Syntax::C),
            Some("toml" | "yml" | "service") => Some(Syntax::Shell),
            Some("py") => Some(Syntax::Python),
            Some("md") => Some(Syntax::Markdown),
            Some(_) => None,
            None => fs::read(file).ok()?.starts_with(b"#").then_some(Syntax::Shell),
        }
    }

    /// Paragraphs with the line that each starts in.
    pub(super) fn paragraphs(self, text: &str) -> Vec<(usize, String)> {
        let mut paragraphs = Paragraphs::default();
        let (mut is_code, mut is_open) = (false, false);
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            let prose = match self {
                Syntax::Markdown => Some(text),
                Syntax::Rust => text.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!'])),
                Syntax::Shell => text.strip_prefix('#'),
                Syntax::C if is_open || text.starts_with("/*") => {
                    is_open = !text.contains("*/");
                    Some(text.trim_start_matches(['/', '*']).trim_end_matches(['/', '*']))
                }
                Syntax::C => text.strip_prefix("//"),
                Syntax::Python if is_open || text.starts_with("\"\"\"") => {
                    let inner = text.strip_prefix("\"\"\"").filter(|_| !is_open).unwrap_or(text);
                    is_open = !inner.contains("\"\"\"");
                    inner.split("\"\"\"").next()
                }
                Syntax::Python => text.strip_prefix('#'),
            };
            let Some(prose) = prose.map(str::trim) else {
                paragraphs.end();
                continue;
            };
            if prose.starts_with("```") {
                is_code = !is_code;
                paragraphs.end();
            } else if !is_code && prose.starts_with('|') {
                paragraphs.end();
                prose.split('|').for_each(|cell| paragraphs.add_whole(line, cell));
            } else if !is_code {
                paragraphs.add(line, prose);
            }
        }
        paragraphs.end();
        paragraphs.done
    }
}

#[derive(Default)]
struct Paragraphs {
    done: Vec<(usize, String)>,
    open: Option<(usize, String)>,
}

impl Paragraphs {
    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    fn add_whole(&mut self, line: usize, text: &str) {
        self.done.push((line, text.trim().to_owned()));
    }

    /// Adds a line to the paragraph, or starts one where the line is a heading or an item.
    fn add(&mut self, line: usize, text: &str) {
        let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let item = ["- ", "* ", "> "].iter().find_map(|mark| text.strip_prefix(mark));
        let item = item.or_else(|| numbered.strip_prefix(". ").filter(|_| numbered.len() < text.len()));
        if text.is_empty() || text.starts_with('#') || item.is_some() {
            self.end();
        }
        let text = item.unwrap_or(text).trim_start_matches('#').trim();
        match &mut self.open {
            Some((_, open)) => {
                open.push(' ');
                open.push_str(text);
            }
            None if !text.is_empty() => self.open = Some((line, text.to_owned())),
            None => {}
        }
    }
}

/// How the sentences of a paragraph start that start so.
pub(super) fn shunned(paragraph: &str) -> Vec<String> {
    let ends = paragraph.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
    let behind = ends.filter_map(|at| {
        // Behind a bracket or a quote that ends with the sentence.
        let rest = paragraph[at..].trim_start_matches([')', '*', '_', '"']);
        rest.starts_with(' ').then(|| rest.trim_start())
    });
    let starts =
        std::iter::once(paragraph).chain(behind).map(|start| start.trim_start_matches(['*', '_', '(', '[', '"']));
    let is_shunned = |start: &&str| {
        !start.starts_with(WARNING)
            && SHUNNED.iter().any(|shunned| {
                start.strip_prefix(shunned).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            })
    };
    starts.filter(is_shunned).map(|start| start.chars().take(60).collect()).collect()
}
