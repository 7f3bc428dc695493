//! Path of a control socket, locked against other processes.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

use crate::path::{ENDING, make_own_directory, own_directory, sockets_in};

/// Maximum number of clients served at a time.
pub const CLIENTS_MAX: usize = 16;

/// Socket bound at its path, not yet served: connections wait.
///
/// Its mode is 0600 until it is changed. The path is removed with it.
#[derive(Debug)]
pub struct ControlListener {
    pub(crate) listener: UnixListener,
    pub(crate) path: SocketPath,
}

/// Reason why there is no socket at a path.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A live process answers at the path.
    #[error("{} is the control socket of another process{}", .path.display(), numbered(*.process))]
    Live {
        /// The path.
        path: PathBuf,
        /// Process, if known.
        process: Option<i32>,
    },
    /// The path is no socket.
    #[error("{} is there already, and is no socket", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("{} can't be a control socket: {error}", .path.display())]
    Failed {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// A socket's path, removed in the end if it is still that socket's.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    inode: (u64, u64),
}

/// Timeout for another process that claims a path in the same directory.
const CLAIM_WITHIN: Duration = Duration::from_secs(2);
/// Timeout for a connection to a live process.
const LIVES_WITHIN: Duration = Duration::from_secs(1);

impl ControlListener {
    /// Binds a socket at this path; replaces one that a dead process left.
    ///
    /// # Errors
    /// A live process at the path, a path that is no socket, or an error of the system.
    pub fn bind(path: &Path) -> Result<ControlListener, BindError> {
        let _claim = DirectoryLock::acquire(path)?;
        claimed(path)
    }

    /// Binds a socket of this name in the default directory, as `NAME-PROCESS.control` if a live process has that name. Sockets that dead
    /// processes left there are removed.
    ///
    /// # Errors
    /// Failure to create the directory, or an error of the system.
    pub fn bind_default(name: &str) -> Result<ControlListener, BindError> {
        let failed = |error| BindError::Failed { path: own_directory(), error };
        ControlListener::in_directory(&make_own_directory().map_err(failed)?, name)
    }

    fn in_directory(directory: &Path, name: &str) -> Result<ControlListener, BindError> {
        let path = directory.join(format!("{name}.{ENDING}"));
        let _claim = DirectoryLock::acquire(&path)?;
        for left in sockets_in(directory) {
            // Entries that can't be removed, or that answer, do not matter.
            let _ = remove_if_dead(&left);
        }
        match claimed(&path) {
            Err(BindError::Live { .. }) => claimed(&directory.join(format!("{name}-{}.{ENDING}", std::process::id()))),
            bound => bound,
        }
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        self.path.path()
    }
}

impl SocketPath {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Lock on a path's directory: of two processes that find a dead one's socket, the second must not remove the first's.
struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    fn acquire(path: &Path) -> Result<DirectoryLock, BindError> {
        let failed = |error: io::Error| BindError::Failed { path: path.to_owned(), error };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = File::open(parent).map_err(failed)?;
        let deadline = Instant::now() + CLAIM_WITHIN;
        loop {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(DirectoryLock { _directory: directory }),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                Err(Errno::WOULDBLOCK) => {
                    let what = format!("a process keeps {} locked", parent.display());
                    return Err(failed(io::Error::other(what)));
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

/// Binds at a path whose directory is locked.
fn claimed(path: &Path) -> Result<ControlListener, BindError> {
    remove_if_dead(path)?;
    let failed = |error: io::Error| BindError::Failed { path: path.to_owned(), error };
    let listener = listen_at(path).map_err(failed)?;
    let inode = inode(path).map_err(failed)?;
    Ok(ControlListener { listener, path: SocketPath { path: path.to_owned(), inode } })
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = stream_socket()?;
    // Linux gives the file the mode that the socket has when it is bound, so that it never has another one.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, CLIENTS_MAX as i32)?;
    Ok(UnixListener::from(socket))
}

/// Removes a dead process's socket at a path.
fn remove_if_dead(path: &Path) -> Result<(), BindError> {
    let failed = |error: io::Error| BindError::Failed { path: path.to_owned(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NoSocket(path.to_owned())),
        Ok(_) => {}
    }
    let live = |process| Err(BindError::Live { path: path.to_owned(), process });
    match connected(path, LIVES_WITHIN) {
        Ok(stream) => live(socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed),
        // A process listens, and its backlog is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => live(None),
        Err(error) => Err(failed(error)),
    }
}

/// Connects to a socket, within a timeout.
pub(crate) fn connected(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let socket = stream_socket()?;
    // This bounds the wait of `connect` too.
    set_socket_timeout(&socket, Timeout::Send, Some(within))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn stream_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn numbered(process: Option<i32>) -> String {
    process.map_or(String::new(), |process| format!(" (process {process})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_socket_is_refused_and_a_dead_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.sock");
        let bound = ControlListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        match ControlListener::bind(&path) {
            Err(error @ BindError::Live { .. }) => {
                assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(path.exists(), "the second one left the first one's alone");
        // As left by a killed process.
        let ControlListener { listener, path: left } = bound;
        std::mem::forget(left);
        drop(listener);
        assert!(path.exists());
        let again = ControlListener::bind(&path).unwrap();
        drop(again);
        assert!(!path.exists(), "removed with its socket");
    }

    #[test]
    fn two_runs_of_a_name_have_a_socket_each_and_dead_ones_are_swept_up() {
        let folder = tempfile::tempdir().unwrap();
        let first = ControlListener::in_directory(folder.path(), "lab").unwrap();
        let second = ControlListener::in_directory(folder.path(), "lab").unwrap();
        let own = folder.path().join(format!("lab-{}.control", std::process::id()));
        assert_eq!([first.path(), second.path()], [folder.path().join("lab.control"), own]);
        let no_socket = folder.path().join("note.control");
        fs::write(&no_socket, "").unwrap();
        // A port's socket stays, even if no process listens: a stray connection would disturb it.
        let ports = folder.path().join("vm.sock");
        drop(UnixListener::bind(&ports).unwrap());
        let ControlListener { listener, path: left } = second;
        let dead = left.path().to_owned();
        std::mem::forget(left);
        drop(listener);
        let other = ControlListener::in_directory(folder.path(), "other").unwrap();
        assert_eq!(sockets_in(folder.path()), [first.path(), other.path()]);
        assert!(!dead.exists() && no_socket.exists() && ports.exists());
    }

    #[test]
    fn another_file_and_another_sockets_path_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(ControlListener::bind(&path), Err(BindError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        let first = ControlListener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = ControlListener::bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        let missing = ControlListener::bind(&folder.path().join("none/lab.sock")).unwrap_err();
        assert!(missing.to_string().contains("No such file"), "{missing}");
        let long = folder.path().join("x".repeat(120));
        assert!(matches!(ControlListener::bind(&long), Err(BindError::Failed { .. })));
    }
}
