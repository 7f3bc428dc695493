//! A lock on a device that excludes all users of the machine, root and others alike.
//!
//! It is a `flock` on a file of the device's name in a directory that is everybody's. It takes no write access, so that another user's
//! leftover file does not block. The holder is read from the kernel (`/proc/locks`), not from the file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock, major, minor};
use rustix::io::Errno;

/// A lock that is held. The kernel gives it back however the process ends.
#[derive(Debug)]
pub(crate) struct DeviceLock {
    file: File,
    path: PathBuf,
}

/// Reason why a lock is not available.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    /// A process holds the lock; `None` where the kernel does not say which, as of a process in another container.
    Held(Option<Holder>),
    /// The lock file is unusable.
    Failed {
        /// Message that names the file.
        what: String,
        /// Advice.
        help: String,
    },
}

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    /// Command of the holder, if known.
    pub(crate) command: Option<String>,
}

impl DeviceLock {
    /// Takes the lock of this name, in the directory that all instances use; does not wait.
    pub(crate) fn take(name: &str) -> Result<DeviceLock, LockError> {
        DeviceLock::take_in(&directory()?, name)
    }

    fn take_in(directory: &Path, name: &str) -> Result<DeviceLock, LockError> {
        let path = directory.join(format!("weir-{name}.lock"));
        for _ in 0..TRIES {
            let Some(file) = open(&path)? else { continue };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Its last holder may have removed the file, and another one may have made a new one since.
                Ok(()) if is_at(&file, &path) => return Ok(DeviceLock { file, path }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(LockError::Held(holder_of(&file))),
                Err(error) => return Err(failed(&path, "locked", &error.into())),
            }
        }
        Err(failed(&path, "opened", &io::Error::other("it comes and goes")))
    }
}

impl Drop for DeviceLock {
    fn drop(&mut self) {
        // While it is locked, so that nobody else's is removed. Where the file is another user's it stays, and does no harm.
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The first of the places that are writable for everybody: the same for all users of the machine.
fn directory() -> Result<PathBuf, LockError> {
    let is_everybodys =
        |place: &str| fs::metadata(place).is_ok_and(|meta| meta.is_dir() && meta.mode() & EVERYBODYS == EVERYBODYS);
    DIRECTORIES.into_iter().find(|place| is_everybodys(place)).map(PathBuf::from).ok_or_else(|| LockError::Failed {
        what: format!("neither {} is a directory in which everybody may make files", DIRECTORIES.join(" nor ")),
        help: format!("chmod 1777 {}", DIRECTORIES[0]),
    })
}

/// Opens the file, creating it if there is none; `None` if another process created it meanwhile. The file is not written to: another user's
/// file is opened read-only.
fn open(path: &Path) -> Result<Option<File>, LockError> {
    // A pipe must not make us wait, nor a link lead us elsewhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path);
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                made => {
                    // Readable under any umask, so that other users can see the lock.
                    let readable = made.and_then(|file| {
                        file.set_permissions(fs::Permissions::from_mode(MODE))?;
                        Ok(file)
                    });
                    readable.map_err(|error| failed(path, "made", &error))?
                }
            }
        }
        opened => opened.map_err(|error| failed(path, "opened", &error))?,
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(failed(path, "used", &io::Error::other("it is no file")));
    }
    Ok(Some(file))
}

fn failed(path: &Path, done: &str, error: &io::Error) -> LockError {
    let owner = fs::symlink_metadata(path).map_or(String::new(), |meta| format!(" of user {}", meta.uid()));
    LockError::Failed {
        what: format!("the lock {}{owner} can't be {done}: {error}", path.display()),
        help: if owner.is_empty() {
            format!("may files be made in {}?", path.parent().unwrap_or(path).display())
        } else {
            format!("remove it, as its owner or as root: rm -r {}", path.display())
        },
    }
}

/// Returns true if the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Holder of the lock on a file, from the kernel's list.
fn holder_of(file: &File) -> Option<Holder> {
    let meta = file.metadata().ok()?;
    // The kernel lists locks a page at a time; a lock released meanwhile may hide another from the reader.
    let inode = Inode { major: major(meta.dev()), minor: minor(meta.dev()), number: meta.ino() };
    let look = |_| pid_of(&fs::read_to_string("/proc/locks").ok()?, inode);
    let pid = (0..LOOKS).find_map(look)?;
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    Some(Holder { pid, command: command.map(|command| command.trim().to_owned()) })
}

