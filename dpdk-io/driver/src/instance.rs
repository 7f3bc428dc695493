//! Exclusive use of devices: locks on the devices of a configuration, and removal of sockets that dead instances left.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use weir_config::{ConfigErrors, Device, SwitchConfig, VhostUser};

use crate::device_lock::{DeviceLock, Holder, LockError};
use crate::error::DriverError;

/// Locks on the interfaces, NICs and sockets of a configuration. The kernel gives them back however the process ends.
#[derive(Debug)]
pub struct DeviceLocks {
    /// Locked devices, each with its lock.
    locks: BTreeMap<String, DeviceLock>,
}

impl DeviceLocks {
    /// Locks one more device, which belongs to no switch's port. The error names the holder and gives advice.
    pub fn claim(&mut self, device: &Device) -> Result<(), DriverError> {
        let refuse = |conflict| {
            let (message, help) = message_and_help(device, &conflict);
            DriverError::DeviceInUse(format!("{message}; {help}"))
        };
        let Some(key) = key_of(device) else { return Ok(()) };
        if let Entry::Vacant(free) = self.locks.entry(key) {
            let lock = DeviceLock::take(free.key()).map_err(|error| refuse(DeviceConflict::Locked(error)))?;
            free.insert(lock);
        }
        Ok(())
    }
}

/// Obstacle to taking a device.
#[derive(Debug, PartialEq, Eq)]
enum DeviceConflict {
    /// The device's lock is unavailable: another instance holds it, or the lock file is unusable.
    Locked(LockError),
    /// A process that is no instance of Weir listens on the socket.
    Listened,
    /// The socket's path names a file that is no socket.
    NoSocket,
    /// The state can't be determined or repaired.
    Failed(String),
}

/// Locks all devices of the switches for this process, or none. Each device that another instance has, and each socket with a listener, is
/// reported with its line. Then removes sockets that a dead instance left.
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

/// Checks like [`claim_devices`], without keeping or removing anything. Returns the sockets that a start would remove.
pub fn check_devices(switches: &[SwitchConfig]) -> Result<Vec<PathBuf>, ConfigErrors> {
    take(switches)?;
    let sockets = sockets(switches).map(|(_, _, socket)| socket);
    Ok(sockets.filter(|socket| matches!(state_of(socket), Ok(SocketState::Stale))).collect())
}

fn take(switches: &[SwitchConfig]) -> Result<DeviceLocks, ConfigErrors> {
    let (mut locks, mut errors, mut taken) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    for switch in switches {
        for (index, port) in switch.ports.iter().enumerate() {
            let Some(key) = key_of(&port.device) else { continue };
            // Memifs of one socket, distinguished by their ids.
            if !taken.insert(key.clone()) {
                continue;
            }
            if is_no_socket(&port.device) {
                errors.push(error_at(switch, index, &DeviceConflict::NoSocket));
                continue;
            }
            match DeviceLock::take(&key) {
                Ok(lock) => {
                    locks.insert(key, lock);
                }
                Err(error) => errors.push(error_at(switch, index, &DeviceConflict::Locked(error))),
            }
        }
    }
    if errors.is_empty() {
        // Only of sockets that no other instance has: it would take the check for a guest.
        for (switch, index, socket) in sockets(switches) {
            match state_of(&socket) {
                Ok(SocketState::Absent | SocketState::Stale) => {}
                Ok(SocketState::Listened) => errors.push(error_at(switch, index, &DeviceConflict::Listened)),
                Ok(SocketState::Other) => errors.push(error_at(switch, index, &DeviceConflict::NoSocket)),
                Err(error) => errors.push(error_at(switch, index, &DeviceConflict::Failed(error.to_string()))),
            }
        }
    }
    ConfigErrors::joined(errors).map_or(Ok(DeviceLocks { locks }), Err)
}

fn error_at(switch: &SwitchConfig, index: usize, conflict: &DeviceConflict) -> ConfigErrors {
    let port = &switch.ports[index];
    let device = &port.device;
    let (message, help) = message_and_help(device, conflict);
    switch.error_at(&format!("ports[{index}].{}", device.key()), message, help)
}

/// Message and advice for a device that can't be locked.
fn message_and_help(device: &Device, conflict: &DeviceConflict) -> (String, String) {
    match conflict {
        DeviceConflict::Locked(LockError::Held(Some(Holder { pid, command }))) => {
            let who = match command.as_deref() {
                None | Some("weir") => format!("another weir has {device}: process {pid}"),
                Some(other) => format!("{device} is taken: process {pid} ({other})"),
            };
            (who, format!("end it (kill {pid}), or give the port another device"))
        }
        DeviceConflict::Locked(LockError::Held(None)) => {
            (format!("another weir has {device}"), "end it, or give the port another device".to_owned())
        }
        DeviceConflict::Locked(LockError::Failed { what, help }) => {
            (format!("{device} can't be taken: {what}"), help.clone())
        }
        DeviceConflict::Listened => {
            (format!("another program listens on {device}"), "end it, or give the port another path".to_owned())
        }
        DeviceConflict::NoSocket => (
            format!("there is a file at the path of {device}, and it is no socket"),
            "remove it, or give the port another path".to_owned(),
        ),
        DeviceConflict::Failed(error) => (
            format!("{device} can't be taken: {error}"),
            "may this user look at the socket, and at its directory?".to_owned(),
        ),
    }
}

/// Lock file name of a device; `None` for devices that need no exclusive use.
fn key_of(device: &Device) -> Option<String> {
    let name = match device {
        Device::AfPacket(name) | Device::AfXdp(name) | Device::Tap(name) => {
            let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
            format!("netdev-{namespace}-{name}")
        }
        Device::Pci(pci) => format!("pci-{}", pci.address),
        // A vhost-user socket serves one guest, whether Weir is its client or server.
        Device::VhostUser(VhostUser { socket, .. }) | Device::Memif { socket, server: true, .. } => {
            format!("socket-{}", canonical(Path::new(socket)).display())
        }
        Device::Memif { socket, id, server: false, .. } => {
            format!("memif-{id}-{}", canonical(Path::new(socket)).display())
        }
        Device::Ring(_) | Device::Pcap { .. } | Device::Replay(_) | Device::Null { .. } | Device::CloneOf(_) => {
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

/// Whether a device would connect to a file that is no socket. A missing file is no error.
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

#[derive(Debug, PartialEq, Eq)]
enum SocketState {
    Absent,
    /// The socket has no listener.
    Stale,
    Listened,
    /// The file is no socket.
    Other,
}

/// Returns the state of a socket by connecting to it. Don't call it for sockets of live instances.
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

/// The longest key without a digest, in bytes. A file's name has 255 at most.
const KEY_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use weir_config::SocketAccess;

    use super::*;

    #[test]
    fn socket_states_are_distinguished() {
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
