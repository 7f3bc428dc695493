//! File of a run's directory, written during the run.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffered file of a run's directory. Its writer has one handle, and the [`RunDir`](super::RunDir) another, to flush and reopen
/// the file independently of its format. Errors name the file.
///
/// A full disk leaves no gap in the file: unwritten bytes stay pending, and are written in order once there is space.
#[derive(Clone, Debug)]
pub struct RunFile(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    /// Bytes accepted from the writer and not yet written to the file.
    pending: Vec<u8>,
    /// Whether the last write of the pending bytes failed.
    is_refused: bool,
    /// Header, also written to a new file at [`RunFile::reopen`].
    header: Vec<u8>,
    /// Whether written bytes still belong to the header.
    is_header: bool,
}

/// Number of pending bytes from which the next write flushes them.
const CHUNK: usize = 64 * 1024;

impl RunFile {
    /// Creates or truncates the file. Text up to [`RunFile::end_header`] is its header.
    pub(super) fn create(path: &Path) -> io::Result<RunFile> {
        let inner = Inner {
            path: path.to_owned(),
            file: File::create(path)?,
            pending: Vec::new(),
            is_refused: false,
            header: Vec::new(),
            is_header: true,
        };
        Ok(RunFile(Arc::new(Mutex::new(inner))))
    }

    /// Ends the header.
    pub(super) fn end_header(&self) {
        self.inner().is_header = false;
    }

    /// Reopens the file by its name, as after a log rotation: a new file begins with the header, an existing file is appended to.
    /// Pending bytes that a moved file refuses are lost.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut inner = self.inner();
        let written = inner.write_out();
        let open = || {
            let file = File::options().create(true).append(true).open(&inner.path)?;
            let is_new = file.metadata()?.len() == 0;
            io::Result::Ok((file, is_new))
        };
        let (file, is_new) = open().map_err(|error| inner.named(error))?;
        inner.file = file;
        if is_new {
            inner.pending = inner.header.clone();
            return inner.write_out().and(written);
        }
        inner.write_out()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes the pending bytes; bytes that the file refuses stay pending.
    fn write_out(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            if written == self.pending.len() {
                break Ok(());
            }
            match self.file.write(&self.pending[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => written += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(self.named(error)),
            }
        };
        self.pending.drain(..written);
        self.is_refused = result.is_err();
        result
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for RunFile {
    /// Accepts all bytes, or fails and accepts none, as long as the file refuses earlier bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        if inner.is_refused || inner.pending.len() >= CHUNK {
            inner.write_out()?;
        }
        inner.pending.extend_from_slice(bytes);
        if inner.is_header {
            inner.header.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner().write_out()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Callers that need the error flush before.
        let _ = self.write_out();
    }
}

/// Returns a reader of a file's complete lines. A killed run may have left part of a line at the end.
///
/// # Errors
/// If the file cannot be read.
pub fn complete_lines(path: &Path) -> io::Result<impl Read + use<>> {
    let mut file = File::open(path)?;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut chunk = vec![0; CHUNK];
    while end > 0 {
        let start = end.saturating_sub(CHUNK as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)?;
        if let Some(place) = bytes.iter().rposition(|byte| *byte == b'\n') {
            end = start + place as u64 + 1;
            break;
        }
        end = start;
    }
    file.rewind()?;
    Ok(file.take(end))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_rotated_file_is_followed_by_one_with_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        let mut file = RunFile::create(&path).unwrap();
        file.write_all(b"header\n").unwrap();
        file.end_header();
        file.write_all(b"1\n").unwrap();
        fs::rename(&path, folder.path().join("events.csv.1")).unwrap();
        file.reopen().unwrap();
        file.write_all(b"2\n").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("events.csv.1")).unwrap(), "header\n1\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "header\n2\n");
        // A file that was not moved is appended to.
        file.reopen().unwrap();
        file.write_all(b"3\n").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "header\n2\n3\n");
    }

    #[test]
    fn what_a_disk_refused_goes_where_it_belongs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.csv");
        let mut file = RunFile::create(&path).unwrap();
        file.write_all(b"header\n").unwrap();
        file.end_header();
        file.flush().unwrap();
        // The disk is full: writes fail, and only bytes accepted earlier stay pending.
        let disk = std::mem::replace(&mut file.inner().file, File::create("/dev/full").unwrap());
        file.write_all(b"1\n").unwrap();
        assert!(file.flush().is_err());
        assert!(file.write_all(b"lost\n").is_err());
        drop(disk);
        file.reopen().unwrap();
        file.write_all(b"2\n").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "header\n1\n2\n");
    }

    #[test]
    fn an_incomplete_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        let long = "x".repeat(2 * CHUNK);
        let cases =
            [("a\nb", "a\n".to_owned()), ("a\nb\n", "a\nb\n".to_owned()), ("a", String::new()), ("", String::new())];
        let several = format!("a\n{long}");
        for (text, expected) in cases.into_iter().chain([(several.as_str(), "a\n".to_owned())]) {
            fs::write(&path, text).unwrap();
            let mut read = String::new();
            complete_lines(&path).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn the_error_of_a_full_disk_names_the_file() {
        let mut file = RunFile::create(Path::new("/dev/full")).unwrap();
        file.write_all(b"row\n").unwrap();
        let error = file.flush().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("/dev/full: No space left"), "{error}");
    }
}
