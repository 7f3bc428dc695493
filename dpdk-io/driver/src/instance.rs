//! One device, one instance: locks on what a configuration takes, and sockets that dead instances left.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use weir_config::{ConfigErrors, Device, SwitchConfig, VhostUser};

/// Locks on the interfaces, NICs and sockets of a configuration. The kernel gives them back however the process ends.
#[derive(Debug)]
pub struct DeviceLocks {
    _files: Vec<File>,
}

/// What is in the way of taking a device.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// Another instance has it; its process, if it told.
    Taken(Option<u32>),
    /// Somebody who is no instance of Weir listens on the socket.
    Listened,
    /// There is something at the socket's path that is no socket.
    NoSocket,
    /// It can't be found out, or mended.
    Failed(String),
}

/// Takes all devices of the switches for this process, or none: each one that another instance has, or a socket that somebody
/// listens on, is told with its line. Then sockets that a dead instance left are removed.
pub fn claim_devices(switches: &[SwitchConfig]) -> Result<DeviceLocks, ConfigErrors> {
    let locks = take(switches)?;
    for (_, _, socket) in sockets(switches) {
        if matches!(state_of(&socket), Ok(SocketState::Stale)) {
            match fs::remove_file(&socket) {
                Ok(()) => tracing::info!("{}: left by an instance that is dead; removed", socket.display()),
                Err(error) => {
                    tracing::warn!("{} is left by a dead instance and can't be removed: {error}", socket.display())
                }
            }
        }
    }
    Ok(locks)
}

/// As [`claim_devices`], without keeping or removing anything. Returns the sockets that a start would remove.
pub fn check_devices(switches: &[SwitchConfig]) -> Result<Vec<PathBuf>, ConfigErrors> {
    take(switches)?;
    let sockets = sockets(switches).map(|(_, _, socket)| socket);
    Ok(sockets.filter(|socket| matches!(state_of(socket), Ok(SocketState::Stale))).collect())
}

fn take(switches: &[SwitchConfig]) -> Result<DeviceLocks, ConfigErrors> {
    let (mut files, mut errors, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for switch in switches {
        for (index, port) in switch.ports.iter().enumerate() {
            let Some(key) = key_of(&port.device) else { continue };
            // Memifs of one socket, told apart by their ids.
            if !taken.insert(key.clone()) {
                continue;
            }
            if is_no_socket(&port.device) {
                errors.push(error_at(switch, index, &Obstacle::NoSocket));
                continue;
            }
            match lock(&lock_directory(), &key) {
                Ok(file) => files.push(file),
                Err(obstacle) => errors.push(error_at(switch, index, &obstacle)),
            }
        }
    }
    if errors.is_empty() {
        // Only of sockets that no other instance has: it would take the look for a guest.
        for (switch, index, socket) in sockets(switches) {
            match state_of(&socket) {
                Ok(SocketState::Absent | SocketState::Stale) => {}
                Ok(SocketState::Listened) => errors.push(error_at(switch, index, &Obstacle::Listened)),
                Ok(SocketState::Other) => errors.push(error_at(switch, index, &Obstacle::NoSocket)),
                Err(error) => errors.push(error_at(switch, index, &Obstacle::Failed(error.to_string()))),
            }
        }
    }
    ConfigErrors::joined(errors).map_or(Ok(DeviceLocks { _files: files }), Err)
}

fn error_at(switch: &SwitchConfig, index: usize, obstacle: &Obstacle) -> ConfigErrors {
    let port = &switch.ports[index];
    let device = &port.device;
    let (message, help) = match obstacle {
        Obstacle::Taken(Some(pid)) => (
            format!("another weir has {device}: process {pid}"),
            format!("end it (kill {pid}), or give the port another device"),
        ),
        Obstacle::Taken(None) => {
            (format!("another weir has {device}"), "end it, or give the port another device".to_owned())
        }
        Obstacle::Listened => {
            (format!("another program listens on {device}"), "end it, or give the port another path".to_owned())
        }
        Obstacle::NoSocket => (
            format!("there is a file at the path of {device}, and it is no socket"),
            "remove it, or give the port another path".to_owned(),
        ),
        Obstacle::Failed(error) => (
            format!("{device} can't be taken: {error}"),
            format!("is the directory {} writable?", lock_directory().display()),
        ),
    };
    switch.error_at(&format!("ports[{index}].{}", device.key()), message, help)
}

/// What two instances must not both have, as a file's name; `None` for devices that are nobody else's.
fn key_of(device: &Device) -> Option<String> {
    let name = match device {
        Device::AfPacket(name) | Device::AfXdp(name) | Device::Tap(name) => {
            let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
            format!("netdev-{namespace}-{name}")
        }
        Device::Pci(pci) => format!("pci-{}", pci.address),
        // A vhost-user socket is one guest's, whichever side makes it.
        Device::VhostUser(VhostUser { socket, .. }) | Device::Memif { socket, server: true, .. } => {
            format!("socket-{}", canonical(Path::new(socket)).display())
        }
        Device::Memif { socket, id, server: false, .. } => {
            format!("memif-{id}-{}", canonical(Path::new(socket)).display())
        }
        Device::Ring(_) | Device::Pcap { .. } | Device::Null { .. } | Device::CloneOf(_) => {
            return None;
        }
    };
    // A path may be longer than a file's name, so a long one ends in a digest.
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c.to_string() } else { format!("%{:x}", c as u32) }
    };
    let name: String = name.chars().map(plain).collect();
    if name.len() <= KEY_BYTES_MAX {
        return Some(name);
    }
    let digest = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Some(format!("{}-{digest:016x}", &name[..KEY_BYTES_MAX]))
}

