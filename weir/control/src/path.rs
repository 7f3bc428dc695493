//! Default paths of control sockets.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Directory of the sockets of root's switches.
const ROOTS: &str = "/run/weir";
/// Extension of sockets' names, which distinguishes them from other sockets in the directory, such as those of ports.
pub(crate) const ENDING: &str = "control";

/// Directory of this user's sockets: `/run/weir` for root, else `$XDG_RUNTIME_DIR/weir`, or one in `/tmp`.
pub(crate) fn own_directory() -> PathBuf {
    let user = geteuid();
    if user.is_root() {
        return PathBuf::from(ROOTS);
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|runtime| runtime.is_absolute());
    match runtime {
        Some(runtime) => runtime.join("weir"),
        None => PathBuf::from(format!("/tmp/weir-{}", user.as_raw())),
    }
}

/// Creates the directory of this user's sockets, if it does not exist.
///
/// # Errors
/// Failure to create it, or a directory of another user.
pub fn make_own_directory() -> io::Result<PathBuf> {
    let directory = own_directory();
    // The sockets' modes control access; in /tmp only the user may create sockets.
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if is_own(&directory) => Ok(directory),
        _ => Err(io::Error::other("it is no directory of this user alone")),
    }
}

/// All control sockets in the default directories, this user's first; some may be of dead processes.
pub fn sockets() -> Vec<PathBuf> {
    let own = own_directory();
    let mut places = vec![PathBuf::from(ROOTS)];
    if own != places[0] && is_own(&own) {
        places.insert(0, own);
    }
    places.iter().flat_map(|place| sockets_in(place)).collect()
}

/// Sockets of a directory, in the order of their names.
pub(crate) fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let ends = |path: &PathBuf| path.extension().is_some_and(|end| end == ENDING);
    let mut sockets: Vec<PathBuf> = sockets.map(|entry| entry.path()).filter(ends).collect();
    sockets.sort();
    sockets
}

/// Returns true if only this user can have created a directory's content.
fn is_own(directory: &Path) -> bool {
    let of_us = |meta: fs::Metadata| meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o022 == 0;
    fs::symlink_metadata(directory).is_ok_and(of_us)
}
