//! A file of a run's directory that is written while the run goes on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file of a run's directory, buffered. Its writer has one handle and the [`RunDir`](super::RunDir) another, by which the file
/// is written out and opened anew, whatever its format. Errors name the file.
///
/// A disk that is full cuts nothing out of the file: what it did not take is kept, and goes where it belongs once there is room.
#[derive(Clone, Debug)]
pub struct RunFile(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    /// Taken from the writer, and not by the file yet.
    pending: Vec<u8>,
    /// Whether the file refused the pending bytes when they were last written out.
    is_refused: bool,
    /// What stands at the beginning of the file, and of one that takes its place.
    header: Vec<u8>,
    /// Written so far belongs to the header.
    is_header: bool,
}

/// So much is written out at once.
const CHUNK: usize = 64 * 1024;

impl RunFile {
    /// Makes the file, or empties it. The first part of its text is its header, until [`RunFile::end_header`].
    pub(super) fn create(path: &Path) -> io::Result<RunFile> {
        Ok(RunFile::of(path, File::create(path)?))
    }

    /// Opens an existing file to write on; [`RunFile::cut_back`] says from where.
    pub(super) fn resume(path: &Path) -> io::Result<RunFile> {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        Ok(RunFile::of(path, file))
    }

    fn of(path: &Path, file: File) -> RunFile {
        let inner = Inner {
            path: path.to_owned(),
            file,
            pending: Vec::new(),
            is_refused: false,
            header: Vec::new(),
            is_header: true,
        };
        RunFile(Arc::new(Mutex::new(inner)))
    }

    /// Writes out what is pending, as far as the disk itself; returns the file's name and its length then.
    pub(super) fn settle(&self) -> io::Result<(String, u64)> {
        let mut inner = self.inner();
        inner.write_out()?;
        let settled = || {
            inner.file.sync_data()?;
            inner.file.metadata()
        };
        let length = settled().map_err(|error| inner.named(error))?.len();
        Ok((inner.name(), length))
    }

    /// Cuts the file back to the length that it had, and goes on there. Nothing that was written since it was opened stays.
    ///
    /// # Errors
    /// It is shorter than that, or can't be cut.
    pub(super) fn cut_back(&self, lengths: &[(String, u64)]) -> io::Result<()> {
        let mut inner = self.inner();
        let name = inner.name();
        let length = lengths.iter().find(|(of, _)| *of == name).map_or(0, |(_, length)| *length);
        inner.pending.clear();
        inner.is_refused = false;
        let cut = |file: &mut File| {
            if file.metadata()?.len() < length {
                let error = "it is shorter than it was when the checkpoint was written";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
            }
            file.set_len(length)?;
            file.seek(SeekFrom::Start(length)).map(drop)
        };
        cut(&mut inner.file).map_err(|error| inner.named(error))
    }

    /// The header has been written.
    pub(super) fn end_header(&self) {
        self.inner().is_header = false;
    }

    /// Opens the file of that name anew, as after a log rotation: a new one begins with the header, an existing one is
    /// appended to. What a file that was moved away does not take is lost.
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
    /// Writes out what is pending; what the file does not take stays.
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

    fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for RunFile {
    /// Takes all, or nothing: nothing as long as the file refuses what came before.
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
        // Whoever wants to know flushes.
        let _ = self.write_out();
    }
}

/// The whole lines of a file, for a run that was killed may have left a part of one behind them.
///
/// # Errors
/// The file can't be read.
pub fn whole_lines(path: &Path) -> io::Result<impl Read + use<>> {
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
        // Nobody has moved it: it is appended to.
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
        // The disk is full: nothing is taken, and no more than what was there already is kept.
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
    fn a_line_that_did_not_become_whole_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        let long = "x".repeat(2 * CHUNK);
        let cases =
            [("a\nb", "a\n".to_owned()), ("a\nb\n", "a\nb\n".to_owned()), ("a", String::new()), ("", String::new())];
        let several = format!("a\n{long}");
        for (text, whole) in cases.into_iter().chain([(several.as_str(), "a\n".to_owned())]) {
            fs::write(&path, text).unwrap();
            let mut read = String::new();
            whole_lines(&path).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, whole);
        }
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