/// Whether a device would connect to a file that is no socket. Its not being there yet is as it should be.
fn is_no_socket(device: &Device) -> bool {
    let (Device::VhostUser(VhostUser { socket, client: true, .. }) | Device::Memif { socket, server: false, .. }) =
        device
    else {
        return false;
    };
    fs::metadata(socket).is_ok_and(|file| !file.file_type().is_socket())
}

/// The path with links in its directory resolved; the file itself need not be there.
fn canonical(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    parent.join(path.file_name().unwrap_or_default())
}

/// The sockets that ports make, with their switch and port.
fn sockets(switches: &[SwitchConfig]) -> impl Iterator<Item = (&SwitchConfig, usize, PathBuf)> {
    let mut seen = BTreeSet::new();
    switches
        .iter()
        .flat_map(|switch| switch.ports.iter().enumerate().map(move |(index, port)| (switch, index, port)))
        .filter_map(|(switch, index, port)| {
            let (socket, _) = port.device.own_socket()?;
            Some((switch, index, PathBuf::from(socket)))
        })
        .filter(move |(_, _, socket)| seen.insert(canonical(socket)))
}

fn lock(directory: &Path, key: &str) -> Result<File, Obstacle> {
    let failed = |error: io::Error| Obstacle::Failed(error.to_string());
    DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(directory.join(key)).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed)?;
            return Err(Obstacle::Taken(pid.trim().parse().ok()));
        }
        Err(error) => return Err(failed(error.into())),
    }
    // The file stays when the lock goes: whoever opened it meanwhile must not hold a lock on a file without a name.
    let told = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    told.map_err(failed)?;
    Ok(file)
}

/// Where all instances look: root's in `/run/weir`, a user's in their runtime directory or below `/tmp`.
fn lock_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/weir");
    }
    std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| Path::new(directory).is_dir()).map_or_else(
        || std::env::temp_dir().join(format!("weir-{}", rustix::process::geteuid().as_raw())),
        |directory| PathBuf::from(directory).join("weir"),
    )
}

#[derive(Debug, PartialEq, Eq)]
enum SocketState {
    Absent,
    /// Nobody listens.
    Stale,
    Listened,
    /// No socket.
    Other,
}

/// Whether somebody listens on a socket: found out by connecting, so it is not for sockets of living instances.
fn state_of(path: &Path) -> io::Result<SocketState> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SocketState::Absent),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => return Ok(SocketState::Other),
        Ok(_) => {}
    }
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(SocketState::Stale),
        // Another type of socket, as memif's, or a full queue: somebody is there.
        Ok(()) | Err(Errno::PROTOTYPE | Errno::AGAIN) => Ok(SocketState::Listened),
        Err(Errno::NOENT) => Ok(SocketState::Absent),
        Err(error) => Err(error.into()),
    }
}

/// Of a file's 255 bytes.
const KEY_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use weir_config::SocketAccess;

    use super::*;

    #[test]
    fn a_device_is_locked_until_its_file_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path(), "pci-x").unwrap();
        assert_eq!(lock(directory.path(), "pci-x").unwrap_err(), Obstacle::Taken(Some(std::process::id())));
        assert!(lock(directory.path(), "pci-y").is_ok());
        drop(first);
        assert!(lock(directory.path(), "pci-x").is_ok());
    }

    #[test]
    fn sockets_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vm.sock");
        assert_eq!(state_of(&path).unwrap(), SocketState::Absent);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(state_of(&path).unwrap(), SocketState::Listened);
        drop(listener);
        assert_eq!(state_of(&path).unwrap(), SocketState::Stale);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert_eq!(state_of(&path).unwrap(), SocketState::Other);
    }

    #[test]
    fn keys_are_of_the_thing_and_not_of_its_driver() {
        let key = |device| key_of(&device).unwrap();
        assert_eq!(key(Device::AfPacket("v0".into())), key(Device::AfXdp("v0".into())));
        let server = |path: &str| Device::VhostUser(VhostUser::server(path));
        assert_eq!(key(server("/tmp/../tmp/a")), key(server("/tmp/a")));
        assert_ne!(key(server("/tmp/a")), key(server("/tmp/b")));
        assert!(key(server(&format!("/tmp/{}", "/x".repeat(400)))).len() < 255);
        let client = Device::VhostUser(VhostUser { client: true, ..VhostUser::server("/tmp/a") });
        assert_eq!(key(client), key(server("/tmp/a")));
        let memif = |id, server| Device::Memif { socket: "/tmp/m".into(), id, server, access: SocketAccess::default() };
        assert_eq!(key(memif(0, true)), key(memif(1, true)));
        assert_ne!(key(memif(0, true)), key(memif(0, false)));
        assert_ne!(key(memif(0, false)), key(memif(1, false)));
        assert_eq!(key_of(&Device::Ring("a".into())), None);
    }
}
