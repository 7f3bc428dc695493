//! Ports and their devices.

use std::fmt;

use weir_flowctl::FlowControlChoice;
use weir_units::{Alpha, BitRate, Bytes, MacAddr, Span};

use crate::{ClassMap, NicModelConfig, ReplayConfig};

/// Port of the switch. A clone has the rate, delay, class map and flow control of its port, and its priority unless it has its own.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// `name`: unique in the switch.
    pub name: String,
    /// Device that frames are received from and sent to.
    pub device: Device,
    /// Line rate C. `None` takes the device's own link speed and does not shape.
    pub rate: Option<BitRate>,
    /// D_prop: one-way propagation delay of the link, for the headroom rule.
    pub delay: Span,
    /// Headroom Φ of each of the port's lossless ingress queues, if not the switch's.
    pub headroom: Option<Bytes>,
    /// Private buffer ρ of each of the port's ingress queues, if not the switch's.
    pub private: Option<Bytes>,
    /// Factor α of the port's ingress queues, if not the policy's; under DT.
    pub alpha: Option<Alpha>,
    /// `peer`: kind of the port's peer.
    pub peer: PeerKind,
    /// Source address of frames that the switch originates; `None` uses the device's own.
    pub mac: Option<MacAddr>,
    /// Flow control of the port.
    pub flow_control: FlowControlChoice,
    /// Rules for a device whose own flow control is not off.
    pub device_flow_control: DeviceFlowControl,
    /// Number of receive descriptors of a NIC; `None` derives it from rate and poll gap.
    pub rx_descriptors: Option<u16>,
    /// NIC model that Weir puts between the device and the port; `None` for no model.
    pub nic: Option<NicModelConfig>,
    /// Class of frames for which `trust` finds no class.
    pub priority: u8,
    /// Map of received frames to classes, if not the switch's.
    pub class_map: Option<Box<ClassMap>>,
    /// `vlan`: VLAN of untagged frames, both ways (PVID); 1 by default if other ports have VLANs. `None` drops received ones.
    pub vlan: Option<u16>,
    /// `tagged`: VLANs whose frames the port sends with a tag.
    pub tagged: Vec<u16>,
    /// `pfc_watchdog`: whether the PFC watchdog, if there is one, watches the port's queues.
    pub pfc_watchdog: bool,
    /// `state`: administrative state of the port.
    pub state: PortState,
    /// `stations_max`: maximum number of learned stations behind the port.
    pub stations_max: Option<u32>,
}

/// Whether `wanted` means the port: by its name, or by a range of numbers as in SONiC, `Ethernet12-16`.
pub fn names_port(wanted: &str, port: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let is_in_range = || {
        let (first, last) = wanted.rsplit_once('-')?;
        let stem = first.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let range = number(&first[stem.len()..])?..=number(last)?;
        Some(range.contains(&number(port.strip_prefix(stem)?)?))
    };
    wanted == port || is_in_range().unwrap_or(false)
}

/// Peer of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerKind {
    /// Switch, or unknown.
    #[default]
    Switch,
    /// Host, which forwards nothing: no other port of the network waits for its paused queues.
    Host,
}

/// Administrative state of a port, independent of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// Open to traffic.
    #[default]
    Up,
    /// Neither sends nor receives frames, as without a link.
    Down,
    /// Runs its flow control, and forwards no data.
    Blocked,
}

impl PortState {
    /// Value in the file.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Up => "up",
            PortState::Down => "down",
            PortState::Blocked => "blocked",
        }
    }
}

/// Rules for a device's own flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFlowControl {
    /// `require = "off"`: a device that sends or obeys PAUSE by itself is refused. Otherwise it is a warning.
    pub requires_off: bool,
    /// `sends = true`: MAC control frames leave the device, although its driver is known for dropping them.
    pub sends: bool,
}

/// NIC on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// PCI address, as in `0000:81:00.0`.
    pub address: String,
    /// Arguments for the DPDK driver, comma-separated `KEY=VALUE`.
    pub devargs: Option<String>,
}

