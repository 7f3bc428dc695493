//! Build ID of a program or library.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Returns the build ID that the linker stored in a file, a hash of its content; `None` if it stored none.
///
/// # Errors
/// An unreadable file.
pub fn build_id_of(code: &Path) -> io::Result<Option<String>> {
    let mut start = Vec::new();
    File::open(code)?.take(BUILD_ID_WITHIN).read_to_end(&mut start)?;
    Ok(build_id(&start))
}

/// Prefix of the file that contains the notes, in bytes; they follow the ELF headers.
const BUILD_ID_WITHIN: u64 = 64 << 10;

/// Returns the first 10 bytes, in hexadecimal, of the SHA-1 in the note `NT_GNU_BUILD_ID`.
fn build_id(program: &[u8]) -> Option<String> {
    const HEAD: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = program.windows(HEAD.len()).position(|bytes| bytes == HEAD)? + HEAD.len();
    Some(program.get(at..at + 10)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_distinguished_by_their_note() {
        let note = [&b"\x7fELF....\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"[..], &[0xab; 9], &[1; 11]].concat();
        assert_eq!(build_id(&note).as_deref(), Some("ababababababababab01"));
        assert_eq!((build_id(&note[..24]), build_id(b"\x7fELF")), (None, None));
        // The linker of the development environment stores a build ID.
        let own = build_id_of(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(own.map(|id| id.len()), Some(20));
    }
}
