//! Files that a scenario or an import names, which may be another person's.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads a file. Its length bounds the memory.
///
/// # Errors
/// The system's, and a device, which may have no end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device, and no file"));
    }
    fs::read(path)
}

/// Reads a text file.
///
/// # Errors
/// As [`read`], and bytes that are no UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_an_end_is_refused() {
        for path in ["/dev/zero", "/dev/urandom"] {
            assert_eq!(read(Path::new(path)).unwrap_err().to_string(), "it is a device, and no file");
        }
        let folder = tempfile::tempdir().unwrap();
        let [link, bytes] = ["link", "bytes"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(read_text(&link).is_err());
        fs::write(&bytes, [0xff, b'a']).unwrap();
        assert_eq!(read(&bytes).unwrap(), [0xff, b'a']);
        assert_eq!(read_text(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
