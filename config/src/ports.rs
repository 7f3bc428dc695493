//! Ports, and the devices they are made of.

use std::fmt;

use weir_flowctl::FlowControl;
use weir_units::{Alpha, BitRate, Bytes, MacAddr, Span};

use crate::{NicModelConfig, ReplayConfig};

/// One port. A clone holds the rate, delay and flow control of its port, and its priority unless it has its own.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// `name`: unique in the switch.
    pub name: String,
    /// Where its frames come from and go to.
    pub device: Device,
    /// Line rate C. `None` takes the device's own link speed and does not shape.
    pub rate: Option<BitRate>,
    /// D_prop: one-way propagation delay of the link, for the headroom rule.
    pub delay: Span,
    /// Φ of each of its lossless ingress queues, where it is not the switch's.
    pub headroom: Option<Bytes>,
    /// ρ of each of its ingress queues, where it is not the switch's.
    pub private: Option<Bytes>,
    /// α of its ingress queues, where it is not the policy's; under DT.
    pub alpha: Option<Alpha>,
    /// Source address of frames that the switch itself sends; `None` is the device's own.
    pub mac: Option<MacAddr>,
    /// Which flow control the port speaks.
    pub flow_control: FlowControl,
    /// Tells what to do where the device's own flow control is not off.
    pub device_flow_control: DeviceFlowControl,
    /// Receive descriptors of a NIC; `None` chooses them by rate and poll gap.
    pub rx_descriptors: Option<u16>,
    /// The NIC that Weir puts between the device and the port; `None` for none.
    pub nic: Option<NicModelConfig>,
    /// Class of frames that `trust` finds no class in.
    pub priority: u8,
    /// `state`: whether it is open to traffic.
    pub state: PortState,
}

/// Whether somebody wants a port open to traffic, whatever its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// It is.
    #[default]
    Up,
    /// Neither sends nor receives anything, as without a link.
    Down,
    /// Speaks its flow control, and forwards no data.
    Blocked,
}

impl PortState {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Up => "up",
            PortState::Down => "down",
            PortState::Blocked => "blocked",
        }
    }
}

/// Conditions for a device's part in flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFlowControl {
    /// `require = "off"`: a device that pauses, or is paused, by itself is refused. Otherwise it is a warning.
    pub requires_off: bool,
    /// `sends = true`: MAC control frames leave the device, although its driver is known for dropping them.
    pub sends: bool,
}

/// A NIC on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// `0000:81:00.0`.
    pub address: String,
    /// Arguments for its DPDK driver, `KEY=VALUE` parted by commas.
    pub devargs: Option<String>,
}

impl PciDevice {
    /// As DPDK wants it: the address, a comma and the arguments.
    pub fn with_devargs(&self) -> String {
        [Some(&self.address), self.devargs.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(",")
    }
}

/// A vhost-user port: a virtual machine's NIC, or a container's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhostUser {
    /// Path of the socket.
    pub socket: String,
    /// Whether the other side makes the socket, and Weir connects to it.
    pub client: bool,
    /// Queue pairs, 1 to 8. Frames of class c leave by queue c modulo this.
    pub queues: u8,
    /// Who may connect to a socket that Weir makes.
    pub access: SocketAccess,
}

/// Permissions of a socket that Weir makes. A field that is `None` stays as the process's umask and group make it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// `mode = "0660"`: up to 0777. It takes the right to write to connect.
    pub mode: Option<u16>,
    /// `group = "kvm"`: by name or number.
    pub group: Option<String>,
}

impl SocketAccess {
    /// The mode that is to be set: that of the file, or with a group alone [`SocketAccess::GROUP_MODE`].
    pub fn wanted_mode(&self) -> Option<u16> {
        self.mode.or(self.group.as_ref().map(|_| Self::GROUP_MODE))
    }

    /// Owner and group may connect.
    pub const GROUP_MODE: u16 = 0o660;
}

impl VhostUser {
    /// A socket that Weir makes, with one queue pair and the process's own permissions.
    pub fn server(socket: impl Into<String>) -> VhostUser {
        VhostUser { socket: socket.into(), client: false, queues: 1, access: SocketAccess::default() }
    }
}

impl PortConfig {
    /// Transmit queues that the switch has at the port: the device's, or the one link to a NIC in front of it.
    pub fn queues(&self) -> u8 {
        if self.nic.is_some() { 1 } else { self.device.queues() }
    }

    /// The name of the port whose ingress this one copies; `None` for a port with a device of its own.
    pub fn clone_of(&self) -> Option<&str> {
        match &self.device {
            Device::CloneOf(name) => Some(name),
            _ => None,
        }
    }

    /// The name of the link inside the process that this port is an end of; `None` for a port with another device.
    pub fn ring(&self) -> Option<&str> {
        match &self.device {
            Device::Ring(name) => Some(name),
            _ => None,
        }
    }
}

/// What a port is made of. Exactly one of these keys stands in a `[[ports]]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `pci = "0000:81:00.0"`.
    Pci(PciDevice),
    /// `af_packet = "veth0"`: any Linux netdev; needs root.
    AfPacket(String),
    /// `af_xdp = "veth0"`.
    AfXdp(String),
    /// `tap = "weir0"`: makes a tap device of this name.
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
        /// Who may connect, where this side listens.
        access: SocketAccess,
    },
    /// `ring = "link0"`: a link inside this process; its other end is the other port with the same name.
    Ring(String),
    /// `pcap = { rx = "in.pcap", tx = "out.pcap", infinite = false }`.
    Pcap {
        /// File to replay; `None` receives nothing.
        rx: Option<String>,
        /// File to write; `None` drops what is sent.
        tx: Option<String>,
        /// Whether the file is replayed for ever (it is then held in memory).
        infinite: bool,
    },
    /// `replay = "trace.pcapng"`, or a table: receives the frames of a capture at their own times, drops what is sent.
    Replay(ReplayConfig),
    /// `null = { frame_bytes = 64 }`: receives made-up frames as fast as polled, drops what is sent.
    Null {
        /// Length of the frames received, without FCS.
        frame_bytes: u16,
    },
    /// `clone_of = "p1"`: receives a copy of every frame that the port of this name receives, and sends nothing.
    CloneOf(String),
}

impl Device {
    /// The key of `[[ports]]` that gives such a device.
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

    /// Whether two ports on these devices would take the same thing twice: a netdev, whatever drives it, a NIC, a
    /// socket, a ring, a file that both write or that one writes and the other reads. Clones of one port don't clash.
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

    /// Queue pairs that the port has, each served by itself: several with [`VhostUser::queues`] alone.
    pub fn queues(&self) -> u8 {
        match self {
            Device::VhostUser(vhost) => vhost.queues,
            _ => 1,
        }
    }

    /// The socket that Weir makes for it, and who may connect; `None` where the other side makes it, or there is none.
    pub fn own_socket(&self) -> Option<(&str, &SocketAccess)> {
        match self {
            Device::VhostUser(VhostUser { socket, client: false, access, .. })
            | Device::Memif { socket, server: true, access, .. } => Some((socket, access)),
            _ => None,
        }
    }

    /// The interface of the kernel that it drives or makes, by name.
    pub fn netdev(&self) -> Option<&str> {
        match self {
            Device::AfPacket(name) | Device::AfXdp(name) | Device::Tap(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Device {
    /// As in the file, shortened to what tells devices apart: `af_packet "veth0"`.
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
