//! Edits of files that a reader accepts: most bytes stay, so that errors are deep within.

use std::fs;
use std::path::{Path, PathBuf};

use crate::input::FuzzInput;

/// Length of the longest made file.
pub(crate) const BYTES_MAX: usize = 64 << 10;
const EDITS_MAX: usize = 3;

/// Numbers and words that readers may trip over.
const TOKENS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"4294967296",
    b"18446744073709551615",
    b"9999999999999999999999",
    b"1e308",
    b"-0.0",
    b"nan",
    b"inf",
    b"0.1",
    b"\"\"",
    b"[]",
    b"{}",
    b"null",
    b"true",
    b"1s",
    b"1000000h",
    b"0B",
    b"1EB",
    b"\xff\xfe",
    b"\n",
];

/// Files that are edited.
#[derive(Debug)]
pub(crate) struct SeedFiles(Vec<Vec<u8>>);

impl SeedFiles {
    /// Reads the files of Weir's own at these paths of the repository; of a folder, all files in it with this extension.
    pub(crate) fn read(paths: &[(&str, &str)]) -> SeedFiles {
        let mut files = Vec::new();
        for (path, extension) in paths {
            let path = repository().join(path);
            let found = if path.is_dir() { files_of(&path, extension) } else { vec![path] };
            let contents =
                found.iter().map(|path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            files.extend(contents.filter(|content| content.len() <= BYTES_MAX / 4));
        }
        SeedFiles(files)
    }

    /// Creates seeds of these contents.
    pub(crate) fn new(files: Vec<Vec<u8>>) -> SeedFiles {
        SeedFiles(files)
    }

    /// Draws a file with a few edits; one in 64 is arbitrary bytes instead.
    pub(crate) fn draw(&self, input: &mut FuzzInput<'_>) -> Vec<u8> {
        if input.one_in(64) {
            return input.rest().to_vec();
        }
        let mut file = self.pick(input).clone();
        for _ in 0..input.below(EDITS_MAX + 1) {
            self.edit(input, &mut file);
            file.truncate(BYTES_MAX);
        }
        file
    }

    fn pick(&self, input: &mut FuzzInput<'_>) -> &Vec<u8> {
        &self.0[usize::from(input.word()) % self.0.len()]
    }

    fn edit(&self, input: &mut FuzzInput<'_>, file: &mut Vec<u8>) {
        let at = if file.is_empty() { 0 } else { input.long() as usize % file.len() };
        match input.below(12) {
            0 => {
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= 1 << input.below(8);
                }
            }
            1 => {
                let end = (at + 1 + input.below(16)).min(file.len());
                file.drain(at..end);
            }
            2 => {
                let count = input.below(16);
                file.splice(at..at, input.bytes(count).iter().copied());
            }
            3..6 => {
                let token = token_at(file, at);
                file.splice(token, input.one_of(&TOKENS).iter().copied());
            }
            6 | 7 => {
                // A word of the same or another file.
                let other = self.pick(input);
                if !other.is_empty() {
                    let from = token_at(other, input.long() as usize % other.len());
                    let token = token_at(file, at);
                    file.splice(token, other[from].iter().copied());
                }
            }
            8 => {
                let line = line_at(file, at);
                file.drain(line);
            }
            9 => {
                // A line of the same or another file, repeated.
                let other = self.pick(input);
                if !other.is_empty() {
                    let line = line_at(other, input.long() as usize % other.len());
                    let start = line_at(file, at).start;
                    let times = 1 + input.below(4);
                    file.splice(start..start, other[line].repeat(times));
                }
            }
            10 => file.truncate(at),
            _ => {
                let end = (at + 4).min(file.len());
                let number = input.one_of(&[0u32, 1, 0x7fff_ffff, u32::MAX, 0x0001_0000]).to_le_bytes();
                file[at..end].copy_from_slice(&number[..end - at]);
            }
        }
    }
}

/// Returns the word around a place.
fn token_at(file: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let at = at.min(file.len());
    let start = at - file[..at].iter().rev().take_while(|byte| is_part(byte)).count();
    start..at + file[at..].iter().take_while(|byte| is_part(byte)).count()
}

/// Returns the line around a place, with its end.
fn line_at(file: &[u8], at: usize) -> std::ops::Range<usize> {
    let at = at.min(file.len());
    let start = file[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = file[at..].iter().position(|byte| *byte == b'\n').map_or(file.len(), |end| at + end + 1);
    start..end
}

fn files_of(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("a folder that can be read").path()) {
        if path.is_dir() {
            files.extend(files_of(&path, extension));
        } else if path.extension().is_some_and(|other| other == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Root folder of the repository, whose files are the seeds.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder within the repository").to_owned()
}
