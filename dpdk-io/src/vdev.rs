//! Device arguments of devices without hardware, for [`crate::Port::attach`].
//!
//! Every function takes a name of the caller's, unique for its driver: the
//! device is called `net_DRIVER_NAME`. All fail with [`PortError::Devargs`] if
//! a value would break the syntax (comma, equals sign, blank, empty).

use std::fmt::Display;
use std::path::Path;

use crate::error::PortError;

/// Host interface through DPDK's driver for `AF_PACKET` (needs CAP_NET_ADMIN), with one queue pair for each of `queues`, for frames of an
/// `mtu` up to 16000. It serves comparisons only: this driver makes the kernel reassemble IPv4 fragments, and counts no losses. Use
/// [`crate::Port::attach_netdev`].
///
/// The receive pool's data room must hold the driver's frame size. The default suffices up to an MTU of 1898; beyond, use `data_room_for`
/// of 4096, 8192 (MTU 4000, 8000) or 16384.
///
/// An outer tag of type 0x88a8 is replaced by 0x8100.
pub fn af_packet(name: &str, interface: &str, queues: u16, mtu: u16) -> Result<String, PortError> {
    // A ring frame holds the kernel's header (up to 98 bytes here) as well.
    let frame_size = (u32::from(mtu) + 128 + 22).next_power_of_two().clamp(2048, 16_384);
    Ok(Devargs::new("net_af_packet", name)?
        .set("iface", checked("interface", interface)?)
        .set("qpairs", queues)
        .set("framecnt", 2048)
        .set("blocksz", 65_536)
        .set("framesz", frame_size)
        .set("qdisc_bypass", 1)
        .finish())
}

/// A host interface through `AF_XDP` (needs CAP_NET_ADMIN, CAP_NET_RAW,
/// CAP_IPC_LOCK and CAP_SYS_ADMIN), from its queue 0 on.
///
/// The driver keeps mbufs when it closes ([`crate::Port::mbufs_kept_max`]), so
/// the pool's memory stays, and DPDK runs until the process ends.
pub fn af_xdp(name: &str, interface: &str, queues: u16) -> Result<String, PortError> {
    Ok(Devargs::new("net_af_xdp", name)?
        .set("iface", checked("interface", interface)?)
        .set("start_queue", 0)
        .set("queue_count", queues)
        .finish())
}

/// A TAP interface that is made on the host (needs CAP_NET_ADMIN).
pub fn tap(name: &str, interface: &str) -> Result<String, PortError> {
    Ok(Devargs::new("net_tap", name)?.set("iface", checked("interface", interface)?).finish())
}

/// A vhost-user socket for a virtual machine or container. As a `client` the
/// port connects to a socket that the other side made, and again when that
/// restarts; else it makes the socket itself. [`crate::Port::xstats`] fails
/// until the other side has connected.
pub fn vhost(name: &str, socket: &Path, client: bool, queues: u16) -> Result<String, PortError> {
    Ok(Devargs::new("net_vhost", name)?
        .set("iface", checked_path("socket", socket)?)
        .set("queues", queues)
        .set("client", u8::from(client))
        .finish())
}

/// Role of an end of a memif: the server opens the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemifRole {
    /// Listens on the socket.
    Server,
    /// Connects to the socket.
    Client,
}

/// Shared memory with another process, by a socket in the file system. `id`
/// must be the same on both ends; `ring_log2` is the binary logarithm of the
/// ring size, 10 for 1024. Frames are copied.
pub fn memif(name: &str, socket: &Path, id: u32, role: MemifRole, ring_log2: u8) -> Result<String, PortError> {
    let role = match role {
        MemifRole::Server => "server",
        MemifRole::Client => "client",
    };
    Ok(Devargs::new("net_memif", name)?
        .set("role", role)
        .set("id", id)
        .set("socket", checked_path("socket", socket)?)
        .set("socket-abstract", "no")
        .set("rsize", ring_log2)
        .finish())
}

/// Capture files: receives the frames of `rx`, writes sent frames to `tx`. Without `rx` the port receives nothing, without `tx` sent
/// frames are discarded; one of them must be given.
pub fn pcap(name: &str, rx: Option<&Path>, tx: Option<&Path>) -> Result<String, PortError> {
    let mut devargs = Devargs::new("net_pcap", name)?;
    if let Some(rx) = rx {
        devargs = devargs.set("rx_pcap", checked_path("capture file", rx)?);
    }
    if let Some(tx) = tx {
        devargs = devargs.set("tx_pcap", checked_path("capture file", tx)?);
    }
    Ok(devargs.finish())
}

/// Receives frames of `size` bytes without end and discards sent frames; with `copy` their bytes are written and read, as by a NIC.
pub fn null(name: &str, size: u16, copy: bool) -> Result<String, PortError> {
    Ok(Devargs::new("net_null", name)?.set("size", size).set("copy", u8::from(copy)).finish())
}

struct Devargs(String);

impl Devargs {
    fn new(driver: &str, name: &str) -> Result<Devargs, PortError> {
        let full = format!("{driver}_{}", checked("device name", name)?);
        Ok(Devargs(checked("device name", &full)?.to_owned()))
    }

    fn set(mut self, key: &str, value: impl Display) -> Devargs {
        self.0.push_str(&format!(",{key}={value}"));
        self
    }

    fn finish(self) -> String {
        self.0
    }
}

fn checked<'a>(what: &'static str, value: &'a str) -> Result<&'a str, PortError> {
    check(what, value, NAME_MAX)
}

fn checked_path<'a>(what: &'static str, path: &'a Path) -> Result<&'a str, PortError> {
    let text = path.to_str().ok_or_else(|| PortError::Devargs { what, value: path.to_string_lossy().into_owned() })?;
    check(what, text, PATH_MAX)
}

fn check<'a>(what: &'static str, value: &'a str, max: usize) -> Result<&'a str, PortError> {
    let breaks = |c: char| ",=\"'()[]{}".contains(c) || c.is_whitespace() || c.is_control();
    if value.is_empty() || value.len() > max || value.contains(breaks) {
        return Err(PortError::Devargs { what, value: value.to_owned() });
    }
    Ok(value)
}

/// DPDK's limit of a port name, without its NUL.
const NAME_MAX: usize = weir_dpdk_sys::WEIR_PORT_NAME_SIZE as usize - 1;
const PATH_MAX: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn af_packet_grows_its_frames_with_the_mtu() {
        let small = af_packet("p1", "veth0", 1, 1500).expect("valid");
        assert!(small.starts_with("net_af_packet_p1,iface=veth0,qpairs=1,"), "{small}");
        assert!(small.contains("framesz=2048"), "{small}");
        assert!(af_packet("p1", "veth0", 1, 9000).expect("valid").contains("framesz=16384"));
    }

    #[test]
    fn values_cannot_smuggle_arguments() {
        for name in ["", "a,b", "a=b", "a b", "a\n"] {
            assert!(null(name, 64, false).is_err(), "{name:?}");
        }
        assert!(pcap("p", Some(Path::new("/tmp/a,infinite_rx=1")), None).is_err());
        assert!(null(&"x".repeat(60), 64, false).is_err());
    }
}
