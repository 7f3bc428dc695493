//! Access to the sockets that ports make.
//!
//! DPDK binds them under a umask that excludes all other users; then they get their group, and last their mode.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Group;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, chmodat, chownat, open};
use rustix::process::umask;
use weir_config::{Device, SocketAccess};
use weir_dpdk_io::PortError;

use crate::nics::DeviceIssue;

/// Reason why a port could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// DPDK's reason.
    Port(PortError),
    /// The socket's permissions could not be set.
    Socket(DeviceIssue),
}

/// Opens a device's port with `open_port`, which makes its socket, and sets the socket's group and mode.
pub(crate) fn with_access<T>(
    device: &Device,
    open_port: impl FnOnce() -> Result<T, PortError>,
) -> Result<T, OpenError> {
    let Some((path, access, mode)) =
        device.own_socket().and_then(|(path, access)| Some((path, access, access.wanted_mode()?)))
    else {
        return open_port().map_err(OpenError::Port);
    };
    let gid = match access.group.as_deref() {
        Some(group) => Some(group_id(group).map_err(OpenError::Socket)?),
        None => None,
    };
    let opened = {
        let _closed = UmaskGuard::new();
        open_port().map_err(OpenError::Port)?
    };
    match set(Path::new(path), gid, mode) {
        Ok(()) => Ok(opened),
        Err(error) => Err(OpenError::Socket(refusal(path, access, &error))),
    }
}

/// Sets the configured group and mode, if any, of a socket that only its owner can use.
///
/// # Errors
/// There is no such group, or the system refuses.
pub fn set_access(path: &Path, access: &SocketAccess) -> Result<(), DeviceIssue> {
    let Some(mode) = access.wanted_mode() else { return Ok(()) };
    let gid = access.group.as_deref().map(group_id).transpose()?;
    set(path, gid, mode).map_err(|error| refusal(&path.display().to_string(), access, &error))
}

/// Checks a socket's permissions before it exists; `None` if no error shows.
pub fn check_access(access: &SocketAccess) -> Option<DeviceIssue> {
    let group = access.group.as_deref()?;
    match group_id(group) {
        Err(finding) => Some(finding),
        Ok(gid) if may_give_to(gid) => None,
        Ok(_) => Some(DeviceIssue {
            message: format!("a socket can't be given to group {group}: this user is not in it"),
            help: format!("start weir as root or as a member of the group: usermod -aG {group} USER"),
        }),
    }
}

/// A group by name, or by number.
fn group_id(group: &str) -> Result<u32, DeviceIssue> {
    let unknown = |reason: &str| DeviceIssue {
        message: format!("there is no group {group}{reason}"),
        help: "write one that `getent group` shows, or make it: groupadd NAME".to_owned(),
    };
    match Group::from_name(group) {
        Ok(Some(found)) => Ok(found.gid.as_raw()),
        // All bits set stand for no change.
        Ok(None) => group.parse().ok().filter(|gid| *gid != u32::MAX).ok_or_else(|| unknown("")),
        Err(error) => Err(unknown(&format!(": {error}"))),
    }
}

fn may_give_to(gid: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    rustix::process::geteuid().is_root()
        || rustix::process::getegid().as_raw() == gid
        || groups.iter().any(|group| group.as_raw() == gid)
}

/// Gives the socket its group and mode, in this order, and verifies them.
fn set(path: &Path, gid: Option<u32>, mode: u16) -> io::Result<()> {
    // By a handle, so that a user with write access to the directory can't have another file changed.
    let socket = File::from(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    let kind = FileType::from_raw_mode(socket.metadata()?.mode());
    if kind != FileType::Socket {
        return Err(io::Error::other("there is another file in its place"));
    }
    if let Some(gid) = gid {
        chownat(&socket, "", None, Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH)?;
    }
    // The kernel has no chmod by such a handle but this.
    chmodat(CWD, format!("/proc/self/fd/{}", socket.as_raw_fd()), Mode::from_raw_mode(mode.into()), AtFlags::empty())?;
    let now = socket.metadata()?;
    if now.mode() & 0o777 != u32::from(mode) || gid.is_some_and(|gid| gid != now.gid()) {
        return Err(io::Error::other(format!(
            "it has mode {:04o} and group {} all the same",
            now.mode() & 0o777,
            now.gid()
        )));
    }
    Ok(())
}

fn refusal(path: &str, access: &SocketAccess, error: &io::Error) -> DeviceIssue {
    let group = access.group.as_deref().map_or(String::new(), |group| format!("group {group} and "));
    let mode = access.wanted_mode().unwrap_or_default();
    DeviceIssue {
        message: format!("socket {path} can't have {group}mode {mode:04o}: {error}"),
        help: "name a directory on a file system with owners and modes, and a group that this user is in".to_owned(),
    }
}

/// Guard of the umask: while it lives, files made by this process are accessible to its own user alone.
struct UmaskGuard(Mode);

impl UmaskGuard {
    fn new() -> UmaskGuard {
        UmaskGuard(umask(Mode::RWXG | Mode::RWXO))
    }
}

impl Drop for UmaskGuard {
    fn drop(&mut self) {
        umask(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use weir_config::VhostUser;

    use super::*;

    #[test]
    fn a_socket_is_closed_until_it_has_its_group_and_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vm.sock");
        let mode_of = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let gid = rustix::process::getegid().as_raw();
        let access = SocketAccess { mode: Some(0o625), group: Some(gid.to_string()) };
        let device = Device::VhostUser(VhostUser { access, ..VhostUser::server(path.to_str().unwrap()) });
        let listener = with_access(&device, || {
            let listener = UnixListener::bind(&path).unwrap();
            assert_eq!(mode_of(), 0o700);
            Ok(listener)
        });
        assert_eq!((mode_of(), std::fs::metadata(&path).unwrap().gid()), (0o625, gid));
        drop(listener);
        // Another file is left alone.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let before = mode_of();
        assert!(matches!(with_access(&device, || Ok(())), Err(OpenError::Socket(_))));
        assert_eq!(mode_of(), before);
    }

    #[test]
    fn groups_have_a_name_or_a_number() {
        assert_eq!((group_id("root").unwrap(), group_id("0").unwrap(), group_id("64123").unwrap()), (0, 0, 64_123));
        assert!(group_id("no-such-group").unwrap_err().help.contains("getent group"));
        assert!(group_id("4294967295").is_err());
        let access = SocketAccess { mode: None, group: Some("no-such-group".into()) };
        assert!(check_access(&access).unwrap().message.contains("no group no-such-group"));
    }
}
