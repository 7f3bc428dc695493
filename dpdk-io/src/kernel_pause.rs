//! PAUSE and PFC state of a network interface's own hardware, from the kernel.
//!
//! It serves ports that share their device with the kernel (ConnectX, AF_PACKET, AF_XDP), whose PFC state DPDK does not know. `ethtool -a`
//! and `dcb pfc show` read the same.

use std::ffi::c_char;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::device::PauseState;

/// IEEE 802.3x PAUSE of an interface's hardware.
pub(crate) fn link_pause(interface: &str) -> PauseState {
    match pause_parameters(interface) {
        Ok(parameters) if parameters.rx != 0 || parameters.tx != 0 => PauseState::On,
        Ok(_) => PauseState::Off,
        Err(error) => absent_or_unknown(&error),
    }
}

/// 802.1Qbb PFC of an interface's hardware.
pub(crate) fn priority_pause(interface: &str) -> PauseState {
    match pfc_classes(interface) {
        Ok(Some(0)) => PauseState::Off,
        Ok(Some(_)) => PauseState::On,
        Ok(None) => PauseState::Unknown,
        Err(error) => absent_or_unknown(&error),
    }
}

/// The name of the interface with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let mut name = [0 as c_char; libc::IF_NAMESIZE];
    // SAFETY: `name` has the IF_NAMESIZE bytes that the call may write.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    (!found.is_null()).then(|| crate::device::text(&name))
}

/// A driver without the operation has no such hardware.
fn absent_or_unknown(error: &io::Error) -> PauseState {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => PauseState::Off,
        _ => PauseState::Unknown,
    }
}

/// `struct ethtool_pauseparam` (linux/ethtool.h).
#[repr(C)]
#[derive(Default)]
struct PauseParameters {
    command: u32,
    autoneg: u32,
    rx: u32,
    tx: u32,
}

fn pause_parameters(interface: &str) -> io::Result<PauseParameters> {
    // Any socket will do: the request is about the interface.
    let socket = UnixDatagram::unbound()?;
    let mut parameters = PauseParameters { command: ETHTOOL_GPAUSEPARAM, ..PauseParameters::default() };
    // SAFETY: all zero is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut parameters).cast();
    // SAFETY: the request names an interface and points to the structure that
    // its command wants; both outlive the call.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(parameters) }
}

/// Bit n set: PFC is on for class n. `None` if the answer has no PFC attribute.
fn pfc_classes(interface: &str) -> io::Result<Option<u8>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&ieee_get(interface), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    pfc_of(&answer)
}

/// A `RTM_GETDCB` request with the command `DCB_CMD_IEEE_GET` for an interface.
fn ieee_get(interface: &str) -> Vec<u8> {
    let name = [interface.as_bytes(), &[0]].concat();
    let mut body = vec![libc::AF_UNSPEC as u8, DCB_CMD_IEEE_GET, 0, 0];
    body.extend((ATTRIBUTE_HEADER as u16 + name.len() as u16).to_ne_bytes());
    body.extend(DCB_ATTR_IFNAME.to_ne_bytes());
    body.extend(&name);
    body.resize(body.len().next_multiple_of(4), 0);
    let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(RTM_GETDCB.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The enabled classes of an answer to [`ieee_get`].
fn pfc_of(answer: &[u8]) -> io::Result<Option<u8>> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let kind = answer.get(4..6).ok_or_else(short)?;
    let body = answer.get(MESSAGE_HEADER..).ok_or_else(short)?;
    if u16::from_ne_bytes([kind[0], kind[1]]) == libc::NLMSG_ERROR as u16 {
        let code = body.first_chunk().ok_or_else(short)?;
        return Err(io::Error::from_raw_os_error(i32::from_ne_bytes(*code).saturating_neg()));
    }
    let attributes = body.get(DCB_HEADER..).ok_or_else(short)?;
    let pfc = attribute(attributes, DCB_ATTR_IEEE).and_then(|ieee| attribute(ieee, DCB_ATTR_IEEE_PFC));
    // `struct ieee_pfc`: the classes that are possible, then those that are on.
    Ok(pfc.and_then(|pfc| pfc.get(1)).copied())
}

/// The contents of the first attribute of a type.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const NESTED_BITS: u16 = 0x3fff;
    loop {
        let header = attributes.first_chunk::<ATTRIBUTE_HEADER>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & NESTED_BITS;
        let contents = attributes.get(ATTRIBUTE_HEADER..length)?;
        if kind == wanted {
            return Some(contents);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Constant of linux/ethtool.h.
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
/// Constants of linux/rtnetlink.h and linux/dcbnl.h.
const RTM_GETDCB: u16 = 78;
const DCB_CMD_IEEE_GET: u8 = 21;
const DCB_ATTR_IFNAME: u16 = 1;
const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_IEEE_PFC: u16 = 2;
const MESSAGE_HEADER: usize = 16;
const DCB_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_of(kind: u16, contents: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + contents.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn loopback_has_no_pause_of_its_own() {
        assert_eq!(link_pause("lo"), PauseState::Off);
        assert_eq!(priority_pause("lo"), PauseState::Off);
        assert_eq!(link_pause("nosuch0"), PauseState::Unknown);
    }

    #[test]
    fn the_index_has_the_name() {
        assert_eq!(interface_name(1).as_deref(), Some("lo"));
        assert_eq!(interface_name(u32::MAX), None);
    }

    #[test]
    fn enabled_classes_are_found_among_the_attributes() {
        let mut pfc = [0u8; 136];
        (pfc[0], pfc[1]) = (8, 0b1000);
        let ieee = [attribute_of(1, &[7; 58]), attribute_of(DCB_ATTR_IEEE_PFC, &pfc)].concat();
        let attributes = [attribute_of(DCB_ATTR_IFNAME, b"eth0\0"), attribute_of(DCB_ATTR_IEEE | 1 << 15, &ieee)];
        let body = [&[0u8, DCB_CMD_IEEE_GET, 0, 0][..], &attributes.concat()].concat();
        let full = answer(RTM_GETDCB, &body);
        assert_eq!(pfc_of(&full).unwrap(), Some(0b1000));
        for end in 0..full.len() {
            assert_ne!(pfc_of(&full[..end]).ok().flatten(), Some(0), "a truncated answer does not report PFC as off");
        }
    }

    #[test]
    fn an_error_is_the_kernels() {
        let error = pfc_of(&answer(libc::NLMSG_ERROR as u16, &(-libc::EOPNOTSUPP).to_ne_bytes())).unwrap_err();
        assert_eq!(absent_or_unknown(&error), PauseState::Off);
        assert_eq!(absent_or_unknown(&io::Error::from_raw_os_error(libc::EPERM)), PauseState::Unknown);
    }
}