impl PciDevice {
    /// Device in DPDK's syntax: the address, a comma and the arguments.
    pub fn with_devargs(&self) -> String {
        [Some(&self.address), self.devargs.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(",")
    }
}

/// Port of vhost-user: NIC of a virtual machine or a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhostUser {
    /// Path of the socket.
    pub socket: String,
    /// Whether the peer creates the socket, and Weir connects to it.
    pub client: bool,
    /// Number of queue pairs, 1 to 8. Frames of class c leave by queue c modulo this number.
    pub queues: u8,
    /// Permissions of a socket that Weir creates.
    pub access: SocketAccess,
}

/// Permissions of a socket that Weir creates. A field that is `None` stays as the process's umask and group set it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// `mode = "0660"`: up to 0777. Connecting needs write permission.
    pub mode: Option<u16>,
    /// `group = "kvm"`: name or number.
    pub group: Option<String>,
}

impl SocketAccess {
    /// Mode to set: the configured mode, or [`SocketAccess::GROUP_MODE`] with a group alone.
    pub fn wanted_mode(&self) -> Option<u16> {
        self.mode.or(self.group.as_ref().map(|_| Self::GROUP_MODE))
    }

    /// Mode that lets owner and group connect.
    pub const GROUP_MODE: u16 = 0o660;
}

impl VhostUser {
    /// Creates a socket of Weir with one queue pair and the process's default permissions.
    pub fn server(socket: impl Into<String>) -> VhostUser {
        VhostUser { socket: socket.into(), client: false, queues: 1, access: SocketAccess::default() }
    }
}

impl PortConfig {
    /// Number of the port's transmit queues: the device's, or one if a NIC model is in front of it.
    pub fn queues(&self) -> u8 {
        if self.nic.is_some() { 1 } else { self.device.queues() }
    }

    /// Name of the port whose ingress this clone copies; `None` for a port with its own device.
    pub fn clone_of(&self) -> Option<&str> {
        match &self.device {
            Device::CloneOf(name) => Some(name),
            _ => None,
        }
    }

    /// Name of the in-process link that this port is an end of; `None` for a port with another device.
    pub fn ring(&self) -> Option<&str> {
        match &self.device {
            Device::Ring(name) => Some(name),
            _ => None,
        }
    }
}

/// Device of a port. A `[[ports]]` table has exactly one of these keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `pci = "0000:81:00.0"`.
    Pci(PciDevice),
    /// `af_packet = "veth0"`: any Linux netdev; needs root.
    AfPacket(String),
    /// `af_xdp = "veth0"`.
    AfXdp(String),
    /// `tap = "weir0"`: creates a tap device of this name.
    Tap(String),
    /// `vhost_user = "/run/vm0.sock"`, or a table with `socket` and more.
    VhostUser(VhostUser),
    /// `memif = { socket = "/run/memif.sock", id = 0, role = "server" }`.
    Memif {
        /// Path of the control socket.
        socket: String,
        /// Interface id on that socket.
        id: u32,
        /// Whether this side listens.
        server: bool,
        /// Permissions of the socket, if this side listens.
        access: SocketAccess,
    },
    /// `ring = "link0"`: an in-process link, whose other end is the other port with the same name.
    Ring(String),
    /// `pcap = { rx = "in.pcap", tx = "out.pcap", infinite = false }`.
    Pcap {
        /// File to replay; `None` receives nothing.
        rx: Option<String>,
        /// File to write; `None` drops sent frames.
        tx: Option<String>,
        /// Whether the file is replayed in an endless loop; it is then held in memory.
        infinite: bool,
    },
    /// `replay = "trace.pcapng"`, or a table: receives the frames of a capture at their recorded times, and drops sent frames.
    Replay(ReplayConfig),
    /// `null = { frame_bytes = 64 }`: receives synthetic frames at poll rate, and drops sent frames.
    Null {
        /// Length of the received frames, without FCS.
        frame_bytes: u16,
    },
    /// `clone_of = "p1"`: receives a copy of every frame that the port of this name receives, and sends nothing.
    CloneOf(String),
}