/// A file, as the kernel names it in its list of locks.
#[derive(Clone, Copy)]
struct Inode {
    /// Device numbers.
    major: u32,
    minor: u32,
    /// Inode number on the device.
    number: u64,
}

/// The process that holds a `flock` on this inode: `1: FLOCK  ADVISORY  WRITE 77 00:1a:4711 0 EOF`.
fn pid_of(locks: &str, Inode { major, minor, number }: Inode) -> Option<u32> {
    let place = format!("{major:02x}:{minor:02x}:{number}");
    let holds = |fields: &Vec<&str>| matches!(fields[..], [_, "FLOCK", _, "WRITE", _, at, ..] if at == place);
    let fields = locks.lines().map(|line| line.split_whitespace().collect()).find(holds)?;
    // 0, or less, of a process that this one can't see.
    fields[4].parse().ok().filter(|pid| *pid > 0)
}

/// Directories for lock files, in order of preference. Debian has the first; elsewhere it may be writable by root only.
const DIRECTORIES: [&str; 2] = ["/run/lock", "/tmp"];
/// Everybody may make files, and remove only their own.
const EVERYBODYS: u32 = 0o1777;
const MODE: u32 = 0o644;
/// Reads of the kernel's list before a holder counts as unknown.
const LOOKS: usize = 5;
/// Attempts to lock, since another holder may remove the file between opening and locking it.
const TRIES: usize = 100;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_lock_is_held_until_it_is_dropped_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let take = |name| DeviceLock::take_in(directory.path(), name);
        let first = take("pci-x").unwrap();
        let Err(LockError::Held(Some(holder))) = take("pci-x") else { panic!("taken twice") };
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.command.is_some_and(|command| !command.is_empty()));
        assert!(take("pci-y").is_ok());
        drop(first);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(take("pci-x").is_ok());
    }

    /// The file is another user's, read-only, and left over from a process that did not clean up.
    #[test]
    fn an_unlocked_file_is_no_conflict() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir-pci-x.lock");
        fs::write(&path, "4711").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let held = DeviceLock::take_in(directory.path(), "pci-x").unwrap();
        assert!(matches!(DeviceLock::take_in(directory.path(), "pci-x"), Err(LockError::Held(_))));
        drop(held);
    }

    /// The file was removed while it was locked: that lock is worth nothing to those who come later, and takes nothing from them.
    #[test]
    fn a_removed_file_is_no_lock_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir-pci-x.lock");
        let orphan = DeviceLock::take_in(directory.path(), "pci-x").unwrap();
        fs::remove_file(&path).unwrap();
        let held = DeviceLock::take_in(directory.path(), "pci-x").unwrap();
        drop(orphan);
        assert!(path.exists(), "the other one's");
        assert!(matches!(DeviceLock::take_in(directory.path(), "pci-x"), Err(LockError::Held(_))));
        drop(held);
    }

    #[test]
    fn a_path_that_is_no_file_is_an_error_with_owner_and_advice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir-x.lock");
        let message = |wrong: &str| match DeviceLock::take_in(directory.path(), "x") {
            Err(LockError::Failed { what, help }) => {
                let owner = rustix::process::geteuid().as_raw();
                assert!(what.contains(&format!("{} of user {owner}", path.display())), "{wrong}: {what}");
                assert!(help.contains("rm -r"), "{wrong}: {help}");
            }
            other => panic!("{wrong}: {other:?}"),
        };
        symlink("/etc/hostname", &path).unwrap();
        message("a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        message("a directory");
        fs::remove_dir(&path).unwrap();
        let _listener = UnixListener::bind(&path).unwrap();
        message("a socket");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        message("a pipe");
    }

    #[test]
    fn the_holder_is_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:1a:4711 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  12 00:1a:4711 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:1a:471 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 00:1a:4711 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 00:1a:4711 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 0 103:05:9 0 EOF\n";
        let inode = |major, minor, number| Inode { major, minor, number };
        assert_eq!(pid_of(locks, inode(0, 26, 4711)), Some(14));
        assert_eq!(pid_of(locks, inode(0x103, 5, 9)), None, "of a process that is not seen from here");
        assert_eq!(pid_of(locks, inode(0, 26, 47)), None);
    }

    #[test]
    fn the_directory_is_everybodys() {
        let directory = directory().unwrap();
        assert_eq!(fs::metadata(directory).unwrap().mode() & 0o1777, 0o1777);
    }
}
