//! CSV file of a run, read while it grows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

/// CSV file, whose complete lines are read once.
pub(super) struct TailReader {
    path: PathBuf,
    /// Bytes read so far.
    offset: u64,
    header: Vec<String>,
}

impl TailReader {
    pub(super) fn new(path: PathBuf) -> TailReader {
        TailReader { path, offset: 0, header: Vec::new() }
    }

    /// Names of the columns; empty before the first lines were read.
    pub(super) fn header(&self) -> &[String] {
        &self.header
    }

    /// Reads new rows of texts, as arrays in JSON.
    pub(super) fn rows(&mut self) -> Vec<Arc<str>> {
        self.read(|field| json!(field))
    }

    /// Reads new rows of numbers, as arrays in JSON; empty fields are null.
    pub(super) fn numbers(&mut self) -> Vec<Arc<str>> {
        self.read(|field| field.parse::<f64>().map_or(Value::Null, |number| json!(number)))
    }

    /// Reads new rows. A file that can't be read has none: its writer reports the error.
    fn read(&mut self, value: impl Fn(&str) -> Value) -> Vec<Arc<str>> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_end(&mut bytes)
        });
        if read.is_err() {
            return Vec::new();
        }
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        self.offset += complete as u64;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..complete]);
        let mut records = reader.records().flatten();
        if self.header.is_empty() {
            self.header = records.next().map_or_else(Vec::new, |header| header.iter().map(str::to_owned).collect());
        }
        records.map(|record| Value::from_iter(record.iter().map(&value)).to_string().into()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn complete_lines_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.csv");
        let mut file = TailReader::new(path.clone());
        assert!(file.numbers().is_empty());
        let mut written = File::create(path).unwrap();
        written.write_all(b"t_us,\"a,b\"\n1.5,\n2,").unwrap();
        assert_eq!(file.numbers(), ["[1.5,null]".into()]);
        assert_eq!(file.header(), ["t_us", "a,b"]);
        written.write_all(b"3\n\"x, y\",\"\"\n").unwrap();
        assert_eq!(file.rows(), ["[\"2\",\"3\"]".into(), "[\"x, y\",\"\"]".into()]);
        assert!(file.rows().is_empty());
    }
}
