//! A file of a run's directory that is written while the run goes on.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file of a run's directory, buffered. Its writer has one handle and the [`RunDir`](super::RunDir) another, by which the file
/// is written out and opened anew, whatever its format. Errors name the file.
#[derive(Clone, Debug)]
pub struct RunFile(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    out: BufWriter<File>,
    /// What stands at the beginning of the file, and of one that takes its place.
    header: Vec<u8>,
    /// Written so far belongs to the header.
    is_header: bool,
}

impl RunFile {
    /// Makes the file, or empties it. What is written first is its header, until [`RunFile::end_header`].
    pub(super) fn create(path: &Path) -> io::Result<RunFile> {
        let out = BufWriter::new(File::create(path)?);
        let inner = Inner { path: path.to_owned(), out, header: Vec::new(), is_header: true };
        Ok(RunFile(Arc::new(Mutex::new(inner))))
    }

    /// The header has been written.
    pub(super) fn end_header(&self) {
        self.inner().is_header = false;
    }

    /// Opens the file of that name anew, as after a log rotation: a new one begins with the header, one that is there is gone on
    /// with. Whatever the old file did not take is lost.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut inner = self.inner();
        let flushed = inner.out.flush();
        let open = || {
            let file = File::options().create(true).append(true).open(&inner.path)?;
            let is_new = file.metadata()?.len() == 0;
            io::Result::Ok((file, is_new))
        };
        let (file, is_new) = open().map_err(|error| inner.named(error))?;
        // Not to be tried again when the old writer is dropped.
        let _ = std::mem::replace(&mut inner.out, BufWriter::new(file)).into_parts();
        if is_new {
            let header = std::mem::take(&mut inner.header);
            let written = inner.out.write_all(&header);
            inner.header = header;
            written.map_err(|error| inner.named(error))?;
        }
        flushed.map_err(|error| inner.named(error))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for RunFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        let written = inner.out.write(bytes).map_err(|error| inner.named(error))?;
        if inner.is_header {
            inner.header.extend_from_slice(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.out.flush().map_err(|error| inner.named(error))
    }
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
        // Nobody has moved it: it is gone on with.
        file.reopen().unwrap();
        file.write_all(b"3\n").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "header\n2\n3\n");
    }

    #[test]
    fn a_full_disk_is_told_with_the_file() {
        let mut file = RunFile::create(Path::new("/dev/full")).unwrap();
        file.write_all(b"row\n").unwrap();
        let error = file.flush().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("/dev/full: No space left"), "{error}");
    }
}