impl Device {
    /// Key of `[[ports]]` that selects the device.
    pub fn key(&self) -> &'static str {
        match self {
            Device::Pci(_) => "pci",
            Device::AfPacket(_) => "af_packet",
            Device::AfXdp(_) => "af_xdp",
            Device::Tap(_) => "tap",
            Device::VhostUser(_) => "vhost_user",
            Device::Memif { .. } => "memif",
            Device::Ring(_) => "ring",
            Device::Pcap { .. } => "pcap",
            Device::Replay(_) => "replay",
            Device::Null { .. } => "null",
            Device::CloneOf(_) => "clone_of",
        }
    }

    /// Whether two ports would use one resource: a netdev (with any driver), a NIC, a socket, a ring, or a file that both write or that one
    /// writes and the other reads. Clones of one port do not conflict.
    pub fn shares_with(&self, other: &Device) -> bool {
        match (self, other) {
            (Device::Pcap { rx, tx, .. }, Device::Pcap { rx: other_rx, tx: other_tx, .. }) => {
                let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
                same(tx, other_tx) || same(rx, other_tx) || same(tx, other_rx)
            }
            (Device::Null { .. } | Device::CloneOf(_) | Device::Replay(_), _) => false,
            (Device::Pci(pci), Device::Pci(other)) => pci.address == other.address,
            (Device::VhostUser(vhost), Device::VhostUser(other)) => vhost.socket == other.socket,
            (Device::Memif { socket, id, .. }, Device::Memif { socket: other, id: other_id, .. }) => {
                socket == other && id == other_id
            }
            _ => match (self.netdev(), other.netdev()) {
                (Some(netdev), Some(other)) => netdev == other,
                _ => self == other,
            },
        }
    }

    /// Number of queue pairs, each served separately; more than one only with [`VhostUser::queues`].
    pub fn queues(&self) -> u8 {
        match self {
            Device::VhostUser(vhost) => vhost.queues,
            _ => 1,
        }
    }

    /// Socket that Weir creates, with its permissions; `None` if the peer creates it, or the device has none.
    pub fn own_socket(&self) -> Option<(&str, &SocketAccess)> {
        match self {
            Device::VhostUser(VhostUser { socket, client: false, access, .. })
            | Device::Memif { socket, server: true, access, .. } => Some((socket, access)),
            _ => None,
        }
    }

    /// Name of the kernel interface that the device uses or creates.
    pub fn netdev(&self) -> Option<&str> {
        match self {
            Device::AfPacket(name) | Device::AfXdp(name) | Device::Tap(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Device {
    /// Writes the device as in the file, shortened to its identity: `af_packet "veth0"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match self {
            Device::Pci(pci) => write!(f, "{key} \"{}\"", pci.address),
            Device::AfPacket(name)
            | Device::AfXdp(name)
            | Device::Tap(name)
            | Device::VhostUser(VhostUser { socket: name, .. })
            | Device::Ring(name)
            | Device::CloneOf(name) => write!(f, "{key} \"{name}\""),
            Device::Memif { socket, id, server, .. } => {
                write!(f, "{key} \"{socket}\" id {id} as {}", if *server { "server" } else { "client" })
            }
            Device::Pcap { rx, tx, .. } => {
                f.write_str(key)?;
                for (name, file) in [("rx", rx), ("tx", tx)] {
                    if let Some(file) = file {
                        write!(f, " {name} \"{file}\"")?;
                    }
                }
                Ok(())
            }
            Device::Replay(replay) => write!(f, "{key} \"{}\"", replay.file),
            Device::Null { frame_bytes } => write!(f, "{key} of {frame_bytes} B frames"),
        }
    }
}
